package searchr1

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
		o, err := Objective(Config{MaskObservations: true, ClipLow: in.Clip, ClipHigh: in.Clip, EntropyCoefficient: in.Entropy, KL: KL{Kind: "k3", Coefficient: in.KL}, Aggregation: "token_mean"})
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
				Rewards:   episode.Rewards{Total: float64(k), TurnTotals: []float64{.5}},
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

func TestValidate(t *testing.T) {
	ds := Plugin().Validate(map[string]any{"kl": map[string]any{"kind": "reward"}})
	if !ds.HasErrors() || ds[0].Path.String() != "kl.kind" {
		t.Errorf("diagnostics %v", ds)
	}
	if ds := Plugin().Validate(map[string]any{"group_size": 1}); ds.HasErrors() || len(ds) != 1 {
		t.Errorf("diagnostics %v", ds)
	}
	if ds := Plugin().Validate(map[string]any{"group_size": 1, "estimator": "gae", "kl": map[string]any{"kind": "reward"}}); len(ds) != 0 {
		t.Errorf("diagnostics %v", ds)
	}
}

func TestPlanWithCritic(t *testing.T) {
	a, _ := start(t, map[string]any{"estimator": "gae", "gae": map[string]any{"critic_warmup": 3}})
	plan, err := a.Plan(t.Context(), sdk.PlanRequest{Stage: "main"})
	if err != nil {
		t.Fatal(err)
	}
	critic, actor := plan.Objectives[0], plan.Objectives[1]
	if plan.Critic == nil || plan.Critic.Warmup != 3 || plan.Reference != sdk.ReferenceStageStart || plan.TrainsObservations {
		t.Errorf("plan %+v", plan)
	}
	if actor.Uses(objective.OpRefLogP) || actor.TrainsObservations() || actor.Trains != objective.TrainsPolicy {
		t.Errorf("the divergence stands in the reward, yet the policy's objective is %+v", actor)
	}
	if critic.Trains != objective.TrainsCritic || !critic.TrainsObservations() {
		t.Errorf("the critic learns over documents too: %+v", critic)
	}
	for _, kind := range []string{"k3", "none"} {
		a, _ := start(t, map[string]any{"estimator": "gae", "kl": map[string]any{"kind": kind}})
		plan, err := a.Plan(t.Context(), sdk.PlanRequest{})
		if err != nil || plan.Objectives[1].Uses(objective.OpRefLogP) != (kind == "k3") || (plan.Reference != "") != (kind == "k3") {
			t.Errorf("%s: %v %+v", kind, err, plan)
		}
	}
}

// Without the mask the loss reaches documents, which the plan has to declare; so it is with either estimator.
func TestMaskObservations(t *testing.T) {
	for _, estimator := range []string{"grpo", "gae"} {
		a, _ := start(t, map[string]any{"estimator": estimator, "mask_observations": false})
		plan, err := a.Plan(t.Context(), sdk.PlanRequest{})
		if err != nil {
			t.Fatal(err)
		}
		actor := plan.Objectives[len(plan.Objectives)-1]
		if !plan.TrainsObservations || !actor.TrainsObservations() {
			t.Errorf("%s: declared %v", estimator, plan.TrainsObservations)
		}
		row := objective.Row{LogP: []float64{-1, -1, -1}, OldLogP: []float64{-1, -1, -1}, RefLogP: []float64{-1, -1, -1}, Entropy: []float64{0, 0, 0},
			PolicyMask: []bool{true, false, true}, SequenceFields: map[string]float64{"advantage": 2}, TokenFields: map[string][]float64{"advantage": {2, 2, 2}}}
		got, err := objective.Eval(actor, objective.Batch{Rows: []objective.Row{row}})
		if err != nil || got.GradLogP[0][1] == 0 {
			t.Errorf("%s: the document's token has no gradient: %v, %v", estimator, got.GradLogP, err)
		}
	}
}

