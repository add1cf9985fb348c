package policy

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/forage-rl/forage/core/internal/rng"
)

// fresh gives what a session without history would.
func fresh(t *testing.T, p *Policy, rows []Row, params SampleParams) []Output {
	t.Helper()
	return generate(t, session(t, p, len(rows), 200), rows, params)
}

func TestForkReleaseAndEviction(t *testing.T) {
	p := newTiny(t, tiny())
	s := session(t, p, 4, 200)
	var rows []Row
	for i := range 4 {
		rows = append(rows, Row{ID: int64(i), Tokens: randomTokens(rng.New(uint64(i)), 30, 207), MaxNew: 12, Key: rng.New(uint64(i))})
	}
	first := generate(t, s, rows, SampleParams{})
	sameOutputs(t, "first", first, fresh(t, p, rows, SampleParams{}), 1e-5)

	// Two branches from inside row 2, one of them told wrongly where it begins; two rows go to make room.
	s.Release(0)
	whole := slices.Concat(rows[2].Tokens, first[2].Tokens)
	branches := []Row{
		{ID: 10, Tokens: slices.Concat(whole[:36], randomTokens(rng.New(8), 9, 207)), MaxNew: 9, Key: rng.New(10)},
		{ID: 11, Tokens: slices.Concat(whole[:20], randomTokens(rng.New(9), 5, 207)), MaxNew: 9, Key: rng.New(11)},
		{ID: 2, Tokens: slices.Concat(whole, randomTokens(rng.New(7), 4, 207)), MaxNew: 9, Key: rng.New(12)},
	}
	s.Fork(2, 10, 36)
	s.Fork(2, 11, 100)
	s.Fork(77, 2, 5) // no such row
	sameOutputs(t, "branches", generate(t, s, branches, SampleParams{}), fresh(t, p, branches, SampleParams{}), 1e-5)

	// More rows than the session has slots: the least recently used are dropped, and computed anew when they return.
	sameOutputs(t, "again", generate(t, s, rows, SampleParams{}), first, 1e-5)
	// A row that goes back to an earlier prefix, and one that becomes something else.
	rows[1].Tokens, rows[3].Tokens = rows[1].Tokens[:7], randomTokens(rng.New(123), 50, 207)
	sameOutputs(t, "changed", generate(t, s, rows, SampleParams{}), fresh(t, p, rows, SampleParams{}), 1e-5)
}

// Rollouts of one question share their prompt, long enough to be computed in several pieces.
func TestSharedPrompts(t *testing.T) {
	p := newTiny(t, tiny())
	var rows []Row
	for i := range 24 {
		rows = append(rows, Row{ID: int64(i), Tokens: randomTokens(rng.New(uint64(i/8)), 300+10*(i/8), 207), MaxNew: 6, Key: rng.New(uint64(i))})
	}
	out := generate(t, session(t, p, 24, 400), rows, SampleParams{})
	for i := range rows {
		alone := generate(t, session(t, p, 1, 400), rows[i:i+1], SampleParams{})
		sameOutputs(t, "alone", alone, out[i:i+1], 1e-5)
	}
	if slices.Equal(out[0].Tokens, out[1].Tokens) {
		t.Error("rollouts of one question with different keys are the same")
	}
}

