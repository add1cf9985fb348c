package checkpoint

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func tinyConfig() Config {
	return Config{
		ModelType: Llama, HiddenSize: 8, Layers: 2, Heads: 4, KVHeads: 2, HeadDim: 2, IntermediateSize: 12, VocabSize: 20,
		MaxPositions: 64, RMSNormEps: 1e-5, RopeTheta: 10000, TieWordEmbeddings: true,
		BOS: new(int32(1)), EOS: []int32{2}, Pad: new(int32(0)), DType: Float32,
	}
}

func writeConfigText(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, ConfigFile), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestConfigRoundTrip(t *testing.T) {
	qwen2 := tinyConfig()
	qwen2.ModelType, qwen2.QKVBias, qwen2.EOS = Qwen2, true, []int32{2, 5}
	qwen3 := tinyConfig()
	qwen3.ModelType, qwen3.QKNorm, qwen3.HeadDim, qwen3.TieWordEmbeddings, qwen3.BOS = Qwen3, true, 16, false, nil
	llama3 := tinyConfig()
	llama3.RopeScaling = &RopeScaling{Factor: 8, LowFreqFactor: 1, HighFreqFactor: 4, OriginalMaxPositions: 8192}
	biased := tinyConfig()
	biased.QKVBias, biased.OutputBias, biased.EOS = true, true, nil
	for name, want := range map[string]Config{"llama": tinyConfig(), "qwen2": qwen2, "qwen3": qwen3, "llama3": llama3, "biased": biased} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := want.Write(dir); err != nil {
				t.Fatal(err)
			}
			got, err := ReadConfig(dir)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("config changed on the way (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadConfigSpellings(t *testing.T) {
	base := `"model_type":"llama","hidden_size":64,"num_hidden_layers":1,"num_attention_heads":4,"intermediate_size":8,"vocab_size":9`
	for name, tc := range map[string]struct {
		text string
		want func(Config) bool
	}{
		"defaults": {base, func(c Config) bool {
			return c.KVHeads == 4 && c.HeadDim == 16 && c.RopeTheta == 10000 && c.RMSNormEps == 1e-6
		}},
		"old theta":       {base + `,"rope_theta":1e6`, func(c Config) bool { return c.RopeTheta == 1e6 }},
		"new theta":       {base + `,"rope_parameters":{"rope_theta":500000.0,"rope_type":"default"}`, func(c Config) bool { return c.RopeTheta == 500000 && c.RopeScaling == nil }},
		"new scaling":     {base + `,"rope_parameters":{"rope_theta":5e5,"rope_type":"llama3","factor":32,"low_freq_factor":1,"high_freq_factor":4,"original_max_position_embeddings":8192}`, func(c Config) bool { return c.RopeTheta == 5e5 && *c.RopeScaling == RopeScaling{32, 1, 4, 8192} }},
		"old scaling":     {base + `,"rope_scaling":{"type":"llama3","factor":32,"low_freq_factor":1,"high_freq_factor":4,"original_max_position_embeddings":8192}`, func(c Config) bool { return c.RopeScaling != nil }},
		"null scaling":    {base + `,"rope_scaling":null`, func(c Config) bool { return c.RopeScaling == nil }},
		"eos list":        {base + `,"eos_token_id":[1,2]`, func(c Config) bool { return len(c.EOS) == 2 }},
		"null ids":        {base + `,"eos_token_id":null,"bos_token_id":null`, func(c Config) bool { return c.EOS == nil && c.BOS == nil }},
		"new dtype":       {base + `,"dtype":"bfloat16"`, func(c Config) bool { return c.DType == BFloat16 }},
		"llama biases":    {base + `,"attention_bias":true`, func(c Config) bool { return c.QKVBias && c.OutputBias }},
		"qwen2 biases":    {strings.Replace(base, "llama", "qwen2", 1) + `,"num_key_value_heads":2`, func(c Config) bool { return c.QKVBias && !c.OutputBias && !c.QKNorm }},
		"qwen3 head size": {strings.Replace(base, "llama", "qwen3", 1) + `,"num_key_value_heads":2`, func(c Config) bool { return c.HeadDim == 128 && c.QKNorm && !c.QKVBias }},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := ReadConfig(writeConfigText(t, "{"+tc.text+"}"))
			if err != nil {
				t.Fatal(err)
			}
			if !tc.want(c) {
				t.Errorf("got %+v", c)
			}
		})
	}
}

