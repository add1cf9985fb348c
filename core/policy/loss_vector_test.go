package policy

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint:revive // graph code reads as formulas
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/forage-rl/forage/core/internal/rng"
	"github.com/forage-rl/forage/core/internal/vectors"
	o "github.com/forage-rl/forage/core/sdk/objective"
)

// logitRow is a row of a mini-batch with logits in place of the network.
type logitRow struct {
	o.Row
	logits [][]float64
	labels []int
}

func testBackend(t testing.TB) *Backend {
	t.Helper()
	b, err := OpenBackend("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func objectiveOf(t testing.TB, loss o.Expr, metrics map[string]o.Expr) o.Objective {
	t.Helper()
	out, err := o.New("test", o.TrainsPolicy, loss, metrics)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// compiled computes loss, log-probabilities, entropies and the gradient on the logits with the compiled objective, in
// float64, adding up micro-batches of perBatch rows.
func compiled(t testing.TB, b *Backend, obj o.Objective, rows []logitRow, temperature float64, perBatch int) (loss float64, logps, entropies [][]float64, grads [][][]float64) {
	t.Helper()
	plan, err := newLossPlan(obj)
	if err != nil {
		t.Fatal(err)
	}
	if plan == nil {
		t.Fatalf("objective %+v is not separable", obj)
	}
	lb := lossBatch{}
	plain := make([]o.Row, len(rows))
	vocabulary := 0
	for i := range rows {
		plain[i] = rows[i].Row
		var all []int32
		for j := range rows[i].logits {
			if inAnyMask(obj, &rows[i].Row, j) {
				all = append(all, int32(j))
			}
			vocabulary = max(vocabulary, len(rows[i].logits[j]))
		}
		lb.positions = append(lb.positions, all)
	}
	if lb.structure, err = newStructure(plan.o, plan.levels, plain); err != nil {
		t.Fatal(err)
	}
	lb.weights = plan.coefficients(lb.structure)
	for _, row := range rows {
		logps, entropies = append(logps, make([]float64, len(row.logits))), append(entropies, make([]float64, len(row.logits)))
		grad := make([][]float64, len(row.logits))
		for j := range grad {
			grad[j] = make([]float64, vocabulary)
		}
		grads = append(grads, grad)
	}
	for start := 0; start < len(rows); start += perBatch {
		lb.rows = nil
		n := 0
		for i := start; i < min(start+perBatch, len(rows)); i++ {
			lb.rows = append(lb.rows, i)
			n += len(lb.positions[i])
		}
		lb.sizes = lossSizes{tokens: n + 2, turns: lb.structure.turnCount(lb.rows) + 1, rows: len(lb.rows) + 1}
		logits, labels := make([]float64, lb.sizes.tokens*vocabulary), make([]int32, lb.sizes.tokens)
		at := 0
		for _, i := range lb.rows {
			for _, j := range lb.positions[i] {
				copy(logits[at*vocabulary:], rows[i].logits[j])
				labels[at] = int32(rows[i].labels[j])
				at++
			}
		}
		var g *Graph
		if err := tryGraph(func() {
			g = NewGraph(b.engine, "test")
			z := Parameter(g, "logits", shapes.Make(dtypes.Float64, lb.sizes.tokens, vocabulary))
			label := Parameter(g, "labels", shapes.Make(dtypes.Int32, lb.sizes.tokens))
			inverse := Parameter(g, "inverse", shapes.Make(dtypes.Float64))
			logp, h := tokenScores(z, label, inverse, true)
			value := plan.loss(g, dtypes.Float64, lb.sizes, map[o.Op]*Node{o.OpLogP: logp, o.OpEntropy: h})
			if err := g.Compile(append([]*Node{value, logp, h}, Gradient(value, z)...)...); err != nil {
				panic(err)
			}
		}); err != nil {
			t.Fatal(err)
		}
		args := b.arguments(g.NumParameters())
		host(args, logits, lb.sizes.tokens, vocabulary)
		host(args, labels, lb.sizes.tokens)
		hostScalars(args, dtypes.Float64, 1/temperature)
		plan.arguments(args, dtypes.Float64, &lb)
		out, err := args.run(g)
		if err != nil {
			t.Fatal(err)
		}
		flats := make([][]float64, len(out))
		for k := range out {
			flats[k] = tensors.MustCopyFlatData[float64](out[k])
		}
		loss += flats[0][0]
		at = 0
		for _, i := range lb.rows {
			for _, j := range lb.positions[i] {
				logps[i][j], entropies[i][j] = flats[1][at], flats[2][at]
				copy(grads[i][j], flats[3][at*vocabulary:(at+1)*vocabulary])
				at++
			}
		}
	}
	return loss, logps, entropies, grads
}

func tryGraph(f func()) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("build graph: %v", r)
		}
	}()
	f()
	return nil
}

