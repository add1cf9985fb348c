package retrieval

import (
	"context"
	"fmt"
	"iter"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/forage-rl/forage/core/retrieval/corpus"
	"github.com/forage-rl/forage/core/retrieval/encoder"
	"github.com/forage-rl/forage/core/retrieval/index"
)

func animals(t testing.TB) *corpus.Corpus {
	t.Helper()
	documents := []corpus.Document{
		{ID: "cat", Title: "Cat", Paragraphs: []corpus.Paragraph{{Text: "The cat hunts mice. It sleeps a lot."}, {Text: "Cats purr."}}},
		{ID: "dog", Title: "Dog", Paragraphs: []corpus.Paragraph{{Text: "The dog chases the cat. It barks."}}},
		{ID: "owl", Title: "Owl", Paragraphs: []corpus.Paragraph{{Text: "The owl hunts mice at night.\n?!"}}},
	}
	for i := range 40 {
		documents = append(documents, corpus.Document{ID: fmt.Sprint("filler", i), Title: fmt.Sprint("Filler ", i),
			Paragraphs: []corpus.Paragraph{{Text: fmt.Sprintf("Nothing about animals, only number%d and number%d.", i, i+1)}}})
	}
	c, err := corpus.FromDocuments(documents)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func hashed(t testing.TB, dimensions int) *encoder.Hashed {
	t.Helper()
	e, err := encoder.NewHashed(encoder.HashedOptions{Dimensions: dimensions})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func openIndex(t testing.TB, spec Spec, dir string) *Index {
	t.Helper()
	x, err := OpenIndex(t.Context(), spec, dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func ids(hits []Hit) []string {
	var out []string
	for _, hit := range hits {
		out = append(out, hit.ID)
	}
	return out
}

func TestSearch(t *testing.T) {
	c := animals(t)
	for name, spec := range map[string]Spec{
		"bm25": {Corpus: c, BM25: &index.BM25Params{}},
		"hnsw": {Corpus: c, HNSW: &index.HNSWParams{}, Encoder: hashed(t, 512)},
	} {
		t.Run(name, func(t *testing.T) {
			spec.Unit = corpus.SentenceLevel
			x := openIndex(t, spec, "")
			hits, err := x.Search(t.Context(), []string{"who hunts mice at night?", "qwertyuiop", "purr"}, 2, nil)
			if err != nil {
				t.Fatal(err)
			}
			want := Hit{"owl.s0", "owl", "owl", "owl.s0", "Owl", "The owl hunts mice at night.", hits[0][0].Score}
			if hits[0][0] != want || hits[0][0].Score <= hits[0][1].Score {
				t.Errorf("got %+v", hits[0])
			}
			if len(hits[1]) != 0 {
				t.Errorf("a query of unknown words finds %+v", hits[1])
			}
			if hits[2][0].SentenceID != "cat#p1.s0" || hits[2][0].ParagraphID != "cat#p1" || hits[2][0].DocumentID != "cat" {
				t.Errorf("got %+v", hits[2])
			}
			for excluded, want := range map[string]string{"owl": "cat#p0.s0", "owl.s0": "cat#p0.s0", "cat": "owl.s0", "cat#p0": "owl.s0", "elephant": "owl.s0"} {
				hits, err := x.Search(t.Context(), []string{"mice hunts"}, 1, [][]string{{"dog", excluded}})
				if err != nil {
					t.Fatal(err)
				}
				// Both sentences hold both words: without the excluded one the other is first.
				if excluded != "elephant" && hits[0][0].ID != want {
					t.Errorf("without %s: %v", excluded, ids(hits[0]))
				}
			}
			if _, err := x.Search(t.Context(), []string{"a"}, 0, nil); err == nil {
				t.Error("k = 0 was taken")
			}
			if _, err := x.Search(t.Context(), []string{"a"}, 1, [][]string{{}, {}}); err == nil {
				t.Error("two lists of excluded ids for one query were taken")
			}
			cancelled, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := x.Search(cancelled, []string{"mice"}, 1, nil); err == nil {
				t.Error("a cancelled search gave an answer")
			}
		})
	}
}

func TestSearchVectors(t *testing.T) {
	x := openIndex(t, Spec{Corpus: animals(t), Unit: corpus.DocumentLevel, HNSW: &index.HNSWParams{}, Encoder: hashed(t, 64)}, "")
	vectors, err := x.Encoder().EncodeQueries(t.Context(), []string{"barks dog"})
	if err != nil {
		t.Fatal(err)
	}
	hits, err := x.SearchVectors(t.Context(), vectors, 1, nil)
	if err != nil || hits[0][0].ID != "dog" {
		t.Errorf("got %v, %v", hits, err)
	}
	for want, bad := range map[string][]float32{
		"vector 0: the query has 63 dimensions, the index has 64": make([]float32, 63),
		"vector 0: the query is all zeros":                        make([]float32, 64),
		"vector 0: query: a number is NaN":                        slices.Repeat([]float32{float32(math.NaN())}, 64),
	} {
		if _, err := x.SearchVectors(t.Context(), [][]float32{bad}, 1, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, expected an error with %q", err, want)
		}
	}
	words := openIndex(t, Spec{Corpus: animals(t), BM25: &index.BM25Params{}}, "")
	if _, err := words.SearchVectors(t.Context(), vectors, 1, nil); err == nil || !strings.Contains(err.Error(), "no vectors") {
		t.Errorf("got %v", err)
	}
}

// counting tells how often it was fitted.
type counting struct {
	*encoder.Hashed
	mu    sync.Mutex
	count int // fits
}

func (e *counting) Fit(ctx context.Context, passages iter.Seq[encoder.Passage]) (encoder.Fitted, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.count++
	return e.Hashed.Fit(ctx, passages)
}

func TestArtefactsAreMadeOnce(t *testing.T) {
	c, dir := animals(t), t.TempDir()
	e := &counting{Hashed: hashed(t, 1024)}
	spec := Spec{Corpus: c, Unit: corpus.DocumentLevel, HNSW: &index.HNSWParams{M: 4}, Encoder: e}
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			x, err := OpenIndex(t.Context(), spec, dir, nil)
			if err != nil {
				t.Error(err)
				return
			}
			hits, err := x.Search(t.Context(), []string{"owl"}, 1, nil)
			if err != nil || hits[0][0].ID != "owl" {
				t.Errorf("got %v, %v", hits, err)
			}
		})
	}
	group.Wait()
	if e.count != 1 {
		t.Errorf("the encoder was fitted %d times", e.count)
	}
	artefacts := func() []string {
		files, err := filepath.Glob(filepath.Join(dir, "*.forage"))
		if err != nil {
			t.Fatal(err)
		}
		return files
	}
	if got := artefacts(); len(got) != 2 {
		t.Errorf("artefacts %v", got)
	}
	digest := openIndex(t, spec, dir).Digest()
	// Whatever decides the vectors makes another artefact; the breadth of a search does not.
	for name, change := range map[string]func(*Spec){
		"m":       func(s *Spec) { s.HNSW = &index.HNSWParams{M: 5} },
		"seed":    func(s *Spec) { s.HNSW = &index.HNSWParams{M: 4, Seed: 1} },
		"encoder": func(s *Spec) { s.Encoder = hashed(t, 65) },
		"unit":    func(s *Spec) { s.Unit = corpus.ParagraphLevel },
	} {
		other := spec
		change(&other)
		if openIndex(t, other, dir).Digest() == digest {
			t.Errorf("another %s gives the same digest", name)
		}
	}
	spec.EfSearch = 7
	if openIndex(t, spec, dir).Digest() != digest {
		t.Error("another ef_search gives another digest")
	}
	// Damaged artefacts are made again.
	for _, file := range artefacts() {
		if err := os.Truncate(file, 100); err != nil {
			t.Fatal(err)
		}
	}
	if openIndex(t, spec, dir).Digest() != digest {
		t.Error("after damage the digest is another")
	}
}

// TestFlatIsExact: a flat index finds what a search of the widest breadth finds, from its file too, and a unit without
// a vector is never found.
func TestFlatIsExact(t *testing.T) {
	c, dir := animals(t), t.TempDir()
	for _, unit := range []corpus.Level{corpus.DocumentLevel, corpus.SentenceLevel} {
		graph := openIndex(t, Spec{Corpus: c, Unit: unit, HNSW: &index.HNSWParams{}, Encoder: hashed(t, 1024), EfSearch: 1000}, dir)
		made := openIndex(t, Spec{Corpus: c, Unit: unit, Flat: true, Encoder: hashed(t, 1024)}, dir)
		mapped := openIndex(t, Spec{Corpus: c, Unit: unit, Flat: true, Encoder: hashed(t, 1024)}, dir)
		queries := []string{"cat mice", "owl night", "number3 number4"}
		exclude := [][]string{{"cat"}, nil, nil}
		want, err := graph.Search(t.Context(), queries, 5, exclude)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range []*Index{made, mapped} {
			got, err := x.Search(t.Context(), queries, 5, exclude)
			if err != nil {
				t.Fatal(err)
			}
			for i := range want {
				if len(got[i]) != len(want[i]) {
					t.Fatalf("%s: %d hits, expected %d", unit, len(got[i]), len(want[i]))
				}
				for j := range want[i] {
					if got[i][j].Score != want[i][j].Score {
						t.Errorf("%s, query %d: hit %d scores %v, expected %v", unit, i, j, got[i][j].Score, want[i][j].Score)
					}
				}
			}
			all, err := x.Search(t.Context(), []string{"cat"}, x.Len(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if unit == corpus.SentenceLevel && len(all[0]) != x.Len()-1 {
				t.Errorf("%d of %d sentences are found, one of which has no word", len(all[0]), x.Len())
			}
		}
		if made.Digest() != mapped.Digest() || made.Digest() == graph.Digest() || made.Kind() != Flat {
			t.Errorf("digests %s, %s, %s", made.Digest(), mapped.Digest(), graph.Digest())
		}
	}
}

// lying is an encoder whose vectors are not as it says.
type lying struct {
	dimensions, given int
	value             float32
}

func (e lying) Name() string    { return "lying" }
func (e lying) Dimensions() int { return e.dimensions }
func (e lying) Digest() string  { return "the same for all" }
func (e lying) EncodeQueries(context.Context, []string) ([][]float32, error) {
	return nil, nil
}
func (e lying) EncodePassages(_ context.Context, passages []encoder.Passage) ([][]float32, error) {
	vectors := make([][]float32, len(passages))
	for i := range vectors {
		vectors[i] = slices.Repeat([]float32{e.value}, e.given)
	}
	return vectors, nil
}

func TestOpenIndexRefuses(t *testing.T) {
	c, dir := animals(t), t.TempDir()
	openIndex(t, Spec{Corpus: c, HNSW: &index.HNSWParams{}, Encoder: lying{8, 8, 1}}, dir)
	for want, spec := range map[string]Spec{
		"needs a corpus":                            {BM25: &index.BM25Params{}},
		"exactly one of bm25":                       {Corpus: c},
		"exactly one of":                            {Corpus: c, BM25: &index.BM25Params{}, Flat: true},
		`takes no encoder, "lying"`:                 {Corpus: c, BM25: &index.BM25Params{}, Encoder: lying{8, 8, 1}},
		"needs an encoder":                          {Corpus: c, HNSW: &index.HNSWParams{}},
		`unknown unit "chapter"`:                    {Corpus: c, BM25: &index.BM25Params{}, Unit: "chapter"},
		"ef_search = -1":                            {Corpus: c, HNSW: &index.HNSWParams{}, Encoder: lying{8, 8, 1}, EfSearch: -1},
		"k1 = -1":                                   {Corpus: c, BM25: &index.BM25Params{K1: -1}},
		`has 8 dimensions, encoder "lying" gives 9`: {Corpus: c, HNSW: &index.HNSWParams{}, Encoder: lying{9, 9, 1}},
		"a vector of 9 dimensions, it declares 8":   {Corpus: c, HNSW: &index.HNSWParams{M: 5}, Encoder: lying{8, 9, 1}},
		"not finite for unit":                       {Corpus: c, HNSW: &index.HNSWParams{M: 6}, Encoder: lying{8, 8, float32(math.Inf(1))}},
		"all vectors are zeros":                     {Corpus: c, HNSW: &index.HNSWParams{M: 7}, Encoder: lying{8, 8, 0}},
	} {
		if _, err := OpenIndex(t.Context(), spec, dir, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, expected an error with %q", err, want)
		}
	}
	// What failed left nothing that could be taken for an artefact.
	files, err := filepath.Glob(filepath.Join(dir, "*.partial"))
	if err != nil || len(files) != 0 {
		t.Errorf("left behind: %v, %v", files, err)
	}
}
