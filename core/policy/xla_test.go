//go:build xla

package policy

import (
	"math"
	"os"
	"slices"
	"testing"

	"github.com/forage-rl/forage/core/internal/rng"
)

// openPlugin opens the PJRT plugin whose absolute path FORAGE_XLA_PLUGIN gives.
func openPlugin(t *testing.T) *Backend {
	t.Helper()
	plugin := os.Getenv("FORAGE_XLA_PLUGIN")
	if plugin == "" {
		t.Skip("needs FORAGE_XLA_PLUGIN=/absolute/path/of/plugin.so")
	}
	x, err := OpenBackend("xla:" + plugin)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // the last cleanup: everything else lies on it
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	})
	return x
}

// The same work on XLA as on the Go backend.
func TestXLA(t *testing.T) {
	x := openPlugin(t)
	t.Logf("%+v", x.Describe())
	config := tiny()
	config.KVHeads = 2
	samples := randomSamples(rng.New(1), 8, 60)
	type result struct {
		losses []float64
		greedy [][]int32
	}
	work := func(p *Policy) (r result) {
		if err := p.Snapshot(); err != nil {
			t.Fatal(err)
		}
		tr := newTrainer(t, p, OptimizerConfig{LearningRate: 1e-3, ClipNorm: 1})
		s := session(t, p, 6, 200)
		for range 3 {
			m := update(t, tr, UpdateSpec{Objective: grpo(t), Samples: samples, MicroTokens: 150})
			r.losses = append(r.losses, m.Loss, m.GradNorm, m.Metrics["entropy"])
			var rows []Row
			for i := range 5 {
				rows = append(rows, Row{ID: int64(i), Tokens: randomTokens(rng.New(uint64(i/2)), 20, 207), MaxNew: 10 + i, Key: rng.New(uint64(i))})
			}
			out := generate(t, s, rows, SampleParams{})
			var seqs []Sequence
			for i := range rows {
				rows[i].Tokens = slices.Concat(rows[i].Tokens, out[i].Tokens, randomTokens(rng.New(5), 7, 207))
				seqs = append(seqs, Sequence{Tokens: rows[i].Tokens, PromptLength: 20})
			}
			logps, _, err := p.LogProbs(t.Context(), seqs, 1, false, false)
			if err != nil {
				t.Fatal(err)
			}
			for i := range rows {
				for j, got := range out[i].LogProbs {
					if math.Abs(float64(got-logps[i][j])) > 1e-4 {
						t.Fatalf("row %d token %d: sampled with %v, scored %v", i, j, got, logps[i][j])
					}
				}
			}
			for _, o := range generate(t, s, rows, SampleParams{Greedy: true}) {
				r.greedy = append(r.greedy, o.Tokens)
			}
		}
		return r
	}
	here := work(newTiny(t, config))
	p, err := New(config, tinyInit(1), Options{Backend: x})
	if err != nil {
		t.Fatal(err)
	}
	there := work(p)
	for i := range here.losses {
		if math.Abs(here.losses[i]-there.losses[i]) > 1e-4*max(1, math.Abs(here.losses[i])) {
			t.Errorf("losses, norms, entropies: go %v, xla %v", here.losses, there.losses)
			break
		}
	}
	for i := range here.greedy {
		if len(here.greedy[i]) != len(there.greedy[i]) {
			t.Errorf("greedy rows of %d and %d tokens", len(here.greedy[i]), len(there.greedy[i]))
		}
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// Decoding in a loop of the graph gives what decoding step by step gives, over turns in which rows end by
// themselves, are stopped inside a loop, and go on.
func TestXLALoopAgreesWithSteps(t *testing.T) {
	x := openPlugin(t)
	config := tiny()
	config.EOS = []int32{3, 8, 21, 40, 77, 90, 123, 150, 171, 200}
	stepwise := newTiny(t, config)
	looping, err := New(config, tinyInit(1), Options{Backend: x})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := looping.Close(); err != nil {
			t.Error(err)
		}
	})
	turns := func(p *Policy) (all []Output) {
		s := session(t, p, 8, 200)
		var rows []Row
		for i := range 7 {
			rows = append(rows, Row{ID: int64(i), Tokens: randomTokens(rng.New(uint64(i)), 4+3*i, 207), MaxNew: 25 + i, Key: rng.New(uint64(i))})
		}
		rows[2].Stop = func(new []int32) bool { return len(new) == 5 }
		rows[3].Stop = func(new []int32) bool { return len(new) == 18 }
		for turn := range 3 {
			out := generate(t, s, rows, SampleParams{Greedy: turn == 1})
			all = append(all, out...)
			for i := range rows {
				rows[i].Tokens = slices.Concat(rows[i].Tokens, out[i].Tokens, randomTokens(rng.New(9, uint64(turn), uint64(i)), 3+i, 207))
				rows[i].Key = rows[i].Key.With(uint64(turn))
			}
		}
		return all
	}
	want := turns(stepwise)
	sameOutputs(t, "loop", turns(looping), want, 1e-5)
	reasons := map[StopReason]int{}
	for _, out := range want {
		reasons[out.Reason]++
	}
	if reasons[StopEOS] == 0 || reasons[StopAsked] == 0 || reasons[StopLength] == 0 {
		t.Errorf("the rows end by %v only", reasons)
	}
}
