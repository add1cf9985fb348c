package policy

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/forage-rl/forage/core/sdk/objective"
)

// TrainSample is one sequence to train on. Arrays run over its response: one element per token after the prompt.
type TrainSample struct {
	Tokens          []int32
	PromptLength    int
	PolicyMask      []bool    // tokens that the policy wrote
	SamplerLogProbs []float32 // recorded while sampling; needed only where the objective reads them
	Turns           []int     // turn of each token, from 0, -1 for none; needed only where the objective has turns
	TokenFields     map[string][]float32
	SequenceFields  map[string]float32
	Group           int // samples of equal numbers form one group
	// Known holds, over the response, what was computed of the sequence before: of the present weights for old_logp and
	// old_value, of the reference for ref_logp, at the update's temperature. What is missing is computed where the
	// objective reads it.
	Known map[objective.Op][]float32
}

// UpdateSpec is one update: an objective over samples, in mini-batches, perhaps several times.
type UpdateSpec struct {
	Objective   objective.Objective
	Samples     []TrainSample
	MiniBatches [][]int // indices of Samples, one optimizer step each, in order; nil: all samples in one
	Epochs      int     // passes over the mini-batches; 0 means 1
	Temperature float64 // of the log-probabilities; 0 means 1
	MicroTokens int     // most tokens that go through the network together; 0: a default. It changes nothing beyond rounding
}

// UpdateMetrics says what an update did. Means are over its optimizer steps.
type UpdateMetrics struct {
	Loss            float64            // mean of the objective, each at the weights before its step
	Metrics         map[string]float64 // means of the objective's metrics, likewise
	GradNorm        float64            // mean of the gradient's norm before clipping
	MaxGradNorm     float64
	LearningRate    float64 // of the last step
	Steps           int     // optimizer steps taken
	EmptySteps      int     // mini-batches without a token to train on: no step was taken
	ClippedSteps    int     // steps whose gradient was scaled down
	TrainedTokens   int     // tokens under a mask of the objective, over all steps
	ProcessedTokens int     // tokens of the sequences that went through the network for gradients
	SkippedRows     int     // rows in which a mask of the loss was empty, over all steps
}

// NonFiniteError says that a loss or gradient was not a finite number. The step was not applied.
type NonFiniteError struct {
	Step      int    // optimizer step within the update, from 0
	Objective string // its name
	Sample    int    // first sample found to cause it, as an index of UpdateSpec.Samples; -1: none causes it alone
	What      string // "loss" or "gradient"
}

func (e *NonFiniteError) Error() string {
	where := "no single sample causes it alone"
	if e.Sample >= 0 {
		where = fmt.Sprintf("first in sample %d", e.Sample)
	}
	return fmt.Sprintf("train: objective %q: %s of optimizer step %d is not finite (%s); the step was not applied: lower the learning rate or bound the objective's ratios",
		e.Objective, e.What, e.Step, where)
}

// Trainer updates the weights of a policy or a critic. Each trainer has its own optimizer state. It is safe for
// concurrent use, one update at a time; several trainers of one network must not update at the same time.
type Trainer struct {
	p      *Policy
	config OptimizerConfig

	mu      sync.Mutex
	moments moments
	steps   int // optimizer steps taken
	updates int // updates finished since the schedule began
	origin  int // steps at which the schedule began
}

// NewTrainer makes a trainer with a fresh optimizer state; for a critic see [Critic.NewTrainer].
func NewTrainer(p *Policy, config OptimizerConfig) (*Trainer, error) {
	if err := config.complete(); err != nil {
		return nil, err
	}
	state, err := p.zeroMoments()
	if err != nil {
		return nil, fmt.Errorf("new trainer: %w", err)
	}
	return &Trainer{p: p, config: config, moments: state}, nil
}

// Steps counts the optimizer steps taken.
func (t *Trainer) Steps() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.steps
}

// Updates counts the updates finished since the schedule began.
func (t *Trainer) Updates() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.updates
}

// Close frees the optimizer state.
func (t *Trainer) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	state := t.moments
	t.moments = moments{}
	return finalize(append(state.first, state.second...)...)
}

// Update trains the network on an objective, one optimizer step per mini-batch and epoch. Gradients are those of the
// objective over the whole mini-batch, however it is cut into micro-batches. On an error the steps taken before stay,
// the failing one is not applied.
func (t *Trainer) Update(ctx context.Context, spec UpdateSpec) (UpdateMetrics, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	u, err := t.newUpdate(ctx, spec)
	if err != nil {
		return UpdateMetrics{}, err
	}
	m := UpdateMetrics{Metrics: map[string]float64{}}
	for epoch := range u.spec.Epochs {
		for b, batch := range u.spec.MiniBatches {
			if err := checkContext(ctx); err != nil {
				return m, err
			}
			if err := u.step(ctx, batch, epoch+b == 0, &m); err != nil {
				return m, err
			}
		}
	}
	t.updates++
	if m.Steps > 0 {
		m.Loss /= float64(m.Steps)
		m.GradNorm /= float64(m.Steps)
		for name := range m.Metrics {
			m.Metrics[name] /= float64(m.Steps)
		}
	}
	return m, nil
}

