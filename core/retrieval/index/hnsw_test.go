package index

import (
	"bytes"
	"crypto/sha256"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/forage-rl/forage/core/retrieval/internal/mapped"
)

func build(t testing.TB, points Matrix, params HNSWParams) *HNSW {
	t.Helper()
	h, err := BuildHNSW(t.Context(), points, params)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func image(t testing.TB, h *HNSW) []byte {
	t.Helper()
	var buffer mapped.Buffer
	if err := h.Write(&buffer, [32]byte{1, 2, 3}); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

// reachable counts the vectors that can be reached from the entry in layer 0.
func reachable(h *HNSW) int {
	reached := make([]bool, h.Len())
	h.spread(reached, []uint32{h.entry})
	n := 0
	for _, r := range reached {
		if r {
			n++
		}
	}
	return n
}

// checkGraph verifies what the structure promises: links in range, no self links, no double links.
func checkGraph(t *testing.T, h *HNSW) {
	t.Helper()
	if err := h.validate(); err != nil {
		t.Fatal(err)
	}
	for i, level := range h.levels {
		for l := range int(level) + 1 {
			links := slices.Clone(h.links(uint32(i), l))
			slices.Sort(links)
			if len(slices.Compact(slices.Clone(links))) != len(links) {
				t.Fatalf("vector %d has a link twice in layer %d: %v", i, l, links)
			}
			if slices.Contains(links, uint32(i)) {
				t.Fatalf("vector %d is linked to itself in layer %d", i, l)
			}
		}
	}
}

func TestHNSWRecall(t *testing.T) {
	n := 10_000
	if testing.Short() {
		n = 3000
	}
	points, queries := mixture(n, 128, 32, 200, 1)
	flat, err := NewFlat(points, InnerProduct, false)
	if err != nil {
		t.Fatal(err)
	}
	for name, params := range map[string]HNSWParams{
		"ip":              {M: 16, EfConstruction: 100, Seed: 1},
		"cosine":          {M: 16, EfConstruction: 100, Seed: 1, Metric: Cosine},
		"ip, two workers": {M: 16, EfConstruction: 100, Seed: 1, Workers: 2},
	} {
		t.Run(name, func(t *testing.T) {
			h := build(t, points, params)
			checkGraph(t, h)
			if got := reachable(h); got != n {
				t.Errorf("%d of %d vectors can be reached", got, n)
			}
			got := recall(t, func(q []float32) []Hit { hits, _ := flat.Search(q, 10, nil); return hits },
				func(q []float32) []Hit { hits, _ := h.Search(q, 10, 40, nil); return hits }, queries, 200)
			t.Logf("recall@10 at ef 40: %.4f", got)
			if got < .98 {
				t.Errorf("recall@10 at ef 40 is %.4f, expected at least .98", got)
			}
			// Every vector finds itself.
			lost := 0
			for i := range 1000 {
				hits, err := h.Search(points.Row(i), 1, 64, nil)
				if err != nil {
					t.Fatal(err)
				}
				if len(hits) == 0 || hits[0].Unit != i && hits[0].Score > 1+1e-5 {
					lost++
				}
			}
			if lost > 0 {
				t.Errorf("%d of 1000 vectors do not find themselves", lost)
			}
		})
	}
}

func TestHNSWExcludedUnitsAreNotFound(t *testing.T) {
	points, queries := mixture(3000, 32, 16, 50, 2)
	h := build(t, points, HNSWParams{M: 8, EfConstruction: 60, Seed: 3})
	for name, exclude := range map[string]func(int) bool{
		"one in three": func(u int) bool { return u%3 == 0 },
		"all but few":  func(u int) bool { return u%500 != 7 },
		"all":          func(int) bool { return true },
	} {
		found, all := 0, 0
		for i := range 100 {
			want, err := h.Exact(queries.Row(i), 5, exclude)
			if err != nil {
				t.Fatal(err)
			}
			got, err := h.Search(queries.Row(i), 5, 64, exclude)
			if err != nil {
				t.Fatal(err)
			}
			if len(got) != len(want) {
				t.Fatalf("%s: %d hits, expected %d", name, len(got), len(want))
			}
			for _, hit := range got {
				if exclude(hit.Unit) {
					t.Fatalf("%s: unit %d was found", name, hit.Unit)
				}
				all++
				if slices.ContainsFunc(want, func(h Hit) bool { return h.Unit == hit.Unit }) {
					found++
				}
			}
		}
		if all > 0 && float64(found) < .97*float64(all) {
			t.Errorf("%s: %d of %d found", name, found, all)
		}
	}
}

// Equal vectors and an outlier are what breaks graphs without repair: the equal ones link only among themselves.
func TestHNSWDuplicatesHideNothing(t *testing.T) {
	points := Matrix{Dimensions: 3}
	for range 500 {
		points.Data = append(points.Data, 1, 0, 0)
	}
	points.Data = append(points.Data, 0, 1, 0)
	for range 500 {
		points.Data = append(points.Data, 0, 0, 1)
	}
	h := build(t, points, HNSWParams{M: 4, EfConstruction: 20})
	checkGraph(t, h)
	if got := reachable(h); got != points.Rows() {
		t.Errorf("%d of %d vectors can be reached", got, points.Rows())
	}
	// Equal scores come in the order of the units among those the beam holds; with a beam of all it is exact.
	hits, err := h.Search([]float32{0, 1, .1}, 2, points.Rows(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if hits[0].Unit != 500 || hits[1].Unit != 501 {
		t.Errorf("found %v, expected the outlier 500, then 501", hits)
	}
}

func TestHNSWOneWorkerIsReproducible(t *testing.T) {
	points, _ := mixture(3000, 48, 16, 50, 5)
	a := sha256.Sum256(image(t, build(t, points, HNSWParams{M: 8, EfConstruction: 50, Seed: 9})))
	b := sha256.Sum256(image(t, build(t, points, HNSWParams{M: 8, EfConstruction: 50, Seed: 9})))
	c := sha256.Sum256(image(t, build(t, points, HNSWParams{M: 8, EfConstruction: 50, Seed: 10})))
	if a != b {
		t.Error("two builds with one seed differ")
	}
	if a == c {
		t.Error("two builds with two seeds are equal")
	}
}

func TestHNSWFile(t *testing.T) {
	points, queries := mixture(2000, 40, 16, 50, 5)
	h := build(t, points, HNSWParams{M: 6, EfConstruction: 50})
	path := filepath.Join(t.TempDir(), "graph")
	if err := os.WriteFile(path, image(t, h), 0o600); err != nil {
		t.Fatal(err)
	}
	opened, err := OpenHNSW(path)
	if err != nil {
		t.Fatal(err)
	}
	if opened.Digest() != [32]byte{1, 2, 3} || opened.Dimensions() != 40 || opened.Len() != 2000 || opened.Params().M != 6 {
		t.Errorf("opened: %d vectors of %d dimensions, %+v", opened.Len(), opened.Dimensions(), opened.Params())
	}
	for i := range 100 {
		a, err := h.Search(queries.Row(i), 10, 30, nil)
		if err != nil {
			t.Fatal(err)
		}
		b, err := opened.Search(queries.Row(i), 10, 30, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(a, b) {
			t.Fatalf("query %d: built %v, opened %v", i, a, b)
		}
	}
	if !bytes.Equal(image(t, opened), func() []byte { var b mapped.Buffer; _ = opened.Write(&b, opened.Digest()); return b.Bytes() }()) {
		t.Error("writing an opened graph gives other bytes")
	}
}

func TestHNSWRefuses(t *testing.T) {
	good := Matrix{Dimensions: 2, Data: []float32{1, 0, 0, 1, 1, 1}}
	nan := float32(math.NaN())
	for want, attempt := range map[string]func() error{
		"vector 1: a number is NaN": func() error {
			_, err := BuildHNSW(t.Context(), Matrix{2, []float32{1, 0, nan, 1}}, HNSWParams{})
			return err
		},
		"vector 0: a number is NaN or infinite": func() error {
			_, err := BuildHNSW(t.Context(), Matrix{2, []float32{float32(math.Inf(1)), 0}}, HNSWParams{Metric: Cosine})
			return err
		},
		"vector 1 is all zeros": func() error {
			_, err := BuildHNSW(t.Context(), Matrix{2, []float32{1, 0, 0, 0}}, HNSWParams{})
			return err
		},
		"all vectors are zeros": func() error {
			_, err := BuildHNSW(t.Context(), Matrix{2, []float32{0, 0, 0, 0}}, HNSWParams{AllowZero: true})
			return err
		},
		"0 vectors, expected": func() error { _, err := BuildHNSW(t.Context(), Matrix{Dimensions: 2}, HNSWParams{}); return err },
		"m = 1, expected":     func() error { _, err := BuildHNSW(t.Context(), good, HNSWParams{M: 1}); return err },
		"ef_construction = 4": func() error { _, err := BuildHNSW(t.Context(), good, HNSWParams{EfConstruction: 4}); return err },
		"workers = -1":        func() error { _, err := BuildHNSW(t.Context(), good, HNSWParams{Workers: -1}); return err },
		`unknown metric "l2"`: func() error { _, err := BuildHNSW(t.Context(), good, HNSWParams{Metric: "l2"}); return err },
		"the query has 3 dimensions, the index has 2": func() error {
			_, err := build(t, good, HNSWParams{}).Search([]float32{1, 2, 3}, 1, 1, nil)
			return err
		},
		"the query is all zeros": func() error {
			_, err := build(t, good, HNSWParams{}).Search([]float32{0, 0}, 1, 1, nil)
			return err
		},
		"query: a number is NaN": func() error {
			_, err := build(t, good, HNSWParams{}).Search([]float32{nan, 0}, 1, 1, nil)
			return err
		},
	} {
		if err := attempt(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, expected an error with %q", err, want)
		}
	}
	if hits, err := build(t, good, HNSWParams{}).Search([]float32{1, 0}, 0, 10, nil); err != nil || len(hits) != 0 {
		t.Errorf("k = 0 gave %v, %v", hits, err)
	}
	h := build(t, Matrix{2, []float32{0, 0, 1, 0, 0, 0, 0, 1}}, HNSWParams{AllowZero: true})
	if hits, err := h.Search([]float32{1, 1}, 4, 10, nil); err != nil || len(hits) != 2 {
		t.Errorf("with zeros allowed: %v, %v, expected the two others", hits, err)
	}
}

func TestHNSWSearchDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes pools forget")
	}
	points, queries := mixture(2000, 32, 16, 50, 5)
	h := build(t, points, HNSWParams{})
	hits := make([]Hit, 0, 10)
	i := 0
	if n := testing.AllocsPerRun(200, func() {
		hits, _ = h.AppendSearch(hits[:0], queries.Row(i%1000), 10, 50, nil)
		i++
	}); n > 0 {
		t.Errorf("%v allocations per search", n)
	}
}

func TestDotsAgree(t *testing.T) {
	for _, dimensions := range []int{1, 15, 16, 17, 48, 64, 100, 128, 300} {
		points, queries := mixture(50, dimensions, 8, 5, 1)
		set, err := newVectorSet(points, InnerProduct, false)
		if err != nil {
			t.Fatal(err)
		}
		q, err := set.query(queries.Row(0), nil)
		if err != nil {
			t.Fatal(err)
		}
		ids := make([]uint32, 50)
		for i := range ids {
			ids[i] = uint32(49 - i)
		}
		for name, dots := range allDots() {
			out := make([]float32, 50)
			dots(q, set.data, set.stride, ids, out)
			for i, id := range ids {
				want := 0.0
				for j, x := range points.Row(int(id)) {
					want += float64(x) * float64(queries.Row(0)[j])
				}
				if math.Abs(float64(out[i])-want) > 1e-5 {
					t.Errorf("%s, %d dimensions: %g, expected %g", name, dimensions, out[i], want)
				}
			}
		}
	}
}
