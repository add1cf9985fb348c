// Package objective describes training losses as data: a small typed expression graph that an algorithm plugin sends
// and the core compiles into its training step.
//
// It is a leaf: data, type checks and a reference evaluator in float64. It must not know models, devices or the wire.
//
// Every value has a level: token, turn, sequence, group or scalar. Elementwise operations broadcast only downwards
// (a sequence's advantage to its tokens); reductions go up. A mean is taken over the whole mini-batch, never over a
// micro-batch, so splitting a mini-batch changes nothing.
package objective

import (
	"fmt"
	"slices"
)

// Level is the granularity of a value.
type Level uint8

// Levels from fine to coarse. An operation on values of two levels gives the finer one.
const (
	Token Level = iota + 1
	Turn
	Sequence
	Group
	Scalar
)

var levelNames = [...]string{Token: "token", Turn: "turn", Sequence: "sequence", Group: "group", Scalar: "scalar"}

func (l Level) String() string {
	if int(l) < len(levelNames) && levelNames[l] != "" {
		return levelNames[l]
	}
	return fmt.Sprintf("level(%d)", uint8(l))
}

// Trains names the network that an objective updates.
type Trains string

// The networks that can be trained.
const (
	TrainsPolicy Trains = "policy"
	TrainsCritic Trains = "critic"
)

// Op names what a node computes.
type Op string

// Leaves. All are per response token, except Field (at its own level) and Const (scalar).
const (
	OpLogP        Op = "logp"         // differentiable: log-probability under the policy at the update's temperature
	OpEntropy     Op = "entropy"      // differentiable: entropy of the policy's distribution
	OpValue       Op = "value"        // differentiable: the critic's value, read before the token
	OpOldLogP     Op = "old_logp"     // of the trainer before the update, same temperature, full softmax
	OpSamplerLogP Op = "sampler_logp" // recorded while sampling
	OpRefLogP     Op = "ref_logp"     // under the reference policy
	OpOldValue    Op = "old_value"    // the critic before the update
	OpField       Op = "field"        // a field of the sample, at level From
	OpConst       Op = "const"
)

// Elementwise operations.
const (
	OpAdd          Op = "add"
	OpSub          Op = "sub"
	OpMul          Op = "mul"
	OpDiv          Op = "div"
	OpNeg          Op = "neg"
	OpExp          Op = "exp"
	OpLog          Op = "log"
	OpSquare       Op = "square"
	OpAbs          Op = "abs"
	OpMin          Op = "min"
	OpMax          Op = "max"
	OpClip         Op = "clip"  // (x, low, high); low and high are constants
	OpWhere        Op = "where" // (condition, a, b): a where condition is not 0
	OpLess         Op = "less"  // 1 where a < b, else 0
	OpStopGradient Op = "stop_gradient"
	OpLogSigmoid   Op = "log_sigmoid"
)

// OpReduce takes its input from level From to level To.
const OpReduce Op = "reduce"

// OpGroupDifference gives, for each group of exactly two sequences, first minus second (preference losses).
const OpGroupDifference Op = "group_difference"

// Reduction says how a reduction combines elements.
type Reduction string

// Reductions over the elements that the mask leaves.
const (
	Sum  Reduction = "sum"
	Mean Reduction = "mean"
	Last Reduction = "last"
)

// Masks that always exist. Any other name is a token field of the sample (0 or 1).
const (
	MaskPolicy   = "policy"   // tokens that the policy wrote
	MaskResponse = "response" // all tokens after the prompt
)

// Node is one operation. Inputs are indices of earlier nodes.
type Node struct {
	Op     Op        `json:"op"`
	Inputs []int     `json:"inputs,omitempty"`
	Name   string    `json:"name,omitempty"`   // OpField: the field
	Value  float64   `json:"value,omitempty"`  // OpConst
	From   Level     `json:"from,omitempty"`   // OpReduce, OpField
	To     Level     `json:"to,omitempty"`     // OpReduce
	Reduce Reduction `json:"reduce,omitempty"` // OpReduce
	Mask   string    `json:"mask,omitempty"`   // OpReduce from token level; "" means MaskPolicy
}

// Objective is a loss to be minimised, with named metrics to report beside it. Nodes are in topological order; Loss
// and Metrics index them and are scalars.
type Objective struct {
	Name    string         `json:"name"`
	Trains  Trains         `json:"trains"`
	Nodes   []Node         `json:"nodes"`
	Loss    int            `json:"loss"`
	Metrics map[string]int `json:"metrics,omitempty"`
}

// arity is the number of inputs of each operation that has any.
var arity = map[Op]int{
	OpAdd: 2, OpSub: 2, OpMul: 2, OpDiv: 2, OpNeg: 1, OpExp: 1, OpLog: 1, OpSquare: 1, OpAbs: 1, OpMin: 2, OpMax: 2,
	OpClip: 3, OpWhere: 3, OpLess: 2, OpStopGradient: 1, OpLogSigmoid: 1, OpReduce: 1, OpGroupDifference: 1,
}

