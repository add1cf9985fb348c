package searchr1

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
	"github.com/forage-rl/forage/core/sdk/objective"
	"github.com/forage-rl/forage/core/sdk/sdktest/logits"
	"github.com/forage-rl/forage/core/sdk/sdktest/vectors"
)

func TestVectorActorLoss(t *testing.T) {
	f := vectors.Load(t, "search-r1", "actor_loss")
	for _, c := range f.Cases {
		in := vectors.Decode[struct {
			Logits      [][][]float64
			Labels      [][]int
			Temperature float64
			Old         [][]float64 `json:"old_log_prob"`
			Ref         [][]float64 `json:"ref_log_prob"`
			Advantages  [][]float64
			Mask        [][]int
			Clip        float64 `json:"cliprange"`
			Entropy     float64 `json:"entropy_coef"`
			KL          float64 `json:"kl_coef"`
		}](t, c.Input)
		want := vectors.Decode[struct {
			PG    float64       `json:"pg_loss"`
			K3    float64       `json:"kl_k3"`
			Total float64       `json:"total"`
			Grad  [][][]float64 `json:"grad_logits"`
		}](t, c.Want())
		o, err := Objective(Config{ClipLow: in.Clip, ClipHigh: in.Clip, EntropyCoefficient: in.Entropy, KL: KL{Kind: "k3", Coefficient: in.KL}, Aggregation: "token_mean"})
		if err != nil {
			t.Fatal(err)
		}
		var batch objective.Batch
		var policies []logits.Policy
		for r := range in.Logits {
			p := logits.New(in.Logits[r], in.Labels[r], in.Temperature)
			policies = append(policies, p)
			row := objective.Row{LogP: p.LogP, Entropy: p.Entropy, OldLogP: in.Old[r], RefLogP: in.Ref[r],
				SequenceFields: map[string]float64{"advantage": in.Advantages[r][0]}}
			for tok, m := range in.Mask[r] {
				row.PolicyMask = append(row.PolicyMask, m != 0)
				if in.Advantages[r][tok] != in.Advantages[r][0] {
					t.Fatalf("%s: the vector's advantages differ within a sequence", c.ID)
				}
			}
			batch.Rows = append(batch.Rows, row)
		}
		got, err := objective.Eval(o, batch)
		if err != nil {
			t.Fatal(err)
		}
		for name, pair := range map[string][2]float64{"total": {got.Loss, want.Total}, "pg": {got.Metrics["policy_loss"], want.PG}, "kl": {got.Metrics["kl"], want.K3}} {
			if !f.Tolerance.Close(pair[0], pair[1]) {
				t.Errorf("%s: %s %v, want %v", c.ID, name, pair[0], pair[1])
			}
		}
		for r, p := range policies {
			for tok, g := range p.Gradient(got.GradLogP[r], got.GradEntropy[r]) {
				for k, v := range g {
					if !f.Tolerance.Close(v, want.Grad[r][tok][k]) {
						t.Errorf("%s: gradient[%d][%d][%d] %v, want %v", c.ID, r, tok, k, v, want.Grad[r][tok][k])
					}
				}
			}
		}
	}
}

type fakeHost struct {
	sdk.Host
	requests []sdk.RolloutRequest
}

// Rollout rewards the k-th episode of a question with k.
func (h *fakeHost) Rollout(_ context.Context, requests []sdk.RolloutRequest) ([]sdk.RolloutResponse, error) {
	h.requests = append(h.requests, requests...)
	var out []sdk.RolloutResponse
	for _, r := range requests {
		answer := sdk.RolloutResponse{RequestID: r.RequestID}
		for k := range r.N {
			answer.Episodes = append(answer.Episodes, episode.Episode{
				ID: fmt.Sprintf("%s/%d", r.QuestionID, k), QuestionID: r.QuestionID, Stop: episode.StopAnswered,
				Rewards:   episode.Rewards{Total: float64(k)},
				Sequences: []episode.Sequence{{PromptLength: 1, Length: 3, Segments: []episode.Segment{{Kind: episode.Policy, Start: 1, End: 3}}}},
			})
		}
		out = append(out, answer)
	}
	return out, nil
}

func start(t *testing.T, values map[string]any) (sdk.Algorithm, *fakeHost) {
	t.Helper()
	host := &fakeHost{}
	a, err := Plugin().New(t.Context(), values, host)
	if err != nil {
		t.Fatal(err)
	}
	return a, host
}

