package policy

import (
	"math"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint:revive // graph code reads as formulas
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/forage-rl/forage/core/policy/checkpoint"
)

// model builds the graph of the network. It holds no values.
type model struct {
	config checkpoint.Config
	layout layout
	dtype  dtypes.DType
	fused  bool // the backend has the fused operations
}

// parameters makes the graph's parameters for the weights, in the order of the layout.
func (m *model) parameters(g *Graph) []*Node {
	nodes := make([]*Node, len(m.layout.specs))
	for i, s := range m.layout.specs {
		nodes[i] = Parameter(g, s.name, shapes.Make(m.dtype, s.dims...))
	}
	return nodes
}

// dense is x·w + bias for w of shape [in, out], over the last axis of x.
func (m *model) dense(x, w, bias *Node) *Node {
	if m.fused {
		return BackendFusedDense(x, w, bias, compute.DenseConfig{})
	}
	y := DotGeneral(x, []int{x.Rank() - 1}, nil, w, []int{0}, nil)
	if bias != nil {
		y = Add(y, ExpandLeftToRank(bias, y.Rank()))
	}
	return y
}

// denseTransposed is x·wᵀ for w of shape [out, in].
func (m *model) denseTransposed(x, w *Node) *Node {
	if m.fused {
		return BackendFusedDense(x, w, nil, compute.DenseConfig{WeightLayout: compute.DenseLayoutOutputsInput})
	}
	return DotGeneral(x, []int{x.Rank() - 1}, nil, w, []int{1}, nil)
}

// rmsNorm divides by the root mean square over the last axis (Zhang and Sennrich 2019). Division by a square root is
// used because the reciprocal square root has no gradient in this library.
func (m *model) rmsNorm(x, weight *Node) *Node {
	n := float64(x.Shape().Dimensions[x.Rank()-1])
	square := MulScalar(ReduceAndKeep(Mul(x, x), ReduceSum, -1), 1/n)
	return Mul(Div(x, Sqrt(AddScalar(square, m.config.RMSNormEps))), ExpandLeftToRank(weight, x.Rank()))
}

// feedForward is the SwiGLU block (Shazeer 2020).
func (m *model) feedForward(x, gateUp, down *Node) *Node {
	h := m.dense(x, gateUp, nil)
	if m.fused {
		h = BackendFusedActivation(h, compute.ActivationConfig{Type: compute.ActivationSwiGLU})
	} else {
		half := m.config.IntermediateSize
		last := h.Rank() - 1
		gate, up := SliceAxis(h, last, AxisRange(0, half)), SliceAxis(h, last, AxisRange(half, 2*half))
		h = Mul(Mul(gate, Sigmoid(gate)), up)
	}
	return m.dense(h, down, nil)
}

// projections computes the query, key and value heads of x [..., hidden]: q [..., heads, headDim] and k, v
// [..., kvHeads, headDim], with q and k normalised (QK-norm) and rotated. cos and sin are
// [..., heads+kvHeads, headDim]. For the fused attention, which scales by itself, they have no gradient; else q carries
// the scale 1/√headDim.
func (m *model) projections(weights []*Node, li layerIndex, x, cos, sin *Node, fused bool) (q, k, v *Node) {
	c := m.config
	var bias *Node
	if li.qkvBias >= 0 {
		bias = weights[li.qkvBias]
	}
	qkv := m.dense(x, weights[li.qkv], bias)
	lead := x.Shape().Dimensions[:x.Rank()-1]
	all := Reshape(qkv, append(append([]int{}, lead...), c.Heads+2*c.KVHeads, c.HeadDim)...)
	cut := func(x *Node, from, to int) *Node {
		if fused {
			return gatherRange(x, x.Rank()-2, from, to)
		}
		return SliceAxis(x, x.Rank()-2, AxisRange(from, to))
	}
	keys := c.Heads + c.KVHeads
	v = cut(all, keys, keys+c.KVHeads)
	if c.QKNorm {
		q = m.rotate(m.rmsNorm(cut(all, 0, c.Heads), weights[li.qNorm]), cut(cos, 0, c.Heads), cut(sin, 0, c.Heads))
		k = m.rotate(m.rmsNorm(cut(all, c.Heads, keys), weights[li.kNorm]), cut(cos, 0, c.KVHeads), cut(sin, 0, c.KVHeads))
	} else {
		qk := m.rotate(cut(all, 0, keys), cos, sin)
		q, k = cut(qk, 0, c.Heads), cut(qk, c.Heads, keys)
	}
	if !fused {
		q = MulScalar(q, 1/math.Sqrt(float64(c.HeadDim)))
	}
	return q, k, v
}

