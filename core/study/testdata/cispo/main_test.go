package main

import (
	"math"
	"testing"

	"github.com/forage-rl/forage/core/sdk/objective"
	"github.com/forage-rl/forage/core/sdk/sdktest"
)

func TestConformance(t *testing.T) {
	sdktest.TestAlgorithm(t, plugin(), sdktest.AlgorithmCase{Name: "defaults"}, sdktest.AlgorithmCase{Name: "small", Values: map[string]any{"group_size": 4, "updates": 2}})
}

// TestLoss: ratios 1 and 8 weigh 1 and, clipped, 5; both tokens keep a gradient.
func TestLoss(t *testing.T) {
	o, err := cispo{Config: Config{ClipHigh: 4}}.loss()
	if err != nil {
		t.Fatal(err)
	}
	r, err := objective.Eval(o, objective.Batch{Rows: []objective.Row{{
		LogP: []float64{-1, -2}, OldLogP: []float64{-1, -2 - math.Log(8)}, Entropy: []float64{0, 0},
		PolicyMask: []bool{true, true}, SequenceFields: map[string]float64{"advantage": .5},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	if want := .5 * (1*1 + 5*2) / 2; math.Abs(r.Loss-want) > 1e-12 {
		t.Errorf("loss %v, want %v", r.Loss, want)
	}
	for i, want := range []float64{-.5 * 1 / 2, -.5 * 5 / 2} {
		if got := r.GradLogP[0][i]; math.Abs(got-want) > 1e-12 {
			t.Errorf("gradient of token %d is %v, want %v", i, got, want)
		}
	}
}
