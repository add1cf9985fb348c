package checkpoint

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gomlx/go-huggingface/models/gguf"
)

// ImportGGUF turns a GGUF file into a Hugging Face model folder: config.json, safetensors weights (quantised tensors
// are dequantised), tokenizer.json, tokenizer_config.json with the chat template, generation_config.json. dtype is
// that of the written weights, Float32 where empty. progress, where not nil, is told the tensors written so far.
//
// Architectures llama, qwen2 and qwen3 with a byte-level BPE vocabulary are supported. outDir must be absent or empty;
// it appears when everything is in it.
func ImportGGUF(ggufPath, outDir, dtype string, progress func(done, total int)) (err error) {
	if dtype == "" {
		dtype = Float32
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("import %s: %w", ggufPath, err)
		}
	}()
	if entries, err := os.ReadDir(outDir); err == nil && len(entries) > 0 {
		return fmt.Errorf("folder %s is not empty: choose another one", outDir)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	src, err := openGGUF(ggufPath)
	if err != nil {
		return err
	}
	defer src.Close()
	c, err := src.config()
	if err != nil {
		return err
	}
	c.DType = dtype
	tok, err := src.tokenizer()
	if err != nil {
		return err
	}
	parent := filepath.Dir(filepath.Clean(outDir))
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(parent, "."+filepath.Base(outDir)+".*.tmp")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp) // gone after the rename
	if err := os.Chmod(tmp, 0o755); err != nil {
		return err
	}
	specs := c.Expected()
	done := 0
	load := func(s TensorSpec) ([]float32, error) {
		data, err := src.tensor(c, s)
		if done++; err == nil && progress != nil {
			progress(done, len(specs))
		}
		return data, err
	}
	if err := WriteWeights(tmp, specs, load, dtype, 0); err != nil {
		return err
	}
	if err := errors.Join(c.Write(tmp), tok.write(tmp, c)); err != nil {
		return err
	}
	if err := os.Remove(outDir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(tmp, outDir); err != nil {
		return err
	}
	return syncDir(parent)
}

// ggufFile is an open GGUF file.
type ggufFile struct {
	*gguf.Reader
	file *gguf.File
	arch string
	size int64
	// lookup gives, for a tensor, the name under which the library finds it: it sorts its list of tensors after it
	// has indexed it, so that in a file whose tensors are not in the order of their offsets, names lead elsewhere.
	lookup map[string]string
}

func openGGUF(path string) (*ggufFile, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	file, err := gguf.Open(path)
	if err != nil {
		return nil, fmt.Errorf("not a readable GGUF file, is it truncated? %w", err)
	}
	reader, err := gguf.NewReader(file)
	if err != nil {
		return nil, err
	}
	g := &ggufFile{Reader: reader, file: file, arch: file.Architecture(), size: info.Size(), lookup: make(map[string]string)}
	for _, name := range file.ListTensorNames() {
		if found, ok := file.GetTensorInfo(name); ok {
			g.lookup[found.Name] = name
		}
	}
	return g, nil
}

// meta is the value of a key of the architecture ("llama.block_count").
func (g *ggufFile) meta(key string) (gguf.Value, bool) {
	kv, ok := g.file.GetKeyValue(g.arch + "." + key)
	return kv.Value, ok
}

func (g *ggufFile) integer(key string) (int, error) {
	v, ok := g.meta(key)
	if !ok {
		return 0, fmt.Errorf("%s.%s is missing", g.arch, key)
	}
	n := v.Int64()
	if n < 1 || n > maxSize {
		return 0, fmt.Errorf("%s.%s is %v: expected 1 to %d", g.arch, key, v.Raw(), maxSize)
	}
	return int(n), nil
}