func kl(t testing.TB, kind string) o.Expr {
	t.Helper()
	e, err := o.KL(kind)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func near(t testing.TB, tol vectors.Tolerance, what string, got, want float64) {
	t.Helper()
	if !tol.Close(got, want) {
		t.Errorf("%s = %v, want %v", what, got, want)
	}
}

func bools(mask []int) []bool {
	out := make([]bool, len(mask))
	for i, v := range mask {
		out[i] = v != 0
	}
	return out
}

type actorCase struct {
	Group       []string
	Logits      [][][]float64
	Labels      [][]int
	Temperature float64
	Old         [][]float64 `json:"old_log_prob"`
	Ref         [][]float64 `json:"ref_log_prob"`
	Advantages  [][]float64
	Mask        [][]int
	ActionMask  [][]int `json:"action_mask"`
	Clip        float64 `json:"cliprange"`
	EntropyCoef float64 `json:"entropy_coef"`
	KLCoef      float64 `json:"kl_coef"`
}

func (c actorCase) rows(mask [][]int) []logitRow {
	var rows []logitRow
	for r := range c.Logits {
		row := logitRow{logits: c.Logits[r], labels: c.Labels[r]}
		row.OldLogP, row.RefLogP, row.PolicyMask = c.Old[r], c.Ref[r], bools(mask[r])
		row.TokenFields = map[string][]float64{"advantage": c.Advantages[r]}
		if c.Group != nil {
			row.Group = c.Group[r]
		}
		rows = append(rows, row)
	}
	return rows
}

func checkActor(t *testing.T, b *Backend, f vectors.File, c vectors.Case, obj o.Objective, rows []logitRow, temperature float64) {
	t.Helper()
	want := vectors.Decode[struct {
		LogProb    [][]float64   `json:"log_prob"`
		Total      float64       `json:"total"`
		GradLogits [][][]float64 `json:"grad_logits"`
	}](t, c.Want())
	for _, perBatch := range []int{len(rows), 1, 2} {
		loss, logps, _, grads := compiled(t, b, obj, rows, temperature, perBatch)
		near(t, f.Tolerance, fmt.Sprintf("%s: total in micro-batches of %d", c.ID, perBatch), loss, want.Total)
		for r := range rows {
			for i := range rows[r].logits {
				if rows[r].PolicyMask[i] {
					near(t, f.Tolerance, fmt.Sprintf("%s: log_prob[%d][%d]", c.ID, r, i), logps[r][i], want.LogProb[r][i])
				}
				for v := range rows[r].logits[i] {
					near(t, f.Tolerance, fmt.Sprintf("%s: grad_logits[%d][%d][%d] in micro-batches of %d", c.ID, r, i, v, perBatch), grads[r][i][v], want.GradLogits[r][i][v])
				}
			}
		}
	}
}

func TestVectorActorLossCompiled(t *testing.T) {
	f, b := vectors.Load(t, "search-r1", "actor_loss"), testBackend(t)
	for _, c := range f.Cases {
		in := vectors.Decode[actorCase](t, c.Input)
		pg := o.TokenMean(o.ClippedSurrogate(o.Field("advantage", o.Token), in.Clip, in.Clip, 0), o.MaskPolicy)
		entropy, k3 := o.TokenMean(o.Entropy(), o.MaskPolicy), o.TokenMean(kl(t, "k3"), o.MaskPolicy)
		obj := objectiveOf(t, o.Add(o.Sub(pg, o.Mul(o.Const(in.EntropyCoef), entropy)), o.Mul(o.Const(in.KLCoef), k3)), nil)
		checkActor(t, b, f, c, obj, in.rows(in.Mask), in.Temperature)
	}
}

func TestVectorDavidLossCompiled(t *testing.T) {
	f, b := vectors.Load(t, "david-grpo", "loss"), testBackend(t)
	for _, c := range f.Cases {
		in := vectors.Decode[actorCase](t, c.Input)
		pg := o.GroupMean(o.ClippedSurrogate(o.Field("advantage", o.Token), in.Clip, in.Clip, 0), o.MaskPolicy)
		entropy, k2 := o.GroupMean(o.Entropy(), o.MaskPolicy), o.GroupMean(kl(t, "k2"), o.MaskPolicy)
		obj := objectiveOf(t, o.Add(o.Sub(pg, o.Mul(o.Const(in.EntropyCoef), entropy)), o.Mul(o.Const(in.KLCoef), k2)), nil)
		checkActor(t, b, f, c, obj, in.rows(in.ActionMask), in.Temperature)
	}
}

func TestVectorEntropyCompiled(t *testing.T) {
	f, b := vectors.Load(t, "search-r1", "entropy"), testBackend(t)
	obj := objectiveOf(t, o.Add(o.TokenMean(o.Entropy(), o.MaskPolicy), o.TokenMean(o.Mul(o.Const(0), o.Entropy()), o.MaskResponse)), nil)
	for _, c := range f.Cases {
		in := vectors.Decode[actorCase](t, c.Input)
		want := vectors.Decode[struct {
			Entropy  [][]float64
			Loss     vectors.Float `json:"entropy_loss"`
			LogProbs [][]float64   `json:"logprobs"`
		}](t, c.Want())
		var rows []logitRow
		for r := range in.Logits {
			rows = append(rows, logitRow{logits: in.Logits[r], labels: in.Labels[r], PolicyMask: bools(in.Mask[r])})
		}
		loss, logps, entropies, _ := compiled(t, b, obj, rows, 1, 1)
		for r := range rows {
			for i := range rows[r].logits {
				near(t, f.Tolerance, c.ID+": entropy", entropies[r][i], want.Entropy[r][i])
				near(t, f.Tolerance, c.ID+": logprob", logps[r][i], want.LogProbs[r][i])
			}
		}
		if math.IsNaN(float64(want.Loss)) {
			want.Loss = 0 // an empty mask: ours skips
		}
		near(t, f.Tolerance, c.ID+": loss", loss, float64(want.Loss))
	}
}

// asLogits makes logits over two tokens whose first has the given log-probability.
func asLogits(logp []float64) (logits [][]float64, labels []int) {
	for _, v := range logp {
		// The other token has log(1-exp(v)); a certain token leaves it nothing.
		logits, labels = append(logits, []float64{v, max(math.Log(-math.Expm1(v)), -1e4)}), append(labels, 0)
	}
	return logits, labels
}

func TestVectorPPOAndKLCompiled(t *testing.T) {
	b := testBackend(t)
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
			PG vectors.Float `json:"pg_loss"`
		}](t, c.Want())
		if slices.ContainsFunc(slices.Concat(in.LogP...), func(v float64) bool { return v > 0 }) {
			continue // no logits have a log-probability above 0
		}
		var rows []logitRow
		for r := range in.LogP {
			row := logitRow{OldLogP: in.Old[r], PolicyMask: bools(in.Mask[r]), TokenFields: map[string][]float64{"advantage": in.Advantages[r]}}
			row.logits, row.labels = asLogits(in.LogP[r])
			rows = append(rows, row)
		}
		if math.IsNaN(float64(want.PG)) {
			want.PG = 0
		}
		obj := objectiveOf(t, o.TokenMean(o.ClippedSurrogate(o.Field("advantage", o.Token), in.Clip, in.Clip, 0), o.MaskPolicy), nil)
		loss, _, _, _ := compiled(t, b, obj, rows, 1, 1)
		near(t, f.Tolerance, c.ID+": pg_loss", loss, float64(want.PG))
	}
	f = vectors.Load(t, "search-r1", "kl_penalty")
	for _, c := range f.Cases {
		in := vectors.Decode[map[string][]float64](t, c.Input)
		want := vectors.Decode[map[string][]float64](t, c.Want())
		if slices.Max(in["logprob"]) > 0 {
			continue
		}
		row := logitRow{RefLogP: in["ref_logprob"], PolicyMask: slices.Repeat([]bool{true}, len(in["logprob"]))}
		row.logits, row.labels = asLogits(in["logprob"])
		for name, kind := range map[string]string{"kl": "k1", "mse": "k2", "low_var_kl": "k3"} {
			loss, _, _, _ := compiled(t, b, objectiveOf(t, o.TokenMean(kl(t, kind), o.MaskPolicy), nil), []logitRow{row}, 1, 1)
			mean := 0.
			for _, v := range want[name] {
				mean += v / float64(len(want[name]))
			}
			near(t, f.Tolerance, c.ID+": "+name, loss, mean)
		}
	}
}

