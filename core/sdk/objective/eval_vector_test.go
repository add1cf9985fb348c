package objective

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/forage-rl/forage/core/internal/vectors"
	"github.com/forage-rl/forage/core/sdk/sdktest/logits"
)

func bools(mask []int) []bool {
	b := make([]bool, len(mask))
	for i, v := range mask {
		b[i] = v != 0
	}
	return b
}

func floats(mask []int) []float64 {
	b := make([]float64, len(mask))
	for i, v := range mask {
		b[i] = float64(v)
	}
	return b
}

func build(t *testing.T, trains Trains, loss Expr, metrics map[string]Expr) Objective {
	t.Helper()
	o, err := New("test", trains, loss, metrics)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func eval(t *testing.T, o Objective, rows ...Row) Result {
	t.Helper()
	r, err := Eval(o, Batch{Rows: rows})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func near(t *testing.T, tol vectors.Tolerance, id, what string, got, want float64) {
	t.Helper()
	if !tol.Close(got, want) {
		t.Errorf("%s: %s = %v, want %v", id, what, got, want)
	}
}

func nearAll(t *testing.T, tol vectors.Tolerance, id, what string, got, want []float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d values of %s, want %d", id, len(got), what, len(want))
	}
	for i := range got {
		near(t, tol, id, fmt.Sprintf("%s[%d]", what, i), got[i], want[i])
	}
}

func kl(t *testing.T, kind string) Expr {
	t.Helper()
	e, err := KL(kind)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func scaled(c float64, x Expr) Expr { return Mul(Const(c), x) }

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
			EntropyCoef float64 `json:"entropy_coef"`
			KLCoef      float64 `json:"kl_coef"`
		}](t, c.Input)
		want := vectors.Decode[struct {
			LogProb    [][]float64   `json:"log_prob"`
			PG         float64       `json:"pg_loss"`
			ClipFrac   float64       `json:"clipfrac"`
			PPOKL      float64       `json:"ppo_kl"`
			Entropy    float64       `json:"entropy"`
			K3         float64       `json:"kl_k3"`
			Total      float64       `json:"total"`
			GradLogits [][][]float64 `json:"grad_logits"`
		}](t, c.Want())
		a := Field("advantage", Token)
		pg := TokenMean(ClippedSurrogate(a, in.Clip, in.Clip, 0), MaskPolicy)
		entropy, k3 := TokenMean(Entropy(), MaskPolicy), TokenMean(kl(t, "k3"), MaskPolicy)
		o := build(t, TrainsPolicy, Add(Sub(pg, scaled(in.EntropyCoef, entropy)), scaled(in.KLCoef, k3)), map[string]Expr{
			"pg": pg, "entropy": entropy, "k3": k3, "clip": TokenMean(ClipFraction(a, in.Clip, in.Clip), MaskPolicy),
			"ppo_kl": TokenMean(Sub(OldLogP(), LogP()), MaskPolicy),
		})
		var rows []Row
		var policies []logits.Policy
		for r := range in.Logits {
			p := logits.New(in.Logits[r], in.Labels[r], in.Temperature)
			nearAll(t, f.Tolerance, c.ID, "log_prob", p.LogP, want.LogProb[r])
			policies = append(policies, p)
			rows = append(rows, Row{
				LogP: p.LogP, Entropy: p.Entropy, OldLogP: in.Old[r], RefLogP: in.Ref[r], PolicyMask: bools(in.Mask[r]),
				TokenFields: map[string][]float64{"advantage": in.Advantages[r]},
			})
		}
		got := eval(t, o, rows...)
		near(t, f.Tolerance, c.ID, "total", got.Loss, want.Total)
		for name, w := range map[string]float64{"pg": want.PG, "entropy": want.Entropy, "k3": want.K3, "clip": want.ClipFrac, "ppo_kl": want.PPOKL} {
			near(t, f.Tolerance, c.ID, name, got.Metrics[name], w)
		}
		for r := range rows {
			for i, grad := range policies[r].Gradient(got.GradLogP[r], got.GradEntropy[r]) {
				nearAll(t, f.Tolerance, c.ID, fmt.Sprintf("grad_logits[%d][%d]", r, i), grad, want.GradLogits[r][i])
			}
		}
	}
}

