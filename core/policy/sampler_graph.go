package policy

import (
	"math"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint:revive // graph code reads as formulas
)

// How the next token is chosen from the logits.
const (
	chooseSample = iota // inverse CDF in the graph
	chooseGreedy        // argmax in the graph
	chooseHost          // logits go to the host (top-p, top-k)
)

// A cache is a tensor [slots, kvHeads, length+1, width]. Narrow heads have one per layer, of keys followed by values,
// where that is faster (joined); else there is one of keys per layer, and after those one of values per layer.
// Invariant: up to length it is zero at and beyond the number of tokens that a slot holds, so that adding to it is
// writing. What padding and rows that stand still would write goes to position length, which is never read.

// joined says that keys and values lie side by side, as both operands of the fused attention: queries are zero where the
// values lie, and what comes out where the keys lie is dropped. Half as many streams of memory are read, and the
// products with zeros cost nothing for heads this narrow: the Go backend has special kernels for widths of 32 and 64.
func (m *model) joined() bool { return m.fused && m.config.HeadDim <= 32 }

// caches is the number of cache tensors.
func (m *model) caches() int {
	if m.joined() {
		return m.config.Layers
	}
	return 2 * m.config.Layers
}

func (m *model) cacheShape(slots, length int) shapes.Shape {
	width := m.config.HeadDim
	if m.joined() {
		width *= 2
	}
	return shapes.Make(m.dtype, slots, m.config.KVHeads, length+1, width)
}

// cacheParameters makes the parameters of the caches.
func (m *model) cacheParameters(g *Graph, slots, length int) []*Node {
	var caches []*Node
	for range m.caches() {
		caches = append(caches, Parameter(g, g.UniqueName("cache"), m.cacheShape(slots, length)))
	}
	return caches
}

// write adds the keys and values [n, kvHeads, headDim] of a layer to its caches at the indices where [n, kvHeads, 3].
func (m *model) write(caches []*Node, layer int, where, k, v *Node, unique bool) {
	if m.joined() {
		caches[layer] = ScatterSum(caches[layer], where, Concatenate([]*Node{k, v}, -1), false, unique)
		return
	}
	values := m.config.Layers + layer
	caches[layer] = ScatterSum(caches[layer], where, k, false, unique)
	caches[values] = ScatterSum(caches[values], where, v, false, unique)
}

// prefill builds the program that runs up to n new tokens, of any rows, through the network: packed in one list for
// everything but attention, where they are laid out as [slots, heads, width]. It writes their keys and values and
// chooses a token after the last one of each row.
//
// Parameters: weights; tokens [n]; positions [n], length for padding; query [n, 2]: slot, index among the row's new
// tokens; packed [slots, width]: the inverse, place in the list of each row's new tokens; starts, counts [slots]: tokens
// held, new tokens; last [slots]: place in the list of each row's last new token; uniforms [slots]; inverse
// temperature; caches.
//
// With fresh set, no row has tokens in the cache: starts are 0.
func (m *model) prefill(g *Graph, slots, length, n, width, choose int, fresh bool) []*Node {
	c := m.config
	weights := m.parameters(g)
	i32 := func(name string, dims ...int) *Node { return Parameter(g, name, shapes.Make(dtypes.Int32, dims...)) }
	tokens, positions := i32("tokens", n), i32("positions", n)
	query, packed := i32("query", n, 2), i32("packed", slots, width)
	starts, counts, last := i32("starts", slots), i32("counts", slots), i32("last", slots)
	uniforms := Parameter(g, "uniforms", shapes.Make(m.dtype, slots))
	inverse := Parameter(g, "inverse_temperature", shapes.Make(m.dtype))
	caches := m.cacheParameters(g, slots, length)

	cos, sin := m.ropeAt(positions, length+1)
	slot := SliceAxis(query, 1, AxisElem(0))
	whereKV, whereQ := perHead(Concatenate([]*Node{slot, InsertAxes(positions, -1)}, -1), c.KVHeads), perHead(query, c.Heads)
	held := Add(starts, counts)
	// Query i of a row may see the cache up to and including its own position.
	var visible *Node
	if !fresh || !m.fused {
		limit := Add(InsertAxes(starts, -1), Iota(g, shapes.Make(dtypes.Int32, slots, width), 1))
		visible = LessOrEqual(Iota(g, shapes.Make(dtypes.Int32, slots, width, length+1), 2), BroadcastToDims(InsertAxes(limit, -1), slots, width, length+1))
	}

	x := Gather(weights[m.layout.embedding], InsertAxes(tokens, -1))
	for i, li := range m.layout.layers {
		q, k, v := m.projections(weights, li, m.rmsNorm(x, weights[li.inputNorm]), cos, sin, m.fused)
		m.write(caches, i, whereKV, k, v, false)
		padded := TransposeAllAxes(Gather(q, InsertAxes(packed, -1)), 0, 2, 1, 3)
		out := m.cachedAttention(padded, caches, i, counts, held, visible)
		heads := Reshape(Gather(out, whereQ), n, c.Heads*c.HeadDim)
		x = Add(x, m.dense(heads, weights[li.out], m.optional(weights, li.outBias)))
		x = Add(x, m.feedForward(m.rmsNorm(x, weights[li.postNorm]), weights[li.gateUp], weights[li.down]))
	}
	logits := m.logits(weights, Gather(x, InsertAxes(last, -1)))
	return append(m.choose(logits, uniforms, inverse, choose), caches...)
}