// surrogate is the clipped surrogate with a ratio of a coarser level.
func surrogate(ratio o.Expr, clip, dual float64) o.Expr {
	a := o.Field("advantage", o.Token)
	loss := o.Max(o.Mul(o.Neg(a), ratio), o.Mul(o.Neg(a), o.Clip(ratio, 1-clip, 1+clip)))
	if dual == 0 {
		return loss
	}
	return o.Where(o.Less(a, o.Const(0)), o.Min(loss, o.Mul(o.Neg(a), o.Const(dual))), loss)
}

func TestVectorTreePolicyLossCompiled(t *testing.T) {
	f, b := vectors.Load(t, "tree-grpo", "policy_loss"), testBackend(t)
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
		if slices.Max(slices.Concat(in.LogP...)) > 0 || slices.Max(slices.Concat(in.Turns...)) > 10 {
			continue // no logits have such a log-probability; the reference drops tokens of later turns
		}
		var rows []logitRow
		for r := range in.LogP {
			row := logitRow{OldLogP: in.Old[r], PolicyMask: bools(in.Mask[r]), Turns: in.Turns[r], TokenFields: map[string][]float64{"advantage": in.Advantages[r]}}
			row.logits, row.labels = asLogits(in.LogP[r])
			rows = append(rows, row)
		}
		dual := o.ClippedSurrogate(o.Field("advantage", o.Token), in.Clip, in.Clip, in.Dual)
		perTurn := o.Exp(o.Reduce(o.Clip(o.Sub(o.LogP(), o.OldLogP()), -20, 20), o.Token, o.Turn, o.Mean, o.MaskPolicy))
		for name, loss := range map[string]o.Expr{
			"dual_clip token-mean":              o.TokenMean(dual, o.MaskPolicy),
			"dual_clip seq-mean-token-sum":      o.Reduce(o.Reduce(dual, o.Token, o.Sequence, o.Sum, o.MaskPolicy), o.Sequence, o.Scalar, o.Mean, ""),
			"dual_clip seq-mean-token-mean":     o.SequenceMean(dual, o.MaskPolicy),
			"dual_clip seq-mean-token-sum-norm": o.Reduce(o.Div(o.Reduce(dual, o.Token, o.Sequence, o.Sum, o.MaskPolicy), o.Const(float64(len(in.Mask[0])))), o.Sequence, o.Scalar, o.Sum, ""),
			"gspo token-mean":                   o.TokenMean(surrogate(o.SequenceRatio(), in.Clip, 0), o.MaskPolicy),
			"turn token-mean":                   o.TokenMean(surrogate(perTurn, in.Clip, in.Dual), o.MaskPolicy),
		} {
			expected, given := raw[name].(map[string]any)
			if !given {
				continue
			}
			want, isNumber := expected["pg_loss"].(float64)
			if !isNumber {
				continue
			}
			got, _, _, _ := compiled(t, b, objectiveOf(t, loss, nil), rows, 1, 1)
			near(t, f.Tolerance, c.ID+": "+name, got, want)
		}
	}
}