func TestVectorDavidLoss(t *testing.T) {
	f := vectors.Load(t, "david-grpo", "loss")
	for _, c := range f.Cases {
		in := vectors.Decode[struct {
			Group       []string
			ActionMask  [][]int     `json:"action_mask"`
			Response    [][]int     `json:"response_mask"`
			Old         [][]float64 `json:"old_log_prob"`
			Ref         [][]float64 `json:"ref_log_prob"`
			Logits      [][][]float64
			Labels      [][]int
			Advantages  [][]float64
			Temperature float64
			Clip        float64 `json:"cliprange"`
			EntropyCoef float64 `json:"entropy_coef"`
			KLCoef      float64 `json:"kl_coef"`
		}](t, c.Input)
		want := vectors.Decode[struct {
			EntropyPerToken [][]float64   `json:"entropy_per_token"`
			PG              float64       `json:"pg_loss"`
			Entropy         float64       `json:"entropy"`
			K2              float64       `json:"kl_k2"`
			Total           float64       `json:"total"`
			Weights         [][]float64   `json:"weights"`
			GradLogits      [][][]float64 `json:"grad_logits"`
			C1              struct {
				PG      float64 `json:"pg_loss"`
				Entropy float64
				K1      float64 `json:"kl_k1"`
				Total   float64
			} `json:"c1_single_micro_batch"`
		}](t, c.Want())
		a := Field("advantage", Token)
		surrogate := ClippedSurrogate(a, in.Clip, in.Clip, 0)
		pg, entropy, k2 := GroupMean(surrogate, MaskPolicy), GroupMean(Entropy(), MaskPolicy), GroupMean(kl(t, "k2"), MaskPolicy)
		c2 := build(t, TrainsPolicy, Add(Sub(pg, scaled(in.EntropyCoef, entropy)), scaled(in.KLCoef, k2)),
			map[string]Expr{"pg": pg, "entropy": entropy, "k2": k2})
		const response = "valid" // the vectors pad rows to one length, so their response mask is a field here
		pg1, entropy1, k1 := TokenMean(ClippedSurrogate(Mul(a, Field("action", Token)), in.Clip, in.Clip, 0), response), TokenMean(Entropy(), response), TokenMean(kl(t, "k1"), response)
		c1 := build(t, TrainsPolicy, Add(Sub(pg1, scaled(in.EntropyCoef, entropy1)), scaled(in.KLCoef, k1)),
			map[string]Expr{"pg": pg1, "entropy": entropy1, "k1": k1})
		weigh := build(t, TrainsPolicy, GroupMean(LogP(), MaskPolicy), nil)
		var rows []Row
		var policies []logits.Policy
		empty := 0
		for r := range in.Logits {
			p := logits.New(in.Logits[r], in.Labels[r], in.Temperature)
			nearAll(t, f.Tolerance, c.ID, "entropy_per_token", p.Entropy, want.EntropyPerToken[r])
			policies = append(policies, p)
			rows = append(rows, Row{
				LogP: p.LogP, Entropy: p.Entropy, OldLogP: in.Old[r], RefLogP: in.Ref[r], PolicyMask: bools(in.ActionMask[r]), Group: in.Group[r],
				TokenFields: map[string][]float64{"advantage": in.Advantages[r], "action": floats(in.ActionMask[r]), response: floats(in.Response[r])},
			})
			if !slices.Contains(in.ActionMask[r], 1) {
				empty++
			}
		}
		got := eval(t, c2, rows...)
		near(t, f.Tolerance, c.ID, "total", got.Loss, want.Total)
		near(t, f.Tolerance, c.ID, "pg", got.Metrics["pg"], want.PG)
		near(t, f.Tolerance, c.ID, "entropy", got.Metrics["entropy"], want.Entropy)
		near(t, f.Tolerance, c.ID, "k2", got.Metrics["k2"], want.K2)
		if got.Skipped != empty {
			t.Errorf("%s: %d rows skipped, want %d", c.ID, got.Skipped, empty)
		}
		weights := eval(t, weigh, rows...)
		for r := range rows {
			nearAll(t, f.Tolerance, c.ID, "weights", weights.GradLogP[r], want.Weights[r])
			for i, grad := range policies[r].Gradient(got.GradLogP[r], got.GradEntropy[r]) {
				nearAll(t, f.Tolerance, c.ID, fmt.Sprintf("grad_logits[%d][%d]", r, i), grad, want.GradLogits[r][i])
			}
		}
		old := eval(t, c1, rows...)
		near(t, f.Tolerance, c.ID, "c1 total", old.Loss, want.C1.Total)
		near(t, f.Tolerance, c.ID, "c1 pg", old.Metrics["pg"], want.C1.PG)
		near(t, f.Tolerance, c.ID, "c1 entropy", old.Metrics["entropy"], want.C1.Entropy)
		near(t, f.Tolerance, c.ID, "c1 k1", old.Metrics["k1"], want.C1.K1)
	}
}

