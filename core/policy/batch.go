package policy

import (
	"cmp"
	"slices"
)

// roundUp rounds a size of a batch up to a multiple of step, so that not every call compiles a graph of its own; where
// compiling is dear, to step times a power of two.
func roundUp(n, step int, dear bool) int {
	if n <= step {
		return step
	}
	if !dear {
		return (n + step - 1) / step * step
	}
	size := step
	for size < n {
		size *= 2
	}
	return size
}

// CommonPrefix counts the tokens at which a and b agree from the start.
func CommonPrefix(a, b []int32) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// microBatch is a number of whole sequences that go through the network together.
type microBatch struct {
	samples  []int // of the caller's list, one per row
	rows     int   // padded number of rows
	length   int   // padded length
	selected int   // padded number of positions at which the head is computed

	recompute bool // the gradient computes activations again instead of keeping them
}

// scored is what batching needs to know of a sequence: its length, and at how many positions it is scored.
type scored struct{ length, positions int }

// bounds limit what goes through the network together. A sequence that is beyond them goes alone.
type bounds struct {
	tokens     int // about
	vocabulary int
	dear       bool // see [roundUp]

	kept     func(rows, length int) int // bytes that the gradient of a micro-batch keeps; nil where none is taken
	mostKept int
}

// mostKept bounds what the gradient of a micro-batch keeps, in bytes. It is a constant, not a share of the memory that
// there is: sums are rounded by micro-batch, and the same run shall give the same numbers everywhere.
const mostKept = 2 << 30

// split groups sequences of like length into micro-batches, longest first. The order is a function of the arguments
// alone. Sequences with nothing to score are left out.
func split(list []scored, within bounds) []microBatch {
	order := make([]int, 0, len(list))
	for i, s := range list {
		if s.positions > 0 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(list[b].length, list[a].length) })
	return pack(order, list, within)
}

// pack cuts sequences, in the given order, into micro-batches. Logits are the largest values: their number is
// bounded too. Where a gradient would keep too much for one sequence alone, it computes activations again.
func pack(order []int, list []scored, within bounds) []microBatch {
	const mostLogits = 32 << 20
	dear := within.dear
	tooMuch := func(rows, length int) bool {
		return within.kept != nil && within.kept(roundUp(rows, 1, dear), length) > within.mostKept
	}
	var out []microBatch
	for at := 0; at < len(order); {
		length, positions, end := 0, 0, at
		for end < len(order) {
			s := list[order[end]]
			wider, rows := max(length, roundUp(s.length, 8, dear)), end-at+1
			if end > at && (wider*rows > within.tokens || (positions+s.positions)*within.vocabulary > mostLogits || tooMuch(rows, wider)) {
				break
			}
			length, positions = wider, positions+s.positions
			end++
		}
		out = append(out, microBatch{
			samples: order[at:end], rows: roundUp(end-at, 1, dear), length: length, selected: roundUp(positions, 16, dear),
			recompute: tooMuch(end-at, length),
		})
		at = end
	}
	return out
}

// bounds gives the limits of micro-batches of about that many tokens.
func (p *Policy) bounds(tokens int, gradient bool) bounds {
	b := bounds{tokens: tokens, vocabulary: p.model.config.VocabSize, dear: p.backend.dearCompile}
	if gradient {
		b.kept, b.mostKept = p.model.kept, p.mostKept
	}
	return b
}

// kept estimates the bytes that the gradient keeps of the layers: per token some ten values of the hidden width, five
// of the heads, three of the inner width, and three of the attention to each other token.
func (m *model) kept(rows, length int) int {
	c := m.config
	perToken := 10*c.HiddenSize + 5*(c.Heads+2*c.KVHeads)*c.HeadDim + 3*c.IntermediateSize + 3*c.Heads*length
	return rows * length * c.Layers * perToken * m.dtype.Size()
}

// batchTokens is the number of tokens that go through the network together where the caller does not say.
const batchTokens = 8192

// layOut fills the padded arrays of a micro-batch: tokens [rows, length]; for each selected position the index of the
// hidden state that predicts it in the flat [rows·length], and the token itself as label. at gives the positions (in
// its response) at which a sample is scored.
func (b microBatch) layOut(seqs []Sequence, at func(sample int) []int32) (tokens, index, labels []int32) {
	tokens = make([]int32, b.rows*b.length)
	index, labels = make([]int32, b.selected), make([]int32, b.selected)
	n := 0
	for row, i := range b.samples {
		copy(tokens[row*b.length:], seqs[i].Tokens)
		for _, pos := range at(i) {
			p := seqs[i].PromptLength + int(pos)
			index[n], labels[n] = int32(row*b.length+p-1), seqs[i].Tokens[p]
			n++
		}
	}
	return tokens, index, labels
}