func TestReadConfigRefuses(t *testing.T) {
	base := `"model_type":"llama","hidden_size":64,"num_hidden_layers":1,"num_attention_heads":4,"intermediate_size":8,"vocab_size":9`
	for name, tc := range map[string]struct{ text, want string }{
		"model type":      {strings.Replace(base, "llama", "gpt2", 1), `model_type "gpt2" is not supported (supported: llama, qwen2, qwen3)`},
		"yarn":            {base + `,"rope_scaling":{"rope_type":"yarn","factor":2}`, `rope_type "yarn" is not supported`},
		"infinite theta":  {base + `,"rope_theta":1e999`, "rope_theta"},
		"NaN theta":       {base + `,"rope_theta":NaN`, ":1"},
		"negative theta":  {base + `,"rope_theta":-1`, "rope_theta is -1"},
		"zero factor":     {base + `,"rope_scaling":{"rope_type":"llama3","factor":0,"low_freq_factor":1,"high_freq_factor":4,"original_max_position_embeddings":8}`, "rope_scaling.factor"},
		"equal factors":   {base + `,"rope_scaling":{"rope_type":"llama3","factor":2,"low_freq_factor":4,"high_freq_factor":4,"original_max_position_embeddings":8}`, "must be greater"},
		"partial rotary":  {base + `,"partial_rotary_factor":0.5`, "partial_rotary_factor"},
		"heads":           {base + `,"num_key_value_heads":3`, "not a multiple of num_key_value_heads 3"},
		"no heads":        {strings.Replace(base, `"num_attention_heads":4`, `"num_attention_heads":0`, 1), "num_attention_heads is 0"},
		"huge":            {strings.Replace(base, `"vocab_size":9`, `"vocab_size":9999999999999`, 1), "vocab_size"},
		"odd head":        {base + `,"head_dim":3`, "odd"},
		"activation":      {base + `,"hidden_act":"gelu"`, `hidden_act "gelu"`},
		"mlp bias":        {base + `,"mlp_bias":true`, "mlp_bias"},
		"sliding window":  {base + `,"use_sliding_window":true`, "use_sliding_window"},
		"quantised":       {base + `,"quantization_config":{"bits":4}`, "quantization_config"},
		"dtype":           {base + `,"torch_dtype":"float64"`, `dtype "float64"`},
		"qwen without kv": {strings.Replace(base, "llama", "qwen2", 1), "num_key_value_heads is missing"},
		"wrong type":      {strings.Replace(base, `"hidden_size":64`, "\n\n"+`"hidden_size":"x"`, 1), "config.json:3"},
		"eos":             {base + `,"eos_token_id":"</s>"`, "expected a token id"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ReadConfig(writeConfigText(t, "{"+tc.text+"}"))
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), ConfigFile) {
				t.Errorf("got %v, want an error with %q", err, tc.want)
			}
		})
	}
	if _, err := ReadConfig(filepath.Join(t.TempDir(), "absent")); err == nil {
		t.Error("an absent folder was read")
	}
	c := tinyConfig()
	c.RopeTheta = math.Inf(1)
	if err := c.Write(t.TempDir()); err == nil {
		t.Error("a configuration with infinite rope_theta was written")
	}
}

// The parameter count of SmolLM2-135M is public: 134,515,008.
func TestExpectedCountsParameters(t *testing.T) {
	c := Config{
		ModelType: Llama, HiddenSize: 576, Layers: 30, Heads: 9, KVHeads: 3, HeadDim: 64, IntermediateSize: 1536, VocabSize: 49152,
		MaxPositions: 8192, RMSNormEps: 1e-5, RopeTheta: 100000, TieWordEmbeddings: true,
	}
	n, names := 0, map[string]bool{}
	for _, s := range c.Expected() {
		size := 1
		for _, d := range s.Shape {
			size *= d
		}
		n += size
		names[s.Name] = true
	}
	if n != 134515008 {
		t.Errorf("got %d parameters, want 134515008", n)
	}
	if len(names) != 272 {
		t.Errorf("got %d tensors, want 272", len(names))
	}
}

func FuzzConfig(f *testing.F) {
	f.Add([]byte(`{"model_type":"llama","hidden_size":64,"num_hidden_layers":1,"num_attention_heads":4,"intermediate_size":8,"vocab_size":9}`))
	f.Add([]byte(`{"model_type":"qwen3","rope_parameters":{"rope_theta":1}}`))
	f.Add([]byte(`{`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := parseConfig(data)
		if err == nil && c.Layers < 100 {
			c.Expected()
		}
		_ = withLine("x", data, err)
	})
}