func TestVectorPPOLoss(t *testing.T) {
	f := vectors.Load(t, "search-r1", "ppo_loss")
	for _, c := range f.Cases {
		in := vectors.Decode[struct {
			Old        [][]float64 `json:"old_log_prob"`
			LogP       [][]float64 `json:"log_prob"`
			Advantages [][]float64
			Mask       [][]int
			Clip       float64 `json:"cliprange"`
		}](t, c.Input)
		want := vectors.Decode[struct {
			PG   vectors.Float `json:"pg_loss"`
			Clip vectors.Float `json:"pg_clipfrac"`
			KL   vectors.Float `json:"ppo_kl"`
		}](t, c.Want())
		a := Field("advantage", Token)
		o := build(t, TrainsPolicy, TokenMean(ClippedSurrogate(a, in.Clip, in.Clip, 0), MaskPolicy), map[string]Expr{
			"clip": TokenMean(ClipFraction(a, in.Clip, in.Clip), MaskPolicy), "kl": TokenMean(Sub(OldLogP(), LogP()), MaskPolicy),
		})
		var rows []Row
		for r := range in.LogP {
			rows = append(rows, Row{LogP: in.LogP[r], OldLogP: in.Old[r], PolicyMask: bools(in.Mask[r]),
				TokenFields: map[string][]float64{"advantage": in.Advantages[r]}})
		}
		got := eval(t, o, rows...)
		if math.IsNaN(float64(want.PG)) { // an empty mask: ours skips
			if got.Loss != 0 || got.Skipped != len(rows) {
				t.Errorf("%s: empty mask gives loss %v and %d skipped rows", c.ID, got.Loss, got.Skipped)
			}
			continue
		}
		near(t, f.Tolerance, c.ID, "pg_loss", got.Loss, float64(want.PG))
		near(t, f.Tolerance, c.ID, "clip fraction", got.Metrics["clip"], float64(want.Clip))
		near(t, f.Tolerance, c.ID, "ppo_kl", got.Metrics["kl"], float64(want.KL))
	}
}

