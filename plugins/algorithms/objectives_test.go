package main

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/forage-rl/forage/core/sdk/objective"
	"github.com/forage-rl/forage/plugins/algorithms/dapo"
	"github.com/forage-rl/forage/plugins/algorithms/drgrpo"
	"github.com/forage-rl/forage/plugins/algorithms/grpo"
	"github.com/forage-rl/forage/plugins/algorithms/gspo"
	"github.com/forage-rl/forage/plugins/algorithms/offpolicymix"
	"github.com/forage-rl/forage/plugins/algorithms/preference"
	"github.com/forage-rl/forage/plugins/algorithms/reinforcepp"
	"github.com/forage-rl/forage/plugins/algorithms/rloo"
	"github.com/forage-rl/forage/plugins/algorithms/sft"
)

// row is a response whose tokens all are the policy's.
func row(advantage float64, logp, old []float64) objective.Row {
	mask := make([]bool, len(logp))
	for i := range mask {
		mask[i] = true
	}
	return objective.Row{
		LogP: logp, OldLogP: old, RefLogP: old, Entropy: make([]float64, len(logp)), PolicyMask: mask, Group: "q",
		SequenceFields: map[string]float64{"advantage": advantage}, TokenFields: map[string][]float64{"advantage": slices.Repeat([]float64{advantage}, len(logp))},
	}
}