// gatherRange is SliceAxis for graphs without a gradient: on the Go backend a gather copies runs of memory, and a slice
// element by element.
func gatherRange(x *Node, axis, from, to int) *Node {
	return GatherSlices(x, []int{axis}, Const(x.Graph(), []int32{int32(from)}), []int{to - from}, true)
}

// rotate applies rotary positions (Su et al. 2021) in the half-split form of the Llama implementations: cos and sin
// are those of [model.ropeTables]. The halves are swapped by a product with a permutation, which is exact and several
// times as fast here as cutting and joining.
func (m *model) rotate(x, cos, sin *Node) *Node {
	width := m.config.HeadDim
	flat := make([]float32, width*width)
	for i := range width {
		flat[i*width+(i+width/2)%width] = 1
	}
	swap := ConvertDType(ConstTensor(x.Graph(), tensors.FromFlatDataAndDimensions(flat, width, width)), m.dtype)
	swapped := DotGeneral(x, []int{x.Rank() - 1}, nil, swap, []int{0}, nil)
	return Add(Mul(x, cos), Mul(swapped, sin))
}

// causalAttention attends within whole sequences. q is [rows, S, heads, headDim], scaled; k and v are
// [rows, S, kvHeads, headDim]. Rows are padded at their end, so the causal mask alone keeps padding out of every
// real position. The result is [rows, S, heads*headDim].
func (m *model) causalAttention(q, k, v, mask *Node) *Node {
	c := m.config
	dims := q.Shape().Dimensions
	rows, s, group := dims[0], dims[1], c.Heads/c.KVHeads
	q = Reshape(TransposeAllAxes(q, 0, 2, 1, 3), rows, c.KVHeads, group*s, c.HeadDim)
	k, v = TransposeAllAxes(k, 0, 2, 1, 3), TransposeAllAxes(v, 0, 2, 3, 1)
	scores := DotGeneral(q, []int{3}, []int{0, 1}, k, []int{3}, []int{0, 1})
	scores = Add(Reshape(scores, rows, c.Heads, s, s), mask)
	p := Reshape(Softmax(scores, -1), rows, c.KVHeads, group*s, s)
	// The values come first, transposed: so the gradient needs no transposition of the [S, S] weights, only of what has
	// the width of a head.
	out := DotGeneral(v, []int{3}, []int{0, 1}, p, []int{3}, []int{0, 1})
	out = TransposeAllAxes(Reshape(out, rows, c.KVHeads, c.HeadDim, group, s), 0, 4, 1, 3, 2)
	return Reshape(out, rows, s, c.Heads*c.HeadDim)
}