func TestVectorKLPenalty(t *testing.T) {
	f := vectors.Load(t, "search-r1", "kl_penalty")
	// The reference computes in float32: beside its tolerance, differences of log-probabilities carry rounding.
	f.Tolerance.Abs = max(f.Tolerance.Abs, 2e-6)
	for _, c := range f.Cases {
		in := vectors.Decode[struct{ LogProb, RefLogProb []float64 }](t, c.Input)
		raw := vectors.Decode[map[string][]float64](t, c.Input)
		in.RefLogProb = raw["ref_logprob"]
		want := vectors.Decode[map[string][]float64](t, c.Want())
		d := Sub(LogP(), RefLogP())
		for name, e := range map[string]Expr{"kl": kl(t, "k1"), "abs": Abs(d), "mse": kl(t, "k2"), "low_var_kl": kl(t, "k3")} {
			for i := range in.LogProb {
				got := eval(t, build(t, TrainsPolicy, TokenMean(e, MaskPolicy), nil),
					Row{LogP: in.LogProb[i : i+1], RefLogP: in.RefLogProb[i : i+1], PolicyMask: []bool{true}})
				near(t, f.Tolerance, c.ID, name, got.Loss, want[name][i])
			}
		}
	}
	if _, err := KL("k4"); err == nil {
		t.Error("k4 must be refused")
	}
}

func TestVectorValueLoss(t *testing.T) {
	f := vectors.Load(t, "search-r1", "value_loss")
	for _, c := range f.Cases {
		in := vectors.Decode[struct {
			VPreds, Returns, Values [][]float64
			Mask                    [][]int
			Clip                    float64 `json:"cliprange_value"`
		}](t, c.Input)
		want := vectors.Decode[struct {
			Loss    vectors.Float `json:"vf_loss"`
			Clipped vectors.Float `json:"vf_clipfrac"`
		}](t, c.Want())
		o := build(t, TrainsCritic, TokenMean(ValueLoss(Field("return", Token), in.Clip), MaskPolicy),
			map[string]Expr{"clipped": TokenMean(ValueClipFraction(Field("return", Token), in.Clip), MaskPolicy)})
		var rows []Row
		for r := range in.VPreds {
			rows = append(rows, Row{Value: in.VPreds[r], OldValue: in.Values[r], PolicyMask: bools(in.Mask[r]),
				TokenFields: map[string][]float64{"return": in.Returns[r]}})
		}
		got := eval(t, o, rows...)
		if math.IsNaN(float64(want.Loss)) {
			if got.Loss != 0 || got.Skipped != len(rows) {
				t.Errorf("%s: empty mask gives loss %v and %d skipped rows", c.ID, got.Loss, got.Skipped)
			}
			continue
		}
		near(t, f.Tolerance, c.ID, "vf_loss", got.Loss, float64(want.Loss))
		near(t, f.Tolerance, c.ID, "vf_clipfrac", got.Metrics["clipped"], float64(want.Clipped))
	}
}

func TestVectorEntropy(t *testing.T) {
	f := vectors.Load(t, "search-r1", "entropy")
	for _, c := range f.Cases {
		in := vectors.Decode[struct {
			Logits [][][]float64
			Mask   [][]int
			Labels [][]int
		}](t, c.Input)
		want := vectors.Decode[struct {
			Entropy  [][]float64
			Loss     vectors.Float `json:"entropy_loss"`
			LogProbs [][]float64   `json:"logprobs"`
		}](t, c.Want())
		var rows []Row
		for r := range in.Logits {
			p := logits.New(in.Logits[r], in.Labels[r], 1)
			nearAll(t, f.Tolerance, c.ID, "entropy", p.Entropy, want.Entropy[r])
			nearAll(t, f.Tolerance, c.ID, "logprobs", p.LogP, want.LogProbs[r])
			rows = append(rows, Row{Entropy: p.Entropy, PolicyMask: bools(in.Mask[r])})
		}
		got := eval(t, build(t, TrainsPolicy, TokenMean(Entropy(), MaskPolicy), nil), rows...)
		if math.IsNaN(float64(want.Loss)) {
			if got.Loss != 0 || got.Skipped != len(rows) {
				t.Errorf("%s: empty mask gives %v", c.ID, got.Loss)
			}
			continue
		}
		near(t, f.Tolerance, c.ID, "entropy_loss", got.Loss, float64(want.Loss))
	}
}

