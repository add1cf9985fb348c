package checkpoint

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
)

// The token types of GGUF that matter here.
const (
	ggufControl     = 3
	ggufUserDefined = 4
	ggufUnused      = 5
)

// ggufTokenizer is the tokenizer that a GGUF file describes.
type ggufTokenizer struct {
	tokens   []string
	types    []int64
	merges   []string
	kind     string // tokenizer.ggml.pre
	template string
	addBOS   bool
	ids      map[string]int32 // bos_token, eos_token, unk_token, pad_token
}

// splitPatterns are the pre-tokenization patterns of the families, as their tokenizer.json files write them.
const (
	qwen2Pattern  = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	llama3Pattern = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

func (g *ggufFile) tokenizer() (ggufTokenizer, error) {
	get := func(key string) string {
		kv, _ := g.file.GetKeyValue("tokenizer." + key)
		return kv.String()
	}
	t := ggufTokenizer{kind: get("ggml.pre"), template: get("chat_template"), ids: make(map[string]int32)}
	if model := get("ggml.model"); model != "gpt2" {
		return t, fmt.Errorf("tokenizer.ggml.model %q is not supported (supported: gpt2, byte-level BPE)", model)
	}
	if _, _, err := t.pipeline(); err != nil {
		return t, err
	}
	tokens, _ := g.file.GetKeyValue("tokenizer.ggml.tokens")
	types, _ := g.file.GetKeyValue("tokenizer.ggml.token_type")
	merges, _ := g.file.GetKeyValue("tokenizer.ggml.merges")
	addBOS, _ := g.file.GetKeyValue("tokenizer.ggml.add_bos_token")
	t.tokens, t.types, t.merges, t.addBOS = tokens.Strings(), types.Int64s(), merges.Strings(), addBOS.Bool()
	if len(t.tokens) == 0 || len(t.tokens) > math.MaxInt32 {
		return t, errors.New("tokenizer.ggml.tokens is missing or empty")
	}
	if len(t.types) != len(t.tokens) {
		return t, fmt.Errorf("tokenizer.ggml.token_type has %d entries for %d tokens", len(t.types), len(t.tokens))
	}
	for key, name := range map[string]string{
		"bos_token_id": "bos_token", "eos_token_id": "eos_token", "unknown_token_id": "unk_token", "padding_token_id": "pad_token",
	} {
		id, ok, err := g.tokenID(key)
		if err != nil {
			return t, err
		}
		if ok {
			t.ids[name] = id
		}
	}
	return t, nil
}

// pipeline is the normalizer and the pre-tokenizer of the file's kind of text splitting.
func (t ggufTokenizer) pipeline() (normalizer, preTokenizer any, err error) {
	byteLevel := func(useRegex bool) map[string]any {
		return map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": useRegex}
	}
	sequence := func(parts ...any) any { return map[string]any{"type": "Sequence", "pretokenizers": parts} }
	split := func(pattern string) any {
		return map[string]any{"type": "Split", "pattern": map[string]any{"Regex": pattern}, "behavior": "Isolated", "invert": false}
	}
	switch t.kind {
	case "smollm":
		return nil, sequence(map[string]any{"type": "Digits", "individual_digits": true}, byteLevel(true)), nil
	case "gpt-2", "gpt2":
		return nil, byteLevel(true), nil
	case "qwen2":
		return map[string]any{"type": "NFC"}, sequence(split(qwen2Pattern), byteLevel(false)), nil
	case "llama-bpe", "llama-v3", "llama3":
		return nil, sequence(split(llama3Pattern), byteLevel(false)), nil
	}
	return nil, nil, fmt.Errorf("tokenizer.ggml.pre %q is not supported (supported: smollm, gpt-2, qwen2, llama-bpe)", t.kind)
}

// write writes tokenizer.json, tokenizer_config.json and generation_config.json.
func (t ggufTokenizer) write(dir string, c Config) error {
	normalizer, preTokenizer, err := t.pipeline()
	if err != nil {
		return err
	}
	vocab := make(map[string]int, len(t.tokens))
	added := []map[string]any{}
	for id, token := range t.tokens {
		if t.types[id] == ggufUnused { // padding of the embedding
			continue
		}
		if before, twice := vocab[token]; twice {
			return fmt.Errorf("tokenizer.ggml.tokens holds %q twice, at %d and %d", token, before, id)
		}
		vocab[token] = id
		if t.types[id] == ggufControl || t.types[id] == ggufUserDefined {
			added = append(added, map[string]any{
				"id": id, "content": token, "single_word": false, "lstrip": false, "rstrip": false,
				"normalized": false, "special": t.types[id] == ggufControl,
			})
		}
	}
	byteLevel := map[string]any{"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true}
	file := map[string]any{
		"version": "1.0", "truncation": nil, "padding": nil, "added_tokens": added,
		"normalizer": normalizer, "pre_tokenizer": preTokenizer, "post_processor": nil, "decoder": byteLevel,
		"model": map[string]any{
			"type": "BPE", "dropout": nil, "unk_token": nil, "continuing_subword_prefix": nil, "end_of_word_suffix": nil,
			"fuse_unk": false, "byte_fallback": false, "ignore_merges": t.kind == "llama-bpe" || t.kind == "llama-v3" || t.kind == "llama3",
			"vocab": vocab, "merges": t.merges,
		},
	}
	settings := map[string]any{
		"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": false,
		"model_max_length": c.MaxPositions, "add_bos_token": t.addBOS,
	}
	for name, id := range t.ids {
		settings[name] = t.tokens[id]
	}
	if t.template != "" {
		settings["chat_template"] = t.template
	}
	generation := map[string]any{}
	if c.BOS != nil {
		generation["bos_token_id"] = *c.BOS
	}
	if c.Pad != nil {
		generation["pad_token_id"] = *c.Pad
	}
	if len(c.EOS) > 0 {
		generation["eos_token_id"] = c.EOS
	}
	return errors.Join(
		writeJSON(filepath.Join(dir, "tokenizer.json"), file),
		writeJSON(filepath.Join(dir, "tokenizer_config.json"), settings),
		writeJSON(filepath.Join(dir, "generation_config.json"), generation),
	)
}
