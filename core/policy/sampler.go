package policy

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/forage-rl/forage/core/internal/rng"
)

// Row asks for a continuation of one sequence.
type Row struct {
	ID     int64                     // names the row's place in the session's cache; distinct within a call
	Tokens []int32                   // the whole sequence so far, at least one token
	MaxNew int                       // tokens to generate at most
	Key    rng.Key                   // token i of this call uses the key's i-th number
	Stop   func(tokens []int32) bool // nil, or asked after each token with all new tokens of this call
}

// SampleParams says how tokens are drawn.
type SampleParams struct {
	Temperature float64 // > 0; 0 means 1
	TopP        float64 // in (0, 1); 0 or 1: off
	TopK        int     // 0: off
	Greedy      bool    // the most likely token
}

// StopReason says why a row ended.
type StopReason string

const (
	StopEOS     StopReason = "eos"     // an end-of-sequence token, kept as the last one
	StopAsked   StopReason = "stop"    // Row.Stop said so
	StopLength  StopReason = "length"  // Row.MaxNew tokens
	StopContext StopReason = "context" // the sequence fills the session's maximum
)

// Output is the continuation of one row.
type Output struct {
	Tokens   []int32
	LogProbs []float32 // of each token under softmax(logits/temperature) over the whole vocabulary, also with top-p, top-k and greedy choice
	Reason   StopReason
}

// Generate continues the rows, all of them side by side; outputs are in the order of rows. It is a function of
// weights, tokens, keys and parameters alone: which rows share the call, and what the cache holds from earlier
// calls, changes nothing beyond rounding.
func (s *Session) Generate(ctx context.Context, rows []Row, params SampleParams) ([]Output, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	how, params, err := s.check(rows, params)
	if err != nil {
		return nil, err
	}
	weights, err := s.p.acquire()
	if err != nil {
		return nil, err
	}
	out, err := s.generate(ctx, weights, rows, params, how)
	if err != nil {
		// The caches may have been handed to a program that failed.
		err = errors.Join(err, s.drop())
	}
	if e := weights.release(); err == nil {
		err = e
	}
	return out, err
}

func (s *Session) check(rows []Row, params SampleParams) (how int, _ SampleParams, err error) {
	fail := func(format string, args ...any) (int, SampleParams, error) {
		return 0, params, fmt.Errorf("generate: "+format, args...)
	}
	if params.Temperature == 0 {
		params.Temperature = 1
	}
	if !(params.Temperature > 0) || math.IsInf(params.Temperature, 0) {
		return fail("temperature must be positive and finite, got %v", params.Temperature)
	}
	if !(params.TopP >= 0 && params.TopP <= 1) {
		return fail("top_p must be in (0, 1], got %v", params.TopP)
	}
	if params.TopK < 0 {
		return fail("top_k must not be negative, got %d", params.TopK)
	}
	if len(rows) > s.maxRows {
		return fail("%d rows, but the session was made for %d", len(rows), s.maxRows)
	}
	vocabulary := int32(s.p.model.config.VocabSize)
	seen := make(map[int64]bool, len(rows))
	for i, r := range rows {
		if len(r.Tokens) == 0 {
			return fail("row %d (id %d) has no tokens: a sequence needs at least one to start from", i, r.ID)
		}
		if seen[r.ID] {
			return fail("row %d: id %d occurs twice in one call", i, r.ID)
		}
		seen[r.ID] = true
		for j, t := range r.Tokens {
			if t < 0 || t >= vocabulary {
				return fail("row %d (id %d): token %d at position %d is outside the vocabulary of %d", i, r.ID, t, j, vocabulary)
			}
		}
	}
	how = chooseSample
	if params.Greedy {
		how = chooseGreedy
	} else if params.TopK > 0 || params.TopP > 0 && params.TopP < 1 {
		how = chooseHost
	}
	return how, params, nil
}

// sampling is the state of one call of Generate.
type sampling struct {
	*Session
	weights *weightSet
	rows    []Row
	slot    []int // of each row
	params  SampleParams
	how     int
	out     []Output
	running int
	end     []bool
}

func (s *Session) generate(ctx context.Context, weights *weightSet, rows []Row, params SampleParams, how int) ([]Output, error) {
	run := &sampling{Session: s, weights: weights, rows: rows, params: params, how: how,
		out: make([]Output, len(rows)), end: make([]bool, len(rows)), slot: make([]int, len(rows)), running: len(rows)}
	for i, r := range rows {
		switch {
		case len(r.Tokens) >= s.maxTokens:
			run.finish(i, StopContext)
		case r.MaxNew <= 0:
			run.finish(i, StopLength)
		}
	}
	if run.running == 0 {
		return run.out, nil
	}
	if err := run.place(); err != nil {
		return nil, err
	}
	if err := run.prefillAll(ctx); err != nil {
		return nil, err
	}
	advance := run.step
	if s.p.backend.dearCompile && how != chooseHost {
		advance = run.loop
	}
	for block := range run.cache {
		for run.runs(block) {
			if err := checkContext(ctx); err != nil {
				return nil, err
			}
			if err := advance(block); err != nil {
				return nil, err
			}
		}
	}
	return run.out, nil
}

