package objective

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

func randomBatch(rng *rand.Rand, rows int) Batch {
	var b Batch
	draw := func(n int) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = -2*rng.Float64() - .05
		}
		return v
	}
	for r := range rows {
		n := 3 + rng.IntN(5)
		row := Row{
			LogP: draw(n), OldLogP: draw(n), SamplerLogP: draw(n), RefLogP: draw(n), Entropy: draw(n), Value: draw(n), OldValue: draw(n),
			TokenFields:    map[string][]float64{"advantage": draw(n), "return": draw(n)},
			SequenceFields: map[string]float64{"weight": rng.Float64() - .5},
			Group:          string(rune('a' + r/2)),
		}
		for t := range n {
			row.PolicyMask = append(row.PolicyMask, rng.IntN(3) > 0)
			row.Turns = append(row.Turns, t/2-rng.IntN(2)*(1-t%2)*(t/2+1))
		}
		b.Rows = append(b.Rows, row)
	}
	return b
}

// objectives exercise every operation and level.
func objectives(t *testing.T) map[string]Objective {
	a, w := Field("advantage", Token), Field("weight", Sequence)
	perTurn := Reduce(LogP(), Token, Turn, Mean, MaskPolicy)
	pair := GroupDifference(Reduce(Sub(LogP(), RefLogP()), Token, Sequence, Sum, MaskPolicy))
	return map[string]Objective{
		"ppo":      build(t, TrainsPolicy, TokenMean(ClippedSurrogate(a, .2, .28, 3), MaskPolicy), nil),
		"grpo":     build(t, TrainsPolicy, Add(GroupMean(ClippedSurrogate(w, .2, .2, 0), MaskPolicy), Sub(scaled(.1, GroupMean(kl(t, "k2"), MaskPolicy)), scaled(.1, GroupMean(Entropy(), MaskPolicy)))), nil),
		"dr":       build(t, TrainsPolicy, ConstantMean(Mul(w, Ratio()), 7, MaskResponse), nil),
		"gspo":     build(t, TrainsPolicy, Reduce(Mul(w, SequenceRatio()), Sequence, Scalar, Mean, ""), nil),
		"turn":     build(t, TrainsPolicy, Reduce(Mul(w, Square(perTurn)), Turn, Scalar, Mean, ""), nil),
		"turn3":    build(t, TrainsPolicy, TokenMean(Mul(LogP(), perTurn), MaskPolicy), nil),
		"last":     build(t, TrainsPolicy, Reduce(Abs(Reduce(Exp(LogP()), Token, Sequence, Last, MaskPolicy)), Sequence, Scalar, Sum, ""), nil),
		"dpo":      build(t, TrainsPolicy, Neg(Reduce(LogSigmoid(scaled(.3, pair)), Group, Scalar, Mean, "")), nil),
		"cispo":    build(t, TrainsPolicy, TokenMean(Mul(Mul(StopGradient(Min(Ratio(), Const(2))), a), LogP()), MaskPolicy), nil),
		"where":    build(t, TrainsPolicy, TokenMean(Where(Less(LogP(), OldLogP()), Div(LogP(), OldLogP()), Log(Neg(LogP()))), MaskPolicy), nil),
		"value":    build(t, TrainsCritic, TokenMean(ValueLoss(Field("return", Token), .3), MaskResponse), nil),
		"nll":      build(t, TrainsPolicy, SequenceMean(NLL(), MaskPolicy), nil),
		"baseline": build(t, TrainsPolicy, TokenMean(Mul(Sub(w, Reduce(w, Sequence, Group, Mean, "")), LogP()), MaskPolicy), nil),
	}
}

func TestGradientIsTheSlopeOfTheLoss(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for name, o := range objectives(t) {
		b := randomBatch(rng, 6)
		got := eval(t, o, b.Rows...)
		for r := range b.Rows {
			for what, part := range map[string]struct{ values, grad []float64 }{
				"logp": {b.Rows[r].LogP, got.GradLogP[r]}, "entropy": {b.Rows[r].Entropy, got.GradEntropy[r]}, "value": {b.Rows[r].Value, got.GradValue[r]},
			} {
				for i, v := range part.values {
					if name == "cispo" {
						continue // a stopped gradient is not the slope
					}
					const h = 1e-6
					part.values[i] = v + h
					up := eval(t, o, b.Rows...).Loss
					part.values[i] = v - h
					down := eval(t, o, b.Rows...).Loss
					part.values[i] = v
					if slope := (up - down) / (2 * h); math.Abs(slope-part.grad[i]) > 1e-7+1e-5*math.Abs(slope) {
						t.Errorf("%s: gradient of %s[%d][%d] is %v, slope %v", name, what, r, i, part.grad[i], slope)
					}
				}
			}
		}
	}
}