func eval(t *testing.T, o objective.Objective, err error, rows ...objective.Row) objective.Result {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	r, err := objective.Eval(o, objective.Batch{Rows: rows})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-12*max(1, math.Abs(want)) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// The cases have two responses: of two tokens with a positive advantage and of one token with a negative one. logRatio
// is the log of a ratio of 1.25.
var logRatio = math.Log(1.25)

func TestGRPOByHand(t *testing.T) {
	c := grpo.Config{ClipLow: .2, ClipHigh: .2, Aggregation: "sequence_mean", KL: grpo.KL{Kind: "none"}}
	rows := []objective.Row{row(.5, []float64{-1, -2}, []float64{-1, -2 - logRatio}), row(-.5, []float64{-3}, []float64{-3 + logRatio})}
	o, err := grpo.Objective(c)
	r := eval(t, o, err, rows...)
	// Ratios 1 and 1.25, the latter clipped to 1.2; 0.8 of a negative advantage is at the bound of the clip.
	near(t, "loss", r.Loss, (-.5*(1+1.2)/2+.5*.8)/2)
	near(t, "gradient of the clipped token", r.GradLogP[0][1], 0)
	near(t, "gradient of the free token", r.GradLogP[0][0], -.5/2/2)

	c.Aggregation, c.LengthNormalizer = "constant", 10
	o, err = grpo.Objective(c)
	near(t, "constant loss", eval(t, o, err, rows...).Loss, (-.5*(1+1.2)/10+.5*.8/10)/2)

	c.Aggregation, c.KL = "token_mean", grpo.KL{Kind: "k3", Coefficient: .04}
	o, err = grpo.Objective(c)
	r = eval(t, o, err, rows...)
	k3 := func(d float64) float64 { return math.Exp(-d) - 1 + d }
	near(t, "token mean with divergence", r.Loss, (-.5*(1+1.2)+.5*.8+.04*(k3(logRatio)+k3(-logRatio)))/3)
}

func TestDrGRPOByHand(t *testing.T) {
	o, err := drgrpo.Objective(drgrpo.Config{ClipLow: .2, ClipHigh: .2, LengthNormalizer: 10})
	r := eval(t, o, err, row(.5, []float64{-1, -2}, []float64{-1, -2}), row(-.5, []float64{-3}, []float64{-3}))
	near(t, "loss", r.Loss, (-.5*2/10+.5*1/10)/2)
	// A token's weight does not depend on the length of its response.
	near(t, "gradient", r.GradLogP[0][0], -r.GradLogP[1][0])
}

func TestDAPOByHand(t *testing.T) {
	o, err := dapo.Objective(dapo.Config{ClipLow: .2, ClipHigh: .28})
	r := eval(t, o, err, row(.5, []float64{-1, -2}, []float64{-1, -2 - logRatio}), row(-.5, []float64{-3}, []float64{-3 + math.Log(2)}))
	// 1.25 is within 1.28; a ratio of .5 of a negative advantage is clipped to .8.
	near(t, "loss", r.Loss, (-.5*(1+1.25)+.5*.8)/3)
	near(t, "gradient upwards", r.GradLogP[0][1], -.5*1.25/3)
	near(t, "gradient of the clipped token", r.GradLogP[1][0], 0)
}

func TestGSPOByHand(t *testing.T) {
	o, err := gspo.Objective(gspo.Config{ClipLow: 3e-4, ClipHigh: 4e-4})
	// Log-ratios .0002 and .0004 have the mean .0003: within the clip although one token alone is not.
	a := row(.5, []float64{-1, -2}, []float64{-1 - 2e-4, -2 - 4e-4})
	r := eval(t, o, err, a, row(-.5, []float64{-3}, []float64{-3}))
	s := math.Exp(3e-4)
	near(t, "loss", r.Loss, (-.5*s+.5)/2)
	near(t, "gradient", r.GradLogP[0][0], -.5*s/2/2)
	near(t, "ratio", r.Metrics["ratio"], (s+1)/2)

	far := row(.5, []float64{-1, -2}, []float64{-1.1, -2})
	r = eval(t, o, err, far, row(-.5, []float64{-3}, []float64{-3}))
	near(t, "clipped loss", r.Loss, (-.5*1.0004+.5)/2)
	near(t, "gradient of a clipped response", r.GradLogP[0][0], 0)
	near(t, "share of clipped responses", r.Metrics["clip_fraction"], .5)
}

func TestRLOOByHand(t *testing.T) {
	o, err := rloo.Objective()
	r := eval(t, o, err, row(2./3, []float64{-1, -2}, nil), row(-2./3, []float64{-3}, nil))
	near(t, "loss", r.Loss, (-2./3*-3+2./3*-3)/2)
	near(t, "gradient", r.GradLogP[0][1], -2./3/2)
}

func TestReinforcePPByHand(t *testing.T) {
	o, err := reinforcepp.Objective(reinforcepp.Config{ClipLow: .2, ClipHigh: .2})
	a := row(0, []float64{-1, -2}, []float64{-1, -2 - logRatio})
	a.TokenFields["advantage"] = []float64{.5, 1}
	r := eval(t, o, err, a, row(-1.5, []float64{-3}, []float64{-3}))
	near(t, "loss", r.Loss, (-.5-1*1.2+1.5)/3)
}

func TestOffPolicyMixByHand(t *testing.T) {
	c := offpolicymix.Config{Gamma: .1, Aggregation: "constant", LengthNormalizer: 10}
	o, err := offpolicymix.Objective(c)
	policy := row(-.25, []float64{-1}, []float64{-1 - math.Log(5)}) // a ratio of 5 is not clipped
	policy.SequenceFields["expert"] = 0
	expert := row(.75, []float64{math.Log(.1), math.Log(.9)}, []float64{-7, -7})
	expert.SequenceFields["expert"] = 1
	r := eval(t, o, err, policy, expert)
	// The weight of an expert's token of probability p is p/(p + gamma); its derivative by log p is gamma p/(p + gamma)^2.
	low, lowGradient := .1/.2, .1*.1/(.2*.2)
	high, highGradient := .9/1., .1*.9/(1.*1.)
	near(t, "weight at gamma", low, .5)
	near(t, "loss", r.Loss, (.25*5/10-.75*(low+high)/10)/2)
	near(t, "gradient of an unlikely token", r.GradLogP[1][0], -.75*lowGradient/10/2)
	near(t, "gradient of a likely token", r.GradLogP[1][1], -.75*highGradient/10/2)
	if lowGradient <= highGradient {
		t.Error("the shaping must turn to unlikely tokens")
	}
	near(t, "gradient of the policy's token", r.GradLogP[0][0], .25*5/10/2)

	// The entropy is a mean over tokens although the rest is not.
	without := r.Loss
	policy.Entropy, expert.Entropy, c.EntropyCoefficient = []float64{2}, []float64{1, 3}, .1
	o, err = offpolicymix.Objective(c)
	near(t, "loss with entropy", eval(t, o, err, policy, expert).Loss, without-.1*2)
}

func TestPreferenceByHand(t *testing.T) {
	o, err := preference.Objective(preference.Config{Alpha: .2})
	good, bad := row(0, []float64{-1, -2}, nil), row(0, []float64{-2}, nil)
	good.SequenceFields["chosen"], bad.SequenceFields["chosen"] = 1, 0
	r := eval(t, o, err, good, bad)
	sigmoid := 1 / (1 + math.Exp(-.5))
	near(t, "loss", r.Loss, -math.Log(sigmoid)+.2*1.5)
	near(t, "margin", r.Metrics["margin"], .5)
	near(t, "accuracy", r.Metrics["accuracy"], 1)
	near(t, "gradient of the chosen", r.GradLogP[0][0], (-(1-sigmoid)-.2)/2)
	near(t, "gradient of the rejected", r.GradLogP[1][0], 1-sigmoid)
}

func TestSFTObservations(t *testing.T) {
	r := row(0, []float64{-1, -2, -4}, nil)
	r.PolicyMask[1] = false
	o, err := sft.Objective(sft.Config{})
	near(t, "masked", eval(t, o, err, r).Loss, 2.5)
	o, err = sft.Objective(sft.Config{Observations: "trained"})
	near(t, "trained", eval(t, o, err, r).Loss, 7./3)
	if !o.TrainsObservations() {
		t.Error("the objective must say that it trains observations")
	}
}

// TestObservationsHaveNoWeight: whatever stands in what a tool returned, no objective has a gradient there or changes
// its value by it.
func TestObservationsHaveNoWeight(t *testing.T) {
	objectives := map[string]objective.Objective{}
	add := func(o objective.Objective, err error) {
		if err != nil {
			t.Fatal(err)
		}
		objectives[o.Name+"/"+string(rune('a'+len(objectives)))] = o
	}
	for _, aggregation := range []string{"token_mean", "sequence_mean", "question_mean", "constant"} {
		add(grpo.Objective(grpo.Config{ClipLow: .2, ClipHigh: .2, Aggregation: aggregation, LengthNormalizer: 9, EntropyCoefficient: .1, KL: grpo.KL{Kind: "k3", Coefficient: .1}}))
		add(offpolicymix.Objective(offpolicymix.Config{Gamma: .1, Aggregation: aggregation, LengthNormalizer: 9, EntropyCoefficient: .1}))
	}
	add(drgrpo.Objective(drgrpo.Config{ClipLow: .2, ClipHigh: .2, LengthNormalizer: 9}))
	add(dapo.Objective(dapo.Config{ClipLow: .2, ClipHigh: .28}))
	add(gspo.Objective(gspo.Config{ClipLow: 3e-4, ClipHigh: 4e-4}))
	add(rloo.Objective())
	add(reinforcepp.Objective(reinforcepp.Config{ClipLow: .2, ClipHigh: .2}))
	add(preference.Objective(preference.Config{Alpha: .2}))
	add(sft.Objective(sft.Config{}))
	rng := rand.New(rand.NewPCG(3, 4))
	numbers := func(n int) []float64 {
		out := make([]float64, n)
		for i := range out {
			out[i] = -3 * rng.Float64()
		}
		return out
	}
	var rows, other []objective.Row
	for i := range 4 {
		r := row(rng.Float64()-.5, numbers(7), numbers(7))
		r.RefLogP, r.Entropy = numbers(7), numbers(7)
		r.PolicyMask[2], r.PolicyMask[3] = false, false
		r.Group = string(rune('a' + i/2))
		r.SequenceFields["expert"], r.SequenceFields["chosen"] = float64(i%2), float64(1-i%2)
		rows = append(rows, r)
		changed := r
		changed.LogP, changed.OldLogP, changed.RefLogP, changed.Entropy = slices.Clone(r.LogP), slices.Clone(r.OldLogP), slices.Clone(r.RefLogP), slices.Clone(r.Entropy)
		for _, values := range [][]float64{changed.LogP, changed.OldLogP, changed.RefLogP, changed.Entropy} {
			values[2], values[3] = math.NaN(), 1e9
		}
		other = append(other, changed)
	}
	for _, name := range slices.Sorted(maps.Keys(objectives)) {
		a, b := eval(t, objectives[name], nil, rows...), eval(t, objectives[name], nil, other...)
		near(t, name+": loss", b.Loss, a.Loss)
		for i := range rows {
			for tok, g := range b.GradLogP[i] {
				if !rows[i].PolicyMask[tok] && g != 0 {
					t.Errorf("%s: a gradient of %v at an observation", name, g)
				}
				near(t, name+": gradient", g, a.GradLogP[i][tok])
			}
		}
	}
}
