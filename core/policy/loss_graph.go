package policy

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint:revive // graph code reads as formulas

	"github.com/forage-rl/forage/core/sdk/objective"
)

// lossSizes are the padded numbers of elements of a micro-batch.
type lossSizes struct{ tokens, turns, rows int }

func (z lossSizes) of(level objective.Level) int {
	switch level {
	case objective.Token:
		return z.tokens
	case objective.Turn:
		return z.turns
	}
	return z.rows
}

// lossGraph builds the row-wise part of an objective. Its parameters come in the order in which
// [lossPlan.arguments] gives their values.
type lossGraph struct {
	plan   *lossPlan
	g      *Graph
	dtype  dtypes.DType
	sizes  lossSizes
	up     [objective.Scalar + 1][objective.Scalar + 1]*Node
	values []*Node
}

// loss gives the micro-batch's share of the loss. leaves are what the network reads per selected token: all that the
// objective differentiates.
func (p *lossPlan) loss(g *Graph, dtype dtypes.DType, sizes lossSizes, leaves map[objective.Op]*Node) *Node {
	b := &lossGraph{plan: p, g: g, dtype: dtype, sizes: sizes, values: make([]*Node, len(p.o.Nodes))}
	for _, edge := range p.edges() {
		b.up[edge[0]][edge[1]] = Parameter(g, g.UniqueName("up"), shapes.Make(dtypes.Int32, sizes.of(edge[0])))
	}
	for i, n := range p.o.Nodes {
		if p.inGraph[i] {
			b.values[i] = b.node(i, n, leaves)
		}
	}
	total := ScalarZero(g, dtype)
	for _, t := range p.terminals {
		weight := b.array(p.levels[t])
		total = Add(total, ReduceAllSum(Mul(weight, b.values[t])))
	}
	return total
}

// edges lists the pairs of levels between which the graph needs to know what belongs to what.
func (p *lossPlan) edges() [][2]objective.Level {
	turns, rows := p.usesLevel(objective.Turn), p.usesLevel(objective.Sequence)
	var out [][2]objective.Level
	if turns {
		out = append(out, [2]objective.Level{objective.Token, objective.Turn})
	}
	if rows {
		out = append(out, [2]objective.Level{objective.Token, objective.Sequence})
	}
	if turns && rows {
		out = append(out, [2]objective.Level{objective.Turn, objective.Sequence})
	}
	return out
}

// array is a parameter with one number per element of a level.
func (b *lossGraph) array(level objective.Level) *Node {
	return Parameter(b.g, b.g.UniqueName("data"), shapes.Make(b.dtype, b.sizes.of(level)))
}

// at gives the value of a node for every element of level.
func (b *lossGraph) at(node int, level objective.Level) *Node {
	v, from := b.values[node], b.plan.levels[node]
	if from == level || v.IsScalar() {
		return v
	}
	return Gather(v, InsertAxes(b.up[level][from], -1))
}

func (b *lossGraph) node(i int, n objective.Node, leaves map[objective.Op]*Node) *Node {
	level := b.plan.levels[i]
	if v, constant := b.plan.constant[i]; constant {
		return Scalar(b.g, b.dtype, v)
	}
	if n.Op == objective.OpReduce {
		return b.reduce(n)
	}
	if differentiable(n.Op) {
		return leaves[n.Op]
	}
	if live, ok := b.plan.live[n.Op]; ok {
		return StopGradient(leaves[live])
	}
	if b.plan.given(n) {
		return b.array(level) // a field, or what was recorded
	}
	x := make([]*Node, len(n.Inputs))
	for k, in := range n.Inputs {
		x[k] = b.at(in, level)
	}
	y := b.apply(n.Op, x)
	if y.IsScalar() {
		y = BroadcastToDims(y, b.sizes.of(level))
	}
	return y
}

// reduce sums coefficient·value into the coarser level; absent results get a harmless value.
func (b *lossGraph) reduce(n objective.Node) *Node {
	coefficient := b.array(n.From)
	fill := b.array(n.To)
	x := b.at(n.Inputs[0], n.From)
	if x.IsScalar() {
		x = BroadcastToDims(x, b.sizes.of(n.From))
	}
	return ScatterSum(fill, InsertAxes(b.up[n.From][n.To], -1), Mul(coefficient, x), false, false)
}

func (b *lossGraph) apply(op objective.Op, x []*Node) *Node {
	switch op {
	case objective.OpAdd:
		return Add(x[0], x[1])
	case objective.OpSub:
		return Sub(x[0], x[1])
	case objective.OpMul:
		return Mul(x[0], x[1])
	case objective.OpDiv:
		return Div(x[0], x[1])
	case objective.OpNeg:
		return Neg(x[0])
	case objective.OpExp:
		return Exp(x[0])
	case objective.OpLog:
		return Log(x[0])
	case objective.OpSquare:
		return Mul(x[0], x[0])
	case objective.OpAbs:
		zero := ZerosLike(x[0])
		return Where(GreaterThan(x[0], zero), x[0], Where(LessThan(x[0], zero), Neg(x[0]), zero))
	case objective.OpMin, objective.OpMax:
		// Half of the gradient to each side of a tie.
		a, c := b.alike(x[0], x[1])
		first := LessThan(a, c)
		if op == objective.OpMax {
			first = GreaterThan(a, c)
		}
		return Where(Equal(a, c), MulScalar(Add(a, c), .5), Where(first, a, c))
	case objective.OpClip:
		v, low := b.alike(x[0], x[1])
		v, high := b.alike(v, x[2])
		inside := And(GreaterOrEqual(v, low), LessOrEqual(v, high))
		return Where(inside, v, StopGradient(Min(Max(v, low), high)))
	case objective.OpLess:
		a, c := b.alike(x[0], x[1])
		return ConvertDType(LessThan(a, c), b.dtype)
	case objective.OpWhere:
		a, c := b.alike(x[1], x[2])
		cond, a := b.alike(x[0], a)
		_, c = b.alike(x[0], c)
		return Where(NotEqual(cond, ZerosLike(cond)), a, c)
	case objective.OpStopGradient:
		return StopGradient(x[0])
	}
	// log σ(x) = min(x, 0) - log(1 + exp(-|x|)), with the derivative σ(-x) given by hand: the terms have kinks at 0.
	v := StopGradient(x[0])
	value := Sub(MinScalar(v, 0), Log1p(Exp(Neg(Abs(v)))))
	return Add(value, Mul(Sigmoid(Neg(v)), Sub(x[0], v)))
}

// alike brings two operands to one shape where one of them is a number.
func (b *lossGraph) alike(x, y *Node) (*Node, *Node) {
	if x.IsScalar() && !y.IsScalar() {
		x = BroadcastToDims(x, y.Shape().Dimensions...)
	}
	if y.IsScalar() && !x.IsScalar() {
		y = BroadcastToDims(y, x.Shape().Dimensions...)
	}
	return x, y
}