// The compiled objective and the reference evaluator must agree, value and gradient, on objectives that use every
// operation and level, on rows with empty masks and tokens without a turn.
func TestCompiledAgreesWithEvaluator(t *testing.T) {
	b := testBackend(t)
	ratio := o.Ratio()
	turnMean := o.Reduce(o.LogP(), o.Token, o.Turn, o.Mean, o.MaskPolicy)
	lastOfTurn := o.Reduce(o.Mul(o.LogP(), o.Field("weight", o.Token)), o.Token, o.Turn, o.Last, "half")
	sequence := o.Reduce(o.Sub(o.LogP(), o.SamplerLogP()), o.Token, o.Sequence, o.Mean, "half")
	advantage := o.Sub(o.Field("scale", o.Sequence), o.Const(.7))
	overSequences := func(x o.Expr) o.Expr { return o.Reduce(x, o.Sequence, o.Scalar, o.Mean, "") }
	probability := o.Exp(o.LogP())
	for name, loss := range map[string]o.Expr{
		// Losses of whole responses, of clipped weights without gradient, of shaped probabilities.
		"response":       overSequences(o.Mul(advantage, o.Reduce(o.LogP(), o.Token, o.Sequence, o.Sum, o.MaskPolicy))),
		"response ratio": overSequences(o.Max(o.Mul(advantage, o.SequenceRatio()), o.Mul(advantage, o.Clip(o.SequenceRatio(), .9, 1.1)))),
		"clipped weight": o.TokenMean(o.Mul(o.Mul(o.StopGradient(o.Clip(ratio, 0, 1.5)), advantage), o.LogP()), o.MaskPolicy),
		"shaped":         o.ConstantMean(o.Mul(advantage, o.Where(o.Less(advantage, o.Const(0)), o.Div(probability, o.Add(probability, o.Const(.1))), ratio)), 7, o.MaskPolicy),
		"turns":          o.TokenMean(o.Mul(o.Exp(turnMean), ratio), o.MaskPolicy),
		"last":           o.Reduce(o.Reduce(o.Square(lastOfTurn), o.Turn, o.Sequence, o.Mean, ""), o.Sequence, o.Scalar, o.Mean, ""),
		"turn groups":    o.Reduce(o.Reduce(o.Exp(turnMean), o.Turn, o.Group, o.Mean, ""), o.Group, o.Scalar, o.Sum, ""),
		"sequence":       o.GroupMean(o.Mul(o.StopGradient(o.Exp(sequence)), o.LogP()), "half"),
		"sigmoid":        o.Neg(o.Reduce(o.LogSigmoid(o.Mul(sequence, o.Field("scale", o.Sequence))), o.Sequence, o.Scalar, o.Mean, "")),
		"mixed": o.Add(o.ConstantMean(o.Abs(o.Sub(o.LogP(), o.RefLogP())), 7, o.MaskResponse),
			o.Div(o.TokenMean(o.Min(o.Mul(o.Entropy(), o.Field("scale", o.Sequence)), o.Max(o.Log(o.Field("weight", o.Token)), o.LogP())), "half"), o.Const(3))),
		"where": o.SequenceMean(o.Where(o.Less(o.LogP(), o.Const(-1.5)), o.Square(o.LogP()), o.Div(o.LogP(), o.Field("weight", o.Token))), o.MaskPolicy),
		"sum":   o.Reduce(o.Reduce(o.Neg(o.LogP()), o.Token, o.Group, o.Sum, o.MaskPolicy), o.Group, o.Scalar, o.Mean, ""),
	} {
		compiledAgrees(t, b, name, objectiveOf(t, loss, nil), true)
	}
}

