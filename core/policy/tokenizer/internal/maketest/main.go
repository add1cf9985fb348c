// Command maketest writes the small tokenizers of ../../testdata: byte-level BPE vocabularies trained on text.txt in
// the layouts of three model families, and a WordLevel one. It is run by go generate.
package main

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

//go:embed text.txt
var text string

const merges = 300

type object = map[string]any

func main() {
	vocabulary, rules := train()
	for name, f := range map[string]object{
		// As SmolLM2: digits alone, the pattern of GPT-2, control tokens first in the vocabulary.
		"tiny-smollm": {"pre_tokenizer": sequence(object{"type": "Digits", "individual_digits": true}, byteLevel(true))},
		// As Qwen2.5: NFC, a pattern of its own.
		"tiny-qwen": {"normalizer": object{"type": "NFC"}, "pre_tokenizer": sequence(split(`\p{N}`), byteLevel(false))},
		// As Llama 3: up to three digits together, whole words before merges.
		"tiny-llama": {"pre_tokenizer": sequence(split(`\p{N}{1,3}`), byteLevel(false))},
	} {
		f["model"] = object{
			"type": "BPE", "dropout": nil, "unk_token": nil, "continuing_subword_prefix": nil, "end_of_word_suffix": nil,
			"fuse_unk": false, "byte_fallback": false, "ignore_merges": name == "tiny-llama", "vocab": vocabulary, "merges": rules,
		}
		f["decoder"] = byteLevel(true)
		f["added_tokens"] = added(vocabulary)
		write(name, f)
	}
	words := object{}
	for i, w := range []string{"[UNK]", "<q>", "</q>", "what", "is", "the", "mayor", "of", "'s", "Orla", "Tamsin", "Velm", "?", "Straße", "."} {
		words[w] = i
	}
	write("tiny-words", object{
		"model":         object{"type": "WordLevel", "vocab": words, "unk_token": "[UNK]"},
		"pre_tokenizer": object{"type": "WhitespaceSplit"},
		"added_tokens":  []object{token(0, "[UNK]", true), token(1, "<q>", true), token(2, "</q>", true)},
	})
}

func split(digits string) object {
	pattern := `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|` + digits + `| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	return object{"type": "Split", "pattern": object{"Regex": pattern}, "behavior": "Isolated", "invert": false}
}

func byteLevel(useRegex bool) object {
	return object{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": useRegex}
}

func sequence(parts ...object) object { return object{"type": "Sequence", "pretokenizers": parts} }

func token(id int, content string, special bool) object {
	return object{"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": special}
}

// control are in the vocabulary from the start, as in SmolLM2.
var control = []string{"<|endoftext|>", "<|im_start|>", "<|im_end|>"}

// added lists the control tokens and tokens that use the other flags; these lie behind the vocabulary.
func added(vocabulary map[string]int) []object {
	var list []object
	for i, c := range control {
		list = append(list, token(i, c, true))
	}
	at := len(vocabulary)
	for i, extra := range []object{
		token(0, "<tool>", false),
		{"content": "<mask>", "single_word": false, "lstrip": true, "rstrip": true, "normalized": false, "special": true},
		{"content": "harbour café", "single_word": true, "lstrip": false, "rstrip": false, "normalized": true, "special": false},
	} {
		extra["id"] = at + i
		list = append(list, extra)
	}
	return list
}

func write(name string, f object) {
	dir := filepath.Join("testdata", name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		log.Fatal(err)
	}
	for _, key := range []string{"normalizer", "pre_tokenizer", "post_processor", "decoder", "truncation", "padding"} {
		if _, ok := f[key]; !ok {
			f[key] = nil
		}
	}
	f["version"] = "1.0"
	data, err := json.Marshal(f)
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tokenizer.json"), append(data, '\n'), 0o644); err != nil {
		log.Fatal(err)
	}
}

// train is byte-pair encoding by the book: merge the most frequent pair, the alphabetically first among equals.
func train() (map[string]int, []string) {
	vocabulary := make(map[string]int)
	add := func(token string) {
		if _, ok := vocabulary[token]; !ok {
			vocabulary[token] = len(vocabulary)
		}
	}
	for _, c := range control {
		add(c)
	}
	var alphabet [256]string
	next := rune(256)
	for b := range 256 {
		r := rune(b)
		if b <= ' ' || b >= 0x7f && b <= 0xa0 || b == 0xad {
			r = next
			next++
		}
		alphabet[b] = string(r)
		add(string(r))
	}
	counts := make(map[string]int)
	for _, word := range regexp.MustCompile(` ?\pL+| ?\pN| ?[^\s\pL\pN]+|\s+`).FindAllString(text, -1) {
		counts[word]++
	}
	type word struct {
		symbols []string
		count   int
	}
	var words []word
	for w, n := range counts {
		var symbols []string
		for i := range len(w) {
			symbols = append(symbols, alphabet[w[i]])
		}
		words = append(words, word{symbols, n})
	}
	var rules []string
	for range merges {
		pairs := make(map[[2]string]int)
		for _, w := range words {
			for i := 1; i < len(w.symbols); i++ {
				pairs[[2]string{w.symbols[i-1], w.symbols[i]}] += w.count
			}
		}
		var all [][2]string
		for p := range pairs {
			all = append(all, p)
		}
		best := slices.MinFunc(all, func(a, b [2]string) int {
			return cmp.Or(cmp.Compare(pairs[b], pairs[a]), strings.Compare(a[0]+" "+a[1], b[0]+" "+b[1]))
		})
		rules = append(rules, fmt.Sprint(best[0], " ", best[1]))
		add(best[0] + best[1])
		for k := range words {
			s := words[k].symbols
			for i := 0; i+1 < len(s); i++ {
				if s[i] == best[0] && s[i+1] == best[1] {
					s = slices.Replace(s, i, i+2, best[0]+best[1])
				}
			}
			words[k].symbols = s
		}
	}
	return vocabulary, rules
}
