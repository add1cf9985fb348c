package experiment_test

import (
	"bytes"
	"testing"

	"github.com/hashicorp/hcl/v2"

	"github.com/forage-rl/forage/core/experiment"
	"github.com/forage-rl/forage/core/internal/testschemas"
	"github.com/forage-rl/forage/core/sdk/schema"
)

// load reads a study whose variables have values and fails on errors.
func load(t testing.TB, path string) *experiment.Study {
	t.Helper()
	s, diags := experiment.Load(t.Context(), path, experiment.Inputs{Vars: map[string]string{"data": "/data"}}, &testschemas.Source{})
	failOn(t, s, diags)
	return s
}

func failOn(t testing.TB, s *experiment.Study, diags hcl.Diagnostics) {
	t.Helper()
	if len(diags) > 0 {
		t.Fatal(printed(t, s, diags))
	}
}

func printed(t testing.TB, s *experiment.Study, diags hcl.Diagnostics) string {
	t.Helper()
	var b bytes.Buffer
	if err := s.WriteDiagnostics(&b, diags, 0, false); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// resolve gives the run of an arm without axes.
func resolve(t testing.TB, s *experiment.Study, ablation, arm string, seed int64) *experiment.Run {
	t.Helper()
	a, diags := s.Ablation(ablation)
	failOn(t, s, diags)
	for _, x := range a.Arms {
		if x.Name == arm {
			run, diags := s.Resolve(a, x, nil, seed)
			failOn(t, s, diags)
			return run
		}
	}
	t.Fatalf("no arm %s", arm)
	return nil
}

// TestResolveExample looks at what the example of the documentation resolves to.
func TestResolveExample(t *testing.T) {
	s := load(t, "testdata/low_budget")
	run := resolve(t, s, "low_budget", "david_grpo", 3)
	if len(run.Stages) != 2 || run.Stages[0].Name != "seed" || run.Stages[1].Name != "main" {
		t.Fatalf("stages %+v", run.Stages)
	}
	seed, main := run.Stages[0], run.Stages[1]
	if seed.Agent.MaxSearches != 5 || main.Agent.MaxSearches != 10 || run.Agent.MaxSearches != 10 {
		t.Errorf("searches: seed %d, main %d, run %d", seed.Agent.MaxSearches, main.Agent.MaxSearches, run.Agent.MaxSearches)
	}
	if seed.Train.Handle != "dataset.experts" || main.Train.Handle != "dataset.train" || main.Experts != nil {
		t.Errorf("questions: %s, %s, %v", seed.Train.Handle, main.Train.Handle, main.Experts)
	}
	if seed.Optimizer.LearningRate != 1e-5 || main.Optimizer.LearningRate != 1e-6 || main.Optimizer.Betas != [2]float64{0.9, 0.999} {
		t.Errorf("optimizers: %+v, %+v", seed.Optimizer, main.Optimizer)
	}
	if seed.Algorithm.Values["phase"] != "seed" || main.Algorithm.Values["phase"] != "main" || main.Algorithm.Values["group_size"] != 5.0 {
		t.Errorf("algorithms: %v, %v", seed.Algorithm.Values, main.Algorithm.Values)
	}
	if main.Sampling.Temperature != 0.6 || len(run.Evaluations) != 2 || run.Evaluations[0].Name != "dev" || run.Evaluations[0].Every != 20 {
		t.Errorf("sampling %+v, evaluations %+v", main.Sampling, run.Evaluations)
	}
	got, err := main.Reward.Total.Number(map[string]any{
		"gates": map[string]any{"value": 1}, "coverage": map[string]any{"value": 0.5}, "outcome": map[string]any{"value": 1.0},
	})
	if err != nil || got != 0.75 {
		t.Errorf("total %v, %v, want 0.75", got, err)
	}
	tool := run.Tools["search"].Retriever
	if tool.Values["index"] != (schema.Ref{Handle: "index.dense", Unit: "paragraph"}) || run.Indexes["index.dense"].Corpus.Paths[0] != "/data/corpus.jsonl" {
		t.Errorf("tool %v, index %+v", tool.Values, run.Indexes["index.dense"])
	}
	if run.Guards[0].Action != experiment.ActionWarn || run.Policies["main"].DType != "bfloat16" {
		t.Errorf("guard %+v, policy %+v", run.Guards[0], run.Policies["main"])
	}
	without := resolve(t, s, "low_budget", "david_without_seeding", 3)
	if len(without.Stages) != 1 || without.Stages[0].Name != "main" {
		t.Errorf("without seeding: %+v", without.Stages)
	}
	pieces, err := main.Agent.User.Render(map[string]any{"question": map[string]any{"text": "</end_search>"}})
	if err != nil || len(pieces) != 3 || pieces[1] != (experiment.Piece{Text: "</end_search>"}) {
		t.Errorf("prompt %v, %v", pieces, err)
	}
}