// sequences runs the network over whole sequences: tokens [rows, S] to hidden states [rows, S, hidden], before the
// final norm. With recompute the gradient keeps only the input of each layer and computes the rest of the layer again.
func (m *model) sequences(weights []*Node, tokens *Node, recompute bool) *Node {
	g := tokens.Graph()
	rows, s := tokens.Shape().Dimensions[0], tokens.Shape().Dimensions[1]
	// Spread over the heads once: operands of one shape are much faster than broadcasting ones.
	spread := func(x *Node) *Node {
		return BroadcastToDims(Reshape(x, 1, s, 1, m.config.HeadDim), rows, s, m.config.Heads+m.config.KVHeads, m.config.HeadDim)
	}
	cos, sin := m.ropeTables(g, s)
	cos, sin = spread(cos), spread(sin)
	mask := m.causalMask(g, s)
	x := Gather(weights[m.layout.embedding], InsertAxes(tokens, -1))
	for _, li := range m.layout.layers {
		if recompute {
			x = x.Checkpoint()
		}
		q, k, v := m.projections(weights, li, m.rmsNorm(x, weights[li.inputNorm]), cos, sin, false)
		x = Add(x, m.dense(m.causalAttention(q, k, v, mask), weights[li.out], m.optional(weights, li.outBias)))
		x = Add(x, m.feedForward(m.rmsNorm(x, weights[li.postNorm]), weights[li.gateUp], weights[li.down]))
	}
	if recompute {
		x = x.StopCheckpoint()
	}
	return x
}

func (m *model) optional(weights []*Node, index int) *Node {
	if index < 0 {
		return nil
	}
	return weights[index]
}

// logits applies the final norm and the head to hidden states [n, hidden].
func (m *model) logits(weights []*Node, x *Node) *Node {
	head := m.layout.head
	if head < 0 {
		head = m.layout.embedding
	}
	return m.denseTransposed(m.rmsNorm(x, weights[m.layout.finalNorm]), weights[head])
}

// values applies the final norm and a critic's head to hidden states [n, hidden]: [n].
func (m *model) values(weights []*Node, x *Node) *Node {
	l := m.layout
	x = m.rmsNorm(x, weights[l.finalNorm])
	return Add(ReduceSum(Mul(x, ExpandLeftToRank(weights[l.value], 2)), -1), weights[l.valueBias])
}

// causalMask is an additive mask [1, 1, s, s]. It is computed: as a constant it would take room in every program that
// is kept.
func (m *model) causalMask(g *Graph, s int) *Node {
	shape := shapes.Make(dtypes.Int32, 1, 1, s, s)
	later := GreaterThan(Iota(g, shape, 3), Iota(g, shape, 2))
	return Where(later, Scalar(g, m.dtype, -1e30), ScalarZero(g, m.dtype))
}

// ropeTables gives the factors of [model.rotate] for positions 0..n-1, [n, headDim] each: the cosine in both halves; the sine,
// negative in the first half.
func (m *model) ropeTables(g *Graph, n int) (cos, sin *Node) {
	width := m.config.HeadDim
	half := width / 2
	c, s := make([]float32, n*width), make([]float32, n*width)
	for j, f := range ropeFrequencies(m.config) {
		for i := range n {
			// The reference implementations multiply position and frequency in float32.
			angle := float64(float32(i) * f)
			at := i*width + j
			c[at], s[at] = float32(math.Cos(angle)), float32(-math.Sin(angle))
			c[at+half], s[at+half] = c[at], -s[at]
		}
	}
	constant := func(flat []float32) *Node {
		return ConvertDType(ConstTensor(g, tensors.FromFlatDataAndDimensions(flat, n, width)), m.dtype)
	}
	return constant(c), constant(s)
}

// ropeFrequencies are the angular steps per position, with the Llama 3.1 scaling where the model has one.
func ropeFrequencies(c checkpoint.Config) []float32 {
	freqs := make([]float32, c.HeadDim/2)
	for j := range freqs {
		f := 1 / math.Pow(c.RopeTheta, float64(2*j)/float64(c.HeadDim))
		if s := c.RopeScaling; s != nil {
			length := float64(s.OriginalMaxPositions)
			low, high := length/s.LowFreqFactor, length/s.HighFreqFactor
			switch wavelength := 2 * math.Pi / f; {
			case wavelength > low:
				f /= s.Factor
			case wavelength >= high:
				smooth := (length/wavelength - s.LowFreqFactor) / (s.HighFreqFactor - s.LowFreqFactor)
				f = (1-smooth)*f/s.Factor + smooth*f
			}
		}
		freqs[j] = float32(f)
	}
	return freqs
}
