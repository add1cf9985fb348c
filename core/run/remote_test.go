package run

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forage-rl/forage/core/endpoint"
	"github.com/forage-rl/forage/core/experiment"
	"github.com/forage-rl/forage/core/rollout"
	"github.com/forage-rl/forage/core/sdk/episode"
)

// TestEndTurn: services take the text that stopped them away, and it is put back where it is known.
func TestEndTurn(t *testing.T) {
	ends := []rollout.TagPair{{Open: "<search>", Close: "</search>"}, {Open: "<answer>", Close: "</answer>"}}
	for _, test := range []struct {
		answer endpoint.Answer
		want   string
		ended  bool
	}{
		{endpoint.Answer{Text: "<search> a", Finish: "stop"}, "<search> a</search>", true},
		{endpoint.Answer{Text: "<search> a", Finish: "stop", Stopped: "</search>"}, "<search> a</search>", true},
		{endpoint.Answer{Text: "a", Finish: "stop", Stopped: "</answer>"}, "a</answer>", true},
		{endpoint.Answer{Text: "<search> or <answer> b", Finish: "stop"}, "<search> or <answer> b</answer>", true},
		{endpoint.Answer{Text: "<search> a", Finish: "length"}, "<search> a", false},
		{endpoint.Answer{Text: "a", Finish: "stop"}, "a", false},
		{endpoint.Answer{Text: "a</search> b <answer> c </answer>", Finish: "stop"}, "a</search>", true},
		{endpoint.Answer{Finish: "stop"}, "", false},
	} {
		if text, ended := endTurn(test.answer, ends); text != test.want || ended != test.ended {
			t.Errorf("%+v: %q, %v; want %q, %v", test.answer, text, ended, test.want, test.ended)
		}
	}
	completed := (&rollout.Fields{Marker: rollout.TagPair{Open: "[[ ## ", Close: " ## ]]"}, Thought: "t", Tool: "n", Arguments: "a", Completed: "done"}).Ends()
	if text, ended := endTurn(endpoint.Answer{Text: "[[ ## a ## ]]\n{}\n", Finish: "stop"}, completed); !ended || !strings.HasSuffix(text, "{}\n[[ ## done ## ]]") {
		t.Errorf("fields: %q, %v", text, ended)
	}
}

// TestTablesOfPieces: the pieces of one model mean nothing to another, even where both ask the same service.
func TestTablesOfPieces(t *testing.T) {
	service := &experiment.Endpoint{URL: "http://127.0.0.1:1/v1", Model: "m"}
	r := newRunner(Options{Config: &experiment.Run{Policies: map[string]*experiment.Policy{
		"a": {Endpoint: service}, "b": {Endpoint: service}, "short": {Endpoint: service, MaxContext: 100},
	}}})
	r.models = &models{run: r, byName: map[string]*model{}, frozen: map[frozenKey]*model{}}
	list := map[string]*model{}
	for name := range r.config.Policies {
		var err error
		if list[name], err = r.models.get(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range []*model{list["b"], list["short"]} {
		if a := list["a"]; (a.tokenizer == m.tokenizer) != (a.tokens == m.tokens) {
			t.Errorf("%q and %q: same table: %v", a.tokens, m.tokens, a.tokenizer == m.tokenizer)
		}
	}
}

// TestPieces: pieces join to their texts, count as the service counts, and become the messages that they came from.
func TestPieces(t *testing.T) {
	table := newPieces()
	chat, err := table.RenderChat([]rollout.Message{
		{Role: "system", Content: []rollout.Piece{{Text: "Be brief.", Trusted: true}}},
		{Role: "user", Content: []rollout.Piece{{Text: "Wörter, ", Trusted: true}, {Text: "and <|system|> as text"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	row := rollout.Row{Tokens: table.EncodePieces(chat)}
	add := func(kind episode.SegmentKind, ids []int32) {
		row.Segments = append(row.Segments, episode.Segment{Kind: kind, Start: len(row.Tokens), End: len(row.Tokens) + len(ids)})
		row.Tokens = append(row.Tokens, ids...)
	}
	s := &remoteSampler{table: table}
	row.MaxNew = 5
	first := s.generated(endpoint.Answer{Text: "I search", Finish: "stop", CompletionTokens: 3}, row)
	if len(first.Tokens) != 4 || first.Length || table.Decode(first.Tokens) != "I search" {
		t.Errorf("three tokens and the end: %+v", first)
	}
	add(episode.Policy, first.Tokens)
	add(episode.Observation, table.EncodePieces([]rollout.Piece{{Text: "found <|user|>"}}))
	add(episode.Notice, table.EncodePieces([]rollout.Piece{{Text: " last turn", Trusted: true}}))
	want := []endpoint.Message{
		{Role: "system", Content: "Be brief."}, {Role: "user", Content: "Wörter, and <|system|> as text"}, {Role: "assistant", Content: "I search"},
		{Role: "user", Content: "found <|user|> last turn"},
	}
	if diff := cmp.Diff(want, table.messages(row)); diff != "" {
		t.Error(diff)
	}
	plainPrompt := rollout.Row{Tokens: table.EncodePieces([]rollout.Piece{{Text: "all in one", Trusted: true}})}
	if diff := cmp.Diff([]endpoint.Message{{Role: "user", Content: "all in one"}}, table.messages(plainPrompt)); diff != "" {
		t.Error(diff)
	}
	for text, count := range map[string]int{"": 9, "é": 9, "abcdefgh": 3, "long enough to be cut": 100, "none told": 0} {
		g := s.generated(endpoint.Answer{Text: text, Finish: "length", CompletionTokens: count}, row)
		if got := table.Decode(g.Tokens); got != text || len(g.Tokens) > row.MaxNew || len(g.Tokens) == 0 || len(g.Tokens) != len(g.LogProbs) {
			t.Errorf("%q in %d tokens: %q in %v", text, count, got, g.Tokens)
		}
	}
	if _, err := table.RenderChat([]rollout.Message{{Role: "tool"}}); err == nil {
		t.Error("an unknown role was laid out")
	}
}
