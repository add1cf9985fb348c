package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// ConfigFile is the name of the configuration in a model folder.
const ConfigFile = "config.json"

// The supported values of Config.ModelType.
const (
	Llama = "llama" // also SmolLM2, TinyLlama, Mistral-like folders that say "llama"
	Qwen2 = "qwen2" // Qwen2, Qwen2.5: biases on q, k and v
	Qwen3 = "qwen3" // RMSNorm over the head dimension of q and k
)

// The supported values of Config.DType and of the writers' dtype.
const (
	Float32  = "float32"
	BFloat16 = "bfloat16"
	Float16  = "float16" // read only
)

// maxSize bounds every size of a configuration, so that products of two of them stay far from overflow.
const maxSize = 1 << 30

// Config describes a decoder-only transformer: pre-norm RMSNorm, rotary positions, SwiGLU, grouped-query attention.
type Config struct {
	ModelType        string  // Llama, Qwen2 or Qwen3
	HiddenSize       int     // width of the residual stream
	Layers           int     // number of blocks
	Heads            int     // query heads
	KVHeads          int     // key/value heads; divides Heads
	HeadDim          int     // width of one head, even; Heads*HeadDim may differ from HiddenSize
	IntermediateSize int     // width of the gated feed-forward
	VocabSize        int     // rows of the embedding; may exceed the tokenizer's vocabulary
	MaxPositions     int     // longest sequence the model was made for
	RMSNormEps       float64 // > 0
	RopeTheta        float64 // > 0, finite

	RopeScaling       *RopeScaling // nil: plain rotary positions
	TieWordEmbeddings bool         // the output head is the embedding
	QKVBias           bool         // biases on the q, k and v projections
	OutputBias        bool         // bias on the attention's output projection
	QKNorm            bool         // RMSNorm of q and k per head, before the rotation

	BOS   *int32  // nil: none
	EOS   []int32 // every id that ends a sequence; may be empty
	Pad   *int32  // nil: none
	DType string  // dtype of the stored weights: Float32, BFloat16, Float16; "" when the file does not say
}

// RopeScaling is the frequency scaling of Llama 3.1 (rope_type "llama3"): wavelengths above
// OriginalMaxPositions/LowFreqFactor are stretched by Factor, those below OriginalMaxPositions/HighFreqFactor are
// kept, and those between are interpolated.
type RopeScaling struct {
	Factor               float64
	LowFreqFactor        float64
	HighFreqFactor       float64
	OriginalMaxPositions int
}

// TensorSpec is the name and shape of a tensor that a configuration calls for.
type TensorSpec struct {
	Name  string
	Shape []int
}

// configJSON is config.json as the transformers library writes it, old and new spelling side by side.
type configJSON struct {
	Architectures         []string        `json:"architectures"`
	ModelType             string          `json:"model_type"`
	HiddenAct             string          `json:"hidden_act,omitempty"`
	HiddenSize            int             `json:"hidden_size"`
	IntermediateSize      int             `json:"intermediate_size"`
	NumHiddenLayers       int             `json:"num_hidden_layers"`
	NumAttentionHeads     int             `json:"num_attention_heads"`
	NumKeyValueHeads      *int            `json:"num_key_value_heads,omitempty"`
	HeadDim               *int            `json:"head_dim,omitempty"`
	VocabSize             int             `json:"vocab_size"`
	MaxPositionEmbeddings int             `json:"max_position_embeddings,omitempty"`
	RMSNormEps            *float64        `json:"rms_norm_eps,omitempty"`
	RopeTheta             *float64        `json:"rope_theta,omitempty"`
	RopeScaling           *ropeJSON       `json:"rope_scaling,omitempty"`
	RopeParameters        *ropeJSON       `json:"rope_parameters,omitempty"`
	PartialRotaryFactor   *float64        `json:"partial_rotary_factor,omitempty"`
	TieWordEmbeddings     bool            `json:"tie_word_embeddings"`
	AttentionBias         *bool           `json:"attention_bias,omitempty"`
	MLPBias               bool            `json:"mlp_bias,omitempty"`
	UseSlidingWindow      bool            `json:"use_sliding_window,omitempty"`
	BOSTokenID            *int32          `json:"bos_token_id,omitempty"`
	EOSTokenID            *tokenIDs       `json:"eos_token_id,omitempty"`
	PadTokenID            *int32          `json:"pad_token_id,omitempty"`
	TorchDType            string          `json:"torch_dtype,omitempty"`
	DType                 string          `json:"dtype,omitempty"`
	QuantizationConfig    json.RawMessage `json:"quantization_config,omitempty"`
}