// What has no gradient passes none on to what is trained elsewhere in the loss. Terms that have none are no part of the
// compiled loss.
func TestCompiledStopsGradients(t *testing.T) {
	b := testBackend(t)
	response := o.Reduce(o.LogP(), o.Token, o.Sequence, o.Sum, o.MaskPolicy)
	mean := func(x o.Expr) o.Expr { return o.Reduce(x, o.Sequence, o.Scalar, o.Mean, "") }
	for name, loss := range map[string]o.Expr{
		"sequences": mean(o.Sub(o.Mul(o.Const(3), response), o.StopGradient(response))),
		"means":     o.Sub(mean(response), o.StopGradient(mean(response))),
		"tokens":    o.Add(o.TokenMean(o.LogP(), o.MaskPolicy), o.TokenMean(o.StopGradient(o.LogP()), "half")),
		"compared":  o.Add(mean(response), mean(o.Less(response, o.Const(-2)))),
	} {
		compiledAgrees(t, b, name, objectiveOf(t, loss, nil), false)
	}
}

// compiledAgrees compares an objective as it is compiled, in one and in several micro-batches, with the evaluator.
func compiledAgrees(t *testing.T, b *Backend, name string, obj o.Objective, value bool) {
	t.Helper()
	for seed := range uint64(4) {
		rows := randomRows(rng.New(3, seed))
		lossGot, logps, entropies, grads := compiled(t, b, obj, rows, .8, len(rows))
		plain := make([]o.Row, len(rows))
		for i := range rows {
			plain[i] = rows[i].Row
			plain[i].LogP, plain[i].Entropy = logps[i], entropies[i]
		}
		want, err := o.Eval(obj, o.Batch{Rows: plain})
		if err != nil {
			t.Fatal(err)
		}
		tol := vectors.Tolerance{Abs: 1e-10, Rel: 1e-9}
		if value {
			near(t, tol, name+": loss", lossGot, want.Loss)
		}
		_, _, _, split := compiled(t, b, obj, rows, .8, 2)
		for i := range rows {
			for j := range rows[i].logits {
				for v := range grads[i][j] {
					near(t, tol, fmt.Sprintf("%s: gradient [%d][%d][%d]", name, i, j, v), grads[i][j][v], chain(rows[i].logits[j], rows[i].labels[j], v, .8, want.GradLogP[i][j], want.GradEntropy[i][j]))
					near(t, tol, name+": gradient in micro-batches", split[i][j][v], grads[i][j][v])
				}
			}
		}
	}
}

