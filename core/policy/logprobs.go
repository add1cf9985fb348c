package policy

import (
	"context"
	"fmt"
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint:revive // graph code reads as formulas

	"github.com/forage-rl/forage/core/sdk/objective"
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
	read, err := p.readAll(ctx, weights, seqs, temperature, entropy)
	if err != nil {
		return nil, nil, err
	}
	if entropy {
		entropies = read[1]
	}
	return read[0], entropies, nil
}

func (p *Policy) hold(reference bool) (*weightSet, error) {
	if reference {
		return p.acquireReference()
	}
	return p.acquire()
}

// readAll gives what the network reads at all response tokens: for each of [model.leaves], one array per sequence.
func (p *Policy) readAll(ctx context.Context, weights *weightSet, seqs []Sequence, temperature float64, entropy bool) ([][][]float32, error) {
	list := make([]scored, len(seqs))
	out := make([][][]float32, len(p.model.leaves(entropy)))
	for k := range out {
		out[k] = make([][]float32, len(seqs))
	}
	longest := 0
	for i, s := range seqs {
		n := len(s.Tokens) - s.PromptLength
		list[i] = scored{len(s.Tokens), n}
		for k := range out {
			out[k][i] = make([]float32, n)
		}
		longest = max(longest, n)
	}
	all := make([]int32, longest)
	for i := range all {
		all[i] = int32(i)
	}
	for _, b := range split(list, p.bounds(batchTokens, false)) {
		if err := checkContext(ctx); err != nil {
			return nil, err
		}
		flats, err := p.readBatch(weights, b, seqs, func(i int) []int32 { return all[:list[i].positions] }, temperature, entropy)
		if err != nil {
			return nil, err
		}
		at := 0
		for _, i := range b.samples {
			for j := range list[i].positions {
				for k := range out {
					out[k][i][j] = float32(flats[k][at])
				}
				at++
			}
		}
	}
	return out, nil
}

// leaves lists what the network reads at selected positions, in the order of [model.read].
func (m *model) leaves(entropy bool) []objective.Op {
	switch {
	case m.layout.value >= 0:
		return []objective.Op{objective.OpValue}
	case entropy:
		return []objective.Op{objective.OpLogP, objective.OpEntropy}
	}
	return []objective.Op{objective.OpLogP}
}

// read makes the parameters that show a micro-batch to a program and gives, at its selected positions, the value of a
// critic, or a policy's log-probability and perhaps entropy. Parameters: tokens [rows, length]; index [selected]; for a
// policy labels [selected] and the inverse temperature. [Policy.show] gives their values.
func (m *model) read(g *Graph, weights []*Node, b microBatch, recompute, entropy bool) []*Node {
	tokens := Parameter(g, "tokens", shapes.Make(dtypes.Int32, b.rows, b.length))
	index := Parameter(g, "index", shapes.Make(dtypes.Int32, b.selected))
	if m.layout.value >= 0 {
		return []*Node{m.values(weights, m.selected(weights, tokens, index, recompute))}
	}
	labels := Parameter(g, "labels", shapes.Make(dtypes.Int32, b.selected))
	inverse := Parameter(g, "inverse_temperature", shapes.Make(m.dtype))
	logp, h := tokenScores(m.logits(weights, m.selected(weights, tokens, index, recompute)), labels, inverse, entropy)
	if !entropy {
		return []*Node{logp}
	}
	return []*Node{logp, h}
}

// show appends the values of the parameters of [model.read]. at gives the positions (in its response) at which a sequence
// is read.
func (p *Policy) show(args *arguments, b microBatch, seqs []Sequence, at func(int) []int32, temperature float64) {
	tokens, index, labels := b.layOut(seqs, at)
	host(args, tokens, b.rows, b.length)
	host(args, index, b.selected)
	if p.model.layout.value >= 0 {
		return
	}
	host(args, labels, b.selected)
	hostScalars(args, p.model.dtype, 1/temperature)
}

// readBatch gives what the network reads at the selected positions of a micro-batch, one flat array for each of
// [model.leaves].
func (p *Policy) readBatch(weights *weightSet, b microBatch, seqs []Sequence, at func(int) []int32, temperature float64, entropy bool) ([][]float64, error) {
	with := 0
	if entropy {
		with = 1
	}
	key := programKey{kind: "read", sizes: [6]int{b.rows, b.length, b.selected, with}}
	g, err := p.programs.get(p.backend, key, func(g *Graph) []*Node {
		return p.model.read(g, p.model.parameters(g), b, false, entropy)
	})
	if err != nil {
		return nil, err
	}
	args := p.backend.arguments(g.NumParameters()).keep(weights.tensors...)
	p.show(args, b, seqs, at, temperature)
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

// selected runs whole sequences [rows, S] and gives the hidden states, before the final norm, at the flat positions
// index [n]: [n, hidden]. For recompute see [model.sequences].
func (m *model) selected(weights []*Node, tokens, index *Node, recompute bool) *Node {
	x := m.sequences(weights, tokens, recompute)
	return Gather(Reshape(x, -1, m.config.HiddenSize), InsertAxes(index, -1))
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
