package index

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/forage-rl/forage/core/internal/vectors"
	"github.com/forage-rl/forage/core/retrieval/internal/words"
)

func TestVectorBM25(t *testing.T) {
	file := vectors.Load(t, "retrieval", "bm25")
	context := vectors.Decode[struct{ Documents [][]string }](t, file.Context)
	type result struct {
		Top5    []int
		Nonzero [][2]float64
		Sum     float64
		First10 []float64
	}
	indexes := map[string]*BM25{}
	for name, params := range map[string]BM25Params{
		"rank_bm25_okapi":           {K1: 1.5, B: .75, Variant: Okapi},
		"rank_bm25_plus":            {K1: 1.5, B: .75, Variant: Plus},
		"bm25s_lucene_k1.5_b.75":    {K1: 1.5, B: .75},
		"bm25s_lucene_k.9_b.4":      {K1: .9, B: .4, Variant: Lucene},
		"bm25s_robertson_k1.5_b.75": {K1: 1.5, B: .75, Variant: Robertson},
		"bm25s_atire_k1.5_b.75":     {K1: 1.5, B: .75, Variant: ATIRE},
	} {
		params.Words = words.Blanks
		index, err := BuildBM25(t.Context(), len(context.Documents), func(i int) string {
			return strings.Join(context.Documents[i], " ")
		}, params)
		if err != nil {
			t.Fatal(err)
		}
		indexes[name] = index
	}
	for _, c := range file.Cases {
		input := vectors.Decode[struct{ Query []string }](t, c.Input)
		query := strings.Join(input.Query, " ")
		for name, want := range vectors.Decode[map[string]result](t, c.Want()) {
			index, ok := indexes[name]
			if !ok {
				t.Fatalf("%s: unknown implementation %s", c.ID, name)
			}
			scores := index.Scores(query)
			sum := 0.0
			expected := make([]float64, len(scores))
			for _, pair := range want.Nonzero {
				expected[int(pair[0])] = pair[1]
			}
			for i, score := range scores {
				sum += float64(score)
				if name == "rank_bm25_plus" {
					if i < len(want.First10) && !file.Tolerance.Close(float64(score), want.First10[i]) {
						t.Errorf("%s %s: document %d scores %g, want %g", c.ID, name, i, score, want.First10[i])
					}
				} else if !file.Tolerance.Close(float64(score), expected[i]) {
					t.Errorf("%s %s: document %d scores %g, want %g", c.ID, name, i, score, expected[i])
				}
			}
			if !file.Tolerance.Close(sum, want.Sum) {
				t.Errorf("%s %s: sum %g, want %g", c.ID, name, sum, want.Sum)
			}
			// The reference fills its five with documents that hold no term; ours gives only those that do.
			got := index.Search(query, 5, nil)
			for rank, hit := range got {
				if rank < len(want.Top5) && hit.Unit != want.Top5[rank] {
					t.Errorf("%s %s: rank %d is %d, want %d", c.ID, name, rank, hit.Unit, want.Top5[rank])
				}
			}
		}
	}
}

// zipf makes units of words whose frequencies fall as in a language.
func zipf(n int, seed uint64) []string {
	random := rand.New(rand.NewPCG(seed, 1))
	law := rand.NewZipf(random, 1.1, 2, 5000)
	units := make([]string, n)
	for i := range units {
		var b strings.Builder
		for range 5 + random.IntN(30) {
			fmt.Fprintf(&b, "w%d ", law.Uint64())
		}
		units[i] = b.String()
	}
	return units
}

func TestBM25SearchEqualsFullSort(t *testing.T) {
	units := zipf(1000, 7)
	for _, variant := range variants {
		index, err := BuildBM25(t.Context(), len(units), func(i int) string { return units[i] }, BM25Params{Variant: variant})
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "bm25")
		file, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := index.Write(file, [32]byte{}); err != nil {
			t.Fatal(err)
		}
		file.Close()
		opened, err := OpenBM25(path)
		if err != nil {
			t.Fatal(err)
		}
		random := rand.New(rand.NewPCG(3, 4))
		for trial := range 60 {
			source := strings.Fields(units[random.IntN(len(units))])
			query := strings.Join(source[:1+random.IntN(len(source))], " ") + " unknownword"
			k := 1 + random.IntN(20)
			var exclude func(int) bool
			if trial%3 == 0 {
				exclude = func(unit int) bool { return unit%4 == 1 }
			}
			holds := func(unit int) bool {
				for word := range strings.FieldsSeq(units[unit]) {
					if slices.Contains(strings.Fields(query), word) {
						return true
					}
				}
				return false
			}
			var want []Hit
			for unit, score := range index.Scores(query) {
				if holds(unit) && (exclude == nil || !exclude(unit)) {
					want = append(want, Hit{unit, score})
				}
			}
			slices.SortFunc(want, func(a, b Hit) int {
				return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Unit, b.Unit))
			})
			want = want[:min(k, len(want))]
			for name, x := range map[string]*BM25{"built": index, "opened": opened} {
				got := x.Search(query, k, exclude)
				// Robertson gives frequent words no weight, so that units which hold only these are not proposed.
				if variant == Robertson {
					want = slices.DeleteFunc(want, func(h Hit) bool { return h.Score == 0 })
				}
				if !slices.Equal(got, want) {
					t.Fatalf("%s %s query %q k %d:\n got %v\nwant %v", variant, name, query, k, got, want)
				}
			}
		}
	}
}

func BenchmarkBM25Search(b *testing.B) {
	units := zipf(100_000, 1)
	index, err := BuildBM25(b.Context(), len(units), func(i int) string { return units[i] }, BM25Params{})
	if err != nil {
		b.Fatal(err)
	}
	queries := make([]string, 200)
	for i := range queries {
		queries[i] = strings.Join(strings.Fields(units[i*37])[:5], " ")
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		index.Search(queries[i%len(queries)], 10, nil)
	}
}
