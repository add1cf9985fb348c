package davidgrpo

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
	"github.com/forage-rl/forage/core/sdk/objective"
)

// script says what each episode of a request earns and which documents its turns return.
type script struct {
	reward float64
	found  []string // one document per turn
}

// fakeHost answers rollouts by script: keyed by question for new episodes, by parent episode for continued ones.
type fakeHost struct {
	sdk.Host
	scripts  map[string][]script
	requests []sdk.RolloutRequest
}

func (h *fakeHost) Rollout(_ context.Context, requests []sdk.RolloutRequest) ([]sdk.RolloutResponse, error) {
	h.requests = append(h.requests, requests...)
	var out []sdk.RolloutResponse
	for _, r := range requests {
		key, answer := r.QuestionID, sdk.RolloutResponse{RequestID: r.RequestID}
		if r.From != nil {
			key = r.From.EpisodeID
		}
		for k := range r.N {
			s := script{}
			if k < len(h.scripts[key]) {
				s = h.scripts[key][k]
			}
			answer.Episodes = append(answer.Episodes, made(fmt.Sprintf("%s/%d", key, k), r.QuestionID, s))
		}
		out = append(out, answer)
	}
	return out, nil
}

func made(id, question string, s script) episode.Episode {
	e := episode.Episode{ID: id, QuestionID: question, Stop: episode.StopAnswered, Rewards: episode.Rewards{Total: s.reward},
		Sequences: []episode.Sequence{{PromptLength: 1, Length: 6, Segments: []episode.Segment{
			{Kind: episode.Policy, Start: 1, End: 3}, {Kind: episode.Observation, Start: 3, End: 5}, {Kind: episode.Policy, Start: 5, End: 6},
		}}}}
	for _, d := range s.found {
		e.Turns = append(e.Turns, episode.Turn{Action: episode.ActionCall, Executed: true, Hits: []episode.Hit{{DocumentID: d}}})
	}
	return e
}

func question(id string, gold ...string) episode.Question {
	q := episode.Question{ID: id}
	for _, g := range gold {
		q.Gold = append(q.Gold, episode.Gold{Title: g, DocumentID: g})
	}
	return q
}

