package rollout

import (
	"slices"
	"strings"
	"testing"

	"github.com/forage-rl/forage/core/sdk/episode"
)

func closingAgent(maxTurns int) *Agent {
	agent := searchR1Agent(maxTurns)
	agent.Closing = fn(func(vars map[string]any) []Piece {
		return []Piece{{"<warning>", true}, {vars["query"].(string), false}, {"</warning>", true}}
	})
	return agent
}

// TestClosingText: what announces the closing turn follows whatever used the budget up, is never trained, is not cut
// with the observation, and stays in an episode that is continued there.
func TestClosingText(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(*Agent)
		turns   []string
		at      int // turn after which the text stands
	}{
		"after a search":       {func(*Agent) {}, []string{"x", "<search><search>a</search>", "<answer>x</answer>"}, 1},
		"after an invalid":     {func(*Agent) {}, []string{"<search>a</search>", "x", "<answer>x</answer>"}, 1},
		"after an unknown":     {func(a *Agent) { a.Tool = "none" }, []string{"x", "<search>a</search>", "<answer>x</answer>"}, 1},
		"by searches":          {func(a *Agent) { a.MaxTurns, a.Invalid, a.MaxSearches = 0, nil, 1 }, []string{"<search>a</search>", "<answer>x</answer>"}, 0},
		"observation cut":      {func(a *Agent) { a.MaxObservationTokens = 3 }, []string{"x", "<search>a</search>", "<search>b</search>"}, 1},
		"nothing left to read": {func(*Agent) {}, []string{"<answer>x</answer>"}, -1},
	} {
		t.Run(name, func(t *testing.T) {
			agent := closingAgent(2)
			test.prepare(agent)
			e := &Engine{Sampler: &script{turns: [][]string{test.turns}}, Tokenizer: runes{}, Tools: reply(echo)}
			episodes, err := run(e, agent, "Q")
			if err != nil {
				t.Fatal(err)
			}
			ep := episodes[0]
			if err := Check(ep, runes{}); err != nil {
				t.Fatal(err)
			}
			for i, turn := range ep.Turns {
				if said := strings.Contains(turn.Observation, "<warning>"); said != (i == test.at) {
					t.Errorf("turn %d: observation %q", i, turn.Observation)
				}
			}
			if test.at < 0 {
				return
			}
			turn := ep.Turns[test.at]
			last := slices.DeleteFunc(slices.Clone(ep.Sequences[0].Segments), func(s episode.Segment) bool { return s.End > turn.ObservationSpan.End })
			text := last[len(last)-1]
			if text.Kind != episode.Notice || text.End != turn.ObservationSpan.End || !strings.HasSuffix(turn.Observation, text.Text) || strings.Contains(text.Text, "<search>") {
				t.Errorf("the closing text is %+v of turn %+v", text, turn)
			}
			e.Sampler = &script{turns: [][]string{{"<answer>y</answer>"}}}
			children, err := e.Run(t.Context(), []Job{{ID: "child", Question: episode.Question{ID: "q0"}, Agent: agent, From: ep, AfterTurn: test.at}})
			if err != nil {
				t.Fatal(err)
			}
			if got := children[0].Sequences[0].Response(); strings.Count(got, "<warning>") != 1 || children[0].Stop != episode.StopAnswered {
				t.Errorf("continued: %q", got)
			}
		})
	}
	agent := closingAgent(2)
	agent.OnBudget = OnBudgetStop
	if err := agent.Check(); err == nil || !strings.Contains(err.Error(), "closing") {
		t.Errorf("got %v", err)
	}
}
