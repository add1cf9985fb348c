package policy

import (
	"fmt"
	"math"
	"sync/atomic"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/forage-rl/forage/core/internal/rng"
	"github.com/forage-rl/forage/core/policy/checkpoint"
)

// weightKind groups tensors that share an initial spread.
type weightKind uint8

const (
	kindEmbedding weightKind = iota
	kindHead
	kindQuery
	kindKey
	kindValue
	kindOutput
	kindGate
	kindUp
	kindDown
	kindBias
	kindNorm
	kindFinalNorm
)

// part is a Hugging Face tensor inside one of ours. Projections are stored as [in, out], which is the transpose of
// the Hugging Face layout, so that several of them can stand side by side in one matrix.
type part struct {
	name   string
	kind   weightKind
	column int // first column
	width  int // columns
}

// weightSpec is one tensor of the model.
type weightSpec struct {
	name       string // unique, for files of the optimizer's state
	dims       []int
	transposed bool // a projection: parts are transposed into columns
	parts      []part
}

func (s weightSpec) size() int {
	n := 1
	for _, d := range s.dims {
		n *= d
	}
	return n
}

// layerIndex says where the tensors of one block are in the list of weights; -1 where the model has none.
type layerIndex struct {
	inputNorm, qkv, qkvBias, qNorm, kNorm, out, outBias, postNorm, gateUp, down int
}

// layout is the list of a model's weights.
type layout struct {
	specs     []weightSpec
	embedding int
	layers    []layerIndex
	finalNorm int
	head      int // -1: tied to the embedding
	value     int // value head of a critic; -1: a policy
	valueBias int
}

func newLayout(c checkpoint.Config) layout {
	var l layout
	add := func(s weightSpec) int {
		l.specs = append(l.specs, s)
		return len(l.specs) - 1
	}
	vector := func(name string, kind weightKind, width int) int {
		return add(weightSpec{name: name, dims: []int{width}, parts: []part{{name: name, kind: kind, width: width}}})
	}
	columns := func(name string, in int, parts ...part) int {
		width := 0
		for i := range parts {
			parts[i].column = width
			width += parts[i].width
		}
		return add(weightSpec{name: name, dims: []int{in, width}, transposed: true, parts: parts})
	}
	q, kv := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	l.embedding = add(weightSpec{name: "model.embed_tokens.weight", dims: []int{c.VocabSize, c.HiddenSize},
		parts: []part{{name: "model.embed_tokens.weight", kind: kindEmbedding, width: c.HiddenSize}}})
	for i := range c.Layers {
		p := fmt.Sprintf("model.layers.%d.", i)
		li := layerIndex{qkvBias: -1, qNorm: -1, kNorm: -1, outBias: -1}
		li.inputNorm = vector(p+"input_layernorm.weight", kindNorm, c.HiddenSize)
		li.qkv = columns(p+"self_attn.qkv_proj.weight", c.HiddenSize,
			part{name: p + "self_attn.q_proj.weight", kind: kindQuery, width: q},
			part{name: p + "self_attn.k_proj.weight", kind: kindKey, width: kv},
			part{name: p + "self_attn.v_proj.weight", kind: kindValue, width: kv})
		if c.QKVBias {
			li.qkvBias = add(weightSpec{name: p + "self_attn.qkv_proj.bias", dims: []int{q + 2*kv}, parts: []part{
				{name: p + "self_attn.q_proj.bias", kind: kindBias, width: q},
				{name: p + "self_attn.k_proj.bias", kind: kindBias, column: q, width: kv},
				{name: p + "self_attn.v_proj.bias", kind: kindBias, column: q + kv, width: kv}}})
		}
		if c.QKNorm {
			li.qNorm = vector(p+"self_attn.q_norm.weight", kindNorm, c.HeadDim)
			li.kNorm = vector(p+"self_attn.k_norm.weight", kindNorm, c.HeadDim)
		}
		li.out = columns(p+"self_attn.o_proj.weight", q, part{name: p + "self_attn.o_proj.weight", kind: kindOutput, width: c.HiddenSize})
		if c.OutputBias {
			li.outBias = vector(p+"self_attn.o_proj.bias", kindBias, c.HiddenSize)
		}
		li.postNorm = vector(p+"post_attention_layernorm.weight", kindNorm, c.HiddenSize)
		li.gateUp = columns(p+"mlp.gate_up_proj.weight", c.HiddenSize,
			part{name: p + "mlp.gate_proj.weight", kind: kindGate, width: c.IntermediateSize},
			part{name: p + "mlp.up_proj.weight", kind: kindUp, width: c.IntermediateSize})
		li.down = columns(p+"mlp.down_proj.weight", c.IntermediateSize, part{name: p + "mlp.down_proj.weight", kind: kindDown, width: c.HiddenSize})
		l.layers = append(l.layers, li)
	}
	l.finalNorm = vector("model.norm.weight", kindFinalNorm, c.HiddenSize)
	l.head, l.value, l.valueBias = -1, -1, -1
	if !c.TieWordEmbeddings {
		// The head stays [vocabulary, hidden], like the embedding it may be tied to.
		l.head = add(weightSpec{name: "lm_head.weight", dims: []int{c.VocabSize, c.HiddenSize},
			parts: []part{{name: "lm_head.weight", kind: kindHead, width: c.HiddenSize}}})
	}
	return l
}

