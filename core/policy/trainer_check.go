package policy

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/forage-rl/forage/core/sdk/objective"
)

// check validates an update and lays out its rows.
func (u *updating) check() error {
	o := u.spec.Objective
	trains := objective.TrainsPolicy
	if u.p.model.layout.value >= 0 {
		trains = objective.TrainsCritic
	}
	if o.Trains != trains {
		return fmt.Errorf("it trains the %s, the trainer has a %s", o.Trains, trains)
	}
	levels, err := o.Levels()
	if err != nil {
		return err
	}
	if err := CheckObjective(o); err != nil {
		return err
	}
	if !(u.spec.Temperature > 0) || math.IsInf(u.spec.Temperature, 0) {
		return fmt.Errorf("temperature must be positive and finite, got %v", u.spec.Temperature)
	}
	if u.spec.Epochs < 0 || u.spec.MicroTokens < 0 {
		return fmt.Errorf("epochs and micro-batch tokens must not be negative, got %d and %d", u.spec.Epochs, u.spec.MicroTokens)
	}
	for b, batch := range u.spec.MiniBatches {
		for _, i := range batch {
			if i < 0 || i >= len(u.spec.Samples) {
				return fmt.Errorf("mini-batch %d names sample %d of %d", b, i, len(u.spec.Samples))
			}
		}
	}
	if u.plan, err = newLossPlan(o); err != nil {
		return err
	}
	u.entropy = o.Uses(objective.OpEntropy)
	u.leaves = u.p.model.leaves(u.entropy)
	u.linear = newLinearPlan(u.leaves)
	for i := range u.spec.Samples {
		if err := u.layRow(i, slices.Contains(levels, objective.Turn)); err != nil {
			return fmt.Errorf("sample %d: %w", i, err)
		}
	}
	return nil
}

// CheckObjective says whether a trainer can carry an objective out: it must be well-formed, and of what was recorded
// before the update it may read only what its own network recorded.
func CheckObjective(o objective.Objective) error {
	if _, err := o.Levels(); err != nil {
		return err
	}
	foreign := []objective.Op{objective.OpOldValue}
	if o.Trains == objective.TrainsCritic {
		foreign = []objective.Op{objective.OpOldLogP, objective.OpRefLogP}
	}
	for _, op := range foreign {
		if o.Uses(op) {
			return fmt.Errorf("%s in an objective that trains the %s is %w: send it as a token field", op, o.Trains, ErrNotSupported)
		}
	}
	return nil
}

// newLinearPlan is the loss Σ a·leaf over leaves and tokens, whose coefficients the host computes.
func newLinearPlan(leaves []objective.Op) *lossPlan {
	p := &lossPlan{id: "linear", constant: map[int]float64{}}
	for i, op := range leaves {
		p.id += " " + string(op)
		p.o.Nodes = append(p.o.Nodes, objective.Node{Op: op})
		p.levels = append(p.levels, objective.Token)
		p.inGraph = append(p.inGraph, true)
		p.terminals = append(p.terminals, i)
	}
	return p
}

// layRow checks a sample against what the objective reads, and selects the tokens that any of its masks holds.
func (u *updating) layRow(i int, turns bool) error {
	s, o := &u.spec.Samples[i], u.spec.Objective
	seq := Sequence{Tokens: s.Tokens, PromptLength: s.PromptLength}
	if err := u.p.checkSequence(seq); err != nil {
		return err
	}
	n := len(s.Tokens) - s.PromptLength
	if len(s.PolicyMask) != n {
		return fmt.Errorf("policy mask has %d elements, the response %d tokens", len(s.PolicyMask), n)
	}
	row := objective.Row{PolicyMask: s.PolicyMask, Group: strconv.Itoa(s.Group), TokenFields: map[string][]float64{}, SequenceFields: map[string]float64{}}
	if turns {
		if len(s.Turns) != n {
			return fmt.Errorf("turns has %d elements, the response %d tokens", len(s.Turns), n)
		}
		row.Turns = s.Turns
	}
	if o.Uses(objective.OpSamplerLogP) {
		if len(s.SamplerLogProbs) != n {
			return fmt.Errorf("sampler log-probabilities has %d elements, the response %d tokens", len(s.SamplerLogProbs), n)
		}
		row.SamplerLogP = widen(s.SamplerLogProbs)
	}
	for op, known := range s.Known {
		if len(known) != n {
			return fmt.Errorf("known %s has %d elements, the response %d tokens", op, len(known), n)
		}
	}
	for name, level := range o.Fields() {
		if level == objective.Sequence {
			v, given := s.SequenceFields[name]
			if !given {
				return fmt.Errorf("the objective reads sequence field %q, which the sample lacks", name)
			}
			if !finite(float64(v)) {
				return fmt.Errorf("sequence field %q is %v", name, v)
			}
			row.SequenceFields[name] = float64(v)
			continue
		}
		values, given := s.TokenFields[name]
		if !given {
			return fmt.Errorf("the objective reads token field %q, which the sample lacks", name)
		}
		if len(values) != n {
			return fmt.Errorf("token field %q has %d elements, the response %d tokens", name, len(values), n)
		}
		row.TokenFields[name] = widen(values)
	}
	var selected []int32
	for t := range n {
		if !inAnyMask(o, &row, t) {
			continue
		}
		selected = append(selected, int32(t))
		for name, values := range row.TokenFields {
			if !finite(values[t]) {
				return fmt.Errorf("token field %q is %v at response token %d", name, values[t], t)
			}
		}
		if row.SamplerLogP != nil && !finite(row.SamplerLogP[t]) {
			return fmt.Errorf("sampler log-probability is %v at response token %d", row.SamplerLogP[t], t)
		}
	}
	u.rows, u.seqs, u.positions = append(u.rows, row), append(u.seqs, seq), append(u.positions, selected)
	return nil
}

// inAnyMask says whether some reduction of the objective looks at token t.
func inAnyMask(o objective.Objective, row *objective.Row, t int) bool {
	for _, n := range o.Nodes {
		if n.Op != objective.OpReduce || n.From != objective.Token {
			continue
		}
		switch n.Mask {
		case objective.MaskResponse:
			return true
		case objective.MaskPolicy, "":
			if row.PolicyMask[t] {
				return true
			}
		default:
			if row.TokenFields[n.Mask][t] != 0 {
				return true
			}
		}
	}
	return false
}

func widen(v []float32) []float64 {
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = float64(x)
	}
	return out
}
