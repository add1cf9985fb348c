package main

import (
	"testing"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
	"github.com/forage-rl/forage/core/sdk/sdktest"
	"github.com/forage-rl/forage/plugins/algorithms/dapo"
	"github.com/forage-rl/forage/plugins/algorithms/drgrpo"
	"github.com/forage-rl/forage/plugins/algorithms/grpo"
	"github.com/forage-rl/forage/plugins/algorithms/gspo"
	"github.com/forage-rl/forage/plugins/algorithms/offpolicymix"
	"github.com/forage-rl/forage/plugins/algorithms/preference"
	"github.com/forage-rl/forage/plugins/algorithms/reinforcepp"
	"github.com/forage-rl/forage/plugins/algorithms/rloo"
)

func TestBaselinesConform(t *testing.T) {
	small := func(more map[string]any) map[string]any {
		values := map[string]any{"group_size": 4}
		for name, v := range more {
			values[name] = v
		}
		return values
	}
	for _, c := range []struct {
		plugin sdk.AlgorithmPlugin
		cases  []sdktest.AlgorithmCase
	}{
		{grpo.Plugin(), []sdktest.AlgorithmCase{
			{Name: "defaults"},
			{Name: "constant, no reference", Values: small(map[string]any{"aggregation": "constant", "normalize_std": false, "kl": map[string]any{"kind": "none"}})},
			{Name: "questions, k2", Values: small(map[string]any{"aggregation": "question_mean", "kl": map[string]any{"kind": "k2"}, "entropy_coefficient": .01})},
			{Name: "group of one", Values: map[string]any{"group_size": 1}},
		}},
		{rloo.Plugin(), []sdktest.AlgorithmCase{{Name: "defaults"}, {Name: "no divergence", Values: map[string]any{"kl_coefficient": 0, "updates": 2}}}},
		{reinforcepp.Plugin(), []sdktest.AlgorithmCase{
			{Name: "defaults"},
			{Name: "baseline", Values: small(map[string]any{"baseline": "group_mean", "kl_coefficient": 0})},
		}},
		{drgrpo.Plugin(), []sdktest.AlgorithmCase{{Name: "defaults"}}},
		{dapo.Plugin(), []sdktest.AlgorithmCase{
			{Name: "defaults"},
			{Name: "no further questions", Values: small(map[string]any{"dynamic_sampling": false})},
			{Name: "all too long", Values: small(map[string]any{"max_draws": 2, "overlong": map[string]any{"max_tokens": 8, "buffer": 8}})},
		}},
		{gspo.Plugin(), []sdktest.AlgorithmCase{{Name: "defaults"}}},
		{offpolicymix.Plugin(), []sdktest.AlgorithmCase{
			{Name: "defaults", Experts: experts()},
			{Name: "some experts", Experts: experts()[:2], Values: small(map[string]any{"missing_expert": "skip", "aggregation": "token_mean"})},
		}},
		{preference.Plugin(), []sdktest.AlgorithmCase{
			{Name: "tools"},
			{Name: "experts", Experts: experts(), Values: map[string]any{"pairs": "expert"}},
		}},
	} {
		t.Run(c.plugin.Name, func(t *testing.T) { sdktest.TestAlgorithm(t, c.plugin, c.cases...) })
	}
}

// same is a host whose episodes all get the same reward.
func same(reward float64) *sdktest.Host {
	return &sdktest.Host{Sample: func(h *sdktest.Host, r sdk.RolloutRequest, q episode.Question, n int) episode.Episode {
		e := sdktest.Sample(h, r, q, n)
		e.Rewards.Total = reward
		return e
	}}
}

// TestEqualRewards: where nothing can be learnt there is no update, and a metric says so. An objective with more terms
// than the advantages still has those to learn.
func TestEqualRewards(t *testing.T) {
	for _, c := range []struct {
		plugin sdk.AlgorithmPlugin
		values map[string]any
		update bool
	}{
		{grpo.Plugin(), map[string]any{"group_size": 4, "kl": map[string]any{"kind": "none"}}, false},
		{grpo.Plugin(), map[string]any{"group_size": 4}, true},
		{rloo.Plugin(), map[string]any{"kl_coefficient": 0}, false},
		{reinforcepp.Plugin(), map[string]any{"kl_coefficient": 0}, false},
		{drgrpo.Plugin(), nil, false},
		{dapo.Plugin(), nil, false},
		{gspo.Plugin(), nil, false},
	} {
		out := step(t, c.plugin, c.values, same(1), sdktest.Questions(), nil)
		if got := len(out.Updates) > 0; got != c.update {
			t.Errorf("%s %v: an update: %v, want %v", c.plugin.Name, c.values, got, c.update)
		}
		if out.Metrics["groups/equal_rewards"] != 1 || (out.Metrics["groups/no_update"] == 1) == c.update {
			t.Errorf("%s %v: metrics %v", c.plugin.Name, c.values, out.Metrics)
		}
	}
}

// TestEpisodesWithoutResponse: an episode that a full context left no room for has nothing to train; the others are
// trained all the same.
func TestEpisodesWithoutResponse(t *testing.T) {
	for _, plugin := range []sdk.AlgorithmPlugin{grpo.Plugin(), rloo.Plugin(), reinforcepp.Plugin(), drgrpo.Plugin(), dapo.Plugin(), gspo.Plugin()} {
		host := &sdktest.Host{Sample: func(h *sdktest.Host, r sdk.RolloutRequest, q episode.Question, n int) episode.Episode {
			if n%4 == 1 {
				return sdktest.NewEpisode(q.ID+"-empty", q).Episode()
			}
			return sdktest.Sample(h, r, q, n)
		}}
		out := step(t, plugin, map[string]any{"group_size": 4}, host, sdktest.Questions(), nil)
		if len(out.Updates) != 1 || out.Metrics["episodes/empty"] == 0 {
			t.Fatalf("%s: %d updates, %v", plugin.Name, len(out.Updates), out.Metrics)
		}
		for _, s := range out.Updates[0].Samples {
			if len(s.EpisodeID) > 6 && s.EpisodeID[len(s.EpisodeID)-6:] == "-empty" {
				t.Errorf("%s trains an episode without a response", plugin.Name)
			}
		}
	}
}

func step(t *testing.T, plugin sdk.AlgorithmPlugin, values map[string]any, host sdk.Host, questions []episode.Question, experts []episode.Episode) sdk.StepResponse {
	t.Helper()
	a := sdktest.Algorithm(t, plugin, values, host)
	if _, err := a.Plan(t.Context(), sdk.PlanRequest{Stage: "main", Steps: 1, Questions: len(questions), HasExperts: experts != nil}); err != nil {
		t.Fatal(err)
	}
	out, err := a.Step(t.Context(), sdk.StepRequest{Of: 1, Questions: questions, Experts: experts})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
