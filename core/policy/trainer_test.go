package policy

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/forage-rl/forage/core/internal/rng"
	o "github.com/forage-rl/forage/core/sdk/objective"
)

func newTrainer(t testing.TB, p *Policy, config OptimizerConfig) *Trainer {
	t.Helper()
	tr, err := NewTrainer(p, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	})
	return tr
}

func update(t testing.TB, tr *Trainer, spec UpdateSpec) UpdateMetrics {
	t.Helper()
	m, err := tr.Update(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// randomSamples makes sequences with interleaved policy and observation tokens, two per group.
func randomSamples(key rng.Key, n, longest int) []TrainSample {
	var out []TrainSample
	for i := range n {
		k := key.With(uint64(i))
		length := 8 + int(k.Uint64(0)%uint64(longest-8))
		s := TrainSample{Tokens: randomTokens(k, length, 207), PromptLength: 2 + int(k.Uint64(1)%4), Group: i / 2,
			TokenFields: map[string][]float32{}, SequenceFields: map[string]float32{"reward": float32(k.Float64(9))}}
		for j := range length - s.PromptLength {
			s.PolicyMask = append(s.PolicyMask, j/5%2 == 0)
			s.Turns = append(s.Turns, j/10)
			s.SamplerLogProbs = append(s.SamplerLogProbs, float32(-4-2*k.Float64(uint64(50+j))))
			s.TokenFields["advantage"] = append(s.TokenFields["advantage"], float32(2*k.Float64(2)-1))
		}
		out = append(out, s)
	}
	return out
}

func nll(t testing.TB) o.Objective { return objectiveOf(t, o.TokenMean(o.NLL(), o.MaskPolicy), nil) }

// grpo is the loss of GRPO with divergence and entropy terms.
func grpo(t testing.TB) o.Objective {
	a := o.Field("advantage", o.Token)
	pg, h, k3 := o.GroupMean(o.ClippedSurrogate(a, .2, .2, 0), o.MaskPolicy), o.TokenMean(o.Entropy(), o.MaskPolicy), o.TokenMean(kl(t, "k3"), o.MaskPolicy)
	return objectiveOf(t, o.Add(o.Sub(pg, o.Mul(o.Const(.001), h)), o.Mul(o.Const(.001), k3)),
		map[string]o.Expr{"pg_loss": pg, "entropy": h, "kl": k3, "clip_fraction": o.TokenMean(o.ClipFraction(a, .2, .2), o.MaskPolicy)})
}

// pairs is a preference loss, whose groups the host combines (DPO without reference).
func pairs(t testing.TB) o.Objective {
	total := o.Reduce(o.LogP(), o.Token, o.Sequence, o.Mean, o.MaskPolicy)
	return objectiveOf(t, o.Neg(o.Reduce(o.LogSigmoid(o.GroupDifference(total)), o.Group, o.Scalar, o.Mean, "")), nil)
}

func weightsOf(t testing.TB, p *Policy) [][]float32 {
	t.Helper()
	w, err := p.acquire()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := w.release(); err != nil {
			t.Error(err)
		}
	}()
	var out [][]float32
	for _, x := range w.tensors {
		flat, err := downloadFloats(x)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, flat)
	}
	return out
}

func furthest(a, b [][]float32) float64 {
	d := 0.
	for i := range a {
		for j := range a[i] {
			d = max(d, math.Abs(float64(a[i][j]-b[i][j])))
		}
	}
	return d
}

// Cutting a mini-batch into micro-batches changes nothing beyond rounding, for losses that the graph computes and for
// those that the host differentiates.
func TestMicroBatchesChangeNothing(t *testing.T) {
	samples := randomSamples(rng.New(1), 12, 70)
	samples[5].PolicyMask = make([]bool, len(samples[5].PolicyMask)) // an empty mask
	for name, objective := range map[string]o.Objective{"grpo": grpo(t), "pairs": pairs(t), "nll": nll(t)} {
		var weights [][][]float32
		var metrics []UpdateMetrics
		for _, micro := range []int{100000, 200, 1} {
			p := newTiny(t, tiny())
			if err := p.Snapshot(); err != nil {
				t.Fatal(err)
			}
			// One step whose size does not depend on the gradient's sign alone: a large epsilon.
			tr := newTrainer(t, p, OptimizerConfig{LearningRate: 1, Epsilon: 1})
			before := weightsOf(t, p)
			m := update(t, tr, UpdateSpec{Objective: objective, Samples: samples, MicroTokens: micro})
			weights, metrics = append(weights, weightsOf(t, p)), append(metrics, m)
			if moved := furthest(before, weights[len(weights)-1]); moved < 1e-3 {
				t.Fatalf("%s: weights moved by %v only", name, moved)
			}
			if m.SkippedRows != 1 || m.Steps != 1 {
				t.Errorf("%s: %d rows skipped, %d steps, expected 1 and 1", name, m.SkippedRows, m.Steps)
			}
		}
		for i := range weights {
			if d := furthest(weights[0], weights[i]); d > 2e-6 {
				t.Errorf("%s: micro-batches move weights by %v", name, d)
			}
			if math.Abs(metrics[0].Loss-metrics[i].Loss) > 1e-6 || math.Abs(metrics[0].GradNorm-metrics[i].GradNorm) > 1e-5*metrics[0].GradNorm {
				t.Errorf("%s: metrics %+v and %+v", name, metrics[0], metrics[i])
			}
		}
	}
}

