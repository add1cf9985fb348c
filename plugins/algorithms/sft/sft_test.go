package sft

import (
	"errors"
	"strings"
	"testing"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
	"github.com/forage-rl/forage/core/sdk/objective"
)

func start(t *testing.T, values map[string]any) sdk.Algorithm {
	t.Helper()
	a, err := Plugin().New(t.Context(), values, nil)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func expert(id, question string, sequences int) episode.Episode {
	e := episode.Episode{ID: id, QuestionID: question, Origin: episode.OriginExpert}
	for range sequences {
		e.Sequences = append(e.Sequences, episode.Sequence{PromptLength: 1, Length: 2, Segments: []episode.Segment{{Kind: episode.Policy, Start: 1, End: 2}}})
	}
	return e
}

func TestStepTrainsExpertsInOrderOfQuestions(t *testing.T) {
	a := start(t, map[string]any{"mini_batch": 2})
	out, err := a.Step(t.Context(), sdk.StepRequest{
		Questions: []episode.Question{{ID: "p"}, {ID: "q"}, {ID: "p"}},
		Experts:   []episode.Episode{expert("x", "q", 2), expert("y", "p", 1), expert("z", "r", 1), expert("w", "p", 1)},
	})
	if err != nil {
		t.Fatal(err)
	}
	var ids string
	for _, s := range out.Updates[0].Samples {
		ids += s.EpisodeID
	}
	if u := out.Updates[0]; ids != "ywxx" || u.Samples[3].Sequence != 1 || u.MiniBatch.Count != 2 || u.Temperature != 1 || u.Epochs != 1 {
		t.Errorf("update %+v", u)
	}
	if out.Metrics["experts/episodes"] != 3 {
		t.Errorf("metrics %v", out.Metrics)
	}
}

func TestMissingExpert(t *testing.T) {
	req := sdk.StepRequest{Questions: []episode.Question{{ID: "p"}, {ID: "lost"}}, Experts: []episode.Episode{expert("y", "p", 1)}}
	if _, err := start(t, nil).Step(t.Context(), req); err == nil || !strings.Contains(err.Error(), `"lost"`) {
		t.Errorf("error %v", err)
	}
	out, err := start(t, map[string]any{"missing_expert": "skip"}).Step(t.Context(), req)
	if err != nil || len(out.Updates[0].Samples) != 1 || out.Metrics["experts/missing"] != 1 {
		t.Errorf("%v %+v", err, out)
	}
	req.Experts = nil
	if out, err = start(t, map[string]any{"missing_expert": "skip"}).Step(t.Context(), req); err != nil || len(out.Updates) != 0 {
		t.Errorf("%v %+v", err, out)
	}
}

func TestPlan(t *testing.T) {
	a := start(t, nil)
	plan, err := a.Plan(t.Context(), sdk.PlanRequest{Stage: "cold", HasExperts: true})
	if err != nil || plan.Reference != "" || plan.TrainsObservations || plan.Critic != nil {
		t.Errorf("%v %+v", err, plan)
	}
	if _, err := a.Plan(t.Context(), sdk.PlanRequest{Stage: "cold"}); err == nil || !strings.Contains(err.Error(), "experts = dataset") {
		t.Errorf("error %v", err)
	}
	if _, err := a.Plan(t.Context(), sdk.PlanRequest{Produce: true, HasExperts: true}); !errors.Is(err, sdk.ErrNotSupported) {
		t.Errorf("error %v", err)
	}
}

func TestLoss(t *testing.T) {
	batch := objective.Batch{Rows: []objective.Row{
		{LogP: []float64{-1, -100, -3}, Entropy: make([]float64, 3), PolicyMask: []bool{true, false, true}},
		{LogP: []float64{-5}, Entropy: make([]float64, 1), PolicyMask: []bool{true}},
	}}
	for aggregation, want := range map[string]float64{"token_mean": 3, "sequence_mean": 3.5} {
		o, err := Objective(Config{Aggregation: aggregation})
		if err != nil {
			t.Fatal(err)
		}
		got, err := objective.Eval(o, batch)
		if err != nil || got.Loss != want || got.GradLogP[0][1] != 0 {
			t.Errorf("%s: %v %+v", aggregation, err, got)
		}
	}
}