// float gives a number that the file holds as float32 the decimal value it was meant to have: 1e-05, not 9.99999975e-06.
func (g *ggufFile) float(key string, missing float64) (float64, error) {
	v, ok := g.meta(key)
	if !ok {
		return missing, nil
	}
	switch raw := v.Raw().(type) {
	case float32:
		return strconv.ParseFloat(strconv.FormatFloat(float64(raw), 'g', -1, 32), 64)
	case float64:
		return raw, nil
	}
	return 0, fmt.Errorf("%s.%s is %v: expected a number", g.arch, key, v.Raw())
}

func (g *ggufFile) info(name string) (gguf.TensorInfo, bool) {
	return g.file.GetTensorInfo(g.lookup[name])
}

func (g *ggufFile) config() (Config, error) {
	models := map[string]string{"llama": Llama, "qwen2": Qwen2, "qwen3": Qwen3}
	c := Config{ModelType: models[g.arch]}
	if c.ModelType == "" {
		return c, fmt.Errorf("architecture %q is not supported (supported: llama, qwen2, qwen3)", g.arch)
	}
	if v, ok := g.meta("expert_count"); ok && v.Int64() > 0 {
		return c, errors.New("mixtures of experts are not supported")
	}
	if v, ok := g.meta("rope.scaling.type"); ok && v.String() != "none" {
		return c, fmt.Errorf("%s.rope.scaling.type %q is not supported (supported: none, or llama3 by the tensor rope_freqs.weight)", g.arch, v.String())
	}
	if v, ok := g.meta("attention.sliding_window"); ok && v.Int64() > 0 {
		return c, fmt.Errorf("%s.attention.sliding_window is not supported: attention is always full", g.arch)
	}
	for _, f := range []struct {
		key  string
		into *int
	}{
		{"block_count", &c.Layers}, {"embedding_length", &c.HiddenSize}, {"feed_forward_length", &c.IntermediateSize},
		{"attention.head_count", &c.Heads}, {"context_length", &c.MaxPositions},
	} {
		var err error
		if *f.into, err = g.integer(f.key); err != nil {
			return c, err
		}
	}
	var err error
	c.KVHeads = c.Heads
	if _, ok := g.meta("attention.head_count_kv"); ok {
		if c.KVHeads, err = g.integer("attention.head_count_kv"); err != nil {
			return c, err
		}
	}
	c.HeadDim = c.HiddenSize / c.Heads
	if _, ok := g.meta("attention.key_length"); ok {
		if c.HeadDim, err = g.integer("attention.key_length"); err != nil {
			return c, err
		}
	}
	if v, ok := g.meta("rope.dimension_count"); ok && v.Int64() != int64(c.HeadDim) {
		return c, fmt.Errorf("%s.rope.dimension_count %v differs from the head size %d: partial rotation is not supported", g.arch, v.Raw(), c.HeadDim)
	}
	if c.RMSNormEps, err = g.float("attention.layer_norm_rms_epsilon", 1e-6); err != nil {
		return c, err
	}
	if c.RopeTheta, err = g.float("rope.freq_base", 10000); err != nil {
		return c, err
	}
	embedding, ok := g.info("token_embd.weight")
	if !ok || len(embedding.Shape) != 2 || embedding.Shape[1] > maxSize {
		return c, errors.New("tensor token_embd.weight [vocabulary, embedding] is missing or misshapen, is the file truncated?")
	}
	c.VocabSize = int(embedding.Shape[1])
	_, untied := g.info("output.weight")
	c.TieWordEmbeddings = !untied
	_, c.QKVBias = g.info("blk.0.attn_q.bias")
	_, c.OutputBias = g.info("blk.0.attn_output.bias")
	c.QKNorm = c.ModelType == Qwen3
	if c.RopeScaling, err = g.ropeScaling(c); err != nil {
		return c, err
	}
	if id, ok, err := g.tokenID("bos_token_id"); err != nil {
		return c, err
	} else if ok {
		c.BOS = &id
	}
	if id, ok, err := g.tokenID("padding_token_id"); err != nil {
		return c, err
	} else if ok {
		c.Pad = &id
	}
	for _, key := range []string{"eos_token_id", "eot_token_id"} {
		id, ok, err := g.tokenID(key)
		if err != nil {
			return c, err
		}
		if ok && (len(c.EOS) == 0 || c.EOS[0] != id) {
			c.EOS = append(c.EOS, id)
		}
	}
	return c, c.Validate()
}

