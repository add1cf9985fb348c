package policy

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/forage-rl/forage/core/internal/rng"
)

// A real model against what the transformers library gives for it. FORAGE_MODELS names the folder that holds
// smollm2-135m.
func TestVectorSmolLM2(t *testing.T) {
	models := os.Getenv("FORAGE_MODELS")
	dir := filepath.Join(models, "smollm2-135m")
	if _, err := os.Stat(dir); models == "" || err != nil {
		t.Skip("needs FORAGE_MODELS/smollm2-135m")
	}
	root := os.Getenv("FORAGE_VECTORS")
	if root == "" {
		root = filepath.Join("testdata", "vectors")
	}
	data, err := os.ReadFile(filepath.Join(root, "models", "smollm2-135m.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Prompts []struct {
			Text string
			IDs  []int32 `json:"input_ids"`
			Top5 []struct {
				ID      int32
				LogProb float64
			}
			PromptLogProbs []float64 `json:"prompt_token_logprobs"`
			Greedy         []int32   `json:"greedy_ids"`
		}
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	p, err := Load(t.Context(), dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}()
	const tolerance = 1e-3
	var seqs []Sequence
	var rows []Row
	for i, prompt := range file.Prompts {
		seqs = append(seqs, Sequence{Tokens: prompt.IDs, PromptLength: 1})
		for _, top := range prompt.Top5 {
			seqs = append(seqs, Sequence{Tokens: append(slices.Clone(prompt.IDs), top.ID), PromptLength: len(prompt.IDs)})
		}
		rows = append(rows, Row{ID: int64(i), Tokens: prompt.IDs, MaxNew: len(prompt.Greedy), Key: rng.New(uint64(i))})
	}
	logps, _, err := p.LogProbs(t.Context(), seqs, 1, false, false)
	if err != nil {
		t.Fatal(err)
	}
	s := session(t, p, 4, 256)
	greedy := generate(t, s, rows, SampleParams{Greedy: true})
	at := 0
	for i, prompt := range file.Prompts {
		for j, want := range prompt.PromptLogProbs {
			if got := float64(logps[at][j]); math.Abs(got-want) > tolerance {
				t.Errorf("%.20q: log-prob of token %d is %v, want %v", prompt.Text, j+1, got, want)
			}
		}
		at++
		for _, top := range prompt.Top5 {
			if got := float64(logps[at][0]); math.Abs(got-top.LogProb) > tolerance {
				t.Errorf("%.20q: log-prob of next token %d is %v, want %v", prompt.Text, top.ID, got, top.LogProb)
			}
			at++
		}
		if !slices.Equal(greedy[i].Tokens, prompt.Greedy) {
			t.Errorf("%.20q: greedy gives %v, want %v", prompt.Text, greedy[i].Tokens, prompt.Greedy)
		}
	}
	for i := range rows {
		rows[i].Tokens, rows[i].MaxNew = slices.Concat(rows[i].Tokens, greedy[i].Tokens), 6
	}
	sampled := generate(t, s, rows, SampleParams{})
	seqs = nil
	for i := range rows {
		seqs = append(seqs, Sequence{Tokens: slices.Concat(rows[i].Tokens, sampled[i].Tokens), PromptLength: len(rows[i].Tokens)})
	}
	if logps, _, err = p.LogProbs(t.Context(), seqs, 1, false, false); err != nil {
		t.Fatal(err)
	}
	for i := range logps {
		for j, want := range logps[i] {
			if got := sampled[i].LogProbs[j]; math.Abs(float64(got-want)) > tolerance {
				t.Errorf("row %d token %d: sampled with %v, scored %v", i, j, got, want)
			}
		}
	}
}
