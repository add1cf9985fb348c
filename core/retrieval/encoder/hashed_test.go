package encoder

import (
	"context"
	"hash/crc32"
	"math"
	"slices"
	"strings"
	"testing"
)

func fit(t *testing.T, options HashedOptions, passages ...Passage) Fitted {
	t.Helper()
	e, err := NewHashed(options)
	if err != nil {
		t.Fatal(err)
	}
	fitted, err := e.Fit(t.Context(), slices.Values(passages))
	if err != nil {
		t.Fatal(err)
	}
	return fitted
}

// The rule is worked out here once more, in plain steps.
func TestHashedRule(t *testing.T) {
	passages := []Passage{{"ada", "( ada ) born is paris ."}, {"bob", "( bob ) born is rome ."}, {"cyd", "( cyd ) spouse is ada ."}}
	e := fit(t, HashedOptions{Stop: []string{"(", ")", "is", "."}, Words: BlankWords}, passages...)
	if e.Dimensions() != 128 {
		t.Fatalf("%d dimensions", e.Dimensions())
	}
	frequency := map[string]float64{"ada": 2, "bob": 1, "cyd": 1, "born": 2, "paris": 1, "rome": 1, "spouse": 1}
	expected := func(weights map[string]float64, normal bool) []float64 {
		v := make([]float64, 128)
		for word, weight := range weights {
			idf := math.Log(1 + (3-frequency[word]+.5)/(frequency[word]+.5))
			for _, h := range []string{"0:0:", "0:1:"} {
				x := crc32.ChecksumIEEE([]byte(h + word))
				sign := -1.0
				if x&(1<<16) != 0 {
					sign = 1
				}
				v[x%128] += sign * idf * weight
			}
		}
		length := 0.0
		for _, x := range v {
			length += x * x
		}
		for i := range v {
			if normal {
				v[i] /= math.Sqrt(length)
			}
		}
		return v
	}
	same := func(name string, got []float32, want []float64) {
		for i := range want {
			if math.Abs(float64(got[i])-want[i]) > 1e-6 {
				t.Errorf("%s: coordinate %d is %g, expected %g", name, i, got[i], want[i])
			}
		}
	}
	got, err := e.EncodePassages(t.Context(), passages)
	if err != nil {
		t.Fatal(err)
	}
	same("passage 0", got[0], expected(map[string]float64{"ada": 3, "born": 1, "paris": 1}, true))
	same("passage 2", got[2], expected(map[string]float64{"cyd": 3, "spouse": 1, "ada": 1}, true))
	queries, err := e.EncodeQueries(t.Context(), []string{"ada born ada", "is unknown .", ""})
	if err != nil {
		t.Fatal(err)
	}
	same("query", queries[0], expected(map[string]float64{"ada": 1, "born": 1}, false))
	same("query of nothing known", queries[1], make([]float64, 128))
	same("empty query", queries[2], make([]float64, 128))
}

func TestHashedState(t *testing.T) {
	options := HashedOptions{Dimensions: 16}
	e := fit(t, options, Passage{"Ada", "Ada's house, in Zürich."}, Passage{"", "a house"})
	plain, err := NewHashed(options)
	if err != nil {
		t.Fatal(err)
	}
	restored, err := plain.Restore(e.State())
	if err != nil {
		t.Fatal(err)
	}
	query := []string{"ZÜRICH house ada"}
	a, err := e.EncodeQueries(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	b, err := restored.EncodeQueries(t.Context(), query)
	if err != nil || !slices.Equal(a[0], b[0]) {
		t.Errorf("%v and %v, %v", a, b, err)
	}
	if !slices.ContainsFunc(a[0], func(x float32) bool { return x != 0 }) {
		t.Error("the query's words were not found")
	}
	state := e.State()
	for cut := range len(state) {
		if r, err := plain.Restore(state[:cut]); err == nil && len(r.State()) != cut {
			t.Errorf("a state cut at %d was taken", cut)
		}
	}
	if plain.Digest() != e.Digest() {
		t.Error("fitting changes the digest")
	}
	other, err := NewHashed(HashedOptions{Dimensions: 16, Stop: []string{"a"}})
	if err != nil || other.Digest() == plain.Digest() {
		t.Errorf("another stop list has the same digest; %v", err)
	}
}

func FuzzHashedRestore(f *testing.F) {
	f.Add([]byte{1, 1, 'a', 1})
	f.Add([]byte{255, 255, 255, 255, 15, 1})
	f.Fuzz(func(t *testing.T, state []byte) {
		e, err := NewHashed(HashedOptions{Dimensions: 4})
		if err != nil {
			t.Fatal(err)
		}
		fitted, err := e.Restore(state)
		if err != nil {
			return
		}
		vectors, err := fitted.EncodeQueries(t.Context(), []string{string(state)})
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range vectors[0] {
			if math.IsNaN(float64(x)) {
				t.Fatal("not a number")
			}
		}
	})
}

func TestHashedRefuses(t *testing.T) {
	for want, options := range map[string]HashedOptions{
		"dimensions = -1":    {Dimensions: -1},
		"hashes = 17":        {Hashes: 17},
		"title_weight = NaN": {TitleWeight: math.NaN()},
		`words = "chars"`:    {Words: "chars"},
	} {
		if _, err := NewHashed(options); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, expected an error with %q", err, want)
		}
	}
	e, err := NewHashed(HashedOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.EncodeQueries(t.Context(), []string{"a"}); err == nil || !strings.Contains(err.Error(), "fit it") {
		t.Errorf("not fitted: %v", err)
	}
	if _, err := e.Fit(t.Context(), slices.Values([]Passage(nil))); err == nil {
		t.Error("fitted to nothing")
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	fitted := fit(t, HashedOptions{}, Passage{"a", "b"})
	if _, err := fitted.EncodePassages(cancelled, []Passage{{"a", "b"}}); err == nil {
		t.Error("a cancelled call gave vectors")
	}
}