func TestVectorTreePolicyLoss(t *testing.T) {
	f := vectors.Load(t, "tree-grpo", "policy_loss")
	for _, c := range f.Cases {
		in := vectors.Decode[struct {
			Old        [][]float64 `json:"old_log_prob"`
			LogP       [][]float64 `json:"log_prob"`
			Advantages [][]float64
			Mask       [][]int
			Turns      [][]int
			Clip       float64 `json:"cliprange"`
			Dual       float64 `json:"clip_ratio_c"`
		}](t, c.Input)
		raw := vectors.Decode[map[string]any](t, c.Want())
		want := map[string]float64{}
		for name, v := range raw {
			if m, ok := v.(map[string]any); ok {
				if n, ok := m["pg_loss"].(float64); ok {
					want[name] = n
				}
			}
		}
		var rows []Row
		width := float64(len(in.Mask[0]))
		for r := range in.LogP {
			rows = append(rows, Row{LogP: in.LogP[r], OldLogP: in.Old[r], PolicyMask: bools(in.Mask[r]), Turns: in.Turns[r],
				TokenFields: map[string][]float64{"advantage": in.Advantages[r]}})
		}
		a := Field("advantage", Token)
		dual := ClippedSurrogate(a, in.Clip, in.Clip, in.Dual)
		delta := Clip(Sub(LogP(), OldLogP()), -20, 20) // Tree-GRPO bounds the log-ratio of each token first
		perTurn := Exp(Reduce(delta, Token, Turn, Mean, MaskPolicy))
		perSequence := Exp(Reduce(delta, Token, Sequence, Mean, MaskPolicy))
		for name, loss := range map[string]Expr{
			"dual_clip token-mean":              TokenMean(dual, MaskPolicy),
			"dual_clip seq-mean-token-sum":      Reduce(Reduce(dual, Token, Sequence, Sum, MaskPolicy), Sequence, Scalar, Mean, ""),
			"dual_clip seq-mean-token-mean":     SequenceMean(dual, MaskPolicy),
			"dual_clip seq-mean-token-sum-norm": Reduce(Div(Reduce(dual, Token, Sequence, Sum, MaskPolicy), Const(width)), Sequence, Scalar, Sum, ""),
			"gspo token-mean":                   TokenMean(surrogate(a, perSequence, in.Clip, 0), MaskPolicy),
			"turn token-mean":                   TokenMean(surrogate(a, perTurn, in.Clip, in.Dual), MaskPolicy),
		} {
			w, given := want[name]
			if name == "turn token-mean" && highestTurn(in.Turns) > 9 {
				continue // the reference looks at turns 1 to 9 only and drops the tokens of later ones
			}
			if !given {
				if !c.HasQuirk() {
					t.Errorf("%s: the vectors hold no %s", c.ID, name)
				}
				continue
			}
			near(t, f.Tolerance, c.ID, name, eval(t, build(t, TrainsPolicy, loss, nil), rows...).Loss, w)
		}
	}
}

func highestTurn(turns [][]int) int {
	highest := 0
	for _, row := range turns {
		highest = max(highest, slices.Max(row))
	}
	return highest
}

// surrogate is the clipped surrogate with another ratio than the token's own.
func surrogate(a, ratio Expr, clip, dual float64) Expr {
	loss := Max(Mul(Neg(a), ratio), Mul(Neg(a), Clip(ratio, 1-clip, 1+clip)))
	if dual == 0 {
		return loss
	}
	return Where(Less(a, Const(0)), Min(loss, Mul(Neg(a), Const(dual))), loss)
}

// perToken evaluates an expression at each token of rows by making each a batch of its own.
func perToken(t *testing.T, o Objective, row Row) []float64 {
	t.Helper()
	var out []float64
	for i := range row.PolicyMask {
		one := Row{PolicyMask: []bool{true}, OldLogP: row.OldLogP[i : i+1], RefLogP: row.RefLogP[i : i+1], TokenFields: map[string][]float64{}}
		for name, values := range row.TokenFields {
			one.TokenFields[name] = values[i : i+1]
		}
		out = append(out, eval(t, o, one).Loss)
	}
	return out
}

