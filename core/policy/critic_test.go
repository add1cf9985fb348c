package policy

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint:revive // graph code reads as formulas
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/forage-rl/forage/core/internal/rng"
	"github.com/forage-rl/forage/core/internal/vectors"
	o "github.com/forage-rl/forage/core/sdk/objective"
)

func newCritic(t testing.TB, p *Policy) *Critic {
	t.Helper()
	c, err := NewCritic(p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func criticTrainer(t testing.TB, c *Critic, config OptimizerConfig) *Trainer {
	t.Helper()
	return newTrainer(t, c.net, config)
}

func criticObjective(t testing.TB, loss o.Expr, metrics map[string]o.Expr) o.Objective {
	t.Helper()
	out, err := o.New("critic", o.TrainsCritic, loss, metrics)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// valueLoss is the loss of a critic over all response tokens.
func valueLoss(t testing.TB, clip float64) o.Objective {
	target := o.Field("advantage", o.Token)
	return criticObjective(t, o.TokenMean(o.ValueLoss(target, clip), o.MaskResponse), map[string]o.Expr{
		"moved":   o.TokenMean(o.Abs(o.Sub(o.Value(), o.OldValue())), o.MaskResponse),
		"clipped": o.TokenMean(o.ValueClipFraction(target, clip), o.MaskResponse),
	})
}

func valuesOf(t testing.TB, c *Critic, seqs ...Sequence) [][]float32 {
	t.Helper()
	v, err := c.Values(t.Context(), seqs)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func sequencesOf(samples []TrainSample) []Sequence {
	var out []Sequence
	for _, s := range samples {
		out = append(out, Sequence{s.Tokens, s.PromptLength})
	}
	return out
}

// A new critic has the policy's body and values of exactly 0, one for every response token.
func TestNewCritic(t *testing.T) {
	for name, config := range variants() {
		p := newTiny(t, config)
		c := newCritic(t, p)
		body, own := weightsOf(t, p), weightsOf(t, c.net)
		specs := c.net.model.layout.specs
		for i := range own[:len(own)-2] {
			if specs[i].name != p.model.layout.specs[i].name || !slices.Equal(own[i], body[i]) {
				t.Errorf("%s: tensor %s is not the policy's", name, specs[i].name)
			}
		}
		head := 0
		if !config.TieWordEmbeddings {
			head = config.VocabSize * config.HiddenSize
		}
		if c.Parameters() != p.Parameters()-head+config.HiddenSize+1 {
			t.Errorf("%s: %d parameters beside the policy's %d", name, c.Parameters(), p.Parameters())
		}
		samples := randomSamples(rng.New(1), 5, 60)
		for i, values := range valuesOf(t, c, sequencesOf(samples)...) {
			if len(values) != len(samples[i].PolicyMask) || slices.ContainsFunc(values, func(v float32) bool { return v != 0 }) {
				t.Errorf("%s: first values are %v", name, values)
			}
		}
	}
}

// The value of a token is read before the token: it depends on all tokens before it and on nothing after.
func TestValueIsReadBeforeItsToken(t *testing.T) {
	p := newTiny(t, tiny())
	c := newCritic(t, p)
	samples := randomSamples(rng.New(3), 8, 50)
	tr := criticTrainer(t, c, OptimizerConfig{LearningRate: 1e-2})
	for range 3 {
		update(t, tr, UpdateSpec{Objective: valueLoss(t, 10), Samples: samples})
	}
	seq := Sequence{Tokens: randomTokens(rng.New(9), 30, 207), PromptLength: 5}
	other := Sequence{Tokens: slices.Clone(seq.Tokens), PromptLength: 5}
	const at = 12 // of the response
	other.Tokens[5+at] = (other.Tokens[5+at] + 1) % 207
	a, b := valuesOf(t, c, seq)[0], valuesOf(t, c, other)[0]
	if len(a) != 25 || !slices.Equal(a[:at+1], b[:at+1]) {
		t.Errorf("the value of token %d depends on the token itself or on later ones", at)
	}
	if a[at+1] == b[at+1] {
		t.Error("the value after a token does not depend on it")
	}
}

// The traps of graphs that keep the weights they were built with, for two networks on one backend: two lengths, values
// after updates, a second trainer; and neither network touches the other.
func TestCriticAndPolicyTrainApart(t *testing.T) {
	p := newTiny(t, tiny())
	dir := t.TempDir()
	if err := p.Save(t.Context(), dir, "float32"); err != nil {
		t.Fatal(err)
	}
	if err := p.LoadWeights(t.Context(), dir); err != nil { // weights come from a file before the first graph
		t.Fatal(err)
	}
	c := newCritic(t, p)
	short, long := randomSamples(rng.New(1), 6, 14), randomSamples(rng.New(2), 6, 120)
	seqs := sequencesOf(append(slices.Clone(short), long...))
	scores := func() [][]float32 {
		l, _, err := p.LogProbs(t.Context(), seqs, 1, false, false)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	same := func(a, b [][]float32) bool { return furthest(a, b) == 0 }
	policy0, scores0, values0 := weightsOf(t, p), scores(), valuesOf(t, c, seqs...)

	first := criticTrainer(t, c, OptimizerConfig{LearningRate: 3e-3})
	var losses [2][]float64
	for range 6 {
		for k, batch := range [][]TrainSample{short, long} {
			losses[k] = append(losses[k], update(t, first, UpdateSpec{Objective: valueLoss(t, 10), Samples: batch}).Loss)
		}
	}
	for _, list := range losses {
		if !(list[len(list)-1] < .9*list[0]) {
			t.Errorf("the loss of values does not fall: %v", list)
		}
	}
	values1 := valuesOf(t, c, seqs...)
	if same(values0, values1) || first.Steps() != 12 || c.Version() != 13 {
		t.Errorf("after %d steps (version %d) values changed: %v", first.Steps(), c.Version(), !same(values0, values1))
	}
	second := criticTrainer(t, c, OptimizerConfig{LearningRate: 3e-3})
	if again := update(t, second, UpdateSpec{Objective: valueLoss(t, 10), Samples: long}).Loss; !(again < .5*losses[1][0]) {
		t.Errorf("a second trainer starts at loss %v, the first left it at %v", again, losses[1])
	}
	values2 := valuesOf(t, c, seqs...)
	if same(values1, values2) {
		t.Error("an update of the second trainer changed no value")
	}
	if !same(policy0, weightsOf(t, p)) || !same(scores0, scores()) || p.Version() != 2 {
		t.Error("updates of the critic changed the policy")
	}

	critic := weightsOf(t, c.net)
	actor := newTrainer(t, p, OptimizerConfig{LearningRate: 1e-2})
	update(t, actor, UpdateSpec{Objective: nll(t), Samples: short})
	if same(scores0, scores()) {
		t.Error("an update of the policy changed no log-probability")
	}
	if !same(critic, weightsOf(t, c.net)) || !same(values2, valuesOf(t, c, seqs...)) {
		t.Error("an update of the policy changed the critic")
	}
	// A critic made now starts from what the policy is now.
	if third := newCritic(t, p); !same(weightsOf(t, p), weightsOf(t, third.net)[:len(policy0)]) {
		t.Error("a new critic has not the present weights of the policy")
	}
}

// old_value is what the critic said before the update, in all of its epochs.
func TestOldValueIsBeforeTheUpdate(t *testing.T) {
	p := newTiny(t, tiny())
	c := newCritic(t, p)
	tr := criticTrainer(t, c, OptimizerConfig{LearningRate: 1e-2})
	samples := randomSamples(rng.New(4), 6, 40)
	for range 3 {
		if m := update(t, tr, UpdateSpec{Objective: valueLoss(t, .2), Samples: samples}); m.Metrics["moved"] > 1e-6 {
			t.Errorf("before its first step the critic is %v away from old_value", m.Metrics["moved"])
		}
	}
	before := valuesOf(t, c, sequencesOf(samples)...)
	record := samples
	for i := range record {
		record[i].TokenFields["before"] = before[i]
	}
	target := o.Field("advantage", o.Token)
	obj := criticObjective(t, o.TokenMean(o.ValueLoss(target, .2), o.MaskResponse), map[string]o.Expr{
		"wrong": o.TokenMean(o.Abs(o.Sub(o.OldValue(), o.Field("before", o.Token))), o.MaskResponse),
		"moved": o.TokenMean(o.Abs(o.Sub(o.Value(), o.OldValue())), o.MaskResponse),
	})
	m := update(t, tr, UpdateSpec{Objective: obj, Samples: record, Epochs: 3})
	if m.Metrics["wrong"] > 1e-6 || m.Metrics["moved"] < 1e-4 || m.Steps != 3 {
		t.Errorf("over three epochs: %+v", m)
	}
}

func TestCriticMicroBatchesChangeNothing(t *testing.T) {
	samples := randomSamples(rng.New(1), 12, 70)
	// The square of a mean over the mini-batch is not linear in the rows: the host differentiates it.
	squared := criticObjective(t, o.Square(o.TokenMean(o.Sub(o.Value(), o.Field("advantage", o.Token)), o.MaskPolicy)), nil)
	for name, objective := range map[string]o.Objective{"clipped": valueLoss(t, .2), "squared": squared} {
		p := newTiny(t, tiny())
		var weights [][][]float32
		for _, micro := range []int{100000, 200, 1} {
			c := newCritic(t, p)
			tr := criticTrainer(t, c, OptimizerConfig{LearningRate: 1, Epsilon: 1})
			before := weightsOf(t, c.net)
			for range 2 { // with a head of zero the first step moves nothing but the head
				update(t, tr, UpdateSpec{Objective: objective, Samples: samples, MicroTokens: micro})
			}
			weights = append(weights, weightsOf(t, c.net))
			if moved := furthest(before[:3], weights[len(weights)-1]); moved < 1e-4 {
				t.Fatalf("%s: the body moved by %v only", name, moved)
			}
		}
		for i := range weights {
			if d := furthest(weights[0], weights[i]); d > 2e-6 {
				t.Errorf("%s: micro-batches move weights by %v", name, d)
			}
		}
	}
}

func TestCriticGradientAgainstDifferences(t *testing.T) {
	p, err := New(tiny(), tinyInit(3), Options{DType: "float64"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}()
	c := newCritic(t, p)
	samples := randomSamples(rng.New(8), 4, 40)
	tr := criticTrainer(t, c, OptimizerConfig{LearningRate: 1e-2})
	for range 2 { // away from a head of zero
		update(t, tr, UpdateSpec{Objective: valueLoss(t, .2), Samples: samples})
	}
	u, err := tr.newUpdate(t.Context(), UpdateSpec{Objective: valueLoss(t, .2), Samples: samples})
	if err != nil {
		t.Fatal(err)
	}
	checkGradient(t, u, 4)
}

// Policy and critic together: k steps, both states saved, loaded into new networks, and the rest give the same weights
// and values as all steps in one go, bit for bit.
func TestResumeWithCriticBitForBit(t *testing.T) {
	actorConfig := OptimizerConfig{LearningRate: 1e-3, ClipNorm: 1}
	criticConfig := OptimizerConfig{LearningRate: 3e-3, WeightDecay: .01, Schedule: Schedule{Kind: ScheduleLinear, Warmup: 2, Total: 6}}
	base, actorDir, criticDir := t.TempDir(), t.TempDir(), t.TempDir()
	if err := newTiny(t, tiny()).Save(t.Context(), base, "float32"); err != nil {
		t.Fatal(err)
	}
	type pair struct {
		p             *Policy
		c             *Critic
		actor, critic *Trainer
	}
	open := func() pair {
		p, err := Load(t.Context(), base, Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		})
		c := newCritic(t, p)
		return pair{p, c, newTrainer(t, p, actorConfig), criticTrainer(t, c, criticConfig)}
	}
	steps := func(x pair, from, to int) {
		for i := from; i < to; i++ {
			samples := randomSamples(rng.New(uint64(i)), 8, 60)
			for k, v := range valuesOf(t, x.c, sequencesOf(samples)...) {
				for j := range v {
					samples[k].TokenFields["advantage"][j] -= v[j]
				}
			}
			mini := [][]int{{0, 1, 2, 3}, {4, 5, 6, 7}}
			update(t, x.critic, UpdateSpec{Objective: valueLoss(t, .2), Samples: samples, MiniBatches: mini})
			loss := objectiveOf(t, o.TokenMean(o.ClippedSurrogate(o.Field("advantage", o.Token), .2, .2, 0), o.MaskPolicy), nil)
			update(t, x.actor, UpdateSpec{Objective: loss, Samples: samples, MiniBatches: mini})
		}
	}
	whole := open()
	steps(whole, 0, 6)
	part := open()
	steps(part, 0, 3)
	if err := errors.Join(part.actor.SaveState(t.Context(), actorDir), part.critic.SaveState(t.Context(), criticDir)); err != nil {
		t.Fatal(err)
	}
	resumed := open()
	if err := resumed.critic.LoadState(t.Context(), actorDir); err == nil {
		t.Fatal("a critic takes up the state of a policy")
	}
	if err := errors.Join(resumed.actor.LoadState(t.Context(), actorDir), resumed.critic.LoadState(t.Context(), criticDir)); err != nil {
		t.Fatal(err)
	}
	steps(resumed, 3, 6)
	if d := furthest(weightsOf(t, whole.p), weightsOf(t, resumed.p)); d != 0 {
		t.Errorf("the policy differs by %v after resuming", d)
	}
	if d := furthest(weightsOf(t, whole.c.net), weightsOf(t, resumed.c.net)); d != 0 {
		t.Errorf("the critic differs by %v after resuming", d)
	}
}

func TestCriticErrors(t *testing.T) {
	p := newTiny(t, tiny())
	c := newCritic(t, p)
	tr, samples := criticTrainer(t, c, OptimizerConfig{LearningRate: 1e-3}), randomSamples(rng.New(1), 2, 30)
	if _, err := tr.Update(t.Context(), UpdateSpec{Objective: nll(t), Samples: samples}); err == nil {
		t.Error("a critic takes an objective that trains the policy")
	}
	foreign := criticObjective(t, o.TokenMean(o.Mul(o.Value(), o.OldLogP()), o.MaskPolicy), nil)
	if _, err := tr.Update(t.Context(), UpdateSpec{Objective: foreign, Samples: samples}); !errors.Is(err, ErrNotSupported) {
		t.Errorf("log-probabilities in an objective of the critic give %v", err)
	}
	actor := newTrainer(t, p, OptimizerConfig{LearningRate: 1e-3})
	foreign = objectiveOf(t, o.TokenMean(o.Mul(o.LogP(), o.OldValue()), o.MaskPolicy), nil)
	if _, err := actor.Update(t.Context(), UpdateSpec{Objective: foreign, Samples: samples}); !errors.Is(err, ErrNotSupported) {
		t.Errorf("values in an objective of the policy give %v", err)
	}
	if _, err := c.Values(t.Context(), []Sequence{{Tokens: []int32{1, 2}}}); err == nil {
		t.Error("values of a sequence without a prompt")
	}
	var bad *NonFiniteError
	samples[1].TokenFields["advantage"][0] = 3e38
	if _, err := tr.Update(t.Context(), UpdateSpec{Objective: valueLoss(t, .5), Samples: samples}); !errors.As(err, &bad) || bad.Sample != 1 {
		t.Errorf("an overflow gives %v", err)
	}
	if tr.Steps() != 0 || c.Version() != 1 {
		t.Error("a refused update changed the critic")
	}
}

// compiledValues computes loss and gradient of a critic's objective on given values with the compiled objective, in
// float64, adding up micro-batches of perBatch rows.
func compiledValues(t testing.TB, b *Backend, obj o.Objective, rows []o.Row, perBatch int) (loss float64, grads [][]float64) {
	t.Helper()
	plan, err := newLossPlan(obj)
	if err != nil || plan == nil {
		t.Fatalf("objective %+v: %v, %v", obj, plan, err)
	}
	lb := lossBatch{}
	for i := range rows {
		var selected []int32
		for j := range rows[i].Value {
			if inAnyMask(obj, &rows[i], j) {
				selected = append(selected, int32(j))
			}
		}
		lb.positions = append(lb.positions, selected)
		grads = append(grads, make([]float64, len(rows[i].Value)))
	}
	if lb.structure, err = newStructure(plan.o, plan.levels, rows); err != nil {
		t.Fatal(err)
	}
	lb.weights = plan.coefficients(lb.structure)
	for start := 0; start < len(rows); start += perBatch {
		lb.rows = nil
		var flat []float64
		for i := start; i < min(start+perBatch, len(rows)); i++ {
			lb.rows = append(lb.rows, i)
			for _, j := range lb.positions[i] {
				flat = append(flat, rows[i].Value[j])
			}
		}
		flat = append(flat, 0, 0) // padding
		lb.sizes = lossSizes{tokens: len(flat), turns: 1, rows: len(lb.rows) + 1}
		var g *Graph
		if err := tryGraph(func() {
			g = NewGraph(b.engine, "test")
			value := Parameter(g, "value", shapes.Make(dtypes.Float64, len(flat)))
			l := plan.loss(g, dtypes.Float64, lb.sizes, map[o.Op]*Node{o.OpValue: value})
			if err := g.Compile(append([]*Node{l}, Gradient(l, value)...)...); err != nil {
				panic(err)
			}
		}); err != nil {
			t.Fatal(err)
		}
		args := b.arguments(g.NumParameters())
		host(args, flat, len(flat))
		plan.arguments(args, dtypes.Float64, &lb)
		out, err := args.run(g)
		if err != nil {
			t.Fatal(err)
		}
		loss += tensors.MustCopyFlatData[float64](out[0])[0]
		gradient, at := tensors.MustCopyFlatData[float64](out[1]), 0
		for _, i := range lb.rows {
			for _, j := range lb.positions[i] {
				grads[i][j] = gradient[at]
				at++
			}
		}
	}
	return loss, grads
}

func TestVectorValueLossCompiled(t *testing.T) {
	f, b := vectors.Load(t, "search-r1", "value_loss"), testBackend(t)
	for _, c := range f.Cases {
		in := vectors.Decode[struct {
			VPreds, Returns, Values [][]float64
			Mask                    [][]int
			Clip                    float64 `json:"cliprange_value"`
		}](t, c.Input)
		want := vectors.Decode[struct {
			Loss vectors.Float `json:"vf_loss"`
		}](t, c.Want())
		if math.IsNaN(float64(want.Loss)) {
			want.Loss = 0 // an empty mask: ours skips
		}
		obj := criticObjective(t, o.TokenMean(o.ValueLoss(o.Field("return", o.Token), in.Clip), o.MaskPolicy), nil)
		var rows []o.Row
		for r := range in.VPreds {
			rows = append(rows, o.Row{Value: in.VPreds[r], OldValue: in.Values[r], PolicyMask: bools(in.Mask[r]),
				TokenFields: map[string][]float64{"return": in.Returns[r]}})
		}
		exact, err := o.Eval(obj, o.Batch{Rows: rows})
		if err != nil {
			t.Fatal(err)
		}
		for _, perBatch := range []int{len(rows), 1, 2} {
			loss, grads := compiledValues(t, b, obj, rows, perBatch)
			near(t, f.Tolerance, fmt.Sprintf("%s: vf_loss in micro-batches of %d", c.ID, perBatch), loss, float64(want.Loss))
			for r := range rows {
				for j := range grads[r] {
					near(t, vectors.Tolerance{Abs: 1e-12, Rel: 1e-12}, fmt.Sprintf("%s: gradient[%d][%d]", c.ID, r, j), grads[r][j], exact.GradValue[r][j])
				}
			}
		}
	}
}