func step(t *testing.T, host *fakeHost, values map[string]any, req sdk.StepRequest) sdk.StepResponse {
	t.Helper()
	a, err := Plugin().New(t.Context(), values, host)
	if err != nil {
		t.Fatal(err)
	}
	out, err := a.Step(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func trained(out sdk.StepResponse) map[string]float64 {
	ids := map[string]float64{}
	for _, s := range out.Updates[0].Samples {
		ids[s.EpisodeID] = s.SequenceFields["advantage"]
	}
	return ids
}

func TestMainStep(t *testing.T) {
	host := &fakeHost{scripts: map[string][]script{
		"p":   {{reward: .25, found: []string{"x"}}, {reward: .5, found: []string{"a", "x", "b", "a"}}, {reward: 0}}, // continued after turn 2, replaced
		"q":   {{reward: 1}, {reward: 0}, {reward: 0}},                                                               // reaches 1
		"r":   {{reward: 0}, {reward: 0}, {reward: 0}},                                                               // all miss: whole new episodes
		"s":   {{reward: .5}, {reward: .25}, {reward: 0}},                                                            // has no golds
		"p/1": {{reward: .75}, {reward: 1}, {reward: 0}},
		"r/0": {{reward: 0}, {reward: 0}, {reward: 0}}, // no better
	}}
	out := step(t, host, map[string]any{"group_size": 3}, sdk.StepRequest{Questions: []episode.Question{
		question("p", "a", "b"), question("q", "a"), question("r", "a"), question("s"),
	}})
	for i, r := range host.requests {
		if r.Keep != (i < 4) {
			t.Errorf("request %s: keep is %v", r.RequestID, r.Keep)
		}
	}
	if len(host.requests) != 6 {
		t.Fatalf("requests %+v", host.requests)
	}
	if r := host.requests[4]; *r.From != (episode.Branch{EpisodeID: "p/1", AfterTurn: 2}) || r.N != 3 || r.QuestionID != "p" {
		t.Errorf("continuation %+v of %+v", r, r.From)
	}
	if r := host.requests[5]; *r.From != (episode.Branch{EpisodeID: "r/0", AfterTurn: -1}) {
		t.Errorf("restart %+v", r.From)
	}
	got := trained(out)
	if _, kept := got["p/2"]; kept {
		t.Error("the worst episode of p must give way")
	}
	// p is now {.25, .5, 1}: mean 7/12, sample deviation .3819.
	if a := got["p/1/1"]; math.Abs(a-(1-7./12)/(math.Sqrt(.1458333333)+1e-6)) > 1e-6 {
		t.Errorf("advantage of the continued episode %v", a)
	}
	for _, id := range []string{"r/0", "r/1", "r/2"} {
		if a, trained := got[id]; !trained || a != 0 {
			t.Errorf("%s: %v %v", id, a, trained)
		}
	}
	for name, want := range map[string]float64{
		"groups/continued": .5, "groups/restarted": .25, "groups/replaced": .25, "groups/all_miss": .5, "episodes/continued": 6, "reward/mean": 2.5 / 12,
		"reward/used_mean": 3.5 / 12,
	} {
		if m := out.Metrics[name]; math.Abs(m-want) > 1e-12 {
			t.Errorf("%s = %v, want %v", name, m, want)
		}
	}
	if len(out.UsedRewards) != 0 {
		t.Errorf("used rewards %v", out.UsedRewards)
	}
	if u := out.Updates[0]; u.MiniBatch != (sdk.MiniBatch{Count: 12, Unit: sdk.UnitQuestion}) || len(u.Samples) != 12 {
		t.Errorf("update %+v", u.MiniBatch)
	}
}

func TestEqualGroupReplacesItsBest(t *testing.T) {
	host := &fakeHost{scripts: map[string][]script{"p": {{reward: .5}, {reward: .5}}, "p/0": {{reward: .5}, {reward: .75}}}}
	got := trained(step(t, host, map[string]any{"group_size": 2}, sdk.StepRequest{Questions: []episode.Question{question("p", "a")}}))
	if _, kept := got["p/0"]; kept || len(got) != 2 || got["p/0/1"] <= 0 {
		t.Errorf("trained %v", got)
	}
}

func TestContinuationSettings(t *testing.T) {
	scripts := map[string][]script{"p": {{reward: 0}, {reward: 0}}, "q": {{reward: .5, found: []string{"a"}}, {reward: 0}}}
	questions := []episode.Question{question("p", "a"), question("q", "a")}
	for name, c := range map[string]struct {
		values   map[string]any
		requests int
		n        int
	}{
		"default":    {nil, 4, 5},
		"no restart": {map[string]any{"continuation": map[string]any{"restart": false}}, 3, 5},
		"candidates": {map[string]any{"continuation": map[string]any{"candidates": 2}}, 4, 2},
		"off":        {map[string]any{"continuation": map[string]any{"enabled": false}}, 2, 5},
		"lower goal": {map[string]any{"full_reward": .5}, 3, 5},
	} {
		host := &fakeHost{scripts: scripts}
		step(t, host, c.values, sdk.StepRequest{Questions: questions})
		if len(host.requests) != c.requests || host.requests[len(host.requests)-1].N != c.n {
			t.Errorf("%s: %d requests, the last for %d", name, len(host.requests), host.requests[len(host.requests)-1].N)
		}
	}
}

func TestSeedStep(t *testing.T) {
	host := &fakeHost{scripts: map[string][]script{
		"p": {{reward: .5}, {reward: 0}, {reward: 0}}, "q": {{reward: 1}, {reward: 0}, {reward: 0}}, "r": {{reward: 0}, {reward: 0}, {reward: 0}},
	}}
	experts := []episode.Episode{made("ep", "p", script{}), made("eq", "q", script{}), made("ep2", "p", script{})}
	req := sdk.StepRequest{Step: 1, Questions: []episode.Question{question("p", "a"), question("q", "a"), question("r", "a")}, Experts: experts}
	out := step(t, host, map[string]any{"phase": "seed", "group_size": 3}, req)
	if len(host.requests) != 3 {
		t.Errorf("the seed phase continues nothing, got %d requests", len(host.requests))
	}
	ids := map[string][]float32{}
	for _, s := range out.Updates[0].Samples {
		ids[s.EpisodeID] = s.TokenFields["advantage"]
	}
	// p/1, the first of the worst, gives way to p's second expert (they take turns); q needs none; r has none.
	if a := ids["ep2"]; len(a) != 5 || a[0] <= 0 || a[2] != 0 || a[3] != 0 || a[4] != a[0] {
		t.Errorf("expert's advantage %v", a)
	}
	if ids["p/1"] != nil || ids["p/2"] == nil || ids["eq"] != nil || len(ids) != 9 {
		t.Errorf("trained %v", ids)
	}
	if len(out.UsedRewards) != 1 || out.UsedRewards["ep2"].Value != 1 || math.Abs(out.Metrics["groups/inserted"]-1./3) > 1e-12 {
		t.Errorf("used %v, metrics %v", out.UsedRewards, out.Metrics)
	}
	out = step(t, host, map[string]any{"phase": "seed", "group_size": 3, "expert": map[string]any{"insert": "always", "reward": .75}}, req)
	if out.UsedRewards["eq"].Value != .75 || len(out.UsedRewards) != 2 {
		t.Errorf("used %v", out.UsedRewards)
	}
}

func TestScoreFloor(t *testing.T) {
	host := &fakeHost{scripts: map[string][]script{"p": {{reward: .25}, {reward: .1}}, "q": {{reward: .5}, {reward: 0}}}}
	out := step(t, host, map[string]any{"group_size": 2, "score_floor": .25, "continuation": map[string]any{"enabled": false}},
		sdk.StepRequest{Questions: []episode.Question{question("p"), question("q")}})
	if got := trained(out); got["p/0"] != 0 || got["p/1"] != 0 || got["q/0"] <= 0 {
		t.Errorf("trained %v", got)
	}
	if len(out.UsedRewards) != 2 || out.Metrics["groups/floored"] != .5 {
		t.Errorf("used %v", out.UsedRewards)
	}
}

func plan(t *testing.T, values map[string]any, req sdk.PlanRequest) (sdk.PlanResponse, error) {
	t.Helper()
	a, err := Plugin().New(t.Context(), values, nil)
	if err != nil {
		t.Fatal(err)
	}
	return a.Plan(t.Context(), req)
}

func TestPlan(t *testing.T) {
	main, err := plan(t, nil, sdk.PlanRequest{Stage: "main"})
	if err != nil || main.TrainsObservations || main.Reference != sdk.ReferenceStageStart {
		t.Errorf("%v %+v", err, main)
	}
	if !slices.Contains(main.DefaultsNotInPaper, "kl.kind") || !slices.Contains(main.DefaultsNotInPaper, "expert.insert") {
		t.Errorf("defaults %v", main.DefaultsNotInPaper)
	}
	seed, err := plan(t, map[string]any{"phase": "seed"}, sdk.PlanRequest{Stage: "seed", HasExperts: true})
	if err != nil || !seed.TrainsObservations || seed.Reference != "" || seed.Objectives[0].Uses(objective.OpRefLogP) {
		t.Errorf("%v %+v", err, seed)
	}
	clean, err := plan(t, map[string]any{"phase": "seed", "loss": "c2"}, sdk.PlanRequest{Stage: "seed", HasExperts: true})
	if err != nil || clean.TrainsObservations {
		t.Errorf("%v %+v", err, clean)
	}
	if _, err := plan(t, map[string]any{"phase": "seed"}, sdk.PlanRequest{Stage: "seed"}); err == nil || !strings.Contains(err.Error(), "experts = dataset") {
		t.Errorf("error %v", err)
	}
	if _, err := plan(t, nil, sdk.PlanRequest{Produce: true}); !errors.Is(err, sdk.ErrNotSupported) {
		t.Errorf("error %v", err)
	}
	ds := Plugin().Validate(map[string]any{"loss": "c1"})
	if ds.HasErrors() || len(ds) != 1 || ds[0].Path.String() != "kl.kind" {
		t.Errorf("c1 brings k1, which deserves a warning: %v", ds)
	}
}

// The policy term never puts weight on observation tokens: neither in C2 nor, by its advantages, in C1.
func TestNoPolicyGradientOnObservations(t *testing.T) {
	for _, loss := range []string{"c1", "c2"} {
		host := &fakeHost{scripts: map[string][]script{"p": {{reward: 1}, {reward: 0}}}}
		out := step(t, host, map[string]any{"loss": loss, "group_size": 2}, sdk.StepRequest{Questions: []episode.Question{question("p", "a")}})
		o, err := Objective(Config{Phase: "main", Loss: loss, ClipLow: .2, ClipHigh: .2, KL: KL{Kind: "none"}})
		if err != nil {
			t.Fatal(err)
		}
		var batch objective.Batch
		for _, s := range out.Updates[0].Samples {
			row := objective.Row{Group: s.Group, SequenceFields: s.SequenceFields, TokenFields: map[string][]float64{},
				LogP: []float64{-1, -2, -3, -1, -2}, OldLogP: []float64{-1.1, -1.9, -3, -1, -2}, Entropy: make([]float64, 5),
				PolicyMask: []bool{true, true, false, false, true}}
			for name, values := range s.TokenFields {
				for _, v := range values {
					row.TokenFields[name] = append(row.TokenFields[name], float64(v))
				}
			}
			batch.Rows = append(batch.Rows, row)
		}
		got, err := objective.Eval(o, batch)
		if err != nil {
			t.Fatal(err)
		}
		for r, g := range got.GradLogP {
			if g[2] != 0 || g[3] != 0 || g[0] == 0 {
				t.Errorf("%s: gradient of row %d: %v", loss, r, g)
			}
		}
	}
}