// chain is the gradient on logit v of a token, from those on its log-probability and entropy.
func chain(logits []float64, label, v int, temperature, gradLogP, gradEntropy float64) float64 {
	sum, h := 0., 0.
	for _, z := range logits {
		sum += math.Exp(z / temperature)
	}
	for _, z := range logits {
		h -= math.Exp(z/temperature) / sum * (z/temperature - math.Log(sum))
	}
	p := math.Exp(logits[v]/temperature) / sum
	out := -gradLogP * p
	if v == label {
		out += gradLogP
	}
	return (out - gradEntropy*p*(math.Log(p)+h)) / temperature
}

func randomRows(key rng.Key) []logitRow {
	r := uint64(0)
	next := func() float64 { r++; return key.Float64(r) }
	var rows []logitRow
	for i := range 5 {
		n := 3 + int(6*next())
		row := logitRow{Group: strconv.Itoa(i / 2), SequenceFields: map[string]float64{"scale": .2 + next()}, TokenFields: map[string][]float64{}}
		turn := 0
		for j := range n {
			logits := make([]float64, 4)
			for v := range logits {
				logits[v] = 4*next() - 2
			}
			row.logits, row.labels = append(row.logits, logits), append(row.labels, int(4*next()))
			row.PolicyMask = append(row.PolicyMask, i != 3 && next() < .7)
			if next() < .3 {
				turn++
			}
			at := turn
			if !row.PolicyMask[j] && next() < .5 {
				at = -1
			}
			row.Turns = append(row.Turns, at)
			half := 0.
			if i != 1 && next() < .5 {
				half = 1
			}
			row.TokenFields["half"] = append(row.TokenFields["half"], half)
			row.TokenFields["weight"] = append(row.TokenFields["weight"], .5+next())
			row.OldLogP, row.RefLogP, row.SamplerLogP = append(row.OldLogP, -2*next()), append(row.RefLogP, -2*next()), append(row.SamplerLogP, -2*next())
		}
		rows = append(rows, row)
	}
	return rows
}