// gather makes our tensor from Hugging Face tensors; source gives the values of one in its own layout.
func (s weightSpec) gather(source func(name string) ([]float32, error)) ([]float32, error) {
	flat := make([]float32, s.size())
	for _, p := range s.parts {
		values, err := source(p.name)
		if err != nil {
			return nil, err
		}
		rows := 1
		if s.transposed {
			rows = s.dims[0]
		} else if len(s.dims) == 2 {
			rows = s.dims[0]
		}
		if len(values) != rows*p.width {
			return nil, fmt.Errorf("tensor %s holds %d values, expected %d", p.name, len(values), rows*p.width)
		}
		if !s.transposed {
			copy(flat[p.column:], values)
			continue
		}
		total := s.dims[1]
		for out := range p.width {
			for in := range rows {
				flat[in*total+p.column+out] = values[out*rows+in]
			}
		}
	}
	return flat, nil
}

// scatter gives the Hugging Face tensors inside ours, with their shapes.
func (s weightSpec) scatter(flat []float32, sink func(name string, dims []int, values []float32)) {
	for _, p := range s.parts {
		if !s.transposed {
			if len(s.dims) == 2 {
				sink(p.name, s.dims, flat)
			} else {
				sink(p.name, []int{p.width}, flat[p.column:p.column+p.width])
			}
			continue
		}
		rows, total := s.dims[0], s.dims[1]
		values := make([]float32, rows*p.width)
		for out := range p.width {
			for in := range rows {
				values[out*rows+in] = flat[in*total+p.column+out]
			}
		}
		sink(p.name, []int{p.width, rows}, values)
	}
}

// Init says how to draw the weights of a new model: normal distributions by kind of tensor. Biases start at 0 and
// layer norms at 1.
type Init struct {
	Seed      uint64
	Embedding float64 // standard deviations
	Query     float64
	Key       float64
	Value     float64
	Output    float64
	Gate      float64
	Up        float64
	Down      float64
	Head      float64 // of an untied head
	FinalNorm float64 // value of the last norm's weights; 0 means 1
}

// DefaultInit is the usual 0.02 for everything, with the two projections that write to the residual stream scaled
// down by the square root of twice the number of layers (GPT-2).
func DefaultInit(c checkpoint.Config, seed uint64) Init {
	const std = .02
	residual := std / math.Sqrt(2*float64(c.Layers))
	return Init{Seed: seed, Embedding: std, Query: std, Key: std, Value: std, Output: residual, Gate: std, Up: std,
		Down: residual, Head: std, FinalNorm: 1}
}

