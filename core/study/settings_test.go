package study

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forage-rl/forage/core/experiment"
	"github.com/forage-rl/forage/core/record"
)

// TestSettings: what two configurations train differently is listed by path, and nothing of a configuration against
// itself.
func TestSettings(t *testing.T) {
	e := testEnv(t)
	p, err := e.plan(t.Context(), "testdata/small", "small", nil)
	if err != nil {
		t.Fatal(err)
	}
	a := p.Runs[0].Config
	if same, err := Settings(a, a); err != nil || len(same) > 0 {
		t.Errorf("against itself: %v, %v", err, same)
	}
	b := *a
	stage := *a.Stages[0]
	stage.Questions, stage.Optimizer.LearningRate = 7, 0.5
	b.Stages, b.Seed = append([]*experiment.Stage{&stage}, a.Stages[1:]...), 99
	got, err := Settings(a, &b)
	if err != nil {
		t.Fatal(err)
	}
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	in := "stages." + stage.Name + "."
	want := []record.Change{
		{Name: "seed", Old: "99", New: number(float64(a.Seed))},
		{Name: in + "optimizer.learning_rate", Old: "0.5", New: number(a.Stages[0].Optimizer.LearningRate)},
		{Name: in + "questions", Old: "7", New: number(float64(a.Stages[0].Questions))},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestFlatten: elements of lists go by their names where they have any; values of plugins stand beside their names.
func TestFlatten(t *testing.T) {
	got := map[string]string{}
	flatten(got, nil, map[string]any{
		"algorithm": map[string]any{"name": "grpo", "values": map[string]any{"group_size": 5., "on": true}},
		"sources":   []any{map[string]any{"name": "answer", "weight": 0.5}}, "stops": []any{"a", nil},
	})
	want := map[string]string{
		"algorithm.name": `"grpo"`, "algorithm.group_size": "5", "algorithm.on": "true",
		"sources.answer.name": `"answer"`, "sources.answer.weight": "0.5", "stops.0": `"a"`, "stops.1": "null",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
