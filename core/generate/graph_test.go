package generate

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forage-rl/forage/core/internal/rng"
	"github.com/forage-rl/forage/core/minihop"
	"github.com/forage-rl/forage/core/retrieval/corpus"
)

func documents(t *testing.T, titlesAndTexts ...string) *corpus.Corpus {
	t.Helper()
	var docs []corpus.Document
	for i := 0; i < len(titlesAndTexts); i += 2 {
		docs = append(docs, corpus.Document{Title: titlesAndTexts[i], Paragraphs: []corpus.Paragraph{{Text: titlesAndTexts[i+1]}}})
	}
	c, err := corpus.FromDocuments(docs)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func links(g *Graph) map[string][]string {
	out := map[string][]string{}
	for i := range g.Documents() {
		for _, target := range g.Out(i) {
			out[g.corpus.ID(i)] = append(out[g.corpus.ID(i)], g.corpus.Title(int(target)))
		}
	}
	return out
}

func TestMentions(t *testing.T) {
	c := documents(t,
		"New York", "New York City lies in New York, not in York.",
		"New York City", "The Salt (novel) is set in New-York City! See also Salt, 1999, the, Of.",
		"York", "new york and Yorkshire are no mentions; Zürich is. Zürich again.",
		"The Salt (novel)", "By Ána O'Hara.",
		"Ána O'Hara", "Wrote nothing but The Salt novel in 1999 of It",
		"Zürich", "",
		"1999", "A year in York.", "the", "York", "Of", "x", "It", "y",
		"Twin", "One of two: Twin", "Twin", "The other.",
		"Salt", "Twin is no clear mention.",
	)
	g, err := Mentions(t.Context(), c, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{
		"New York": {"New York City", "York"}, "New York City": {"The Salt (novel)", "Salt"}, "York": {"Zürich"},
		"The Salt (novel)": {"Ána O'Hara"}, "Ána O'Hara": {"The Salt (novel)"}, "1999": {"York"}, "the": {"York"},
	}
	if diff := cmp.Diff(want, links(g)); diff != "" {
		t.Error(diff)
	}
	if g, err = Mentions(t.Context(), c, 1, nil); err != nil || len(g.Out(0)) != 1 || g.Links() != 7 {
		t.Errorf("one link each: %v, %v", links(g), err)
	}
}

// TestMentionsOfTheWorld: in the embedded world every fact about a documented thing is a link, and nothing else is.
func TestMentionsOfTheWorld(t *testing.T) {
	for _, two := range []bool{false, true} {
		w, err := minihop.NewWorld(2, minihop.Options{TwoTokenNames: two})
		if err != nil {
			t.Fatal(err)
		}
		c, err := w.Corpus()
		if err != nil {
			t.Fatal(err)
		}
		g, err := Mentions(t.Context(), c, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i, d := range w.Documents() {
			var want []string
			for _, s := range d.Sentences {
				_, object, _ := strings.Cut(strings.TrimSuffix(s, " ."), " is ")
				if len(c.ByTitle(object)) == 1 && object != d.Title && !slices.Contains(want, object) {
					want = append(want, object)
				}
			}
			var got []string
			for _, target := range g.Out(i) {
				got = append(got, c.Title(int(target)))
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (%q): %s", d.Title, d.Text, diff)
			}
		}
	}
}

func TestLinks(t *testing.T) {
	c := documents(t, "A", "a", "B", "b", "C d", "c")
	path := filepath.Join(t.TempDir(), "links.jsonl")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"title": "A", "links": ["B", "Nobody", "A", "B"]}
{"id": "B", "title": "?", "text_with_links": ["see <a href=\"C%20d\">it</a>", ["and <a href=\"A\">that</a>"]]}

{"id": 12, "title": "Nobody", "links": ["A"]}
`)
	g, err := Links(t.Context(), c, path, 0)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string][]string{"A": {"B"}, "B": {"C d", "A"}}, links(g)); diff != "" {
		t.Error(diff)
	}
	write("{\"title\": \"A\", \"links\": [\"B\"]}\n{\"title\": 1}\n")
	if _, err := Links(t.Context(), c, path, 0); err == nil || !strings.Contains(err.Error(), "links.jsonl:2") {
		t.Errorf("a bad line: %v", err)
	}
	write(`{"title": "X", "links": ["Y"]}`)
	if _, err := Links(t.Context(), c, path, 0); err == nil || !strings.Contains(err.Error(), "belong") {
		t.Errorf("another corpus: %v", err)
	}
	if _, err := Links(t.Context(), c, path+".none", 0); err == nil {
		t.Error("a missing file was read")
	}
}

func TestChain(t *testing.T) {
	w, err := minihop.NewWorld(2, minihop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := w.Corpus()
	if err != nil {
		t.Fatal(err)
	}
	g, err := Mentions(t.Context(), c, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for n := range uint64(300) {
		length := 2 + int(n%4)
		chain, ok := g.Chain(rng.New(n), length)
		again, _ := g.Chain(rng.New(n), length)
		if !ok || len(chain) != length || !slices.Equal(chain, again) {
			t.Fatalf("key %d: %v, then %v", n, chain, again)
		}
		seen[chainName(chain)] = true
		for i := 1; i < length; i++ {
			if !slices.Contains(g.Out(chain[i-1]), uint32(chain[i])) || slices.Contains(chain[:i], chain[i]) {
				t.Errorf("%s is no walk", g.describe(chain))
			}
		}
	}
	if len(seen) < 150 {
		t.Errorf("300 keys give %d chains", len(seen))
	}
	line := documents(t, "Aa", "Bb", "Bb", "Cc", "Cc", "Aa", "Dd", "")
	if g, err = Mentions(t.Context(), line, 0, nil); err != nil {
		t.Fatal(err)
	}
	if _, ok := g.Chain(rng.New(1), 4); ok {
		t.Error("a ring of three has no chain of four")
	}
}

func FuzzMentions(f *testing.F) {
	f.Add("New York", "in New York")
	f.Add("Ü \xff", "Ü")
	f.Fuzz(func(t *testing.T, title, text string) {
		c, err := corpus.FromDocuments([]corpus.Document{{Title: title, ID: "a"}, {Title: "b", ID: "b", Paragraphs: []corpus.Paragraph{{Text: text}}}})
		if err != nil {
			return
		}
		g, err := Mentions(t.Context(), c, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, target := range g.Out(1) {
			if target != 0 {
				t.Errorf("%q in %q gives document %d", title, text, target)
			}
		}
	})
}

// describe names a chain in messages.
func (g *Graph) describe(chain []int) string {
	var names []string
	for _, i := range chain {
		names = append(names, fmt.Sprintf("%q", g.corpus.Title(i)))
	}
	return strings.Join(names, " → ")
}
