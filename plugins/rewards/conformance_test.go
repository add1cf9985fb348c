package main

import (
	"maps"
	"testing"

	"github.com/forage-rl/forage/core/sdk/sdktest"
)

func TestConformance(t *testing.T) {
	perTurn := maps.Clone(worldTags)
	perTurn["scope"] = "response"
	more := map[string][]sdktest.RewardCase{
		// right, two hops, wrong, no answer, invalid, straight, empty
		"em":                {{Values: nil, Want: []float64{1, 1, 0, 0, 0, 1, 0}}, {Values: map[string]any{"wrong_answer": .1}, Want: []float64{1, 1, .1, 0, .1, 1, 0}}},
		"f1":                {{Want: []float64{1, 1, 0, 0, 0, 1, 0}}},
		"evidence-coverage": {{Want: []float64{1, 1, 0, 1. / 3, 0, 0, 0}, Tolerance: 1e-12}, {Values: map[string]any{"match": "text"}}, {Values: map[string]any{"measure": "f1"}}},
		"david-outcome":     {{Values: map[string]any{"answer_from": "episode"}, Want: []float64{1, 1, 0, 0, .5, 1, 0}}, {}},
		"autocoa-outcome":   {{}, {Values: map[string]any{"answer_from": "episode"}, Want: []float64{1, 1, 0, 0, 0, 1, 0}}},
		"david-gates":       {{}, {Values: perTurn}},
		"stepsearch-answer": {{Want: []float64{1, 1, 0, 0, 0, 1, 0}}, {Values: map[string]any{"answer_from": "text"}}, {Values: map[string]any{"answer_from": "evaluator"}}},
		"stepsearch-keys":   {{}, {Values: map[string]any{"queries_from": "text", "repeated": "max"}}},
		"stepsearch-steps":  {{}, {Values: map[string]any{"redundancy": "document", "step_scale": .6}}, {Values: map[string]any{"information_gain": false}}},
		"searchr1-format":   {{}, {Values: map[string]any{"answer_from": "text", "retrieval_score": .1}}, {Values: map[string]any{"answer_score": "f1"}}},
	}
	for _, p := range pack().Rewards {
		t.Run(p.Name, func(t *testing.T) { sdktest.TestReward(t, p, more[p.Name]...) })
	}
}
