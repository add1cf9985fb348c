package main

import (
	"testing"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
	"github.com/forage-rl/forage/core/sdk/sdktest"
	"github.com/forage-rl/forage/plugins/algorithms/davidgrpo"
	"github.com/forage-rl/forage/plugins/algorithms/frugalrag"
	"github.com/forage-rl/forage/plugins/algorithms/searchr1"
	"github.com/forage-rl/forage/plugins/algorithms/sft"
	"github.com/forage-rl/forage/plugins/algorithms/stepsearch"
	"github.com/forage-rl/forage/plugins/algorithms/treegrpo"
)

// experts gives an expert episode for each question of the harness.
func experts() []episode.Episode {
	var out []episode.Episode
	documents := sdktest.Documents()
	for i, q := range sdktest.Questions() {
		out = append(out, sdktest.NewEpisode("expert-"+q.ID, q).Search("I look", q.Gold[0].Title, documents[i]).
			Answer(q.Answers[0]).Origin(episode.OriginExpert).Episode())
	}
	return out
}

func TestConformance(t *testing.T) {
	t.Run("sft", func(t *testing.T) {
		sdktest.TestAlgorithm(t, sft.Plugin(),
			sdktest.AlgorithmCase{Name: "defaults", Experts: experts()},
			sdktest.AlgorithmCase{Name: "some experts", Experts: experts()[:2], Values: map[string]any{"missing_expert": "skip", "aggregation": "sequence_mean"}})
	})
	t.Run("search-r1", func(t *testing.T) {
		sdktest.TestAlgorithm(t, searchr1.Plugin(),
			sdktest.AlgorithmCase{Name: "defaults"},
			sdktest.AlgorithmCase{Name: "without reference", Values: map[string]any{"kl": map[string]any{"kind": "none"}, "group_size": 1, "updates": 3}},
			sdktest.AlgorithmCase{Name: "observations trained", Values: map[string]any{"mask_observations": false}},
			sdktest.AlgorithmCase{Name: "critic", Values: map[string]any{"estimator": "gae", "group_size": 1}},
			sdktest.AlgorithmCase{Name: "critic, loss with divergence", Values: map[string]any{"estimator": "gae", "updates": 3, "epochs": 2,
				"kl": map[string]any{"kind": "k3"}, "gae": map[string]any{"gamma": .99, "lambda": .95, "critic_warmup": 1}}})
	})
	t.Run("stepsearch", func(t *testing.T) {
		sdktest.TestAlgorithm(t, stepsearch.Plugin(),
			sdktest.AlgorithmCase{Name: "defaults"},
			sdktest.AlgorithmCase{Name: "policy tokens, no reference", Values: map[string]any{"kl_coefficient": 0, "gae_tokens": "policy", "gamma": .9, "lambda": .95, "updates": 2}},
			sdktest.AlgorithmCase{Name: "groups", Values: map[string]any{"estimator": "grpo", "group_size": 4}})
	})
	t.Run("david-grpo", func(t *testing.T) {
		sdktest.TestAlgorithm(t, davidgrpo.Plugin(),
			sdktest.AlgorithmCase{Name: "main"},
			sdktest.AlgorithmCase{Name: "main, never content", Values: map[string]any{"full_reward": 2, "loss": "c1"}},
			sdktest.AlgorithmCase{Name: "seed", Experts: experts(), Values: map[string]any{"phase": "seed", "expert": map[string]any{"insert": "always"}}})
	})
	t.Run("frugalrag", func(t *testing.T) {
		produce := sdk.PlanRequest{Stage: "first", Produce: true}
		sdktest.TestAlgorithm(t, frugalrag.Plugin(),
			sdktest.AlgorithmCase{Name: "stop"},
			sdktest.AlgorithmCase{Name: "stop, no reference", Values: map[string]any{"kl": map[string]any{"kind": "none"}, "updates": 2, "epochs": 2, "normalize_std": false}},
			sdktest.AlgorithmCase{Name: "explore", Stage: produce, Values: map[string]any{"phase": "explore", "agents": []any{"a", "b"}, "agents_no_finish": []any{"c"}, "candidates": 2, "no_finish_ratio": .5}},
			sdktest.AlgorithmCase{Name: "tau", Stage: produce, Values: map[string]any{"phase": "tau", "samples": 2}})
	})
	t.Run("tree-grpo", func(t *testing.T) {
		sdktest.TestAlgorithm(t, treegrpo.Plugin(),
			sdktest.AlgorithmCase{Name: "defaults"},
			sdktest.AlgorithmCase{Name: "deep, by token", Values: map[string]any{"trees": 1, "expansions": 3, "rounds": 3, "leaves": 5, "advantage": "tree_per_token", "policy_loss": "turn"}},
			sdktest.AlgorithmCase{Name: "no estimator, by sequence", Values: map[string]any{"advantage": "none", "policy_loss": "sequence", "kl": map[string]any{"kind": "none"}, "updates": 2}})
	})
}