// Where activations would take too much room they are computed again, to the last bit.
func TestRecomputeChangesNothing(t *testing.T) {
	samples := randomSamples(rng.New(1), 6, 70)
	var weights [][][]float32
	for _, most := range []int{mostKept, 1} {
		p := newTiny(t, tiny())
		p.mostKept = most
		if err := p.Snapshot(); err != nil {
			t.Fatal(err)
		}
		tr := newTrainer(t, p, OptimizerConfig{LearningRate: 1, Epsilon: 1})
		before := weightsOf(t, p)
		// One sequence at a time, as those are that have to be computed again.
		update(t, tr, UpdateSpec{Objective: grpo(t), Samples: samples, MicroTokens: 1})
		weights = append(weights, weightsOf(t, p))
		if moved := furthest(before, weights[len(weights)-1]); moved < 1e-3 {
			t.Fatalf("weights moved by %v only", moved)
		}
	}
	if d := furthest(weights[0], weights[1]); d != 0 {
		t.Errorf("computing activations again moves weights by %v", d)
	}
}

func TestMicroBatchesByMemory(t *testing.T) {
	list := []scored{{10, 4}, {100, 4}, {20, 4}, {20, 0}, {12, 4}, {30, 4}}
	within := bounds{tokens: 1000, vocabulary: 207, mostKept: 50, kept: func(rows, length int) int { return rows * length }}
	var rows, lengths []int
	var again []bool
	for _, b := range split(list, within) {
		rows, lengths, again = append(rows, b.rows), append(lengths, b.length), append(again, b.recompute)
	}
	if !slices.Equal(lengths, []int{104, 32, 24, 16}) || !slices.Equal(rows, []int{1, 1, 2, 1}) || !slices.Equal(again, []bool{true, false, false, false}) {
		t.Errorf("lengths %v, rows %v, computed again %v", lengths, rows, again)
	}
	within.kept = nil
	if b := split(list, within); len(b) != 1 || b[0].recompute {
		t.Errorf("without a gradient memory is no bound: %+v", b)
	}
}

// A gradient of the whole network against finite differences along a random direction, in float64.
func TestGradientAgainstDifferences(t *testing.T) {
	for name, config := range variants() {
		t.Run(name, func(t *testing.T) {
			p, err := New(config, tinyInit(3), Options{DType: "float64"})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := p.Close(); err != nil {
					t.Error(err)
				}
			}()
			if err := p.Snapshot(); err != nil {
				t.Fatal(err)
			}
			samples := randomSamples(rng.New(8), 4, 40)
			tr := newTrainer(t, p, OptimizerConfig{LearningRate: 1})
			u, err := tr.newUpdate(t.Context(), UpdateSpec{Objective: grpo(t), Samples: samples, Temperature: .7})
			if err != nil {
				t.Fatal(err)
			}
			checkGradient(t, u, 4)
		})
	}
}

// checkGradient compares the gradient over n samples with differences along a random direction.
func checkGradient(t *testing.T, u *updating, n int) {
	t.Helper()
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	base, err := u.p.acquire()
	if err != nil {
		t.Fatal(err)
	}
	_, grads, _, err := u.gradient(t.Context(), base, all, true)
	if err != nil {
		t.Fatal(err)
	}
	along := 0.
	losses := map[float64]float64{}
	for _, h := range []float64{1e-4, -1e-4} {
		moved := &weightSet{version: 99}
		along = 0
		for i, s := range u.p.model.layout.specs {
			w, g := flat64(t, base.tensors[i]), flat64(t, grads[i])
			for j := range w {
				d := rng.New(4, uint64(i), uint64(j)).Float64(0) - .5
				along += d * g[j]
				w[j] += h * d
			}
			x, err := upload(u.p.backend, w, s.dims...)
			if err != nil {
				t.Fatal(err)
			}
			moved.tensors = append(moved.tensors, x)
		}
		r, _, _, err := u.gradient(t.Context(), moved, all, false)
		if err != nil {
			t.Fatal(err)
		}
		losses[h] = r.Loss
	}
	slope := (losses[1e-4] - losses[-1e-4]) / 2e-4
	if math.Abs(slope-along) > 1e-5*max(1, math.Abs(along)) || math.Abs(along) < 1e-4 {
		t.Errorf("slope %v, gradient says %v", slope, along)
	}
	if err := base.release(); err != nil {
		t.Error(err)
	}
}