func TestStopReasons(t *testing.T) {
	config := tiny()
	p := newTiny(t, config)
	row := Row{ID: 1, Tokens: randomTokens(rng.New(3), 10, 207), MaxNew: 30, Key: rng.New(3)}
	plain := fresh(t, p, []Row{row}, SampleParams{})[0]
	if plain.Reason != StopLength || len(plain.Tokens) != 30 {
		t.Fatalf("%d tokens, %s", len(plain.Tokens), plain.Reason)
	}
	asked := row
	asked.Stop = func(tokens []int32) bool { return len(tokens) == 4 }
	if got := fresh(t, p, []Row{asked}, SampleParams{})[0]; got.Reason != StopAsked || !slices.Equal(got.Tokens, plain.Tokens[:4]) {
		t.Errorf("asked to stop: %+v", got)
	}
	full := Row{ID: 2, Tokens: randomTokens(rng.New(4), 195, 207), MaxNew: 30, Key: rng.New(4)}
	s := session(t, p, 3, 200)
	out := generate(t, s, []Row{full, {ID: 3, Tokens: randomTokens(rng.New(5), 200, 207), MaxNew: 3}, {ID: 4, Tokens: []int32{5}}}, SampleParams{})
	if out[0].Reason != StopContext || len(out[0].Tokens) != 5 {
		t.Errorf("a row of 195 in 200: %d tokens, %s", len(out[0].Tokens), out[0].Reason)
	}
	if out[1].Reason != StopContext || len(out[1].Tokens) != 0 || out[2].Reason != StopLength || len(out[2].Tokens) != 0 {
		t.Errorf("rows without room: %+v", out[1:])
	}
	config.EOS = []int32{plain.Tokens[6]}
	at := slices.Index(plain.Tokens, config.EOS[0])
	q := newTiny(t, config)
	if got := fresh(t, q, []Row{row}, SampleParams{})[0]; got.Reason != StopEOS || !slices.Equal(got.Tokens, plain.Tokens[:at+1]) {
		t.Errorf("end of sequence: %+v", got)
	}
}

