package minihop

import (
	"encoding/json"
	"fmt"
)

// MaxTokens is the length the policy's episodes are kept within, prompt included.
const MaxTokens = 168

type addedToken struct {
	ID         int    `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
	Special    bool   `json:"special"`
}

// PolicyFiles gives the files of a policy folder besides its weights: config.json, tokenizer.json and
// tokenizer_config.json, as Hugging Face's libraries read them.
//
// The tokenizer splits at white space, knows whole words only and joins them with blanks. Tags are special tokens
// outside the word model, so that text from outside cannot become one; a word outside the vocabulary becomes [WordInvalid]. Tags and further words are those of the protocol.
func PolicyFiles(twoTokenNames bool, p Protocol) (map[string][]byte, error) {
	f, err := p.form()
	if err != nil {
		return nil, err
	}
	all := f.words(twoTokenNames)
	plain := len(all) - len(f.tags)
	vocab := map[string]int{}
	for id, word := range all[:plain] {
		vocab[word] = id
	}
	var added []addedToken
	decoder := map[string]addedToken{}
	id := map[string]int{}
	for i, tag := range all[plain:] {
		t := addedToken{ID: plain + i, Content: tag, Special: true}
		added = append(added, t)
		decoder[fmt.Sprint(t.ID)] = t
		id[tag] = t.ID
	}
	return map[string][]byte{
		"tokenizer.json": encode(map[string]any{
			"version": "1.0", "truncation": nil, "padding": nil, "added_tokens": added, "normalizer": nil,
			"pre_tokenizer": map[string]any{"type": "WhitespaceSplit"}, "post_processor": nil, "decoder": nil,
			"model": map[string]any{"type": "WordLevel", "vocab": vocab, "unk_token": WordInvalid},
		}),
		"tokenizer_config.json": encode(map[string]any{
			"tokenizer_class": "PreTrainedTokenizerFast", "added_tokens_decoder": decoder,
			"eos_token": TagEOS, "pad_token": TagPad, "model_max_length": f.maxTokens, "clean_up_tokenization_spaces": false,
		}),
		"config.json": encode(map[string]any{
			"architectures": []string{"LlamaForCausalLM"}, "model_type": "llama",
			"vocab_size": len(all), "hidden_size": 64, "intermediate_size": 128,
			"num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 16,
			"hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "rope_scaling": nil,
			"max_position_embeddings": f.maxPositions, "tie_word_embeddings": true, "attention_bias": false, "mlp_bias": false,
			"attention_dropout": 0.0, "bos_token_id": nil, "eos_token_id": id[TagEOS], "pad_token_id": id[TagPad],
			"initializer_range": .125, "torch_dtype": "bfloat16", "use_cache": true,
		}),
	}, nil
}

// encode cannot fail: the values above are plain data.
func encode(v any) []byte {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		panic(fmt.Sprintf("minihop: encode a constant: %v", err))
	}
	return append(data, '\n')
}