// decode builds the program for one token per slot.
//
// Parameters: weights; tokens, positions, active [slots], for rows that stand still 0, length, 0; uniforms [slots];
// inverse temperature; caches.
func (m *model) decode(g *Graph, slots, length, choose int) []*Node {
	weights := m.parameters(g)
	i32 := func(name string) *Node { return Parameter(g, name, shapes.Make(dtypes.Int32, slots)) }
	tokens, positions, active := i32("tokens"), i32("positions"), i32("active")
	uniforms := Parameter(g, "uniforms", shapes.Make(m.dtype, slots))
	inverse := Parameter(g, "inverse_temperature", shapes.Make(m.dtype))
	caches := m.cacheParameters(g, slots, length)
	logits := m.decodeStep(weights, tokens, positions, active, caches)
	return append(m.choose(logits, uniforms, inverse, choose), caches...)
}

// decodeStep runs one token per slot through the network and gives the logits after it. It replaces the caches by those
// with the token.
func (m *model) decodeStep(weights []*Node, tokens, positions, active *Node, caches []*Node) *Node {
	c, g := m.config, tokens.Graph()
	slots, length := caches[0].Shape().Dimensions[0], caches[0].Shape().Dimensions[2]-1
	cos, sin := m.ropeAt(positions, length+1)
	slot := Iota(g, shapes.Make(dtypes.Int32, slots, 1), 0)
	where := perHead(Concatenate([]*Node{slot, InsertAxes(positions, -1)}, -1), c.KVHeads)
	held := AddScalar(positions, 1)
	var visible *Node
	if !m.fused {
		visible = LessThan(Iota(g, shapes.Make(dtypes.Int32, slots, 1, length+1), 2), BroadcastToDims(InsertAxes(held, -1, -1), slots, 1, length+1))
	}
	x := Gather(weights[m.layout.embedding], InsertAxes(tokens, -1))
	for i, li := range m.layout.layers {
		q, k, v := m.projections(weights, li, m.rmsNorm(x, weights[li.inputNorm]), cos, sin, m.fused)
		m.write(caches, i, where, k, v, true)
		out := m.cachedAttention(InsertAxes(q, 2), caches, i, active, held, visible)
		x = Add(x, m.dense(Reshape(out, slots, c.Heads*c.HeadDim), weights[li.out], m.optional(weights, li.outBias)))
		x = Add(x, m.feedForward(m.rmsNorm(x, weights[li.postNorm]), weights[li.gateUp], weights[li.down]))
	}
	return m.logits(weights, x)
}

// ropeAt gives the rotary factors at the positions [n], as [n, heads+kvHeads, headDim].
func (m *model) ropeAt(positions *Node, length int) (cos, sin *Node) {
	c, s := m.ropeTables(positions.Graph(), length)
	// Gathered for each head, not broadcast: the Go backend would leave the broadcast to every product with them, where
	// one in the middle is several times as slow as operands of one shape.
	index := BroadcastToDims(InsertAxes(positions, -1), positions.Shape().Dimensions[0], m.config.Heads+m.config.KVHeads)
	index = InsertAxes(index, -1)
	return Gather(c, index), Gather(s, index)
}

// perHead expands indices [n, 2] of (slot, position) to [n, heads, 3] with the head in the middle.
func perHead(index *Node, heads int) *Node {
	g, n := index.Graph(), index.Shape().Dimensions[0]
	at := func(i int) *Node {
		return BroadcastToDims(InsertAxes(SliceAxis(index, 1, AxisElem(i)), 1), n, heads, 1)
	}
	return Concatenate([]*Node{at(0), Iota(g, shapes.Make(dtypes.Int32, n, heads, 1), 1), at(1)}, -1)
}

