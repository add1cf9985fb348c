package policy

import (
	"fmt"
	"math"

	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint:revive // graph code reads as formulas
	"github.com/gomlx/gomlx/core/tensors"
)

// OptimizerConfig is AdamW (Loshchilov and Hutter 2019) with a bound on the norm of the whole gradient.
type OptimizerConfig struct {
	LearningRate float64
	Beta1, Beta2 float64 // 0 means 0.9 and 0.999
	Epsilon      float64 // 0 means 1e-8
	WeightDecay  float64 // decoupled: each step scales all weights by 1 - rate·decay
	ClipNorm     float64 // bound of the gradient's L2 norm; 0: none
	Schedule     Schedule
}

func (c *OptimizerConfig) complete() error {
	if c.Beta1 == 0 {
		c.Beta1 = .9
	}
	if c.Beta2 == 0 {
		c.Beta2 = .999
	}
	if c.Epsilon == 0 {
		c.Epsilon = 1e-8
	}
	for _, v := range []struct {
		name      string
		value     float64
		low, high float64
	}{
		{"learning rate", c.LearningRate, 0, math.MaxFloat64}, {"beta1", c.Beta1, 0, 1 - 1e-12}, {"beta2", c.Beta2, 0, 1 - 1e-12},
		{"epsilon", c.Epsilon, 0, math.MaxFloat64}, {"weight decay", c.WeightDecay, 0, math.MaxFloat64}, {"clip norm", c.ClipNorm, 0, math.MaxFloat64},
	} {
		if !(v.value >= v.low && v.value <= v.high) {
			return fmt.Errorf("optimizer: %s is %v, outside [%v, %v]", v.name, v.value, v.low, v.high)
		}
	}
	return c.Schedule.validate()
}

// gradientNorm builds the program that gives the L2 norm of all gradients together.
func (m *model) gradientNorm(g *Graph) []*Node {
	total := ScalarZero(g, m.dtype)
	for _, grad := range m.parameters(g) {
		total = Add(total, ReduceAllSum(Mul(grad, grad)))
	}
	return []*Node{Sqrt(total)}
}

// adamw builds the program of one optimizer step. Parameters: weights; gradients; first moments; second moments;
// scale of the gradient; 1-rate·decay; beta1, 1-beta1; beta2, 1-beta2; rate/(1-beta1^t); √(1-beta2^t); epsilon.
// Results: weights, first moments, second moments.
func (m *model) adamw(g *Graph) []*Node {
	weights, grads, first, second := m.parameters(g), m.named(g, "gradient."), m.named(g, "first."), m.named(g, "second.")
	scalar := func(name string) *Node { return Parameter(g, name, shapes.Make(m.dtype)) }
	scale, keep := scalar("scale"), scalar("keep")
	old1, new1, old2, new2 := scalar("old1"), scalar("new1"), scalar("old2"), scalar("new2")
	rate, correct2, epsilon := scalar("rate"), scalar("correct2"), scalar("epsilon")
	out := make([]*Node, 3*len(weights))
	for i := range weights {
		grad := Mul(grads[i], scale)
		m1 := Add(Mul(first[i], old1), Mul(grad, new1))
		m2 := Add(Mul(second[i], old2), Mul(Mul(grad, grad), new2))
		change := Div(Mul(m1, rate), Add(Div(Sqrt(m2), correct2), epsilon))
		out[i], out[len(weights)+i], out[2*len(weights)+i] = Sub(Mul(weights[i], keep), change), m1, m2
	}
	return out
}

func (m *model) named(g *Graph, prefix string) []*Node {
	nodes := make([]*Node, len(m.layout.specs))
	for i, s := range m.layout.specs {
		nodes[i] = Parameter(g, prefix+s.name, shapes.Make(m.dtype, s.dims...))
	}
	return nodes
}

// moments are the optimizer's running averages, one tensor per weight each.
type moments struct{ first, second []*tensors.Tensor }

func (p *Policy) zeroMoments() (moments, error) {
	var out moments
	for _, list := range []*[]*tensors.Tensor{&out.first, &out.second} {
		for _, s := range p.model.layout.specs {
			t, err := p.backend.uploadFloats(p.model.dtype, make([]float32, s.size()), s.dims...)
			if err != nil {
				return out, err
			}
			*list = append(*list, t)
		}
	}
	return out, nil
}
