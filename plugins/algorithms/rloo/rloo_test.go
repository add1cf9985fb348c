package rloo

import (
	"math"
	"testing"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
	"github.com/forage-rl/forage/core/sdk/sdktest"
	"github.com/forage-rl/forage/plugins/algorithms/internal/grpo"
)

func TestPenalise(t *testing.T) {
	groups := []grpo.Group{{Episodes: []episode.Episode{{ID: "a"}, {ID: "b"}}, Rewards: []float64{1, 0}}}
	got := Penalise(groups, map[string][][]float64{"a": {{.5, .25}, {.25}}, "b": {{-1}}}, .1)
	if math.Abs(got[0].Rewards[0]-.9) > 1e-12 || math.Abs(got[0].Rewards[1]-.1) > 1e-12 || groups[0].Rewards[0] != 1 {
		t.Errorf("got %v of %v", got[0].Rewards, groups[0].Rewards)
	}
}

// TestDivergenceIsTakenOff: with a divergence the logged rewards are those behind the advantages, and those are of the
// penalised rewards.
func TestDivergenceIsTakenOff(t *testing.T) {
	host := &sdktest.Host{}
	a := sdktest.Algorithm(t, Plugin(), map[string]any{"kl_coefficient": 0.5}, host)
	plan, err := a.Plan(t.Context(), sdk.PlanRequest{Stage: "main"})
	if err != nil || plan.Reference != sdk.ReferenceStageStart {
		t.Fatalf("%v, reference %q", err, plan.Reference)
	}
	out, err := a.Step(t.Context(), sdk.StepRequest{Of: 1, Questions: sdktest.Questions()[:1]})
	if err != nil {
		t.Fatal(err)
	}
	samples := out.Updates[0].Samples
	var rewards []float64
	for _, s := range samples {
		rewards = append(rewards, out.UsedRewards[s.EpisodeID].Value)
	}
	for i, want := range grpo.LeaveOneOut(rewards) {
		if got := samples[i].SequenceFields[grpo.Field]; math.Abs(got-want) > 1e-9 || want == 0 {
			t.Errorf("advantage %d is %v, want %v", i, got, want)
		}
	}
}
