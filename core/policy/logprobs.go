package policy

import (
	"context"
	"fmt"
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint:revive // graph code reads as formulas
)

// Sequence is a prompt and its response in one list of tokens.
type Sequence struct {
	Tokens       []int32
	PromptLength int // tokens of the prompt, at least 1
}

func (p *Policy) checkSequence(s Sequence) error {
	c := p.model.config
	switch {
	case s.PromptLength < 1 || s.PromptLength > len(s.Tokens):
		return fmt.Errorf("prompt length %d must be between 1 and the %d tokens of the sequence", s.PromptLength, len(s.Tokens))
	case len(s.Tokens) > c.MaxPositions:
		return fmt.Errorf("%d tokens, but the model was made for %d", len(s.Tokens), c.MaxPositions)
	}
	for i, t := range s.Tokens {
		if t < 0 || int(t) >= c.VocabSize {
			return fmt.Errorf("token %d at position %d is outside the vocabulary of %d", t, i, c.VocabSize)
		}
	}
	return nil
}

// LogProbs gives the log-probability of every response token (all tokens after the prompt) under
// softmax(logits/temperature), and with entropy set also the entropy of that distribution in nats, else nil. With
// reference set the weights are those of [Policy.Snapshot].
func (p *Policy) LogProbs(ctx context.Context, seqs []Sequence, temperature float64, reference, entropy bool) (logps, entropies [][]float32, err error) {
	weights, err := p.hold(reference)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if e := weights.release(); err == nil {
			err = e
		}
	}()
	for i, s := range seqs {
		if err := p.checkSequence(s); err != nil {
			return nil, nil, fmt.Errorf("log-probs: sequence %d: %w", i, err)
		}
	}
	if !(temperature > 0) || math.IsInf(temperature, 0) {
		return nil, nil, fmt.Errorf("log-probs: temperature must be positive and finite, got %v", temperature)
	}
	return p.score(ctx, weights, seqs, temperature, entropy)
}

func (p *Policy) hold(reference bool) (*weightSet, error) {
	if reference {
		return p.acquireReference()
	}
	return p.acquire()
}

// score computes log-probabilities of all response tokens.
func (p *Policy) score(ctx context.Context, weights *weightSet, seqs []Sequence, temperature float64, entropy bool) (logps, entropies [][]float32, err error) {
	list := make([]scored, len(seqs))
	logps = make([][]float32, len(seqs))
	if entropy {
		entropies = make([][]float32, len(seqs))
	}
	longest := 0
	for i, s := range seqs {
		n := len(s.Tokens) - s.PromptLength
		list[i] = scored{len(s.Tokens), n}
		logps[i] = make([]float32, n)
		if entropy {
			entropies[i] = make([]float32, n)
		}
		longest = max(longest, n)
	}
	all := make([]int32, longest)
	for i := range all {
		all[i] = int32(i)
	}
	for _, b := range split(list, p.bounds(batchTokens, false)) {
		if err := checkContext(ctx); err != nil {
			return nil, nil, err
		}
		flat, err := p.scoreBatch(weights, b, seqs, func(i int) []int32 { return all[:len(logps[i])] }, temperature, entropy)
		if err != nil {
			return nil, nil, err
		}
		at := 0
		for _, i := range b.samples {
			for j := range logps[i] {
				logps[i][j] = float32(flat[0][at])
				if entropy {
					entropies[i][j] = float32(flat[1][at])
				}
				at++
			}
		}
	}
	return logps, entropies, nil
}

// scoreBatch gives log-probabilities and perhaps entropies at the selected positions of a micro-batch.
func (p *Policy) scoreBatch(weights *weightSet, b microBatch, seqs []Sequence, at func(int) []int32, temperature float64, entropy bool) ([][]float64, error) {
	with := 0
	if entropy {
		with = 1
	}
	key := programKey{kind: "logprobs", sizes: [6]int{b.rows, b.length, b.selected, with}}
	g, err := p.programs.get(p.backend, key, func(g *Graph) []*Node {
		weights := p.model.parameters(g)
		tokens := Parameter(g, "tokens", shapes.Make(dtypes.Int32, b.rows, b.length))
		index := Parameter(g, "index", shapes.Make(dtypes.Int32, b.selected))
		labels := Parameter(g, "labels", shapes.Make(dtypes.Int32, b.selected))
		inverse := Parameter(g, "inverse_temperature", shapes.Make(p.model.dtype))
		logits := p.model.selectedLogits(weights, tokens, index, false)
		logp, h := tokenScores(logits, labels, inverse, entropy)
		if !entropy {
			return []*Node{logp}
		}
		return []*Node{logp, h}
	})
	if err != nil {
		return nil, err
	}
	args := p.backend.arguments(g.NumParameters()).keep(weights.tensors...)
	tokens, index, labels := b.layOut(seqs, at)
	host(args, tokens, b.rows, b.length)
	host(args, index, b.selected)
	host(args, labels, b.selected)
	hostScalars(args, p.model.dtype, 1/temperature)
	out, err := args.run(g)
	if err != nil {
		return nil, err
	}
	var flats [][]float64
	for _, t := range out {
		flat, err := downloadWide(t)
		if err != nil {
			return nil, err
		}
		flats = append(flats, flat)
	}
	return flats, finalize(out...)
}

// selectedLogits runs whole sequences [rows, S] and gives the logits at the flat positions index [n]: [n, vocabulary].
// For recompute see [model.sequences].
func (m *model) selectedLogits(weights []*Node, tokens, index *Node, recompute bool) *Node {
	x := m.sequences(weights, tokens, recompute)
	return m.logits(weights, Gather(Reshape(x, -1, m.config.HiddenSize), InsertAxes(index, -1)))
}

// tokenScores gives the log-probability of each label under softmax(logits·inverse) and, where asked, the entropy of
// that distribution; logits are [n, vocabulary].
func tokenScores(logits, labels, inverse *Node, entropy bool) (logp, h *Node) {
	z := Mul(logits, ExpandLeftToRank(inverse, 2))
	n := z.Shape().Dimensions[0]
	top := StopGradient(ReduceAndKeep(z, ReduceMax, -1))
	shifted := Sub(z, top)
	e := Exp(shifted)
	sum := ReduceSum(e, -1)
	index := Concatenate([]*Node{Iota(z.Graph(), shapes.Make(dtypes.Int32, n, 1), 0), InsertAxes(labels, -1)}, -1)
	logSum := Log(sum)
	logp = Sub(Gather(shifted, index), logSum)
	if entropy {
		h = Sub(logSum, Div(ReduceSum(Mul(e, shifted), -1), sum))
	}
	return logp, h
}