func TestGenerateRefuses(t *testing.T) {
	p := newTiny(t, tiny())
	s := session(t, p, 2, 50)
	good := Row{ID: 1, Tokens: []int32{1, 2}, MaxNew: 3}
	for name, c := range map[string]struct {
		rows   []Row
		params SampleParams
	}{
		"no tokens":   {[]Row{{ID: 1, MaxNew: 1}}, SampleParams{}},
		"vocabulary":  {[]Row{{ID: 1, Tokens: []int32{207}, MaxNew: 1}}, SampleParams{}},
		"twice":       {[]Row{good, good}, SampleParams{}},
		"too many":    {[]Row{good, {ID: 2, Tokens: []int32{1}}, {ID: 3, Tokens: []int32{1}}}, SampleParams{}},
		"temperature": {[]Row{good}, SampleParams{Temperature: -1}},
		"nan":         {[]Row{good}, SampleParams{Temperature: math.NaN()}},
		"top p":       {[]Row{good}, SampleParams{TopP: 1.5}},
		"top k":       {[]Row{good}, SampleParams{TopK: -2}},
	} {
		if _, err := s.Generate(t.Context(), c.rows, c.params); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	for _, sizes := range [][2]int{{0, 10}, {1, 1}, {1, 100000}} {
		if _, err := p.NewSession(sizes[0], sizes[1]); err == nil {
			t.Errorf("a session of %v is accepted", sizes)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Generate(ctx, []Row{good}, SampleParams{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled call gives %v", err)
	}
	// The session lives on.
	sameOutputs(t, "after errors", generate(t, s, []Row{good}, SampleParams{}), fresh(t, p, []Row{good}, SampleParams{}), 1e-5)
}

func TestFilters(t *testing.T) {
	p := newTiny(t, tiny())
	row := []Row{{ID: 1, Tokens: randomTokens(rng.New(3), 10, 207), MaxNew: 25, Key: rng.New(3)}}
	greedy := fresh(t, p, row, SampleParams{Greedy: true})
	sameOutputs(t, "top 1", fresh(t, p, row, SampleParams{TopK: 1}), greedy, 1e-5)
	// A filter that keeps everything draws what the graph draws.
	plain := fresh(t, p, row, SampleParams{Temperature: .8})
	sameOutputs(t, "top 207", fresh(t, p, row, SampleParams{Temperature: .8, TopK: 207}), plain, 1e-5)
	sameOutputs(t, "almost all", fresh(t, p, row, SampleParams{Temperature: .8, TopP: .9999999}), plain, 1e-5)
}

func TestChooseFrom(t *testing.T) {
	logits := []float32{float32(math.Log(.1)), float32(math.Log(.4)), float32(math.Log(.2)), float32(math.Log(.3))}
	for _, c := range []struct {
		params SampleParams
		kept   []int32
	}{
		{SampleParams{}, []int32{0, 1, 2, 3}}, {SampleParams{TopK: 2}, []int32{1, 3}}, {SampleParams{TopP: .65}, []int32{1, 3}},
		{SampleParams{TopP: .75}, []int32{1, 2, 3}}, {SampleParams{TopK: 3, TopP: .4}, []int32{1}}, {SampleParams{TopP: 1e-9}, []int32{1}},
	} {
		const n = 20000
		counts := map[int32]float64{}
		for i := range n {
			token, logp := chooseFrom(logits, c.params, float32(i)/n)
			counts[token]++
			if math.Abs(float64(logp-logits[token])) > 1e-6 {
				t.Fatalf("log-probability %v, expected %v", logp, logits[token])
			}
		}
		total := 0.
		for _, token := range c.kept {
			total += math.Exp(float64(logits[token]))
		}
		if len(counts) != len(c.kept) {
			t.Errorf("%+v keeps %v, expected %v", c.params, counts, c.kept)
		}
		for _, token := range c.kept {
			if want := math.Exp(float64(logits[token])) / total * n; math.Abs(counts[token]-want) > 2 {
				t.Errorf("%+v: token %d drawn %v times of %d, expected %v", c.params, token, counts[token], n, want)
			}
		}
	}
}

// The drawn tokens follow the distribution: many keys, one next token.
func TestSamplesFollowTheDistribution(t *testing.T) {
	p := newTiny(t, tiny())
	prompt := randomTokens(rng.New(3), 10, 207)
	s := session(t, p, 256, 20)
	counts := make([]float64, 207)
	const rounds = 20
	for round := range rounds {
		var rows []Row
		for i := range 256 {
			rows = append(rows, Row{ID: int64(i), Tokens: prompt, MaxNew: 1, Key: rng.New(uint64(round), uint64(i))})
		}
		for _, out := range generate(t, s, rows, SampleParams{Temperature: .5}) {
			counts[out.Tokens[0]]++
		}
	}
	var seqs []Sequence
	for v := range int32(207) {
		seqs = append(seqs, Sequence{Tokens: append(slices.Clone(prompt), v), PromptLength: 10})
	}
	logps, _, err := p.LogProbs(t.Context(), seqs, .5, false, false)
	if err != nil {
		t.Fatal(err)
	}
	const n = rounds * 256
	chi := 0.
	for v, c := range counts {
		want := math.Exp(float64(logps[v][0])) * n
		chi += (c - want) * (c - want) / want
	}
	// 206 degrees of freedom: mean 206, standard deviation 20.
	if chi > 306 {
		t.Errorf("chi-square %v over 207 tokens", chi)
	}
}

// Two sessions sample and the policy is scored while it is trained: each call must be that of one version of the
// weights.
func TestConcurrentUse(t *testing.T) {
	p := newTiny(t, tiny())
	tr := newTrainer(t, p, OptimizerConfig{LearningRate: 1e-2})
	samples := randomSamples(rng.New(1), 4, 30)
	var group sync.WaitGroup
	for worker := range 2 {
		s := session(t, p, 4, 100)
		group.Go(func() {
			for i := range 6 {
				rows := []Row{{ID: int64(i), Tokens: randomTokens(rng.New(uint64(worker)), 9, 207), MaxNew: 6, Key: rng.New(uint64(i))}}
				if _, err := s.Generate(t.Context(), rows, SampleParams{}); err != nil {
					t.Error(err)
				}
				if _, _, err := p.LogProbs(t.Context(), []Sequence{{Tokens: rows[0].Tokens, PromptLength: 1}}, 1, false, false); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 6 {
		update(t, tr, UpdateSpec{Objective: nll(t), Samples: samples})
	}
	group.Wait()
	if p.Version() != 7 || tr.Steps() != 6 {
		t.Errorf("version %d after %d steps", p.Version(), tr.Steps())
	}
}
