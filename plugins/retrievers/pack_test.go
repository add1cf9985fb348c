package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
	"github.com/forage-rl/forage/core/sdk/schema"
	"github.com/forage-rl/forage/plugins/retrievers/hybrid"
)

// fakeHost holds a ranked list of document ids per index, the same for each query.
type fakeHost struct {
	sdk.Host
	indexes  map[string][]string
	requests chan sdk.SearchRequest
	fail     error
	short    bool
}

func (h fakeHost) Search(_ context.Context, r sdk.SearchRequest) ([][]episode.Hit, error) {
	h.requests <- r
	if h.fail != nil {
		return nil, h.fail
	}
	out := make([][]episode.Hit, len(r.Queries))
	for q, query := range r.Queries {
		for _, id := range h.indexes[r.Index] {
			if len(out[q]) < r.K && (r.Exclude == nil || !slices.Contains(r.Exclude[q], id)) {
				out[q] = append(out[q], episode.Hit{DocumentID: id, Text: query, Score: 7})
			}
		}
	}
	if h.short {
		out = out[1:]
	}
	return out, nil
}

func host(indexes map[string][]string) fakeHost {
	return fakeHost{indexes: indexes, requests: make(chan sdk.SearchRequest, 16)}
}

func plugin(t *testing.T, name string) sdk.RetrieverPlugin {
	t.Helper()
	for _, p := range pack().Retrievers {
		if p.Name == name {
			return p
		}
	}
	t.Fatalf("no retriever %q", name)
	return sdk.RetrieverPlugin{}
}