type ropeJSON struct {
	RopeType                      string   `json:"rope_type,omitempty"`
	Type                          string   `json:"type,omitempty"`
	RopeTheta                     *float64 `json:"rope_theta,omitempty"`
	PartialRotaryFactor           *float64 `json:"partial_rotary_factor,omitempty"`
	Factor                        float64  `json:"factor,omitempty"`
	LowFreqFactor                 float64  `json:"low_freq_factor,omitempty"`
	HighFreqFactor                float64  `json:"high_freq_factor,omitempty"`
	OriginalMaxPositionEmbeddings int      `json:"original_max_position_embeddings,omitempty"`
}

// tokenIDs is one id or a list of ids.
type tokenIDs []int32

func (t *tokenIDs) UnmarshalJSON(data []byte) error {
	var one int32
	if err := json.Unmarshal(data, &one); err == nil {
		*t = tokenIDs{one}
		return nil
	}
	var many []int32
	if err := json.Unmarshal(data, &many); err != nil {
		return fmt.Errorf("expected a token id or a list of token ids, got %.100s", data)
	}
	*t = many
	return nil
}

func (t tokenIDs) MarshalJSON() ([]byte, error) {
	if len(t) == 1 {
		return json.Marshal(t[0])
	}
	return json.Marshal([]int32(t))
}

// ReadConfig reads config.json of a model folder. Settings that would change the computation and are not supported
// (another model_type, rope scaling other than llama3, sliding windows, quantised weights, ...) are errors.
func ReadConfig(dir string) (Config, error) {
	path := filepath.Join(dir, ConfigFile)
	data, err := os.ReadFile(path)
	if err != nil {
		return Config{}, fmt.Errorf("read model folder %s: %w", dir, err)
	}
	c, err := parseConfig(data)
	if err != nil {
		return Config{}, fmt.Errorf("%s: %w", withLine(path, data, err), err)
	}
	return c, nil
}

func parseConfig(data []byte) (Config, error) {
	var j configJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return Config{}, err
	}
	if !slices.Contains([]string{Llama, Qwen2, Qwen3}, j.ModelType) {
		return Config{}, fmt.Errorf("model_type %q is not supported (supported: %s, %s, %s)", j.ModelType, Llama, Qwen2, Qwen3)
	}
	if j.HiddenAct != "" && j.HiddenAct != "silu" {
		return Config{}, fmt.Errorf("hidden_act %q is not supported (supported: silu)", j.HiddenAct)
	}
	if j.MLPBias {
		return Config{}, errors.New("mlp_bias = true is not supported: the feed-forward is computed without biases")
	}
	if j.UseSlidingWindow {
		return Config{}, errors.New("use_sliding_window = true is not supported: attention is always full")
	}
	if len(j.QuantizationConfig) > 0 && string(j.QuantizationConfig) != "null" {
		return Config{}, errors.New("quantization_config is not supported: give the folder with float32, float16 or bfloat16 weights")
	}
	c := Config{
		ModelType: j.ModelType, HiddenSize: j.HiddenSize, Layers: j.NumHiddenLayers, Heads: j.NumAttentionHeads,
		IntermediateSize: j.IntermediateSize, VocabSize: j.VocabSize, TieWordEmbeddings: j.TieWordEmbeddings,
		// The defaults below are those of the transformers library for a field that config.json leaves out.
		KVHeads: j.NumAttentionHeads, MaxPositions: j.MaxPositionEmbeddings, RMSNormEps: 1e-6, RopeTheta: 10000,
		BOS: j.BOSTokenID, Pad: j.PadTokenID, DType: j.TorchDType,
	}
	if c.DType == "" {
		c.DType = j.DType
	}
	if j.EOSTokenID != nil {
		c.EOS = *j.EOSTokenID
	}
	switch {
	case j.NumKeyValueHeads != nil:
		c.KVHeads = *j.NumKeyValueHeads
	case c.ModelType != Llama:
		return Config{}, fmt.Errorf("num_key_value_heads is missing: it must be given for model_type %q", c.ModelType)
	}
	switch {
	case j.HeadDim != nil:
		c.HeadDim = *j.HeadDim
	case c.ModelType == Qwen3:
		c.HeadDim = 128
	case c.Heads > 0:
		c.HeadDim = c.HiddenSize / c.Heads
		if c.HeadDim*c.Heads != c.HiddenSize {
			return Config{}, fmt.Errorf("hidden_size %d is not a multiple of num_attention_heads %d and head_dim is missing", c.HiddenSize, c.Heads)
		}
	}
	if c.MaxPositions == 0 {
		c.MaxPositions = 2048
		if c.ModelType != Llama {
			c.MaxPositions = 32768
		}
	}
	if j.RMSNormEps != nil {
		c.RMSNormEps = *j.RMSNormEps
	}
	if err := c.setRope(j); err != nil {
		return Config{}, err
	}
	bias := j.AttentionBias != nil && *j.AttentionBias
	switch c.ModelType {
	case Llama:
		c.QKVBias, c.OutputBias = bias, bias
	case Qwen2:
		c.QKVBias = true // always, whatever attention_bias says
	case Qwen3:
		c.QKVBias, c.OutputBias, c.QKNorm = bias, bias, true
	}
	return c, c.Validate()
}