func TestVectorKLInReward(t *testing.T) {
	f := vectors.Load(t, "search-r1", "kl_in_reward")
	d := Sub(OldLogP(), RefLogP())
	r := Neg(d)
	kinds := map[string]Expr{
		"kl": d, "abs": Abs(d), "mse": Mul(Const(.5), Square(d)), "low_var_kl": Clip(Sub(Sub(Exp(r), r), Const(1)), -10, 10),
	}
	for _, c := range f.Cases {
		in := vectors.Decode[struct {
			Old    [][]float64 `json:"old_log_probs"`
			Ref    [][]float64 `json:"ref_log_prob"`
			Scores [][]float64 `json:"token_level_scores"`
			Mask   [][]int     `json:"info_mask"`
			Beta   float64
			KL     string
		}](t, c.Input)
		want := vectors.Decode[struct {
			Rewards [][]float64   `json:"token_level_rewards"`
			Mean    vectors.Float `json:"mean_kl"`
		}](t, c.Want())
		kl, known := kinds[in.KL]
		if !known {
			t.Fatalf("%s: estimator %q", c.ID, in.KL)
		}
		rewards := build(t, TrainsPolicy, TokenMean(Sub(Field("score", Token), Mul(Mul(Const(in.Beta), kl), Field("mask", Token))), MaskResponse), nil)
		var rows []Row
		for i := range in.Old {
			row := Row{OldLogP: in.Old[i], RefLogP: in.Ref[i], PolicyMask: bools(in.Mask[i]),
				TokenFields: map[string][]float64{"score": in.Scores[i], "mask": floats(in.Mask[i])}}
			rows = append(rows, row)
			nearAll(t, f.Tolerance, c.ID, "token_level_rewards", perToken(t, rewards, row), want.Rewards[i])
		}
		mean := build(t, TrainsPolicy, SequenceMean(kl, MaskPolicy), nil)
		if !math.IsNaN(float64(want.Mean)) { // an empty row is NaN there, left out here
			near(t, f.Tolerance, c.ID, "mean_kl", eval(t, mean, rows...).Loss, float64(want.Mean))
		}
	}
}

func TestVectorMaskedStatistics(t *testing.T) {
	f := vectors.Load(t, "search-r1", "masked_stats")
	x := Field("x", Token)
	mean := TokenMean(x, MaskPolicy)
	squares := Reduce(Square(Sub(x, mean)), Token, Scalar, Sum, MaskPolicy)
	count := Reduce(Const(1), Token, Scalar, Sum, MaskPolicy)
	biased, unbiased := Div(squares, count), Div(squares, Sub(count, Const(1)))
	for _, c := range f.Cases {
		in := vectors.Decode[struct {
			Values [][]float64
			Mask   [][]int
		}](t, c.Input)
		var want map[string]any
		if err := json.Unmarshal(c.Want(), &want); err != nil {
			t.Fatal(err)
		}
		var rows []Row
		for i := range in.Values {
			rows = append(rows, Row{PolicyMask: bools(in.Mask[i]), TokenFields: map[string][]float64{"x": in.Values[i]}})
		}
		for name, e := range map[string]Expr{"mean": mean, "var_biased": biased, "var_unbiased": unbiased} {
			if w, finite := want[name].(float64); finite { // NaN and errors stand for too few elements
				near(t, f.Tolerance, c.ID, name, eval(t, build(t, TrainsPolicy, e, nil), rows...).Loss, w)
			}
		}
		perRow, _ := want["mean_per_row"].([]any)
		for i, w := range perRow {
			if w, finite := w.(float64); finite {
				near(t, f.Tolerance, c.ID, "mean_per_row", eval(t, build(t, TrainsPolicy, mean, nil), rows[i]).Loss, w)
			}
		}
	}
}