// criticHost adds to fakeHost values of .5, and log-probabilities that are .1 above those of the reference.
type criticHost struct{ fakeHost }

func (h *criticHost) Values(_ context.Context, ids []string) ([]sdk.SequenceValues, error) {
	return perToken(ids, .5), nil
}

func (h *criticHost) LogProbs(_ context.Context, req sdk.LogProbsRequest) ([]sdk.SequenceValues, error) {
	if req.Reference {
		return perToken(req.EpisodeIDs, -1.1), nil
	}
	return perToken(req.EpisodeIDs, -1), nil
}

func perToken(ids []string, v float32) []sdk.SequenceValues {
	var out []sdk.SequenceValues
	for _, id := range ids {
		out = append(out, sdk.SequenceValues{EpisodeID: id, Values: []float32{v, v}})
	}
	return out
}

func TestStepWithCritic(t *testing.T) {
	host := &criticHost{}
	a, err := Plugin().New(t.Context(), map[string]any{"estimator": "gae", "group_size": 2, "mini_batch": 2, "kl": map[string]any{"coefficient": .5}}, host)
	if err != nil {
		t.Fatal(err)
	}
	out, err := a.Step(t.Context(), sdk.StepRequest{Questions: []episode.Question{{ID: "p"}, {ID: "q"}}})
	if err != nil {
		t.Fatal(err)
	}
	if len(out.Updates) != 2 || out.Updates[0].Objective != "search-r1-critic" || out.Updates[1].Objective != "search-r1" {
		t.Fatalf("the critic goes first: %+v", out.Updates)
	}
	for _, u := range out.Updates {
		if len(u.Samples) != 4 || u.MiniBatch != (sdk.MiniBatch{Count: 2, Unit: sdk.UnitEpisode}) || u.Samples[3].EpisodeID != "q/1" {
			t.Errorf("update %+v", u)
		}
	}
	// Episode k of a question has reward k; each of its two tokens loses .5 · .1. Returns are sums of what comes.
	close := func(got []float32, want ...float64) {
		t.Helper()
		for i := range want {
			if d := float64(got[i]) - want[i]; d < -1e-6 || d > 1e-6 {
				t.Errorf("got %v, want %v", got, want)
			}
		}
	}
	close(out.Updates[0].Samples[0].TokenFields["return"], -.1, -.05)
	close(out.Updates[0].Samples[1].TokenFields["return"], .9, .95)
	// Advantages are {-.6, -.55, .4, .45} twice: mean -.075, and (n-1) variance 2·(.525² + .475²)·2/7.
	deviation := .5351902
	close(out.Updates[1].Samples[0].TokenFields["advantage"], -.525/deviation, -.475/deviation)
	close(out.Updates[1].Samples[1].TokenFields["advantage"], .475/deviation, .525/deviation)
	// Rewards of turns are not among what the advantages come from.
	if used := out.UsedRewards["p/1"]; used.Value < .8999 || used.Value > .9001 || used.Turns != nil {
		t.Errorf("used reward %+v", used)
	}
	if kl := out.Metrics["reward/kl"]; kl < .0999 || kl > .1001 {
		t.Errorf("metrics %v", out.Metrics)
	}
	// Values are the same everywhere: they explain nothing of the returns.
	if v, ok := out.Metrics["critic/explained_variance"]; !ok || v < -1e-6 || v > 1e-6 {
		t.Errorf("explained variance %v", v)
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
		o, err := Objective(Config{MaskObservations: true, Aggregation: aggregation, ClipLow: .2, ClipHigh: .2, KL: KL{Kind: "none"}})
		if err != nil {
			t.Fatal(err)
		}
		got, err := objective.Eval(o, batch)
		if err != nil || got.Loss < want-1e-12 || got.Loss > want+1e-12 {
			t.Errorf("%s: %v %v, want %v", aggregation, got.Loss, err, want)
		}
	}
}
