package study

import (
	"testing"

	"github.com/forage-rl/forage/core/record"
	"github.com/forage-rl/forage/core/run"
)

// TestPromptingWithoutTraining: experiments without stages are planned, run and recorded. The agent without tools never
// searches, the one that retrieves once does so exactly once and before it writes, the one that reasons between
// retrievals starts with the question.
func TestPromptingWithoutTraining(t *testing.T) {
	e := testEnv(t)
	p, err := e.plan(t.Context(), "testdata/prompting", "prompting", nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := record.Study{Dir: t.TempDir()}
	summary, err := Execute(t.Context(), e.options(p, dir.Dir))
	if err != nil || summary.Done != 3 {
		t.Fatalf("%v, %+v", err, summary)
	}
	for _, r := range p.Runs {
		result, ok, err := dir.Run(r.ID).ReadResult()
		if err != nil || !ok {
			t.Fatal(err)
		}
		if b := result.Budgets; b.OptimizerSteps != 0 || b.TrainedTokens != 0 || result.Checkpoint.Step != 0 || len(result.Evaluations) != 1 || result.Evaluations[0].N != 8 {
			t.Errorf("%s: %+v", r.Cell.Arm, result)
		}
		episodes, err := run.ReadEvaluationEpisodes(dir.Run(r.ID), "test")
		if err != nil || len(episodes) != 8 {
			t.Fatalf("%s: %d episodes, %v", r.Cell.Arm, len(episodes), err)
		}
		for _, ep := range episodes {
			first := ep.Turns[0]
			switch n := ep.Counters.Searches; r.Cell.Arm {
			case "direct":
				if n != 0 || len(ep.Turns) != 1 {
					t.Errorf("direct: %d searches in %d turns", n, len(ep.Turns))
				}
			case "rag":
				if n != 1 || first.Span.Len() != 0 || len(first.Hits) == 0 || len(ep.Turns) != 2 {
					t.Errorf("rag: %d searches in %d turns, the first is %+v", n, len(ep.Turns), first)
				}
			case "ircot":
				if n < 1 || n > 8 || first.Span.Len() != 0 || len(ep.Turns) < 2 {
					t.Errorf("ircot: %d searches in %d turns", n, len(ep.Turns))
				}
				if second := ep.Turns[1]; second.Action == "call" && second.Query() == "" {
					t.Errorf("ircot: the thought %q is no query", second.Text)
				}
			}
		}
	}
}