// The traps of graphs that keep the weights they were built with: each case has weights loaded before the first graph,
// two lengths, sampling after an update, and a second trainer.
func TestNoGraphKeepsOldWeights(t *testing.T) {
	p := newTiny(t, tiny())
	short, long := randomSamples(rng.New(1), 6, 14), randomSamples(rng.New(2), 6, 120)
	s := session(t, p, 4, 100)
	row := []Row{{ID: 1, Tokens: randomTokens(rng.New(4), 6, 207), MaxNew: 40, Key: rng.New(4)}}
	seq := []Sequence{{Tokens: short[0].Tokens, PromptLength: 1}}
	sampled := func() []float32 { return generate(t, s, row, SampleParams{})[0].LogProbs }
	scores := func() []float32 {
		l, _, err := p.LogProbs(t.Context(), seq, 1, false, false)
		if err != nil {
			t.Fatal(err)
		}
		return l[0]
	}
	samples0, scores0 := sampled(), scores()
	first := newTrainer(t, p, OptimizerConfig{LearningRate: 1e-2})
	var losses []float64
	for range 2 {
		for _, batch := range [][]TrainSample{short, long} {
			losses = append(losses, update(t, first, UpdateSpec{Objective: nll(t), Samples: batch}).Loss)
		}
	}
	if !(losses[2] < losses[0]-.01 && losses[3] < losses[1]-.01) {
		t.Errorf("losses of two lengths do not fall: %v", losses)
	}
	samples1, scores1 := sampled(), scores()
	second := newTrainer(t, p, OptimizerConfig{LearningRate: 1e-2})
	if again := update(t, second, UpdateSpec{Objective: nll(t), Samples: short}).Loss; !(again < losses[2]) {
		t.Errorf("a second trainer starts at loss %v, the first left it at %v", again, losses[2])
	}
	samples2, scores2 := sampled(), scores()
	for _, pair := range [][2][]float32{{samples0, samples1}, {samples1, samples2}, {scores0, scores1}, {scores1, scores2}} {
		if slices.Equal(pair[0], pair[1]) {
			t.Error("an update changed nothing for the sampler or the scorer")
		}
	}
	// What is sampled now is what the trainer computes now.
	out := generate(t, s, []Row{{ID: 9, Tokens: row[0].Tokens, MaxNew: 40, Key: rng.New(6)}}, SampleParams{Temperature: .8})[0]
	l, _, err := p.LogProbs(t.Context(), []Sequence{{Tokens: slices.Concat(row[0].Tokens, out.Tokens), PromptLength: 6}}, .8, false, false)
	if err != nil {
		t.Fatal(err)
	}
	for i := range out.LogProbs {
		if math.Abs(float64(out.LogProbs[i]-l[0][i])) > 1e-4 {
			t.Fatalf("token %d: sampler says %v, trainer %v", i, out.LogProbs[i], l[0][i])
		}
	}
}

func TestReferenceStays(t *testing.T) {
	p := newTiny(t, tiny())
	seqs := []Sequence{{Tokens: randomTokens(rng.New(1), 20, 207), PromptLength: 3}}
	if _, _, err := p.LogProbs(t.Context(), seqs, 1, true, false); err == nil {
		t.Fatal("log-probs of a reference that does not exist")
	}
	if err := p.Snapshot(); err != nil {
		t.Fatal(err)
	}
	before, _, err := p.LogProbs(t.Context(), seqs, 1, false, false)
	if err != nil {
		t.Fatal(err)
	}
	tr := newTrainer(t, p, OptimizerConfig{LearningRate: 1e-2})
	samples := randomSamples(rng.New(1), 8, 40)
	first := update(t, tr, UpdateSpec{Objective: grpo(t), Samples: samples})
	if first.Metrics["kl"] > 1e-9 || first.Metrics["clip_fraction"] != 0 {
		t.Errorf("at the reference itself the divergence is %v and %v are clipped", first.Metrics["kl"], first.Metrics["clip_fraction"])
	}
	if second := update(t, tr, UpdateSpec{Objective: grpo(t), Samples: samples}); !(second.Metrics["kl"] > 1e-6) {
		t.Errorf("after an update the divergence is %v", second.Metrics["kl"])
	}
	after, _, err := p.LogProbs(t.Context(), seqs, 1, true, false)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(before[0], after[0]) {
		t.Error("the reference changed with the policy")
	}
}