func start(t *testing.T, name string, h sdk.Host, more map[string]any) sdk.Retriever {
	t.Helper()
	values := map[string]any{"index": schema.Ref{Handle: "i"}}
	if name == "hybrid" {
		values = map[string]any{"dense": schema.Ref{Handle: "d"}, "sparse": schema.Ref{Handle: "s"}}
	}
	maps.Copy(values, more)
	r, err := plugin(t, name).New(t.Context(), values, h)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func call(query any, seen ...string) sdk.Call {
	c := sdk.Call{EpisodeID: "e", Arguments: map[string]any{"query": query}}
	for _, id := range seen {
		c.Seen = append(c.Seen, sdk.Seen{DocumentID: id})
	}
	return c
}

func ids(r sdk.CallResult) string {
	var out []string
	for _, h := range r.Hits {
		out = append(out, h.DocumentID)
	}
	return strings.Join(out, " ")
}

func TestOneSearchPerBatch(t *testing.T) {
	for _, name := range []string{"bm25", "dense"} {
		h := host(map[string][]string{"i": {"a", "b", "c", "d"}})
		r := start(t, name, h, nil)
		out, err := r.Call(t.Context(), sdk.CallRequest{Calls: []sdk.Call{
			call(" x ", "a"), call(""), call(3), {Arguments: map[string]any{"q": "y"}}, {}, call("z"),
		}})
		if err != nil {
			t.Fatal(err)
		}
		if len(h.requests) != 1 {
			t.Fatalf("%s: %d searches", name, len(h.requests))
		}
		if req := <-h.requests; !slices.Equal(req.Queries, []string{"x", "z"}) || req.K != 3 || req.Exclude != nil || req.Index != "i" {
			t.Errorf("%s: request %+v", name, req)
		}
		if ids(out.Results[0]) != "a b c" || out.Results[5].Hits[0].Text != "z" {
			t.Errorf("%s: results %+v", name, out.Results)
		}
		for i, want := range map[int]string{1: "empty", 2: "must be text", 3: "got q", 4: "needs a query"} {
			if got := out.Results[i]; !strings.Contains(got.Error, want) || got.Hits != nil {
				t.Errorf("%s: result %d: %+v", name, i, got)
			}
		}
		tool, err := r.Tool(t.Context())
		if err != nil || tool.Arguments[0].Name != "query" || !tool.Arguments[0].Required {
			t.Errorf("%s: tool %+v %v", name, tool, err)
		}
	}
}

func TestExcludeSeen(t *testing.T) {
	h := host(map[string][]string{"i": {"a", "b", "c", "d"}})
	out, err := start(t, "dense", h, map[string]any{"exclude_seen": true, "k": 2}).Call(t.Context(), sdk.CallRequest{Calls: []sdk.Call{call("x", "b", "a", "b"), call("y")}})
	if err != nil || ids(out.Results[0]) != "c d" || ids(out.Results[1]) != "a b" {
		t.Errorf("%v %+v", err, out)
	}
	if req := <-h.requests; !slices.Equal(req.Exclude[0], []string{"a", "b"}) || len(req.Exclude[1]) != 0 {
		t.Errorf("request %+v", req)
	}
}

func TestNothingToSearch(t *testing.T) {
	h := host(nil)
	for _, name := range []string{"bm25", "dense", "hybrid"} {
		r := start(t, name, h, nil)
		if out, err := r.Call(t.Context(), sdk.CallRequest{}); err != nil || len(out.Results) != 0 {
			t.Errorf("%s: %v %+v", name, err, out)
		}
		if out, err := r.Call(t.Context(), sdk.CallRequest{Calls: []sdk.Call{call(" ")}}); err != nil || out.Results[0].Error == "" {
			t.Errorf("%s: %v %+v", name, err, out)
		}
	}
	if len(h.requests) != 0 {
		t.Error("a batch without queries must not search")
	}
}

func TestHostErrorsName(t *testing.T) {
	for _, name := range []string{"bm25", "dense", "hybrid"} {
		h := host(nil)
		h.fail = fmt.Errorf("index is gone: %w", sdk.ErrUnknownHandle)
		_, err := start(t, name, h, nil).Call(t.Context(), sdk.CallRequest{Calls: []sdk.Call{call("x")}})
		if !errors.Is(err, sdk.ErrUnknownHandle) || !strings.Contains(err.Error(), "search index") {
			t.Errorf("%s: %v", name, err)
		}
		h = host(nil)
		h.short = true
		if _, err := start(t, name, h, nil).Call(t.Context(), sdk.CallRequest{Calls: []sdk.Call{call("x")}}); err == nil {
			t.Errorf("%s: a missing result must be an error", name)
		}
	}
}

// TestFuse: reciprocal ranks by hand. What a list holds twice counts once, at its first place.
func TestFuse(t *testing.T) {
	list := func(ids ...string) (hits []episode.Hit) {
		for _, id := range ids {
			hits = append(hits, episode.Hit{DocumentID: id, Score: 9})
		}
		return hits
	}
	got := hybrid.Fuse([][]episode.Hit{list("a", "b", "a", "c"), list("c", "a")}, []float64{1, 2}, 60, 9)
	want := map[string]float64{"a": 1./61 + 2./62, "b": 1. / 62, "c": 1./64 + 2./61}
	if len(got) != len(want) {
		t.Fatalf("got %v", got)
	}
	for _, h := range got {
		if math.Abs(h.Score-want[h.DocumentID]) > 1e-15 {
			t.Errorf("%s: %v, want %v", h.DocumentID, h.Score, want[h.DocumentID])
		}
	}
}

func TestHybrid(t *testing.T) {
	h := host(map[string][]string{"d": {"a", "b", "c"}, "s": {"c", "d", "a"}, "o": {"d"}})
	for name, c := range map[string]struct {
		more map[string]any
		want string
	}{
		// 1/61+1/63, 1/63+1/61: the tie goes to the first list.
		"two":      {nil, "a c b"},
		"all":      {map[string]any{"k": 9}, "a c b d"},
		"weighted": {map[string]any{"sparse_weight": 2}, "c a d"},
		"one left": {map[string]any{"dense_weight": 0, "k": 9}, "c d a"},
		"three":    {map[string]any{"other": schema.Ref{Handle: "o"}, "other_weight": 3}, "d a c"},
		"depth":    {map[string]any{"depth": 1, "k": 2}, "a c"},
	} {
		out, err := start(t, "hybrid", h, c.more).Call(t.Context(), sdk.CallRequest{Calls: []sdk.Call{call("x")}})
		if err != nil || ids(out.Results[0]) != c.want {
			t.Errorf("%s: %v %q, want %q", name, err, ids(out.Results[0]), c.want)
		}
		for len(h.requests) > 0 {
			<-h.requests
		}
	}
	ds := plugin(t, "hybrid").Validate(map[string]any{"dense": schema.Ref{Handle: "d"}, "sparse": schema.Ref{Handle: "s"}, "dense_weight": 0, "sparse_weight": 0})
	if !ds.HasErrors() {
		t.Error("all weights 0 must be refused")
	}
}

// TestUnits: a tool refuses an index that finds something else, at the attribute that names it, before it is called.
func TestUnits(t *testing.T) {
	ref := func(unit string) any { return map[string]any{"handle": "index.x", "digest": "", "unit": unit} }
	for _, name := range []string{"semantic_search", "keyword_search"} {
		for _, c := range []struct {
			level, unit string
			right       bool
		}{{"sentence", "sentence", true}, {"sentence", "document", false}, {"paragraph", "paragraph", true}, {"paragraph", "sentence", false}} {
			ds := plugin(t, name).Validate(map[string]any{"index": ref(c.unit), "level": c.level})
			if ds.HasErrors() == c.right || !c.right && (ds[0].Path.String() != "index" || !strings.Contains(ds[0].Detail, "index.x finds "+c.unit+"s")) {
				t.Errorf("%s, level %s over an index of unit %s: %v", name, c.level, c.unit, ds)
			}
		}
	}
	ds := plugin(t, "hybrid").Validate(map[string]any{"dense": ref("sentence"), "sparse": ref("document"), "other": ref("sentence")})
	if len(ds) != 1 || ds[0].Path.String() != "sparse" {
		t.Errorf("indexes of different units: %v", ds)
	}
}

func TestPackDescribesItself(t *testing.T) {
	for _, p := range pack().Retrievers {
		if p.Description == "" || p.Source == "" {
			t.Errorf("plugin %q", p.Name)
		}
		for _, a := range p.Schema.Attributes {
			if a.Source == "" && !a.Type.IsRef() || !strings.HasSuffix(a.Description, ".") {
				t.Errorf("%s.%s: source %q, description %q", p.Name, a.Name, a.Source, a.Description)
			}
		}
		if ds := p.Validate(nil); !ds.HasErrors() {
			t.Errorf("%s: an index is required", p.Name)
		}
	}
}