// runs says whether a row of the block has not ended.
func (r *sampling) runs(block int) bool {
	for i := range r.rows {
		if _, in := r.lies(i, block); in {
			return true
		}
	}
	return false
}

// lies gives the place of a row in a block, if it lies there and has not ended.
func (r *sampling) lies(row, block int) (at int, in bool) {
	at = r.slot[row] - block*r.size
	return at, !r.end[row] && at >= 0 && at < r.size
}

func (r *sampling) finish(row int, reason StopReason) {
	r.out[row].Reason = reason
	r.end[row] = true
	r.running--
}

// token records a new token of a row and ends the row where it must.
func (r *sampling) token(row int, token int32, logp float32) {
	out, ask := &r.out[row], &r.rows[row]
	out.Tokens = append(out.Tokens, token)
	out.LogProbs = append(out.LogProbs, logp)
	switch {
	case slices.Contains(r.p.model.config.EOS, token):
		r.finish(row, StopEOS)
	case ask.Stop != nil && ask.Stop(out.Tokens):
		r.finish(row, StopAsked)
	case len(out.Tokens) >= ask.MaxNew:
		r.finish(row, StopLength)
	case len(ask.Tokens)+len(out.Tokens) >= r.maxTokens:
		r.finish(row, StopContext)
	}
}

// step decodes one token of every running row of a block.
func (r *sampling) step(block int) error {
	m, n := r.p.model, r.size
	tokens, positions, active := make([]int32, n), make([]int32, n), make([]int32, n)
	for slot := range positions {
		positions[slot] = int32(r.length)
	}
	for i := range r.rows {
		at, in := r.lies(i, block)
		if !in {
			continue
		}
		next, held := r.out[i].Tokens[len(r.out[i].Tokens)-1], &r.slots[r.slot[i]].tokens
		tokens[at], positions[at], active[at] = next, int32(len(*held)), 1
		*held = append(*held, next)
	}
	g, err := r.p.programs.get(r.p.backend, programKey{kind: "decode", sizes: [6]int{n, r.length, r.how}}, func(g *graph.Graph) []*graph.Node {
		return m.decode(g, n, r.length, r.how)
	})
	if err != nil {
		return err
	}
	args := r.p.backend.arguments(g.NumParameters()).keep(r.weights.tensors...)
	host(args, tokens, n)
	host(args, positions, n)
	host(args, active, n)
	return r.choose(args, g, block, func(int) bool { return true })
}

// choose appends the uniforms, the temperature and the caches of a block to args, runs the program and records a token
// of every running row of the block that takes one.
func (r *sampling) choose(args *arguments, g *graph.Graph, block int, takes func(row int) bool) error {
	n := r.size
	uniforms := make([]float32, n)
	for i := range r.rows {
		if at, in := r.lies(i, block); in {
			uniforms[at] = r.rows[i].Key.Float32(uint64(len(r.out[i].Tokens)))
		}
	}
	hostFloats(args, r.p.model.dtype, uniforms, n)
	hostScalars(args, r.p.model.dtype, 1/r.params.Temperature)
	args.donate(r.cache[block]...)
	r.cache[block] = nil
	out, err := args.run(g)
	if err != nil {
		return err
	}
	heads := len(out) - r.p.model.caches()
	r.cache[block] = out[heads:]
	if r.how == chooseHost {
		logits, err := downloadFloats(out[0])
		if err != nil {
			return err
		}
		v := r.p.model.config.VocabSize
		for i := range r.rows {
			if at, in := r.lies(i, block); in && takes(i) {
				token, logp := chooseFrom(logits[at*v:(at+1)*v], r.params, uniforms[at])
				r.token(i, token, logp)
			}
		}
		return finalize(out[:heads]...)
	}
	tokens, err := tensors.CopyFlatData[int32](out[0])
	if err != nil {
		return err
	}
	logps, err := downloadFloats(out[1])
	if err != nil {
		return err
	}
	for i := range r.rows {
		if at, in := r.lies(i, block); in && takes(i) {
			r.token(i, tokens[at], logps[at])
		}
	}
	return finalize(out[:heads]...)
}
