package policy

import (
	"math"
	"slices"
	"testing"

	"github.com/forage-rl/forage/core/internal/rng"
	"github.com/forage-rl/forage/core/policy/checkpoint"
)

// tiny is the shape of the MiniHop policy.
func tiny() checkpoint.Config {
	return checkpoint.Config{ModelType: checkpoint.Llama, HiddenSize: 64, Layers: 3, Heads: 4, KVHeads: 4, HeadDim: 16,
		IntermediateSize: 128, VocabSize: 207, MaxPositions: 512, RMSNormEps: 1e-6, RopeTheta: 10000, TieWordEmbeddings: true}
}

func tinyInit(seed uint64) Init {
	return Init{Seed: seed, Embedding: .2, Query: .125, Key: .125, Value: .125, Output: .051, Gate: .125, Up: .125, Down: .0361, FinalNorm: .25}
}

func newTiny(t testing.TB, config checkpoint.Config) *Policy {
	t.Helper()
	p, err := New(config, tinyInit(1), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func randomTokens(key rng.Key, n, vocabulary int) []int32 {
	tokens := make([]int32, n)
	for i := range tokens {
		tokens[i] = int32(key.Uint64(uint64(i)) % uint64(vocabulary))
	}
	return tokens
}

func session(t testing.TB, p *Policy, rows, tokens int) *Session {
	t.Helper()
	s, err := p.NewSession(rows, tokens)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func generate(t testing.TB, s *Session, rows []Row, params SampleParams) []Output {
	t.Helper()
	out, err := s.Generate(t.Context(), rows, params)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func sameOutputs(t *testing.T, what string, got, want []Output, tolerance float64) {
	t.Helper()
	for i := range want {
		if !slices.Equal(got[i].Tokens, want[i].Tokens) || got[i].Reason != want[i].Reason {
			t.Fatalf("%s: row %d gives %v (%s), expected %v (%s)", what, i, got[i].Tokens, got[i].Reason, want[i].Tokens, want[i].Reason)
		}
		for j, v := range want[i].LogProbs {
			if math.Abs(float64(v-got[i].LogProbs[j])) > tolerance {
				t.Fatalf("%s: row %d token %d: log-prob %v, expected %v", what, i, j, got[i].LogProbs[j], v)
			}
		}
	}
}

func TestRowAloneAndInBatch(t *testing.T) {
	p := newTiny(t, tiny())
	var rows []Row
	for i := range 11 {
		key := rng.New(5, uint64(i))
		rows = append(rows, Row{ID: int64(i), Tokens: randomTokens(key, 3+7*i%40, 207), MaxNew: 20 + i, Key: key.With(1)})
	}
	batch := generate(t, session(t, p, 16, 128), rows, SampleParams{Temperature: .9})
	for i := range rows {
		if len(batch[i].Tokens) != rows[i].MaxNew || batch[i].Reason != StopLength {
			t.Fatalf("row %d: %d tokens, %s", i, len(batch[i].Tokens), batch[i].Reason)
		}
		alone := generate(t, session(t, p, 1, 128), rows[i:i+1], SampleParams{Temperature: .9})
		sameOutputs(t, "alone", alone, batch[i:i+1], 1e-5)
	}
	again := generate(t, session(t, p, 16, 128), rows, SampleParams{Temperature: .9})
	sameOutputs(t, "again", again, batch, 0)
	// Another order, the same padded shapes: bit for bit.
	reversed := slices.Clone(rows)
	slices.Reverse(reversed)
	out := generate(t, session(t, p, 16, 128), reversed, SampleParams{Temperature: .9})
	slices.Reverse(out)
	sameOutputs(t, "reversed", out, batch, 0)
}

// variants are configurations that exercise each branch of the model.
func variants() map[string]checkpoint.Config {
	grouped := tiny()
	grouped.KVHeads, grouped.TieWordEmbeddings = 2, false
	qwen2 := tiny()
	qwen2.ModelType, qwen2.KVHeads, qwen2.QKVBias = checkpoint.Qwen2, 1, true
	biased := tiny()
	biased.QKVBias, biased.OutputBias = true, true
	qwen3 := tiny()
	qwen3.ModelType, qwen3.QKNorm, qwen3.KVHeads, qwen3.HeadDim = checkpoint.Qwen3, true, 2, 24
	scaled := tiny()
	scaled.RopeScaling = &checkpoint.RopeScaling{Factor: 8, LowFreqFactor: 1, HighFreqFactor: 4, OriginalMaxPositions: 64}
	return map[string]checkpoint.Config{"llama": tiny(), "grouped untied": grouped, "qwen2": qwen2, "biased": biased, "qwen3": qwen3, "llama3 rope": scaled}
}

// The cache, filled over several calls, must agree with whole sequences run at once.
func TestCacheAgreesWithWholeSequences(t *testing.T) {
	for name, config := range variants() {
		t.Run(name, func(t *testing.T) {
			p := newTiny(t, config)
			s := session(t, p, 8, 160)
			var rows []Row
			for i := range 5 {
				rows = append(rows, Row{ID: int64(i), Tokens: randomTokens(rng.New(9, uint64(i)), 2+9*i, 207), Key: rng.New(uint64(i))})
			}
			for turn := range 3 {
				var seqs []Sequence
				greedy := turn == 1
				for i := range rows {
					rows[i].MaxNew = 3 + i + turn
					seqs = append(seqs, Sequence{PromptLength: len(rows[i].Tokens)})
				}
				out := generate(t, s, rows, SampleParams{Temperature: .7, Greedy: greedy})
				for i := range rows {
					rows[i].Tokens = slices.Concat(rows[i].Tokens, out[i].Tokens)
					seqs[i].Tokens = rows[i].Tokens
				}
				logps, entropies, err := p.LogProbs(t.Context(), seqs, .7, false, true)
				if err != nil {
					t.Fatal(err)
				}
				for i := range rows {
					for j, want := range logps[i] {
						if math.Abs(float64(out[i].LogProbs[j]-want)) > 1e-4 {
							t.Fatalf("turn %d row %d token %d: sampled with %v, scored %v", turn, i, j, out[i].LogProbs[j], want)
						}
						if h := entropies[i][j]; !(h > 0 && h < 5.4) {
							t.Fatalf("entropy %v is outside (0, log 207)", h)
						}
					}
					if greedy {
						checkGreedy(t, p, seqs[i], .7)
					}
					// An observation, as a tool would give it.
					rows[i].Tokens = append(rows[i].Tokens, randomTokens(rng.New(77, uint64(turn), uint64(i)), 4+3*i, 207)...)
				}
			}
		})
	}
}

// checkGreedy replaces each response token by every other one: none may be likelier.
func checkGreedy(t *testing.T, p *Policy, seq Sequence, temperature float64) {
	t.Helper()
	var others []Sequence
	for v := range int32(207) {
		tokens := slices.Clone(seq.Tokens)
		tokens[seq.PromptLength] = v
		others = append(others, Sequence{Tokens: tokens[:seq.PromptLength+1], PromptLength: seq.PromptLength})
	}
	logps, _, err := p.LogProbs(t.Context(), others, temperature, false, false)
	if err != nil {
		t.Fatal(err)
	}
	best, sum := 0, 0.
	for v := range logps {
		sum += math.Exp(float64(logps[v][0]))
		if logps[v][0] > logps[best][0] {
			best = v
		}
	}
	if int32(best) != seq.Tokens[seq.PromptLength] {
		t.Fatalf("greedy gave %d, the likeliest is %d", seq.Tokens[seq.PromptLength], best)
	}
	if math.Abs(sum-1) > 1e-4 {
		t.Fatalf("probabilities sum to %v", sum)
	}
}