var leaves = []Op{OpLogP, OpEntropy, OpValue, OpOldLogP, OpSamplerLogP, OpRefLogP, OpOldValue}

// Levels type-checks the objective and gives the level of each node. The error names the node and the rule.
func (o Objective) Levels() ([]Level, error) {
	if o.Trains != TrainsPolicy && o.Trains != TrainsCritic {
		return nil, fmt.Errorf("objective %q: trains must be %q or %q, got %q", o.Name, TrainsPolicy, TrainsCritic, o.Trains)
	}
	levels := make([]Level, len(o.Nodes))
	for i, n := range o.Nodes {
		level, err := o.level(levels[:i], n)
		if err != nil {
			return nil, fmt.Errorf("objective %q, node %d (%s): %w", o.Name, i, n.Op, err)
		}
		levels[i] = level
	}
	check := func(what string, index int) error {
		if index < 0 || index >= len(o.Nodes) {
			return fmt.Errorf("objective %q: %s refers to node %d of %d", o.Name, what, index, len(o.Nodes))
		}
		if levels[index] != Scalar {
			return fmt.Errorf("objective %q: %s is per %s; reduce it to a scalar", o.Name, what, levels[index])
		}
		return nil
	}
	if err := check("loss", o.Loss); err != nil {
		return nil, err
	}
	for name, index := range o.Metrics {
		if err := check("metric "+name, index); err != nil {
			return nil, err
		}
	}
	return levels, nil
}

func (o Objective) level(levels []Level, n Node) (Level, error) {
	if slices.Contains(leaves, n.Op) {
		policy := n.Op == OpLogP || n.Op == OpEntropy
		critic := n.Op == OpValue
		if policy && o.Trains == TrainsCritic || critic && o.Trains == TrainsPolicy {
			return 0, fmt.Errorf("an objective that trains the %s cannot differentiate this leaf", o.Trains)
		}
		return Token, nil
	}
	switch n.Op {
	case OpConst:
		return Scalar, nil
	case OpField:
		if n.Name == "" {
			return 0, fmt.Errorf("a field needs a name")
		}
		if n.From != Token && n.From != Sequence {
			return 0, fmt.Errorf("field %q must be per token or per sequence, got %s", n.Name, n.From)
		}
		return n.From, nil
	}
	want, known := arity[n.Op]
	if !known {
		return 0, fmt.Errorf("unknown operation")
	}
	if len(n.Inputs) != want {
		return 0, fmt.Errorf("takes %d inputs, got %d", want, len(n.Inputs))
	}
	level := Scalar
	for _, in := range n.Inputs {
		if in < 0 || in >= len(levels) {
			return 0, fmt.Errorf("input %d is not an earlier node", in)
		}
		level = min(level, levels[in])
	}
	switch n.Op {
	case OpReduce:
		if n.From < Token || n.To > Scalar || n.From >= n.To {
			return 0, fmt.Errorf("must go up from one level to a coarser one, got %s to %s", n.From, n.To)
		}
		if level < n.From {
			return 0, fmt.Errorf("its input is per %s, finer than %s", level, n.From)
		}
		if n.From != Token && n.Mask != "" {
			return 0, fmt.Errorf("a mask selects tokens; a reduction from %s has none, got %q", n.From, n.Mask)
		}
		if n.Reduce != Sum && n.Reduce != Mean && n.Reduce != Last {
			return 0, fmt.Errorf("unknown reduction %q", n.Reduce)
		}
		return n.To, nil
	case OpGroupDifference:
		if level != Sequence {
			return 0, fmt.Errorf("its input must be per sequence, got %s", level)
		}
		return Group, nil
	case OpClip:
		for _, in := range n.Inputs[1:] {
			if o.Nodes[in].Op != OpConst {
				return 0, fmt.Errorf("its bounds must be constants")
			}
		}
		return levels[n.Inputs[0]], nil
	}
	return level, nil
}

// Uses says whether any node is op, for example whether the trainer has to compute reference log-probabilities.
func (o Objective) Uses(op Op) bool {
	return slices.ContainsFunc(o.Nodes, func(n Node) bool { return n.Op == op })
}

// TrainsObservations says whether any reduction has another mask than the policy's own tokens, so that the loss
// reaches text which the policy did not write.
func (o Objective) TrainsObservations() bool {
	return slices.ContainsFunc(o.Nodes, func(n Node) bool {
		return n.Op == OpReduce && n.From == Token && n.Mask != MaskPolicy && n.Mask != ""
	})
}

// Fields lists the sample fields that the objective reads, by name, with their level.
func (o Objective) Fields() map[string]Level {
	fields := map[string]Level{}
	for _, n := range o.Nodes {
		if n.Op == OpField {
			fields[n.Name] = n.From
		}
		if n.Op == OpReduce && n.Mask != "" && n.Mask != MaskPolicy && n.Mask != MaskResponse {
			fields[n.Mask] = Token
		}
	}
	return fields
}
