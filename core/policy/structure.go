package policy

import (
	"fmt"
	"slices"

	"github.com/forage-rl/forage/core/sdk/objective"
)

// structure is what of an objective's value on a mini-batch depends on masks, turns and groups alone: which elements
// each level has, which values are absent, and how many elements each reduction combines. It follows the rules of
// [objective.Eval]. With it the weight of every token in the loss is known for the whole mini-batch before any
// micro-batch runs.
type structure struct {
	o       objective.Objective
	levels  []objective.Level
	rows    []objective.Row
	offset  []int // first token of each row; one more for the end
	turns   []int // first turn of each row; one more for the end
	parents [objective.Scalar + 1][objective.Scalar + 1][]int32
	size    [objective.Scalar + 1]int
	present [][]bool  // per node and element; nil: all present
	count   [][]int32 // per reduction and result: number of elements, or for last the index of the element
}

// newStructure lays a mini-batch out. Rows need the masks, turns, groups and the fields used as masks.
func newStructure(o objective.Objective, levels []objective.Level, rows []objective.Row) (*structure, error) {
	s := &structure{o: o, levels: levels, rows: rows}
	s.lay()
	s.present = make([][]bool, len(o.Nodes))
	s.count = make([][]int32, len(o.Nodes))
	for i, n := range o.Nodes {
		switch n.Op {
		case objective.OpReduce:
			s.reduce(i, n)
		case objective.OpGroupDifference:
			return nil, fmt.Errorf("node %d: group differences are not local to a row", i)
		default:
			s.elementwise(i, n)
		}
	}
	return s, nil
}

func (s *structure) lay() {
	usesTurns := slices.Contains(s.levels, objective.Turn)
	groups := map[string]int32{}
	var tokenTurn, tokenRow, turnRow, rowGroup []int32
	for r, row := range s.rows {
		s.offset, s.turns = append(s.offset, len(tokenRow)), append(s.turns, len(turnRow))
		if _, known := groups[row.Group]; !known {
			groups[row.Group] = int32(len(groups))
		}
		rowGroup = append(rowGroup, groups[row.Group])
		turnOf := map[int]int32{}
		for t := range row.PolicyMask {
			turn := int32(-1)
			if usesTurns && row.Turns[t] >= 0 {
				var known bool
				if turn, known = turnOf[row.Turns[t]]; !known {
					turn = int32(len(turnRow))
					turnOf[row.Turns[t]] = turn
					turnRow = append(turnRow, int32(r))
				}
			}
			tokenTurn, tokenRow = append(tokenTurn, turn), append(tokenRow, int32(r))
		}
	}
	s.offset, s.turns = append(s.offset, len(tokenRow)), append(s.turns, len(turnRow))
	through := func(first, second []int32) []int32 {
		out := make([]int32, len(first))
		for i, p := range first {
			out[i] = -1
			if p >= 0 {
				out[i] = second[p]
			}
		}
		return out
	}
	zeros := func(n int) []int32 { return make([]int32, n) }
	const token, turn, sequence, group, scalar = objective.Token, objective.Turn, objective.Sequence, objective.Group, objective.Scalar
	s.size = [scalar + 1]int{token: len(tokenRow), turn: len(turnRow), sequence: len(s.rows), group: len(groups), scalar: 1}
	s.parents[token] = [scalar + 1][]int32{turn: tokenTurn, sequence: tokenRow, group: through(tokenRow, rowGroup), scalar: zeros(len(tokenRow))}
	s.parents[turn] = [scalar + 1][]int32{sequence: turnRow, group: through(turnRow, rowGroup), scalar: zeros(len(turnRow))}
	s.parents[sequence] = [scalar + 1][]int32{group: rowGroup, scalar: zeros(len(s.rows))}
	s.parents[group] = [scalar + 1][]int32{scalar: zeros(len(groups))}
}

// up gives the element of level to that element at of level from belongs to, or -1.
func (s *structure) up(from, to objective.Level, at int) int {
	if from == to {
		return at
	}
	return int(s.parents[from][to][at])
}

func (s *structure) has(node, at int) bool {
	return at >= 0 && (s.present[node] == nil || s.present[node][at])
}

func (s *structure) elementwise(i int, n objective.Node) {
	level := s.levels[i]
	for _, in := range n.Inputs {
		if s.present[in] == nil && (level != objective.Token || s.levels[in] != objective.Turn) {
			continue // all of its elements are there, and each of ours has one
		}
		if s.present[i] == nil {
			s.present[i] = slices.Repeat([]bool{true}, s.size[level])
		}
		for at := range s.present[i] {
			if !s.has(in, s.up(level, s.levels[in], at)) {
				s.present[i][at] = false
			}
		}
	}
}

// selects says whether a reduction from token level looks at a token.
func (s *structure) selects(mask string, token int) bool {
	row := s.parents[objective.Token][objective.Sequence][token]
	at := token - s.offset[row]
	switch mask {
	case objective.MaskResponse:
		return true
	case objective.MaskPolicy, "":
		return s.rows[row].PolicyMask[at]
	}
	return s.rows[row].TokenFields[mask][at] != 0
}

// each calls f for every element at of level n.From that reduction i combines: the input's element and the result's.
func (s *structure) each(i int, f func(at, input, result int)) {
	n := s.o.Nodes[i]
	in := n.Inputs[0]
	for at := range s.size[n.From] {
		if n.From == objective.Token && !s.selects(n.Mask, at) {
			continue
		}
		input, result := s.up(n.From, s.levels[in], at), s.up(n.From, n.To, at)
		if result < 0 || !s.has(in, input) {
			continue
		}
		f(at, input, result)
	}
}

func (s *structure) reduce(i int, n objective.Node) {
	count := make([]int32, s.size[n.To])
	if n.Reduce == objective.Last {
		for p := range count {
			count[p] = -1
		}
	}
	s.each(i, func(at, _, result int) {
		if n.Reduce == objective.Last {
			count[result] = int32(at)
		} else {
			count[result]++
		}
	})
	s.count[i] = count
	if n.Reduce == objective.Sum || n.To == objective.Scalar {
		return
	}
	present := make([]bool, len(count))
	for p, c := range count {
		present[p] = c > 0 || n.Reduce == objective.Last && c == 0
	}
	if slices.Contains(present, false) {
		s.present[i] = present
	}
}

// coefficient is the factor with which reduction i takes element at of its level From into result.
func (s *structure) coefficient(i, at, result int) float64 {
	switch s.o.Nodes[i].Reduce {
	case objective.Mean:
		return 1 / float64(s.count[i][result])
	case objective.Last:
		if int(s.count[i][result]) != at {
			return 0
		}
	}
	return 1
}