// tokenID reads tokenizer.ggml.<key>, an index into the list of tokens.
func (g *ggufFile) tokenID(key string) (int32, bool, error) {
	kv, ok := g.file.GetKeyValue("tokenizer.ggml." + key)
	if !ok {
		return 0, false, nil
	}
	id := kv.Int64()
	if tokens, _ := g.file.GetKeyValue("tokenizer.ggml.tokens"); id < 0 || id >= int64(len(tokens.Strings())) {
		return 0, false, fmt.Errorf("tokenizer.ggml.%s is %v of %d tokens", key, kv.Raw(), len(tokens.Strings()))
	}
	return int32(id), true, nil
}

// ropeScaling recovers the parameters of Llama 3.1's scaling from its result, which is all that a GGUF file keeps. The
// published models use LowFreqFactor 1, HighFreqFactor 4 and 8192 positions; anything else is refused.
func (g *ggufFile) ropeScaling(c Config) (*RopeScaling, error) {
	info, ok := g.info("rope_freqs.weight")
	if !ok {
		return nil, nil
	}
	if info.NumElements() != uint64(c.HeadDim/2) {
		return nil, fmt.Errorf("tensor rope_freqs.weight has shape %v, expected [%d]", info.Shape, c.HeadDim/2)
	}
	got, err := g.values("rope_freqs.weight", info)
	if err != nil {
		return nil, err
	}
	s := &RopeScaling{Factor: float64(got[len(got)-1]), LowFreqFactor: 1, HighFreqFactor: 4, OriginalMaxPositions: 8192}
	for i, f := range got {
		want := s.divisor(math.Pow(c.RopeTheta, float64(2*i)/float64(c.HeadDim)))
		if math.Abs(float64(f)-want) > 1e-4*want {
			return nil, errors.New("tensor rope_freqs.weight is not the scaling of Llama 3.1 (factor; 1; 4; 8192): other scalings are not supported")
		}
	}
	return s, nil
}

// divisor is what the scaling divides a frequency 1/inverse by.
func (s *RopeScaling) divisor(inverse float64) float64 {
	wavelength := 2 * math.Pi * inverse
	old := float64(s.OriginalMaxPositions)
	switch {
	case wavelength < old/s.HighFreqFactor:
		return 1
	case wavelength > old/s.LowFreqFactor:
		return s.Factor
	}
	smooth := (old/wavelength - s.LowFreqFactor) / (s.HighFreqFactor - s.LowFreqFactor)
	return 1 / ((1-smooth)/s.Factor + smooth)
}

// ggufName is llama.cpp's name of a tensor.
func ggufName(name string) string {
	switch name {
	case "model.embed_tokens.weight":
		return "token_embd.weight"
	case "model.norm.weight":
		return "output_norm.weight"
	case "lm_head.weight":
		return "output.weight"
	}
	rest := strings.TrimPrefix(name, "model.layers.")
	layer, part, _ := strings.Cut(rest, ".")
	part = strings.NewReplacer(
		"input_layernorm", "attn_norm", "post_attention_layernorm", "ffn_norm",
		"self_attn.q_proj", "attn_q", "self_attn.k_proj", "attn_k", "self_attn.v_proj", "attn_v", "self_attn.o_proj", "attn_output",
		"self_attn.q_norm", "attn_q_norm", "self_attn.k_norm", "attn_k_norm",
		"mlp.gate_proj", "ffn_gate", "mlp.up_proj", "ffn_up", "mlp.down_proj", "ffn_down",
	).Replace(part)
	return "blk." + layer + "." + part
}

