package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/forage-rl/forage/core/sdk/objective"
)

// differentiable says whether a leaf comes out of the network that is trained.
func differentiable(op objective.Op) bool {
	return op == objective.OpLogP || op == objective.OpEntropy || op == objective.OpValue
}

// lossPlan divides an objective into a part that is computed row by row in the graph, and a linear tail above it
// whose coefficients the host computes over the whole mini-batch. The loss is the sum, over the terminals' elements,
// of coefficient times value, plus terms without gradient: so micro-batches of whole rows add up exactly.
type lossPlan struct {
	o         objective.Objective
	levels    []objective.Level
	id        string
	terminals []int
	inGraph   []bool // nodes that the graph computes
	constant  map[int]float64
	live      map[objective.Op]objective.Op // recorded leaves that equal what the network reads now
}

// beforeStep is the plan for the first optimizer step of an update: there what is recorded before it, old_logp or
// old_value, is what the network reads, without a gradient, and need not be computed apart.
func (p *lossPlan) beforeStep(recorded objective.Op) *lossPlan {
	first := *p
	first.id += " " + string(recorded)
	first.live = maps.Clone(p.live)
	first.live[recorded] = objective.OpLogP
	if recorded == objective.OpOldValue {
		first.live[recorded] = objective.OpValue
	}
	return &first
}

// given says whether a node is a leaf whose values the host gives.
func (p *lossPlan) given(n objective.Node) bool {
	_, live := p.live[n.Op]
	return len(n.Inputs) == 0 && !differentiable(n.Op) && !live
}

// newLossPlan gives nil where the objective is not of that form (a group's or the mini-batch's value used in more than
// a linear way): then the host computes the gradient with respect to each log-probability.
func newLossPlan(o objective.Objective) (*lossPlan, error) {
	levels, err := o.Levels()
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("objective %q: %w", o.Name, err)
	}
	sum := sha256.Sum256(data)
	p := &lossPlan{o: o, levels: levels, id: hex.EncodeToString(sum[:8]), inGraph: make([]bool, len(o.Nodes)),
		constant: map[int]float64{}, live: map[objective.Op]objective.Op{}}
	p.fold()
	tail := make([]bool, len(o.Nodes))
	tail[o.Loss] = true
	for i := o.Loss; i >= 0; i-- {
		if !tail[i] {
			continue
		}
		if p.blocks(i) {
			continue
		}
		inputs, linear := p.linearInputs(i)
		switch {
		case linear:
			for _, in := range inputs {
				tail[in] = true
			}
		case levels[i] > objective.Sequence:
			return nil, nil
		default:
			p.terminals = append(p.terminals, i)
		}
	}
	slices.Sort(p.terminals)
	for _, t := range p.terminals {
		if !p.need(t) {
			return nil, nil
		}
	}
	return p, nil
}

// blocks says whether no gradient goes beyond node i.
func (p *lossPlan) blocks(i int) bool {
	_, constant := p.constant[i]
	op := p.o.Nodes[i].Op
	return constant || op == objective.OpStopGradient || op == objective.OpLess
}

// fold finds the nodes that are numbers, arithmetic on numbers included.
func (p *lossPlan) fold() {
	for i, n := range p.o.Nodes {
		if n.Op == objective.OpConst {
			p.constant[i] = n.Value
			continue
		}
		if len(n.Inputs) == 0 || n.Op == objective.OpReduce || n.Op == objective.OpGroupDifference {
			continue
		}
		var args []float64
		for _, in := range n.Inputs {
			if v, ok := p.constant[in]; ok {
				args = append(args, v)
			}
		}
		if len(args) != len(n.Inputs) {
			continue
		}
		switch n.Op {
		case objective.OpNeg:
			p.constant[i] = -args[0]
		case objective.OpAdd:
			p.constant[i] = args[0] + args[1]
		case objective.OpSub:
			p.constant[i] = args[0] - args[1]
		case objective.OpMul:
			p.constant[i] = args[0] * args[1]
		case objective.OpDiv:
			p.constant[i] = args[0] / args[1]
		}
	}
}

// linearInputs gives the inputs in which node i is linear, all others being numbers. Below sequence level only
// reductions count: elementwise operations on tokens are left to the graph.
func (p *lossPlan) linearInputs(i int) ([]int, bool) {
	n := p.o.Nodes[i]
	if n.Op == objective.OpReduce {
		return n.Inputs, true
	}
	if p.levels[i] < objective.Sequence {
		return nil, false
	}
	number := func(k int) bool { _, ok := p.constant[n.Inputs[k]]; return ok }
	switch n.Op {
	case objective.OpAdd, objective.OpSub, objective.OpNeg:
		return n.Inputs, true
	case objective.OpMul:
		if number(0) {
			return n.Inputs[1:], true
		}
		if number(1) {
			return n.Inputs[:1], true
		}
	case objective.OpDiv:
		if number(1) {
			return n.Inputs[:1], true
		}
	}
	return nil, false
}

// need marks what the graph has to compute for node i; false where that is not local to a row.
func (p *lossPlan) need(i int) bool {
	if p.inGraph[i] {
		return true
	}
	if _, constant := p.constant[i]; constant {
		p.inGraph[i] = true
		return true
	}
	n := p.o.Nodes[i]
	if p.levels[i] > objective.Sequence || n.Op == objective.OpGroupDifference {
		return false
	}
	p.inGraph[i] = true
	for _, in := range n.Inputs {
		if !p.need(in) {
			return false
		}
	}
	return true
}

// usesLevel says whether the graph computes a node at that level.
func (p *lossPlan) usesLevel(level objective.Level) bool {
	for i, in := range p.inGraph {
		if in && p.levels[i] == level {
			return true
		}
	}
	return false
}

// coefficients gives for each terminal the coefficient of each of its elements in the loss.
func (p *lossPlan) coefficients(s *structure) map[int][]float64 {
	grad := make([][]float64, len(p.o.Nodes))
	at := func(i int) []float64 {
		if grad[i] == nil {
			grad[i] = make([]float64, s.size[p.levels[i]])
		}
		return grad[i]
	}
	at(p.o.Loss)[0] = 1
	for i := p.o.Loss; i >= 0; i-- {
		if grad[i] == nil || p.blocks(i) || slices.Contains(p.terminals, i) {
			continue
		}
		n := p.o.Nodes[i]
		if n.Op == objective.OpReduce {
			in := at(n.Inputs[0])
			s.each(i, func(from, input, result int) { in[input] += grad[i][result] * s.coefficient(i, from, result) })
			continue
		}
		for k, in := range n.Inputs {
			if _, constant := p.constant[in]; constant {
				continue
			}
			factor := 1.
			switch {
			case n.Op == objective.OpNeg, n.Op == objective.OpSub && k == 1:
				factor = -1
			case n.Op == objective.OpMul:
				factor = p.constant[n.Inputs[1-k]]
			case n.Op == objective.OpDiv:
				factor = 1 / p.constant[n.Inputs[1]]
			}
			to := at(in)
			for e, g := range grad[i] {
				if g != 0 && s.has(i, e) {
					to[s.up(p.levels[i], p.levels[in], e)] += g * factor
				}
			}
		}
	}
	out := map[int][]float64{}
	for _, t := range p.terminals {
		w := at(t)
		for e := range w {
			if !s.has(t, e) {
				w[e] = 0
			}
		}
		out[t] = w
	}
	return out
}