func (c *Config) setRope(j configJSON) error {
	if f := j.PartialRotaryFactor; f != nil && *f != 1 {
		return fmt.Errorf("partial_rotary_factor %g is not supported (supported: 1)", *f)
	}
	if j.RopeTheta != nil {
		c.RopeTheta = *j.RopeTheta
	}
	for _, r := range []struct {
		field string
		*ropeJSON
	}{{"rope_scaling", j.RopeScaling}, {"rope_parameters", j.RopeParameters}} {
		if r.ropeJSON == nil {
			continue
		}
		if f := r.PartialRotaryFactor; f != nil && *f != 1 {
			return fmt.Errorf("%s.partial_rotary_factor %g is not supported (supported: 1)", r.field, *f)
		}
		if r.RopeTheta != nil {
			c.RopeTheta = *r.RopeTheta
		}
		kind := r.RopeType
		if kind == "" {
			kind = r.Type
		}
		switch kind {
		case "", "default":
		case "llama3":
			c.RopeScaling = &RopeScaling{
				Factor: r.Factor, LowFreqFactor: r.LowFreqFactor, HighFreqFactor: r.HighFreqFactor,
				OriginalMaxPositions: r.OriginalMaxPositionEmbeddings,
			}
		default:
			return fmt.Errorf("%s: rope_type %q is not supported (supported: default, llama3)", r.field, kind)
		}
	}
	return nil
}

// Validate says what is wrong with the configuration, naming the field of config.json.
func (c Config) Validate() error {
	if !slices.Contains([]string{Llama, Qwen2, Qwen3}, c.ModelType) {
		return fmt.Errorf("model_type %q is not supported (supported: %s, %s, %s)", c.ModelType, Llama, Qwen2, Qwen3)
	}
	for _, f := range []struct {
		name  string
		value int
	}{
		{"hidden_size", c.HiddenSize}, {"num_hidden_layers", c.Layers}, {"num_attention_heads", c.Heads},
		{"num_key_value_heads", c.KVHeads}, {"head_dim", c.HeadDim}, {"intermediate_size", c.IntermediateSize},
		{"vocab_size", c.VocabSize}, {"max_position_embeddings", c.MaxPositions},
	} {
		if f.value < 1 || f.value > maxSize {
			return fmt.Errorf("%s is %d: expected 1 to %d", f.name, f.value, maxSize)
		}
	}
	if c.Layers > 1<<16 {
		return fmt.Errorf("num_hidden_layers is %d: expected at most %d", c.Layers, 1<<16)
	}
	if c.Heads > 1<<16 || c.HeadDim > 1<<14 {
		return fmt.Errorf("num_attention_heads %d or head_dim %d is beyond all reason", c.Heads, c.HeadDim)
	}
	if c.Heads%c.KVHeads != 0 {
		return fmt.Errorf("num_attention_heads %d is not a multiple of num_key_value_heads %d", c.Heads, c.KVHeads)
	}
	if c.HeadDim%2 != 0 {
		return fmt.Errorf("head_dim %d is odd: rotary positions need pairs", c.HeadDim)
	}
	if err := positive("rms_norm_eps", c.RMSNormEps); err != nil {
		return err
	}
	if err := positive("rope_theta", c.RopeTheta); err != nil {
		return err
	}
	if s := c.RopeScaling; s != nil {
		if err := errors.Join(positive("rope_scaling.factor", s.Factor), positive("rope_scaling.low_freq_factor", s.LowFreqFactor),
			positive("rope_scaling.high_freq_factor", s.HighFreqFactor)); err != nil {
			return err
		}
		if s.HighFreqFactor <= s.LowFreqFactor {
			return fmt.Errorf("rope_scaling.high_freq_factor %g must be greater than low_freq_factor %g", s.HighFreqFactor, s.LowFreqFactor)
		}
		if s.OriginalMaxPositions < 1 || s.OriginalMaxPositions > maxSize {
			return fmt.Errorf("rope_scaling.original_max_position_embeddings is %d: expected 1 to %d", s.OriginalMaxPositions, maxSize)
		}
	}
	if c.QKNorm != (c.ModelType == Qwen3) {
		return fmt.Errorf("model_type %q with QKNorm = %t: norms of q and k belong to %s", c.ModelType, c.QKNorm, Qwen3)
	}
	if c.ModelType == Qwen2 && (!c.QKVBias || c.OutputBias) {
		return fmt.Errorf("model_type %q has biases on q, k and v and none on the output projection", Qwen2)
	}
	if c.ModelType != Qwen2 && c.QKVBias != c.OutputBias {
		return fmt.Errorf("model_type %q has biases on all four attention projections or on none", c.ModelType)
	}
	if !slices.Contains([]string{"", Float32, BFloat16, Float16}, c.DType) {
		return fmt.Errorf("dtype %q is not supported (supported: %s, %s, %s)", c.DType, Float32, BFloat16, Float16)
	}
	return nil
}

