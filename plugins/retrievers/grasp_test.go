package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
	"github.com/forage-rl/forage/core/sdk/schema"
	"github.com/forage-rl/forage/core/sdk/sdktest"
	"github.com/forage-rl/forage/plugins/retrievers/keywordsearch"
	"github.com/forage-rl/forage/plugins/retrievers/readparagraph"
	"github.com/forage-rl/forage/plugins/retrievers/semanticsearch"
)

func ref(handle string) schema.Ref { return schema.Ref{Handle: handle, Digest: "d"} }

// paragraphs are two documents; the second has two paragraphs, and its title occurs twice.
func paragraphs() []episode.Hit {
	return []episode.Hit{
		{DocumentID: "Ada Brook", ParagraphID: "Ada Brook", Title: "Ada Brook", Text: "Ada paints."},
		{DocumentID: "River", ParagraphID: "River#p0", Title: "River", Text: "It flows."},
		{DocumentID: "River", ParagraphID: "River#p1", Title: "River", Text: "It ends."},
		{DocumentID: "Hidden", ParagraphID: "Hidden", Title: "Hidden", Text: "Nobody looks here."},
	}
}

// TestReadParagraph: what an episode has found can be read under any of its names, and nothing else.
func TestReadParagraph(t *testing.T) {
	host := &sdktest.Host{Corpus: paragraphs()}
	seen := []sdk.Seen{
		{Turn: 0, Tool: "semantic_search", DocumentID: "Ada Brook", ParagraphID: "Ada Brook", SentenceID: "Ada Brook.s2"},
		{Turn: 1, Tool: "keyword_search", DocumentID: "River", ParagraphID: "River#p1", SentenceID: "River#p1.s0"},
	}
	both := append(seen, sdk.Seen{Turn: 2, Tool: "keyword_search", DocumentID: "River", ParagraphID: "River#p0", SentenceID: "River#p0.s4"})
	for name, test := range map[string]struct {
		any       bool
		seen      []sdk.Seen
		arguments map[string]any
		want      string // text of the paragraph
		problem   string
	}{
		"id":                {seen: seen, arguments: map[string]any{"paragraph_id": "Ada Brook"}, want: "Ada paints."},
		"one of several":    {seen: both, arguments: map[string]any{"paragraph_id": "River#p0"}, want: "It flows."},
		"case and space":    {seen: seen, arguments: map[string]any{"paragraph_id": "  ada  BROOK\n"}, want: "Ada paints."},
		"sentence":          {seen: seen, arguments: map[string]any{"paragraph_id": "River#p1.s0"}, want: "It ends."},
		"title":             {seen: seen, arguments: map[string]any{"paragraph_id": "river"}, want: "It ends."},
		"title of two":      {seen: both, arguments: map[string]any{"paragraph_id": "River"}, problem: "Several paragraphs have this title: River#p1, River#p0."},
		"not found before":  {seen: seen, arguments: map[string]any{"paragraph_id": "Hidden"}, problem: `No search has found a paragraph "Hidden".`},
		"nothing seen":      {arguments: map[string]any{"paragraph_id": "Ada Brook"}, problem: "No search has found"},
		"other paragraph":   {seen: seen, arguments: map[string]any{"paragraph_id": "River#p0"}, problem: "No search has found"},
		"anything":          {any: true, arguments: map[string]any{"paragraph_id": "Hidden"}, want: "Nobody looks here."},
		"anything there is": {any: true, arguments: map[string]any{"paragraph_id": "Nowhere"}, problem: `There is no paragraph "Nowhere".`},
		"anything by title": {any: true, seen: seen, arguments: map[string]any{"paragraph_id": "RIVER"}, want: "It ends."},
		"empty":             {seen: seen, arguments: map[string]any{"paragraph_id": " "}, problem: "is empty"},
		"missing":           {seen: seen, arguments: map[string]any{"query": "Ada"}, problem: "needs the argument paragraph_id"},
		"number":            {seen: seen, arguments: map[string]any{"paragraph_id": 7.}, problem: "must be text"},
	} {
		t.Run(name, func(t *testing.T) {
			r := sdktest.Retriever(t, readparagraph.Plugin(), map[string]any{"corpus": ref("c"), "read_requires_hit": !test.any}, host)
			// A second call in the batch: neither may change the other.
			out, err := r.Call(t.Context(), sdk.CallRequest{Calls: []sdk.Call{
				{EpisodeID: "a", Turn: 3, Arguments: test.arguments, Seen: test.seen},
				{EpisodeID: "b", Turn: 3, Arguments: map[string]any{"paragraph_id": "Ada Brook"}, Seen: seen},
			}})
			if err != nil {
				t.Fatal(err)
			}
			got := out.Results[0]
			if !strings.Contains(got.Error, test.problem) || (got.Error == "") != (test.problem == "") {
				t.Errorf("error %q, want %q", got.Error, test.problem)
			}
			if test.want != "" && (len(got.Hits) != 1 || got.Hits[0].Text != test.want || got.Hits[0].ParagraphID == "") {
				t.Errorf("got %+v", got.Hits)
			}
			if !cmp.Equal(out.Results[1].Hits, paragraphs()[:1]) {
				t.Errorf("the other call got %+v", out.Results[1])
			}
		})
	}
}

// TestSentenceSearch: hits name their sentence and paragraph, and there are at most k.
func TestSentenceSearch(t *testing.T) {
	for _, plugin := range []sdk.RetrieverPlugin{semanticsearch.Plugin(), keywordsearch.Plugin()} {
		t.Run(plugin.Name, func(t *testing.T) {
			call := func(values map[string]any, host sdk.Host) ([]episode.Hit, error) {
				values["index"] = ref("i")
				r := sdktest.Retriever(t, plugin, values, host)
				if tool, err := r.Tool(t.Context()); err != nil || tool.Name != plugin.Name || tool.Arguments[0].Name != "query" {
					t.Errorf("%v, %+v", err, tool)
				}
				out, err := r.Call(t.Context(), sdk.CallRequest{Calls: []sdk.Call{{EpisodeID: "a", Arguments: map[string]any{"query": "known It is"}}}})
				if err != nil {
					return nil, err
				}
				return out.Results[0].Hits, nil
			}
			hits, err := call(map[string]any{}, sentenceHost())
			if err != nil || len(hits) != 5 {
				t.Fatalf("%v, %d hits, want 5", err, len(hits))
			}
			for _, h := range hits {
				if h.SentenceID == "" || !strings.HasPrefix(h.SentenceID, h.ParagraphID+".s") {
					t.Errorf("got %+v", h)
				}
			}
			// All score alike: they come in the order of the corpus.
			var order []string
			for _, d := range sentenceHost().Corpus {
				if d.Text == "It is well known." && len(order) < 5 {
					order = append(order, d.SentenceID)
				}
			}
			for i, h := range hits {
				if h.SentenceID != order[i] {
					t.Errorf("hit %d is %s, want %s", i, h.SentenceID, order[i])
				}
			}
			whole := &sdktest.Host{Corpus: []episode.Hit{{DocumentID: "d", ParagraphID: "d", Title: "D", Text: "It is known."}}}
			if hits, err = call(map[string]any{"level": "paragraph"}, whole); err != nil || len(hits) != 1 {
				t.Errorf("%v, %+v", err, hits)
			}
		})
	}
}
