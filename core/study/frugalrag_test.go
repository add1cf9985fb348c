package study

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/forage-rl/forage/core/experiment"
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
		return experiment.Text(pieces)
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
