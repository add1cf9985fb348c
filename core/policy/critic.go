package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/tensors"
)

// Critic is a value network: the body of a policy with a head of one number per token, and weights of its own. Its value
// of response token t is computed from the tokens before t. Its methods are safe for concurrent use.
type Critic struct{ net *Policy }

// NewCritic makes a critic whose body has the policy's present weights. The head starts at zero, weight and bias: the
// first values are exactly 0, so the first advantages are the returns and nothing is drawn at random. There is no
// dropout. The critic runs on the policy's backend, which has to stay open.
func NewCritic(p *Policy) (_ *Critic, err error) {
	weights, err := p.acquire()
	if err != nil {
		return nil, fmt.Errorf("new critic: %w", err)
	}
	defer func() { err = errors.Join(err, weights.release()) }()
	net := &Policy{backend: p.backend, mostKept: p.mostKept, model: &model{
		config: p.model.config, layout: p.model.layout.critic(), dtype: p.model.dtype, fused: p.model.fused,
	}}
	from := map[string]*tensors.Tensor{}
	for i, s := range p.model.layout.specs {
		from[s.name] = weights.tensors[i]
	}
	var list []*tensors.Tensor
	for _, s := range net.model.layout.specs {
		t, err := p.backend.duplicate(from[s.name], p.model.dtype, s)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("new critic: %w", err), finalize(list...))
		}
		list = append(list, t)
	}
	net.weights = newWeightSet(list, 1)
	return &Critic{net}, nil
}

// duplicate copies a tensor; nil gives zeros.
func (b *Backend) duplicate(t *tensors.Tensor, dtype dtypes.DType, s weightSpec) (*tensors.Tensor, error) {
	if t == nil {
		return b.uploadFloats(dtype, make([]float32, s.size()), s.dims...)
	}
	if dtype == dtypes.Float64 {
		flat, err := tensors.CopyFlatData[float64](t)
		if err != nil {
			return nil, err
		}
		return upload(b, flat, s.dims...)
	}
	flat, err := tensors.CopyFlatData[float32](t)
	if err != nil {
		return nil, err
	}
	return upload(b, flat, s.dims...)
}

// critic is the layout of a critic over the same body: a value head takes the place of the head over the vocabulary.
func (l layout) critic() layout {
	c := l
	c.specs = slices.Clone(l.specs)
	if l.head >= 0 { // it is the last
		c.specs = c.specs[:l.head]
	}
	c.head = -1
	hidden := l.specs[l.finalNorm].dims[0]
	c.specs = append(c.specs, weightSpec{name: "value_head.weight", dims: []int{hidden}}, weightSpec{name: "value_head.bias", dims: []int{1}})
	c.value, c.valueBias = len(c.specs)-2, len(c.specs)-1
	return c
}

// Parameters counts the weights.
func (c *Critic) Parameters() int { return c.net.Parameters() }

// Version counts the updates of the weights, starting at 1.
func (c *Critic) Version() uint64 { return c.net.Version() }

// Close frees the weights. Trainers of the critic are invalid afterwards.
func (c *Critic) Close() error { return c.net.Close() }

// NewTrainer makes a trainer with a fresh optimizer state. Its updates take objectives that train the critic.
func (c *Critic) NewTrainer(config OptimizerConfig) (*Trainer, error) {
	return NewTrainer(c.net, config)
}

// Values gives the value of every response token (all tokens after the prompt): what the critic expects, before it is
// read, of the rewards from there on.
func (c *Critic) Values(ctx context.Context, seqs []Sequence) (values [][]float32, err error) {
	weights, err := c.net.acquire()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, weights.release()) }()
	for i, s := range seqs {
		if err := c.net.checkSequence(s); err != nil {
			return nil, fmt.Errorf("values: sequence %d: %w", i, err)
		}
	}
	read, err := c.net.readAll(ctx, weights, seqs, 1, false)
	if err != nil {
		return nil, err
	}
	return read[0], nil
}