func TestStep(t *testing.T) {
	a, host := start(t, map[string]any{"group_size": 3, "updates": 2})
	out, err := a.Step(t.Context(), sdk.StepRequest{Questions: []episode.Question{{ID: "p"}, {ID: "q"}}})
	if err != nil {
		t.Fatal(err)
	}
	if len(host.requests) != 2 || host.requests[1].QuestionID != "q" || host.requests[1].N != 3 {
		t.Errorf("requests %+v", host.requests)
	}
	u := out.Updates[0]
	if len(u.Samples) != 6 || u.MiniBatch != (sdk.MiniBatch{Count: 3, Unit: sdk.UnitEpisode}) || u.Objective != "search-r1" || u.Order != sdk.OrderGiven {
		t.Errorf("update %+v", u)
	}
	if u.Samples[0].SequenceFields["advantage"] >= 0 || u.Samples[1].SequenceFields["advantage"] != 0 || u.Samples[2].SequenceFields["advantage"] <= 0 {
		t.Errorf("samples %+v", u.Samples)
	}
	if out.Metrics["reward/mean"] != 1 || out.Metrics["reward/best"] != 2 {
		t.Errorf("metrics %v", out.Metrics)
	}
}

func TestPlan(t *testing.T) {
	a, _ := start(t, nil)
	plan, err := a.Plan(t.Context(), sdk.PlanRequest{Stage: "main"})
	if err != nil {
		t.Fatal(err)
	}
	if plan.Reference != sdk.ReferenceStageStart || plan.TrainsObservations || plan.Objectives[0].TrainsObservations() {
		t.Errorf("plan %+v", plan)
	}
	if !slices.Contains(plan.DefaultsNotInPaper, "entropy_coefficient") || slices.Contains(plan.DefaultsNotInPaper, "group_size") {
		t.Errorf("defaults %v", plan.DefaultsNotInPaper)
	}
	for _, values := range []map[string]any{{"kl": map[string]any{"kind": "none"}}, {"kl": map[string]any{"coefficient": 0}}} {
		a, _ := start(t, values)
		plan, err := a.Plan(t.Context(), sdk.PlanRequest{})
		if err != nil || plan.Reference != "" || plan.Objectives[0].Uses(objective.OpRefLogP) {
			t.Errorf("%v: %v %+v", values, err, plan)
		}
	}
	if _, err := a.Plan(t.Context(), sdk.PlanRequest{Produce: true}); !errors.Is(err, sdk.ErrNotSupported) {
		t.Errorf("error %v", err)
	}
}

func TestCriticIsRefused(t *testing.T) {
	ds := Plugin().Validate(map[string]any{"estimator": "gae"})
	if !ds.HasErrors() || !strings.Contains(ds.Err().Error(), "not supported") || ds[0].Path.String() != "estimator" {
		t.Errorf("diagnostics %v", ds)
	}
	if ds := Plugin().Validate(map[string]any{"group_size": 1}); ds.HasErrors() || len(ds) != 1 {
		t.Errorf("diagnostics %v", ds)
	}
}

func TestAggregations(t *testing.T) {
	row := func(group string, advantage float64, n int) objective.Row {
		r := objective.Row{Group: group, SequenceFields: map[string]float64{"advantage": advantage}}
		for range n {
			r.LogP, r.OldLogP, r.Entropy = append(r.LogP, -1), append(r.OldLogP, -1), append(r.Entropy, 0)
			r.PolicyMask = append(r.PolicyMask, true)
		}
		return r
	}
	batch := objective.Batch{Rows: []objective.Row{row("a", 1, 4), row("a", 2, 1), row("b", 4, 1)}}
	for aggregation, want := range map[string]float64{"token_mean": -10. / 6, "sequence_mean": -7. / 3, "question_mean": -(1.5 + 4) / 2} {
		o, err := Objective(Config{Aggregation: aggregation, ClipLow: .2, ClipHigh: .2, KL: KL{Kind: "none"}})
		if err != nil {
			t.Fatal(err)
		}
		got, err := objective.Eval(o, batch)
		if err != nil || got.Loss < want-1e-12 || got.Loss > want+1e-12 {
			t.Errorf("%s: %v %v, want %v", aggregation, got.Loss, err, want)
		}
	}
}