func (in Init) std(kind weightKind) float64 {
	return map[weightKind]float64{kindEmbedding: in.Embedding, kindHead: in.Head, kindQuery: in.Query, kindKey: in.Key,
		kindValue: in.Value, kindOutput: in.Output, kindGate: in.Gate, kindUp: in.Up, kindDown: in.Down}[kind]
}

// draw gives the initial values of a Hugging Face tensor of n values.
func (in Init) draw(p part, n int) []float32 {
	values := make([]float32, n)
	switch p.kind {
	case kindBias:
	case kindNorm:
		for i := range values {
			values[i] = 1
		}
	case kindFinalNorm:
		v := float32(in.FinalNorm)
		if v == 0 {
			v = 1
		}
		for i := range values {
			values[i] = v
		}
	default:
		key, std := rng.New(in.Seed).WithString(p.name), in.std(p.kind)
		for i := range values {
			// Box and Muller; one of the pair is enough, each value keeps its own two numbers.
			u, v := key.Float64(uint64(2*i)), key.Float64(uint64(2*i+1))
			values[i] = float32(std * math.Sqrt(-2*math.Log(1-u)) * math.Cos(2*math.Pi*v))
		}
	}
	return values
}

// weightSet is an immutable version of a model's weights. Updates make a new set, so that a snapshot, a running
// sampler and the trainer can each hold the version they began with.
type weightSet struct {
	tensors []*tensors.Tensor
	version uint64
	refs    atomic.Int64
}

func newWeightSet(list []*tensors.Tensor, version uint64) *weightSet {
	w := &weightSet{tensors: list, version: version}
	w.refs.Store(1)
	return w
}

func (w *weightSet) retain() *weightSet {
	w.refs.Add(1)
	return w
}

// release frees the tensors when nobody holds the set any more.
func (w *weightSet) release() error {
	if w.refs.Add(-1) > 0 {
		return nil
	}
	for _, t := range w.tensors {
		if err := t.FinalizeAll(); err != nil {
			return fmt.Errorf("free weights: %w", err)
		}
	}
	return nil
}

// uploadFloats makes a device tensor of the given dtype from float32 values.
func (b *Backend) uploadFloats(dtype dtypes.DType, flat []float32, dims ...int) (*tensors.Tensor, error) {
	if dtype == dtypes.Float64 {
		wide := make([]float64, len(flat))
		for i, v := range flat {
			wide[i] = float64(v)
		}
		return upload(b, wide, dims...)
	}
	return upload(b, flat, dims...)
}

// upload makes a device tensor from values; they are copied.
func upload[T float32 | float64 | int32 | bool](b *Backend, flat []T, dims ...int) (*tensors.Tensor, error) {
	shape := shapes.Make(dtypes.FromGenericsType[T](), dims...)
	buffer, err := b.engine.BufferFromFlatData(0, flat, shape)
	if err != nil {
		return nil, fmt.Errorf("upload %v values: %w", dims, err)
	}
	return tensors.FromBuffer(buffer)
}

// downloadFloats copies a device tensor of floats to the host.
func downloadFloats(t *tensors.Tensor) ([]float32, error) {
	if t.DType() == dtypes.Float64 {
		wide, err := tensors.CopyFlatData[float64](t)
		if err != nil {
			return nil, err
		}
		out := make([]float32, len(wide))
		for i, v := range wide {
			out[i] = float32(v)
		}
		return out, nil
	}
	return tensors.CopyFlatData[float32](t)
}

// downloadWide copies a device tensor of floats to the host without losing digits.
func downloadWide(t *tensors.Tensor) ([]float64, error) {
	if t.DType() == dtypes.Float64 {
		return tensors.CopyFlatData[float64](t)
	}
	flat, err := tensors.CopyFlatData[float32](t)
	return widen(flat), err
}
