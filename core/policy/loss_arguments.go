package policy

import (
	"github.com/gomlx/compute/dtypes"

	"github.com/forage-rl/forage/core/sdk/objective"
)

// lossBatch is what a micro-batch shows of a mini-batch: which of its rows, and which of their tokens.
type lossBatch struct {
	structure *structure
	weights   map[int][]float64 // of the terminals' elements
	rows      []int             // of the mini-batch, in the order of the micro-batch
	positions [][]int32         // selected response tokens of each row of the mini-batch
	sizes     lossSizes
}

// index gives the mini-batch's elements of a level that the micro-batch holds, in its order.
func (b *lossBatch) index(level objective.Level) []int {
	var out []int
	for _, r := range b.rows {
		switch level {
		case objective.Token:
			for _, t := range b.positions[r] {
				out = append(out, b.structure.offset[r]+int(t))
			}
		case objective.Turn:
			for t := b.structure.turns[r]; t < b.structure.turns[r+1]; t++ {
				out = append(out, t)
			}
		default:
			out = append(out, r)
		}
	}
	return out
}

// turnCount counts the turns of some rows.
func (s *structure) turnCount(rows []int) int {
	n := 0
	for _, r := range rows {
		n += s.turns[r+1] - s.turns[r]
	}
	return n
}

// arguments appends the values of the loss's parameters, in the order in which [lossPlan.loss] makes them. Padding and
// absent elements hold 1, which no operation turns into something that is not finite.
func (p *lossPlan) arguments(args *arguments, dtype dtypes.DType, b *lossBatch) {
	index := map[objective.Level][]int{}
	place := map[objective.Level]map[int]int32{}
	for _, level := range []objective.Level{objective.Token, objective.Turn, objective.Sequence} {
		index[level] = b.index(level)
		if level == objective.Token {
			continue // nothing belongs to a token
		}
		place[level] = make(map[int]int32, len(index[level]))
		for i, at := range index[level] {
			place[level][at] = int32(i)
		}
	}
	s := b.structure
	for _, edge := range p.edges() {
		// Padding, and tokens of no turn, read the value of the first element; their coefficients are 0.
		up := make([]int32, b.sizes.of(edge[0]))
		for i, at := range index[edge[0]] {
			if parent := s.up(edge[0], edge[1], at); parent >= 0 {
				up[i] = place[edge[1]][parent]
			}
		}
		host(args, up, len(up))
	}
	array := func(level objective.Level, padding float64, value func(at int) float64) {
		flat := make([]float64, b.sizes.of(level))
		for i := range flat {
			flat[i] = padding
		}
		for i, at := range index[level] {
			flat[i] = value(at)
		}
		if dtype == dtypes.Float64 {
			host(args, flat, len(flat))
			return
		}
		narrow := make([]float32, len(flat))
		for i, v := range flat {
			narrow[i] = float32(v)
		}
		host(args, narrow, len(narrow))
	}
	for i, n := range p.o.Nodes {
		if !p.inGraph[i] {
			continue
		}
		if _, constant := p.constant[i]; constant {
			continue
		}
		switch {
		case n.Op == objective.OpReduce:
			factor := make([]float64, s.size[n.From])
			s.each(i, func(at, _, result int) { factor[at] = s.coefficient(i, at, result) })
			array(n.From, 0, func(at int) float64 { return factor[at] })
			array(n.To, 1, func(at int) float64 {
				if s.has(i, at) {
					return 0
				}
				return 1
			})
		case p.given(n):
			array(p.levels[i], 1, func(at int) float64 { return s.data(n, at) })
		}
	}
	for _, t := range p.terminals {
		array(p.levels[t], 0, func(at int) float64 { return b.weights[t][at] })
	}
}

// data gives the recorded value of a leaf for an element of its level.
func (s *structure) data(n objective.Node, at int) float64 {
	if n.Op == objective.OpField && n.From == objective.Sequence {
		return s.rows[at].SequenceFields[n.Name]
	}
	row := int(s.parents[objective.Token][objective.Sequence][at])
	r, t := &s.rows[row], at-s.offset[row]
	switch n.Op {
	case objective.OpField:
		return r.TokenFields[n.Name][t]
	case objective.OpOldLogP:
		return r.OldLogP[t]
	case objective.OpSamplerLogP:
		return r.SamplerLogP[t]
	case objective.OpOldValue:
		return r.OldValue[t]
	}
	return r.RefLogP[t]
}
