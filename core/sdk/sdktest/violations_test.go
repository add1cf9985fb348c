package sdktest

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/diag"
	"github.com/forage-rl/forage/core/sdk/episode"
	"github.com/forage-rl/forage/core/sdk/objective"
	"github.com/forage-rl/forage/core/sdk/schema"
)

// verdict collects what a check complains about.
type verdict struct {
	testing.TB
	complaints []string
}

func (*verdict) Helper() {}

func (v *verdict) Error(args ...any) { v.complaints = append(v.complaints, fmt.Sprint(args...)) }

func (v *verdict) Errorf(format string, args ...any) {
	v.complaints = append(v.complaints, fmt.Sprintf(format, args...))
}

func (v *verdict) want(t *testing.T, part string) {
	t.Helper()
	if len(v.complaints) != 1 || !strings.Contains(v.complaints[0], part) {
		t.Errorf("complaints %q, want one with %q", v.complaints, part)
	}
}

func mustObjective(t *testing.T, trains objective.Trains, loss objective.Expr) objective.Objective {
	t.Helper()
	o, err := objective.New("actor", trains, loss, nil)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestPlanViolations(t *testing.T) {
	kl, err := objective.KL("k1")
	if err != nil {
		t.Fatal(err)
	}
	nll := mustObjective(t, objective.TrainsPolicy, objective.TokenMean(objective.NLL(), ""))
	for part, plan := range map[string]sdk.PlanResponse{
		"TrainsObservations": {Objectives: []objective.Objective{mustObjective(t, objective.TrainsPolicy, objective.TokenMean(objective.NLL(), objective.MaskResponse))}},
		"names no reference": {Objectives: []objective.Objective{mustObjective(t, objective.TrainsPolicy, objective.TokenMean(kl, ""))}},
		"needs a critic": {Objectives: []objective.Objective{mustObjective(t, objective.TrainsCritic,
			objective.TokenMean(objective.ValueLoss(objective.Field("returns", objective.Token), .5), objective.MaskResponse))}},
		"is empty or taken": {Objectives: []objective.Objective{nll, nll}},
		"unknown reference": {Objectives: []objective.Objective{nll}, Reference: "yesterday"},
		"refers to node":    {Objectives: []objective.Objective{{Name: "x", Trains: objective.TrainsPolicy, Loss: 3}}},
	} {
		v := &verdict{TB: t}
		checkPlan(v, plan)
		v.want(t, part)
	}
	v := &verdict{TB: t}
	if checkPlan(v, sdk.PlanResponse{Objectives: []objective.Objective{nll}}); len(v.complaints) > 0 {
		t.Errorf("a good plan: %q", v.complaints)
	}
}

func TestStepViolations(t *testing.T) {
	q := Questions()[0]
	e := NewEpisode("e", q).Answer("x").Episode()
	again := NewEpisode("r", q).Answer("x").Origin(episode.OriginRerendered).Episode()
	known := map[string]episode.Episode{"e": e, "r": again}
	n := e.Sequences[0].ResponseLength()
	plan := sdk.PlanResponse{Objectives: []objective.Objective{mustObjective(t, objective.TrainsPolicy, objective.TokenMean(
		objective.Mul(objective.Field("advantage", objective.Token), objective.Sub(objective.LogP(), objective.SamplerLogP())), ""))}}
	good := func() sdk.StepResponse {
		return sdk.StepResponse{Updates: []sdk.Update{{Objective: "actor", Samples: []sdk.Sample{{
			EpisodeID: "e", TokenFields: map[string][]float32{"advantage": make([]float32, n)},
		}}}}}
	}
	v := &verdict{TB: t}
	if checkStep(v, "step", plan, known, good()); len(v.complaints) > 0 {
		t.Errorf("a good step: %q", v.complaints)
	}
	for part, spoil := range map[string]func(*sdk.StepResponse, *sdk.Update, *sdk.Sample){
		"unknown episode": func(_ *sdk.StepResponse, _ *sdk.Update, s *sdk.Sample) { s.EpisodeID = "nobody" },
		"which has 1":     func(_ *sdk.StepResponse, _ *sdk.Update, s *sdk.Sample) { s.Sequence = 1 },
		"numbers for a response": func(_ *sdk.StepResponse, _ *sdk.Update, s *sdk.Sample) {
			s.TokenFields["advantage"] = make([]float32, n+1)
		},
		"is NaN": func(_ *sdk.StepResponse, _ *sdk.Update, s *sdk.Sample) {
			s.TokenFields["advantage"][0] = float32(math.NaN())
		},
		"lacks the token field":   func(_ *sdk.StepResponse, _ *sdk.Update, s *sdk.Sample) { s.TokenFields = nil },
		"is of origin rerendered": func(_ *sdk.StepResponse, _ *sdk.Update, s *sdk.Sample) { s.EpisodeID = "r" },
		"no such objective":       func(_ *sdk.StepResponse, u *sdk.Update, _ *sdk.Sample) { u.Objective = "critic" },
		"unknown order":           func(_ *sdk.StepResponse, u *sdk.Update, _ *sdk.Sample) { u.Order = "random" },
		"mini-batch":              func(_ *sdk.StepResponse, u *sdk.Update, _ *sdk.Sample) { u.MiniBatch.Count = 4 },
		"-1 epochs":               func(_ *sdk.StepResponse, u *sdk.Update, _ *sdk.Sample) { u.Epochs = -1 },
		"metric loss is +Inf": func(r *sdk.StepResponse, _ *sdk.Update, _ *sdk.Sample) {
			r.Metrics = map[string]float64{"loss": math.Inf(1)}
		},
		"used reward of the unknown": func(r *sdk.StepResponse, _ *sdk.Update, _ *sdk.Sample) {
			r.UsedRewards = map[string]sdk.UsedReward{"nobody": {}}
		},
		"holds the unknown episode": func(r *sdk.StepResponse, _ *sdk.Update, _ *sdk.Sample) {
			r.Artefacts = []sdk.Artefact{{EpisodeIDs: []string{"nobody"}}}
		},
		"used reward of e is NaN": func(r *sdk.StepResponse, _ *sdk.Update, _ *sdk.Sample) {
			r.UsedRewards = map[string]sdk.UsedReward{"e": {Value: math.NaN()}}
		},
		"epochs at temperature -0.5": func(_ *sdk.StepResponse, u *sdk.Update, _ *sdk.Sample) { u.Temperature = -.5 },
		"field weight of e is": func(_ *sdk.StepResponse, _ *sdk.Update, s *sdk.Sample) {
			s.SequenceFields = map[string]float64{"weight": math.NaN()}
		},
	} {
		r := good()
		spoil(&r, &r.Updates[0], &r.Updates[0].Samples[0])
		v := &verdict{TB: t}
		checkStep(v, "step", plan, known, r)
		v.want(t, part)
	}
}

func TestOtherViolations(t *testing.T) {
	v := &verdict{TB: t}
	same(v, "twice", 1, 2)
	v.want(t, "twice")
	v = &verdict{TB: t}
	wantPath(v, diag.Diagnostics{{Severity: diag.Warning, Path: diag.Attr("k")}, {Severity: diag.Error, Path: diag.Attr("l")}}, "k")
	v.want(t, "no error with path k")
	v = &verdict{TB: t}
	checkSchema(v, schema.Schema{Attributes: []schema.Attribute{{Name: "k"}}}, "")
	v.want(t, "no description")
}