func positive(name string, v float64) error {
	if math.IsNaN(v) || math.IsInf(v, 0) || v <= 0 {
		return fmt.Errorf("%s is %g: expected a finite number above 0", name, v)
	}
	return nil
}

// Write writes config.json into dir, which must exist, in the spelling that every version of transformers reads.
func (c Config) Write(dir string) error {
	if err := c.Validate(); err != nil {
		return fmt.Errorf("write %s: %w", ConfigFile, err)
	}
	architectures := map[string]string{Llama: "LlamaForCausalLM", Qwen2: "Qwen2ForCausalLM", Qwen3: "Qwen3ForCausalLM"}
	j := configJSON{
		Architectures: []string{architectures[c.ModelType]}, ModelType: c.ModelType, HiddenAct: "silu",
		HiddenSize: c.HiddenSize, IntermediateSize: c.IntermediateSize, NumHiddenLayers: c.Layers,
		NumAttentionHeads: c.Heads, NumKeyValueHeads: &c.KVHeads, HeadDim: &c.HeadDim, VocabSize: c.VocabSize,
		MaxPositionEmbeddings: c.MaxPositions, RMSNormEps: &c.RMSNormEps, RopeTheta: &c.RopeTheta,
		TieWordEmbeddings: c.TieWordEmbeddings, BOSTokenID: c.BOS, PadTokenID: c.Pad, TorchDType: c.DType,
	}
	if len(c.EOS) > 0 {
		ids := tokenIDs(c.EOS)
		j.EOSTokenID = &ids
	}
	if c.ModelType != Qwen2 {
		j.AttentionBias = &c.QKVBias
	}
	if s := c.RopeScaling; s != nil {
		j.RopeScaling = &ropeJSON{
			RopeType: "llama3", Factor: s.Factor, LowFreqFactor: s.LowFreqFactor, HighFreqFactor: s.HighFreqFactor,
			OriginalMaxPositionEmbeddings: s.OriginalMaxPositions,
		}
	}
	return writeJSON(filepath.Join(dir, ConfigFile), j)
}

// Expected lists every tensor that the configuration calls for, by its Hugging Face name, in the order of the
// computation. Linear weights are [out, in].
func (c Config) Expected() []TensorSpec {
	q, kv := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	var specs []TensorSpec
	add := func(name string, shape ...int) { specs = append(specs, TensorSpec{Name: name, Shape: shape}) }
	add("model.embed_tokens.weight", c.VocabSize, c.HiddenSize)
	for i := range c.Layers {
		p := fmt.Sprintf("model.layers.%d.", i)
		add(p+"input_layernorm.weight", c.HiddenSize)
		for _, proj := range []struct {
			name    string
			out, in int
			bias    bool
		}{
			{"q_proj", q, c.HiddenSize, c.QKVBias}, {"k_proj", kv, c.HiddenSize, c.QKVBias},
			{"v_proj", kv, c.HiddenSize, c.QKVBias}, {"o_proj", c.HiddenSize, q, c.OutputBias},
		} {
			add(p+"self_attn."+proj.name+".weight", proj.out, proj.in)
			if proj.bias {
				add(p+"self_attn."+proj.name+".bias", proj.out)
			}
		}
		if c.QKNorm {
			add(p+"self_attn.q_norm.weight", c.HeadDim)
			add(p+"self_attn.k_norm.weight", c.HeadDim)
		}
		add(p+"post_attention_layernorm.weight", c.HiddenSize)
		add(p+"mlp.gate_proj.weight", c.IntermediateSize, c.HiddenSize)
		add(p+"mlp.up_proj.weight", c.IntermediateSize, c.HiddenSize)
		add(p+"mlp.down_proj.weight", c.HiddenSize, c.IntermediateSize)
	}
	add("model.norm.weight", c.HiddenSize)
	if !c.TieWordEmbeddings {
		add("lm_head.weight", c.VocabSize, c.HiddenSize)
	}
	return specs
}

// withLine is path, with the line of a JSON error where the error knows it.
func withLine(path string, data []byte, err error) string {
	offset := int64(-1)
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		offset = e.Offset
	}
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		offset = e.Offset
	}
	if offset < 0 || offset > int64(len(data)) {
		return path
	}
	return fmt.Sprintf("%s:%d", path, 1+strings.Count(string(data[:offset]), "\n"))
}