func TestStopGradient(t *testing.T) {
	o := build(t, TrainsPolicy, TokenMean(Mul(StopGradient(LogP()), LogP()), MaskPolicy), nil)
	got := eval(t, o, Row{LogP: []float64{-3}, PolicyMask: []bool{true}})
	if got.Loss != 9 || got.GradLogP[0][0] != -3 {
		t.Errorf("loss %v gradient %v", got.Loss, got.GradLogP)
	}
}

func TestOutsideTheMaskNothingIsRead(t *testing.T) {
	nan := math.NaN()
	for name, o := range objectives(t) {
		if o.TrainsObservations() {
			continue
		}
		b := randomBatch(rand.New(rand.NewPCG(3, 4)), 6)
		clean := eval(t, o, b.Rows...)
		for _, row := range b.Rows {
			for i, in := range row.PolicyMask {
				if !in {
					for _, values := range [][]float64{row.LogP, row.OldLogP, row.RefLogP, row.Entropy, row.TokenFields["advantage"]} {
						values[i] = nan
					}
				}
			}
		}
		got := eval(t, o, b.Rows...)
		if got.Loss != clean.Loss || math.IsNaN(got.Loss) {
			t.Errorf("%s: loss %v, want %v", name, got.Loss, clean.Loss)
		}
		for r, row := range b.Rows {
			for i, in := range row.PolicyMask {
				if g := got.GradLogP[r][i]; !in && g != 0 || math.IsNaN(g) {
					t.Errorf("%s: gradient %v on token %d of row %d", name, g, i, r)
				}
			}
		}
	}
}

func TestRowsWithoutTokensAreLeftOut(t *testing.T) {
	b := randomBatch(rand.New(rand.NewPCG(5, 6)), 5)
	for i := range b.Rows[4].PolicyMask {
		b.Rows[4].PolicyMask[i] = false
	}
	for _, name := range []string{"ppo", "grpo", "gspo", "turn", "nll"} {
		o := objectives(t)[name]
		with, without := eval(t, o, b.Rows...), eval(t, o, b.Rows[:4]...)
		if with.Loss != without.Loss || with.Skipped != without.Skipped+1 {
			t.Errorf("%s: loss %v with an empty row, %v without; skipped %d, %d", name, with.Loss, without.Loss, with.Skipped, without.Skipped)
		}
	}
}

func TestEmptyBatch(t *testing.T) {
	for name, o := range objectives(t) {
		if got := eval(t, o); got.Loss != 0 || got.Skipped != 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestObjectiveSurvivesJSON(t *testing.T) {
	b := randomBatch(rand.New(rand.NewPCG(7, 8)), 6)
	for name, o := range objectives(t) {
		data, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		var back Objective
		if err := json.Unmarshal(data, &back); err != nil {
			t.Fatal(err)
		}
		if a, c := eval(t, o, b.Rows...).Loss, eval(t, back, b.Rows...).Loss; a != c {
			t.Errorf("%s: %v became %v", name, a, c)
		}
	}
}

func TestEvalErrors(t *testing.T) {
	row := Row{LogP: []float64{-1}, PolicyMask: []bool{true}}
	for want, loss := range map[string]Expr{
		"0 values of old_logp for 1 tokens": TokenMean(Ratio(), MaskPolicy),
		`no sequence field "weight"`:        Reduce(Field("weight", Sequence), Sequence, Scalar, Mean, ""),
		"0 values of a for 1 tokens":        TokenMean(Field("a", Token), MaskPolicy),
		`values of the mask "mine"`:         TokenMean(LogP(), "mine"),
		"needs exactly 2":                   Reduce(GroupDifference(Reduce(LogP(), Token, Sequence, Sum, "")), Group, Scalar, Mean, ""),
		"turn numbers":                      Reduce(Reduce(LogP(), Token, Turn, Mean, ""), Turn, Scalar, Mean, ""),
	} {
		_, err := Eval(build(t, TrainsPolicy, loss, nil), Batch{Rows: []Row{row}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	for want, loss := range map[string]Expr{
		"reduce it to a scalar":     LogP(),
		"a mask selects tokens":     Reduce(Reduce(LogP(), Token, Sequence, Sum, ""), Sequence, Scalar, Mean, "policy"),
		"finer than":                Reduce(LogP(), Sequence, Scalar, Mean, ""),
		"cannot differentiate this": TokenMean(Value(), MaskPolicy),
	} {
		if _, err := New("x", TrainsPolicy, loss, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func FuzzEval(f *testing.F) {
	f.Add([]byte(`{"name":"x","trains":"policy","nodes":[{"op":"logp"},{"op":"reduce","inputs":[0],"from":1,"to":5,"reduce":"mean"}],"loss":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var o Objective
		if json.Unmarshal(data, &o) != nil || len(o.Nodes) > 64 {
			return
		}
		_, _ = Eval(o, randomBatch(rand.New(rand.NewPCG(1, 1)), 4)) // must not panic
	})
}
