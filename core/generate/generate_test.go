package generate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forage-rl/forage/core/dataset"
	"github.com/forage-rl/forage/core/endpoint"
	"github.com/forage-rl/forage/core/generate/modeltest"
	"github.com/forage-rl/forage/core/minihop"
	"github.com/forage-rl/forage/core/retrieval"
	"github.com/forage-rl/forage/core/retrieval/corpus"
	"github.com/forage-rl/forage/core/retrieval/index"
)

// remote is a model behind a service.
type remote struct{ *endpoint.Client }

func (r remote) Write(ctx context.Context, prompts []Prompt) ([]string, error) {
	requests := make([]endpoint.Request, len(prompts))
	for i, p := range prompts {
		requests[i] = endpoint.Request{Messages: []endpoint.Message{{Role: "user", Content: p.Text}}, MaxTokens: p.MaxTokens}
	}
	answers, err := r.CompleteAll(ctx, requests)
	texts := make([]string, len(answers))
	for i, a := range answers {
		texts[i] = a.Text
	}
	return texts, err
}

// world is the embedded world as a generation sees it, with a model behind a service.
func world(t *testing.T) (*modeltest.Model, Options) {
	t.Helper()
	w, err := minihop.NewWorld(3, minihop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	model := modeltest.New(w)
	server := httptest.NewServer(model)
	t.Cleanup(server.Close)
	client, err := endpoint.New(endpoint.Config{URL: server.URL, Model: model.Name, Backoff: time.Nanosecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	c, err := w.Corpus()
	if err != nil {
		t.Fatal(err)
	}
	g, err := Mentions(t.Context(), c, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	x, err := retrieval.OpenIndex(t.Context(), retrieval.Spec{
		Corpus: c, Unit: corpus.DocumentLevel, BM25: &index.BM25Params{},
	}, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	prompts, err := LoadPrompts("")
	if err != nil {
		t.Fatal(err)
	}
	return model, Options{
		Corpus: c, Graph: g, Writer: remote{client}, WriterName: "small", Prompts: prompts, Out: filepath.Join(t.TempDir(), "deep", "q.jsonl"),
		Mix: []Share{{2, .5}, {3, .4}, {4, .1}}, Count: 20, TopK: 3, Absent: AbsentLater, Seed: 5, SearchName: "words",
		Search: func(ctx context.Context, queries []string, k int) ([][]string, error) {
			lists, err := x.Search(ctx, queries, k, nil)
			ids := make([][]string, len(lists))
			for i, list := range lists {
				for _, h := range list {
					ids[i] = append(ids[i], h.DocumentID)
				}
			}
			return ids, err
		},
	}
}

func journal(t *testing.T, out string) (entries []entry) {
	t.Helper()
	data, err := os.ReadFile(JournalPath(out))
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(data) {
		var l journalLine
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatal(err)
		}
		entries = append(entries, l.Round...)
	}
	return entries
}

// TestPipeline makes questions over the embedded world from end to end. Every filter drops something, and what is kept
// is a sound question: its documents are the chain that leads from the named one to the answer.
func TestPipeline(t *testing.T) {
	_, o := world(t)
	var last Summary
	o.Progress = func(s Summary) { last = s }
	s, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s, last); diff != "" {
		t.Errorf("the last progress is not the summary:\n%s", diff)
	}
	total := 0
	for _, fate := range append(Filters(), Kept) {
		if s.Fates[fate] == 0 {
			t.Errorf("no chain met the fate %q: %v", fate, s.Fates)
		}
		total += s.Fates[fate]
	}
	if total != s.Chains || s.Total() != 20 || len(s.Fates) != 6 {
		t.Errorf("%d chains, %v", s.Chains, s.Fates)
	}
	if diff := cmp.Diff(map[int]int{2: 10, 3: 8, 4: 2}, s.ByHops); diff != "" {
		t.Errorf("hops:\n%s", diff)
	}
	data, err := dataset.Open(t.Context(), dataset.Spec{Path: o.Out})
	if err != nil || data.Len() != 20 {
		t.Fatalf("the dataset: %v", err)
	}
	resolved, resolution, err := dataset.ResolveGold(o.Corpus, data.Questions(), dataset.MatchAuto, 0)
	if err != nil || resolution.Match != dataset.MatchDocument || resolution.Unresolved != 0 {
		t.Errorf("golds: %+v, %v", resolution, err)
	}
	seen := map[string]bool{}
	for _, q := range resolved {
		if seen[q.Text] {
			t.Errorf("%q was made twice", q.Text)
		}
		seen[q.Text] = true
		// The world itself, and not the model, says what the answer is.
		parts := strings.Split(strings.TrimSuffix(strings.TrimPrefix(q.Text, "What is "), "?"), " of ")
		at := parts[len(parts)-1]
		var chain []string
		for _, part := range slices.Backward(parts[:len(parts)-1]) {
			relation := strings.TrimPrefix(part, "the ")
			d := o.Corpus.At(o.Corpus.ByTitle(at)[0])
			chain = append(chain, d.ID)
			_, object, ok := strings.Cut(d.Text(), " "+relation+" is ")
			if !ok {
				t.Fatalf("%q: %q has no %s", q.Text, at, relation)
			}
			at, _, _ = strings.Cut(object, " .")
		}
		var gold []string
		for _, g := range q.Gold {
			gold = append(gold, g.DocumentID)
		}
		if q.Answers[0] != at || !slices.Equal(gold, chain) || q.Hops != len(chain) || q.Type != fmt.Sprintf("%dhop", q.Hops) {
			t.Errorf("%q: answer %q and documents %v, the world says %q and %v", q.Text, q.Answers, gold, at, chain)
		}
		found, err := o.Search(t.Context(), []string{q.Text}, o.TopK)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range gold[1:] {
			if slices.Contains(found[0], id) {
				t.Errorf("%q finds %s", q.Text, id)
			}
		}
		if support, ok := q.Metadata["support_docs"].([]any); !ok || len(support) != q.Hops || q.Metadata["chain"] == nil {
			t.Errorf("%q: metadata %v", q.Text, q.Metadata)
		}
	}
	for _, e := range journal(t, o.Out) {
		if e.Fate != Kept && e.Reason == "" || (e.Fate == Found || e.Fate == Kept) && e.Question == "" {
			t.Errorf("chain %d: %+v", e.Number, e)
		}
	}
}

// TestResume: a generation that is stopped anywhere goes on to the same files as one that was not.
func TestResume(t *testing.T) {
	model, o := world(t)
	if _, err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	files := func(o Options) [2]string {
		t.Helper()
		var texts [2]string
		for i, path := range []string{o.Out, JournalPath(o.Out)} {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			texts[i] = string(data)
		}
		return texts
	}
	want, asked := files(o), model.Asked()
	t.Run("after the service failed", func(t *testing.T) {
		again := o
		again.Out = filepath.Join(t.TempDir(), "q.jsonl")
		for _, n := range []int{asked / 3, asked / 2} {
			model.FailAfter.Store(int64(model.Asked() + n))
			if _, err := Run(t.Context(), again); err == nil || !strings.Contains(err.Error(), "out of memory") {
				t.Fatalf("the failure is lost: %v", err)
			}
		}
		model.FailAfter.Store(0)
		s, err := Run(t.Context(), again)
		if err != nil || s.Resumed == 0 || s.Resumed >= s.Chains {
			t.Fatalf("%+v, %v", s, err)
		}
		if diff := cmp.Diff(want, files(again)); diff != "" {
			t.Error(diff)
		}
		before := model.Asked()
		if s, err = Run(t.Context(), again); err != nil || s.Total() != o.Count || model.Asked() != before {
			t.Errorf("nothing was left to do: %+v, %v, %d requests", s, err, model.Asked()-before)
		}
	})
	t.Run("between the files", func(t *testing.T) {
		again := o
		again.Out = filepath.Join(t.TempDir(), "q.jsonl")
		lines := strings.SplitAfter(want[1], "\n")
		// All questions are written, the last rounds are not in the journal, and a line is torn.
		cut := strings.Join(lines[:len(lines)-3], "") + lines[len(lines)-3][:30]
		for path, text := range map[string]string{again.Out: want[0] + `{"id":"graph-5-9`, JournalPath(again.Out): cut} {
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := Run(t.Context(), again); err != nil {
			t.Fatal(err)
		}
		got := files(again)
		if got[0] != want[0] {
			t.Error(cmp.Diff(want[0], got[0]))
		}
	})
	t.Run("more questions", func(t *testing.T) {
		again := o
		again.Count, again.Mix = 24, []Share{{2, 11. / 24}, {3, 11. / 24}, {4, 2. / 24}}
		s, err := Run(t.Context(), again)
		if err != nil || s.Total() != 24 || !strings.HasPrefix(files(again)[0], want[0]) {
			t.Errorf("%+v, %v", s, err)
		}
	})
	t.Run("other settings", func(t *testing.T) {
		again := o
		again.TopK, again.WriterName = 7, "large"
		_, err := Run(t.Context(), again)
		if err == nil || !strings.Contains(err.Error(), "top_k was 3 and is 7") || !strings.Contains(err.Error(), "writer was small and is large") {
			t.Errorf("got %v", err)
		}
		again = o
		again.Seed = 6
		if _, err := Run(t.Context(), again); err == nil || !strings.Contains(err.Error(), "q.jsonl:1") {
			t.Errorf("another seed: %v", err)
		}
	})
	t.Run("lost questions", func(t *testing.T) {
		if err := os.Truncate(o.Out, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "put it back") {
			t.Errorf("got %v", err)
		}
	})
}

func TestEnds(t *testing.T) {
	_, o := world(t)
	o.Attempts = 20
	s, err := Run(t.Context(), o)
	if !errors.Is(err, ErrExhausted) || s.Chains != 20 || s.Total() == 0 {
		t.Errorf("%+v, %v", s, err)
	}
	// Under the strict reading of the second filter a question that names its first document is found by it.
	_, o = world(t)
	o.Attempts, o.Absent = 60, AbsentAll
	s, err = Run(t.Context(), o)
	if !errors.Is(err, ErrExhausted) || s.NamedFound == 0 || s.Total() != 0 {
		t.Errorf("%+v, %v", s, err)
	}
	// A graph without long chains leaves their questions out and says so.
	_, o = world(t)
	g := *o.Graph
	o.Graph = &g
	for i := range g.Documents() {
		if out := g.Out(i); len(out) > 0 && strings.HasPrefix(o.Corpus.ID(i), "company") {
			o.Count, o.Mix = 4, []Share{{2, .5}, {6, .5}}
			one := &Graph{corpus: o.Corpus, first: make([]uint32, g.Documents()+1), targets: out, kind: "one document's"}
			for j := i + 1; j <= g.Documents(); j++ {
				one.first[j] = uint32(len(out))
			}
			o.Graph = one
			break
		}
	}
	var notes []string
	o.Note = func(text string) { notes = append(notes, text) }
	s, err = Run(t.Context(), o)
	if err != nil || s.LeftOut[6] != 2 || s.LeftOut[2] == 0 || len(notes) != 2 {
		t.Errorf("%+v, %v, %q", s, err, notes)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, o = world(t)
	if _, err := Run(ctx, o); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestBadOptions(t *testing.T) {
	_, good := world(t)
	for name, change := range map[string]func(*Options){
		"no out": func(o *Options) { o.Out = "" }, "no count": func(o *Options) { o.Count = 0 }, "no corpus": func(o *Options) { o.Corpus = nil },
		"sum": func(o *Options) { o.Mix = []Share{{2, .5}} }, "one hop": func(o *Options) { o.Mix = []Share{{1, 1}} },
		"twice": func(o *Options) { o.Mix = []Share{{2, .5}, {2, .5}} }, "long": func(o *Options) { o.Mix = []Share{{MostHops + 1, 1}} },
		"absent": func(o *Options) { o.Absent = "none" }, "negative": func(o *Options) { o.TopK = -1 },
		"no links": func(o *Options) { o.Graph = &Graph{corpus: o.Corpus, first: make([]uint32, 2)} },
	} {
		o := good
		change(&o)
		if _, err := Run(t.Context(), o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if entries, err := os.ReadDir(filepath.Dir(good.Out)); err == nil {
		t.Errorf("files were made: %v", entries)
	}
}

// TestFilters drives each filter alone with a model that answers by the documents it is shown.
func TestFilters(t *testing.T) {
	docs, err := corpus.FromDocuments([]corpus.Document{
		{Title: "One", Paragraphs: []corpus.Paragraph{{Text: "One met Two."}}}, {Title: "Two", Paragraphs: []corpus.Paragraph{{Text: "Two met Three."}}},
		{Title: "Three", Paragraphs: []corpus.Paragraph{{Text: "Three is green."}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	prompts, err := LoadPrompts("")
	if err != nil {
		t.Fatal(err)
	}
	made := func() []*item {
		it := &item{chain: []int{0, 1, 2}, text: "What colour is whom One's friend met?", leaf: leaf{Answer: "green"}}
		for _, i := range it.chain {
			it.docs = append(it.docs, Document{docs.Title(i), docs.At(i).Text()})
		}
		return []*item{it}
	}
	for name, test := range map[string]struct {
		absent Absent
		found  []string
		reads  func(shown []string) string
		want   Fate
	}{
		"kept":              {AbsentAll, nil, func(shown []string) string { return map[bool]string{true: "green", false: "unknown"}[len(shown) == 3] }, ""},
		"first found":       {AbsentAll, []string{"Zero", "One"}, nil, Found},
		"first may be":      {AbsentLater, []string{"One"}, func(shown []string) string { return map[bool]string{true: "Green."}[len(shown) == 3] }, ""},
		"second may not":    {AbsentLater, []string{"One", "Two"}, nil, Found},
		"one is missing":    {AbsentSome, []string{"One", "Two"}, func(shown []string) string { return map[bool]string{true: "green"}[len(shown) == 3] }, ""},
		"none is missing":   {AbsentSome, []string{"One", "Two", "Three"}, nil, Found},
		"known":             {AbsentAll, nil, func([]string) string { return "It is green" }, ClosedBook},
		"from the last":     {AbsentAll, nil, func(shown []string) string { return map[bool]string{true: "green"}[slices.Contains(shown, "Three")] }, Subset},
		"from two":          {AbsentAll, nil, func(shown []string) string { return map[bool]string{true: "green"}[len(shown) >= 2] }, Subset},
		"from two not all":  {AbsentAll, nil, func(shown []string) string { return map[bool]string{true: "green"}[len(shown) == 2] }, Subset},
		"wrong":             {AbsentAll, nil, func([]string) string { return "blue" }, WrongAnswer},
		"wrong, long":       {AbsentAll, nil, func([]string) string { return "it may be red or blue or yellow or even green" }, WrongAnswer},
		"wrong, in a word":  {AbsentAll, nil, func([]string) string { return "greenish" }, WrongAnswer},
		"wrong, in thought": {AbsentAll, nil, func([]string) string { return "<think>green</think>\nblue\ngreen" }, WrongAnswer},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{Corpus: docs, Prompts: prompts, TopK: 20, Absent: test.absent, Checker: checker(func(prompt string) string {
				var shown []string
				for _, title := range []string{"One", "Two", "Three"} {
					if strings.Contains(prompt, "Document: "+title+"\n") {
						shown = append(shown, title)
					}
				}
				return test.reads(shown)
			})}
			o.Search = func(context.Context, []string, int) ([][]string, error) { return [][]string{test.found}, nil }
			items := made()
			for _, filter := range []func(context.Context, []*item) error{o.search, o.closedBook, o.subsets, o.openBook} {
				if items[0].fate == "" {
					if err := filter(t.Context(), items); err != nil {
						t.Fatal(err)
					}
				}
			}
			if items[0].fate != test.want {
				t.Errorf("fate %q (%s), want %q", items[0].fate, items[0].reason, test.want)
			}
		})
	}
}

type checker func(prompt string) string

func (c checker) Write(_ context.Context, prompts []Prompt) ([]string, error) {
	texts := make([]string, len(prompts))
	for i, p := range prompts {
		texts[i] = c(p.Text)
	}
	return texts, nil
}

func TestQuotas(t *testing.T) {
	for count, want := range map[int]map[int]int{
		4000: {2: 2200, 3: 1760, 4: 20, 5: 20}, 10: {2: 6, 3: 4, 4: 0, 5: 0}, 1: {2: 1, 3: 0, 4: 0, 5: 0}, 200: {2: 110, 3: 88, 4: 1, 5: 1},
	} {
		if diff := cmp.Diff(want, quotas(PaperMix(), count)); diff != "" {
			t.Errorf("%d questions:\n%s", count, diff)
		}
	}
}