// cachedAttention attends from q [slots, heads, width, headDim] to the caches of a layer. counts is the number of real
// queries per slot and held the number of keys (int32 [slots]); visible is a mask [slots, width, length]. Without it, the
// fused operation lets query i see the first i+1 keys, or all of them where width is 1.
func (m *model) cachedAttention(q *Node, caches []*Node, layer int, counts, held, visible *Node) *Node {
	c := m.config
	dims := q.Shape().Dimensions
	slots, width, length := dims[0], dims[2], caches[layer].Shape().Dimensions[2]
	if m.fused {
		cfg := &compute.ScaledDotProductAttentionConfig{
			QuerySeqLen:    InternalBackendOutputs(counts)[0],
			KeyValueSeqLen: InternalBackendOutputs(held)[0],
			Scale:          1 / math.Sqrt(float64(c.HeadDim)),
		}
		if visible == nil {
			cfg.Causal = width > 1
		} else {
			cfg.Mask = InternalBackendOutputs(InsertAxes(visible, 1))[0]
		}
		if m.joined() {
			both := caches[layer]
			q = Concatenate([]*Node{q, ZerosLike(q)}, -1)
			out, _ := BackendFusedScaledDotProductAttention(q, both, both, compute.AttentionAxesLayoutBHSD, cfg)
			return gatherRange(out, 3, c.HeadDim, 2*c.HeadDim)
		}
		out, _ := BackendFusedScaledDotProductAttention(q, caches[layer], caches[c.Layers+layer], compute.AttentionAxesLayoutBHSD, cfg)
		return out
	}
	keys, values := caches[layer], caches[c.Layers+layer]
	group := c.Heads / c.KVHeads
	grouped := Reshape(q, slots, c.KVHeads, group*width, c.HeadDim)
	scores := Reshape(DotGeneral(grouped, []int{3}, []int{0, 1}, keys, []int{3}, []int{0, 1}), slots, c.Heads, width, length)
	mask := MulScalar(ConvertDType(Not(visible), m.dtype), -1e30)
	p := Reshape(Softmax(Add(scores, InsertAxes(mask, 1)), -1), slots, c.KVHeads, group*width, length)
	return Reshape(DotGeneral(p, []int{3}, []int{0, 1}, values, []int{2}, []int{0, 1}), slots, c.Heads, width, c.HeadDim)
}

// choose picks a token per row of logits [n, vocabulary] and gives it with its log-probability under
// softmax(logits/T), or gives logits/T for the host to choose.
func (m *model) choose(logits, uniforms, inverse *Node, how int) []*Node {
	z := Mul(logits, ExpandLeftToRank(inverse, 2))
	if how == chooseHost {
		return []*Node{z}
	}
	n, vocabulary := z.Shape().Dimensions[0], z.Shape().Dimensions[1]
	top := ReduceAndKeep(z, ReduceMax, -1)
	e := Exp(Sub(z, top))
	var token *Node
	if how == chooseGreedy {
		token = ArgMax(z, -1, dtypes.Int32)
	} else {
		// The first token whose cumulated mass exceeds u·total: u < 1, so one always does.
		mass := CumSum(e, -1)
		total := SliceAxis(mass, 1, AxisRange(vocabulary-1, vocabulary))
		below := LessOrEqual(mass, BroadcastToDims(Mul(total, InsertAxes(uniforms, -1)), n, vocabulary))
		token = MinScalar(ReduceSum(ConvertDType(below, dtypes.Int32), -1), vocabulary-1)
	}
	index := Concatenate([]*Node{Iota(z.Graph(), shapes.Make(dtypes.Int32, n, 1), 0), InsertAxes(token, -1)}, -1)
	logp := Sub(Sub(Gather(z, index), Squeeze(top, -1)), Log(ReduceSum(e, -1)))
	return []*Node{token, logp}
}

// regroup builds the program that makes new caches from old ones: slot i of the result holds the first keep[i]
// tokens of the old slot source[i].
func (m *model) regroup(g *Graph, oldSlots, oldLength, slots, length int) []*Node {
	i32 := func(name string) *Node { return Parameter(g, name, shapes.Make(dtypes.Int32, slots)) }
	source, keep := i32("source"), i32("keep")
	caches := m.cacheParameters(g, oldSlots, oldLength)
	inside := LessThan(Iota(g, shapes.Make(dtypes.Int32, slots, 1, length+1, 1), 2), BroadcastToDims(InsertAxes(keep, -1, -1, -1), slots, 1, length+1, 1))
	var out []*Node
	for _, cache := range caches {
		if length < oldLength {
			cache = SliceAxis(cache, 2, AxisRange(0, length+1))
		}
		moved := Gather(cache, InsertAxes(source, -1))
		if length > oldLength {
			pad := Zeros(g, m.cacheShape(slots, length-oldLength-1))
			moved = Concatenate([]*Node{moved, pad}, 2)
		}
		out = append(out, Where(BroadcastToDims(inside, moved.Shape().Dimensions...), moved, ZerosLike(moved)))
	}
	return out
}
