package study

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/forage-rl/forage/core/experiment"
	"github.com/forage-rl/forage/core/record"
	"github.com/forage-rl/forage/core/run"
)

// frugalRAG is a study of the whole method as its file has it.
const frugalRAG = `
include {
  files = [%q, %q, %q]
}

ablation "frugalrag" {
  seeds    = [0]
  primary  = metric("test", "evidence_recall")
  baseline = { arm = "frugalrag" }

  set {
    policies = { main = policy.habit }
    tools    = { search = tool.unseen }
    train    = dataset.train
    evaluate "test" {
      dataset = dataset.test
      metrics = ["evidence_recall"]
    }
  }

  arm "frugalrag" {
    experiment = experiment.frugalrag
  }
}
`

// TestFrugalRAGPrompts: the prompts of a hop lay the trajectory out in the order and under the markers that the method
// has, and list the tool that finishes only where there is one.
func TestFrugalRAGPrompts(t *testing.T) {
	e := testEnv(t)
	folder, err := filepath.Abs(experiments)
	if err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(t.TempDir(), "main.hcl")
	files := []any{filepath.Join(folder, "methods", "frugalrag.hcl"), filepath.Join(folder, "minihop", "world.hcl"), filepath.Join(folder, "minihop", "fields.hcl")}
	if err := os.WriteFile(own, fmt.Appendf(nil, frugalRAG, files...), 0o644); err != nil {
		t.Fatal(err)
	}
	p, err := e.plan(t.Context(), own, "frugalrag", nil)
	if err != nil {
		t.Fatal(err)
	}
	config := p.Runs[0].Config
	var names []string
	for _, s := range config.Stages {
		names = append(names, s.Name)
	}
	if fmt.Sprint(names) != "[explore tune tau stop]" || len(config.Agents) != 8 {
		t.Fatalf("stages %v, %d agents", names, len(config.Agents))
	}
	turn := func(number int, thought, arguments, observation string) map[string]any {
		return map[string]any{"number": number, "thought": thought, "tool": "search", "arguments": arguments, "query": "q", "observation": observation, "hits": []any{}, "error": ""}
	}
	vars := map[string]any{
		"question": map[string]any{"id": "q", "text": "Who?", "type": "", "hops": 2, "metadata": map[string]any{}},
		"turns":    []any{turn(1, "", `{"query":"Who?"}`, "[1] A | a"), turn(2, "Then B.", `{"query":"B"}`, "[1] B | b")},
		"hits":     []any{}, "max_turns": 5, "max_searches": 0,
		"tools": []any{map[string]any{"name": "search", "description": "Finds.", "arguments": []any{
			map[string]any{"name": "query", "type": "string", "description": "What.", "required": true},
		}}},
	}
	const trajectory = `[[ ## question ## ]]
Who?

[[ ## trajectory ## ]]
[[ ## thought_init ## ]]
I begin by searching for the question as it stands.

[[ ## tool_name_init ## ]]
search

[[ ## tool_args_init ## ]]
{"query":"Who?"}

[[ ## observation_init ## ]]
[1] A | a

[[ ## thought_0 ## ]]
Then B.

[[ ## tool_name_0 ## ]]
search

[[ ## tool_args_0 ## ]]
{"query":"B"}

[[ ## observation_0 ## ]]
[1] B | b

Reply with the fields below in this order, each under its marker, and nothing else:
[[ ## next_thought ## ]]
[[ ## next_tool_name ## ]] (one of: search%s)
[[ ## next_tool_args ## ]] (a JSON object%s)
[[ ## completed ## ]]
`
	render := func(x *experiment.Template) string {
		t.Helper()
		pieces, err := x.Render(vars)
		if err != nil {
			t.Fatal(err)
		}
		return whole(pieces)
	}
	systems := map[string]bool{}
	for name, agent := range config.Agents {
		want := fmt.Sprintf(trajectory, ", finish", "; {} for finish")
		if agent.Protocol.Fields.FinishTool == "" {
			want = fmt.Sprintf(trajectory, "", "")
		}
		if got := render(agent.User); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
		systems[render(agent.System)] = true
	}
	if len(systems) != 4 {
		t.Errorf("%d instructions", len(systems))
	}
	t.Log(render(config.Stages[3].Agent.System))
}

// TestFrugalRAG runs all stages of the method on a few questions of the embedded world, and holds its base to what it is
// made for: it finds nearly all evidence when it searches to the end, and stops too early when it may.
func TestFrugalRAG(t *testing.T) {
	if testing.Short() {
		t.Skip("trains a policy")
	}
	e := testEnv(t)
	p, err := e.plan(t.Context(), "testdata/frugalrag", "small", nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := record.Study{Dir: t.TempDir()}
	if summary, err := Execute(t.Context(), e.options(p, dir.Dir)); err != nil || summary.Done != 2 {
		t.Fatalf("%v, %+v", err, summary)
	}
	for _, r := range p.Runs {
		result, ok, err := dir.Run(r.ID).ReadResult()
		if err != nil || !ok {
			t.Fatal(err)
		}
		if r.Cell.Arm == "base" {
			for _, ev := range result.Evaluations {
				recall, searches := ev.Metrics["evidence_recall"], ev.Metrics["searches"]
				if ev.Name == "searching" && (recall < .8 || searches != 6) || ev.Name == "finishing" && (recall > .7 || searches > 2) {
					t.Errorf("%s: recall %.3f with %.2f searches", ev.Name, recall, searches)
				}
			}
			continue
		}
		if b := result.Budgets; b.OptimizerSteps != 2+4 {
			t.Errorf("%d optimizer steps", b.OptimizerSteps)
		}
		byStep := map[int][]run.Recorded{}
		for step := 1; step <= 8; step++ {
			if byStep[step], err = run.ReadEpisodes(dir.Run(r.ID), step); err != nil && step != 3 && step != 4 {
				t.Fatal(err)
			}
		}
		for step, episodes := range byStep {
			for _, ep := range episodes {
				// Every turn of the policy has a sequence of its own, which holds nothing else.
				if len(ep.Sequences) != len(ep.Turns)-1 {
					t.Errorf("step %d, %s: %d sequences, %d turns", step, ep.ID, len(ep.Sequences), len(ep.Turns))
				}
				seen := map[string]bool{}
				for _, h := range ep.Hits() {
					if seen[h.DocumentID] {
						t.Errorf("step %d, %s: %s was found twice", step, ep.ID, h.DocumentID)
					}
					seen[h.DocumentID] = true
				}
				if tau := ep.Rewards.Leaves["efficiency"].Components["tau"]; step >= 7 && tau*6 != float64(int(tau*6+.5)) {
					t.Errorf("step %d, %s: tau is %v, no share of two or three documents", step, ep.ID, tau)
				}
			}
		}
		// Ten questions, eight candidates each; those of the last steps are groups of five.
		if n := len(byStep[5]); n != 5 || len(byStep[7]) != 15 || len(byStep[1]) < 5*8 {
			t.Errorf("%d, %d and %d episodes", len(byStep[1]), n, len(byStep[7]))
		}
	}
}