// tensor reads one tensor, as float32, in the layout of Hugging Face.
func (g *ggufFile) tensor(c Config, s TensorSpec) ([]float32, error) {
	name := ggufName(s.Name)
	info, ok := g.info(name)
	if !ok {
		return nil, fmt.Errorf("tensor %q (%s) of shape %v is missing", name, s.Name, s.Shape)
	}
	match := len(info.Shape) == len(s.Shape)
	for i := range s.Shape { // GGUF lists the innermost dimension first
		match = match && info.Shape[len(s.Shape)-1-i] == uint64(s.Shape[i])
	}
	if !match {
		return nil, fmt.Errorf("tensor %q (%s) has shape %v, innermost first; expected the reverse of %v", name, s.Name, info.Shape, s.Shape)
	}
	data, err := g.values(name, info)
	if err != nil {
		return nil, err
	}
	if c.ModelType == Llama { // only this architecture is stored with permuted rows
		switch {
		case strings.Contains(s.Name, ".q_proj."):
			return unpermute(data, c.Heads, c.HeadDim), nil
		case strings.Contains(s.Name, ".k_proj."):
			return unpermute(data, c.KVHeads, c.HeadDim), nil
		}
	}
	return data, nil
}

// unpermute undoes llama.cpp's order of the rows of q and k. Its rotation turns neighbours (2j, 2j+1) where that of
// Hugging Face turns (j, j+half), so it interleaves the two halves of each head. data is [heads*headDim, width].
func unpermute(data []float32, heads, headDim int) []float32 {
	out := make([]float32, len(data))
	width, half := len(data)/(heads*headDim), headDim/2
	for h := range heads {
		for part := range 2 {
			for j := range half {
				dst, src := h*headDim+part*half+j, h*headDim+2*j+part
				copy(out[dst*width:(dst+1)*width], data[src*width:])
			}
		}
	}
	return out
}

// values reads and dequantises a tensor whose size was checked.
func (g *ggufFile) values(name string, info gguf.TensorInfo) ([]float32, error) {
	n := info.NumBytes()
	if begin := g.file.DataOffset(); n <= 0 || info.Offset > uint64(g.size) || begin+int64(info.Offset) > g.size-n {
		return nil, fmt.Errorf("tensor %q lies beyond the end of the file of %d bytes: it is truncated", name, g.size)
	}
	switch info.Type {
	case gguf.TensorTypeF32, gguf.TensorTypeF16, gguf.TensorTypeBF16:
		raw, _, err := g.ReadTensorRaw(g.lookup[name])
		if err != nil {
			return nil, err
		}
		data := make([]float32, info.NumElements())
		for i := range data {
			switch info.Type {
			case gguf.TensorTypeF32:
				data[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
			case gguf.TensorTypeF16:
				data[i] = fromFloat16(binary.LittleEndian.Uint16(raw[2*i:]))
			case gguf.TensorTypeBF16:
				data[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(raw[2*i:])) << 16)
			}
		}
		return data, nil
	}
	if !info.Type.IsQuantized() {
		return nil, fmt.Errorf("tensor %q has type %s, expected weights", name, info.Type)
	}
	t, err := g.ReadTensor(nil, g.lookup[name])
	if err != nil {
		return nil, fmt.Errorf("tensor %q of type %s: %w", name, info.Type, err)
	}
	var data []float32
	err = t.ConstFlatData(func(flat any) {
		if values, ok := flat.([]float32); ok {
			data = append(make([]float32, 0, len(values)), values...)
		}
	})
	if err := errors.Join(err, t.FinalizeAll()); err != nil {
		return nil, fmt.Errorf("tensor %q: %w", name, err)
	}
	if uint64(len(data)) != info.NumElements() {
		return nil, fmt.Errorf("tensor %q: read %d values, expected %d", name, len(data), info.NumElements())
	}
	return data, nil
}