// rate is the learning rate of the next optimizer step.
func (t *Trainer) rate() float64 {
	at := t.updates
	if t.config.Schedule.PerOptimizerStep {
		at = t.steps - t.origin
	}
	return t.config.LearningRate * t.config.Schedule.Factor(at)
}

// updating is the state of one call of Update.
type updating struct {
	*Trainer
	spec      UpdateSpec
	plan      *lossPlan       // nil: the host differentiates the objective
	first     *lossPlan       // for the first optimizer step
	linear    *lossPlan       // the leaves with coefficients from the host
	rows      []objective.Row // of the samples; leaves filled in as they are computed
	seqs      []Sequence
	positions [][]int32 // selected response tokens of each sample
	entropy   bool
	leaves    []objective.Op // what the network reads at them
}

func (t *Trainer) newUpdate(ctx context.Context, spec UpdateSpec) (*updating, error) {
	if spec.Epochs == 0 {
		spec.Epochs = 1
	}
	if spec.Temperature == 0 {
		spec.Temperature = 1
	}
	if spec.MicroTokens == 0 {
		spec.MicroTokens = batchTokens
	}
	if spec.MiniBatches == nil {
		all := make([]int, len(spec.Samples))
		for i := range all {
			all[i] = i
		}
		spec.MiniBatches = [][]int{all}
	}
	u := &updating{Trainer: t, spec: spec}
	if err := u.check(); err != nil {
		return nil, fmt.Errorf("train: objective %q: %w", spec.Objective.Name, err)
	}
	if err := u.record(ctx); err != nil {
		return nil, fmt.Errorf("train: objective %q: %w", spec.Objective.Name, err)
	}
	return u, nil
}

// record computes what the objective reads of the network before the update, and of the reference, at the selected
// tokens, as far as it is not known and the first optimizer step does not find it out itself.
func (u *updating) record(ctx context.Context) error {
	u.first = u.plan
	var opening []int // samples of the first step
	if len(u.spec.MiniBatches) > 0 {
		opening = u.spec.MiniBatches[0]
	}
	for _, leaf := range []struct {
		op        objective.Op
		reference bool
	}{
		{objective.OpOldLogP, false}, {objective.OpRefLogP, true}, {objective.OpOldValue, false},
	} {
		if !u.spec.Objective.Uses(leaf.op) {
			continue
		}
		// The first step finds out what it needs, if it knows nothing of it.
		first := !leaf.reference && u.plan != nil &&
			!slices.ContainsFunc(opening, func(i int) bool { return u.spec.Samples[i].Known[leaf.op] != nil })
		var missing []int
		for i := range u.rows {
			if known := u.spec.Samples[i].Known[leaf.op]; known != nil {
				*column(&u.rows[i], leaf.op) = widen(known)
			} else if !first || len(u.positions[i]) == 0 || !slices.Contains(opening, i) {
				missing = append(missing, i)
			}
		}
		if first {
			u.first = u.first.beforeStep(leaf.op)
		}
		if len(missing) == 0 {
			continue
		}
		weights, err := u.p.hold(leaf.reference)
		if err != nil {
			return err
		}
		err = u.readRows(ctx, weights, missing, false, func(i int, read [][]float64) { *column(&u.rows[i], leaf.op) = read[0] })
		if e := weights.release(); err == nil {
			err = e
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// column is the array of a row that holds a leaf.
func column(r *objective.Row, op objective.Op) *[]float64 {
	switch op {
	case objective.OpEntropy:
		return &r.Entropy
	case objective.OpValue:
		return &r.Value
	case objective.OpOldLogP:
		return &r.OldLogP
	case objective.OpRefLogP:
		return &r.RefLogP
	case objective.OpOldValue:
		return &r.OldValue
	}
	return &r.LogP
}

// readRows computes what the network reads at the selected tokens of some samples; put gets for each of [model.leaves] an
// array over the whole response, 0 elsewhere.
func (u *updating) readRows(ctx context.Context, weights *weightSet, samples []int, entropy bool, put func(sample int, read [][]float64)) error {
	list := make([]scored, len(samples))
	leaves := len(u.p.model.leaves(entropy))
	for k, i := range samples {
		list[k] = scored{len(u.seqs[i].Tokens), len(u.positions[i])}
		if len(u.positions[i]) == 0 {
			put(i, u.zeros(i, leaves))
		}
	}
	seqs := make([]Sequence, len(samples))
	for k, i := range samples {
		seqs[k] = u.seqs[i]
	}
	for _, b := range split(list, u.p.bounds(u.spec.MicroTokens, false)) {
		if err := checkContext(ctx); err != nil {
			return err
		}
		flats, err := u.p.readBatch(weights, b, seqs, func(k int) []int32 { return u.positions[samples[k]] }, u.spec.Temperature, entropy)
		if err != nil {
			return err
		}
		at := 0
		for _, k := range b.samples {
			i := samples[k]
			read := u.zeros(i, leaves)
			for _, pos := range u.positions[i] {
				for l := range read {
					read[l][pos] = flats[l][at]
				}
				at++
			}
			put(i, read)
		}
	}
	return nil
}

// zeros makes n arrays over the response of a sample.
func (u *updating) zeros(sample, n int) [][]float64 {
	out := make([][]float64, n)
	for k := range out {
		out[k] = make([]float64, len(u.rows[sample].PolicyMask))
	}
	return out
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