func TestUpdateErrors(t *testing.T) {
	p := newTiny(t, tiny())
	tr := newTrainer(t, p, OptimizerConfig{LearningRate: 1e-3})
	samples := randomSamples(rng.New(1), 4, 30)
	before := weightsOf(t, p)

	critic, err := o.New("values", o.TrainsCritic, o.TokenMean(o.ValueLoss(o.Field("advantage", o.Token), .2), o.MaskPolicy), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tr.Update(t.Context(), UpdateSpec{Objective: critic, Samples: samples}); err == nil {
		t.Error("a policy takes an objective that trains the critic")
	}
	if _, err := tr.Update(t.Context(), UpdateSpec{Objective: objectiveOf(t, o.TokenMean(o.Mul(o.LogP(), o.Field("absent", o.Token)), o.MaskPolicy), nil), Samples: samples}); err == nil {
		t.Error("a missing field is not noticed")
	}
	// exp(1000·logp²) overflows in the row whose log-probability is lowest, which is every row here but those whose
	// field is 0.
	for i := range samples {
		samples[i].SequenceFields["reward"] = 0
	}
	samples[2].SequenceFields["reward"] = 1000
	var bad *NonFiniteError
	explosive := objectiveOf(t, o.TokenMean(o.Exp(o.Mul(o.Field("reward", o.Sequence), o.Square(o.LogP()))), o.MaskPolicy), nil)
	if _, err := tr.Update(t.Context(), UpdateSpec{Objective: explosive, Samples: samples}); !errors.As(err, &bad) || bad.Sample != 2 || bad.Objective != "test" {
		t.Errorf("an overflow gives %v", err)
	}
	empty := slices.Clone(samples)
	for i := range empty {
		empty[i].PolicyMask = make([]bool, len(empty[i].PolicyMask))
	}
	if m := update(t, tr, UpdateSpec{Objective: nll(t), Samples: empty}); m.EmptySteps != 1 || m.Steps != 0 || m.SkippedRows != 4 {
		t.Errorf("a mini-batch without tokens gives %+v", m)
	}
	if furthest(before, weightsOf(t, p)) != 0 || tr.Steps() != 0 {
		t.Error("a refused update changed the weights")
	}
}

// TestKnown: what is known of the weights before an update is taken over, and only the rest is computed.
func TestKnown(t *testing.T) {
	samples := randomSamples(rng.New(71), 6, 40)
	var seqs []Sequence
	for _, s := range samples {
		seqs = append(seqs, Sequence{Tokens: s.Tokens, PromptLength: s.PromptLength})
	}
	run := func(known func(old, ref []float32) map[o.Op][]float32) (UpdateMetrics, error) {
		p := newTiny(t, tiny())
		if err := p.Snapshot(); err != nil {
			t.Fatal(err)
		}
		old, _, err := p.LogProbs(t.Context(), seqs, 1, false, false)
		if err != nil {
			t.Fatal(err)
		}
		ref, _, err := p.LogProbs(t.Context(), seqs, 1, true, false)
		if err != nil {
			t.Fatal(err)
		}
		list := slices.Clone(samples)
		for i := range list[:4] { // the others are computed
			list[i].Known = known(old[i], ref[i])
		}
		tr := newTrainer(t, p, OptimizerConfig{LearningRate: 1e-3})
		return tr.Update(t.Context(), UpdateSpec{Objective: grpo(t), Samples: list, MiniBatches: [][]int{{0, 1, 2, 3}, {4, 5}}})
	}
	want, err := run(func(_, _ []float32) map[o.Op][]float32 { return nil })
	if err != nil {
		t.Fatal(err)
	}
	got, err := run(func(old, ref []float32) map[o.Op][]float32 {
		return map[o.Op][]float32{o.OpOldLogP: old, o.OpRefLogP: ref}
	})
	if err != nil || math.Abs(got.Loss-want.Loss) > 1e-5 || math.Abs(got.GradNorm-want.GradNorm) > 1e-4*want.GradNorm {
		t.Errorf("%v: loss %v, gradient %v; want %v, %v", err, got.Loss, got.GradNorm, want.Loss, want.GradNorm)
	}
	shifted, err := run(func(old, ref []float32) map[o.Op][]float32 {
		for i := range old {
			old[i]++
		}
		return map[o.Op][]float32{o.OpOldLogP: old}
	})
	if err != nil || math.Abs(shifted.Loss-want.Loss) < 1e-3 {
		t.Errorf("%v: what is known is not used: loss %v, without %v", err, shifted.Loss, want.Loss)
	}
	if _, err := run(func(old, _ []float32) map[o.Op][]float32 { return map[o.Op][]float32{o.OpOldLogP: old[1:]} }); err == nil {
		t.Error("a known column of the wrong length must be refused")
	}
}
