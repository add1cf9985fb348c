package objective

import (
	"fmt"
	"math"
	"slices"
)

// Row is one sequence of a mini-batch, as the reference evaluator sees it. All arrays run over its response: one
// element per token after the prompt. Arrays that the objective does not read may be nil.
type Row struct {
	LogP, OldLogP, SamplerLogP, RefLogP, Entropy, Value, OldValue []float64
	// PolicyMask is true for the tokens that the policy wrote. Its length is the length of the response.
	PolicyMask []bool
	// Turns gives the turn of each token, counted from 0, or -1 for a token of no turn. Needed for turn levels only.
	Turns          []int
	TokenFields    map[string][]float64
	SequenceFields map[string]float64
	// Group names the row's group; rows of equal names form one.
	Group string
}

// Batch is one mini-batch.
type Batch struct{ Rows []Row }

// Result is the value of an objective with its gradient. The gradients are partial derivatives of the loss with
// respect to the leaves, one array per row over its response.
type Result struct {
	Loss    float64
	Metrics map[string]float64
	// Skipped counts the rows of which some reduction under the loss found no token.
	Skipped                          int
	GradLogP, GradEntropy, GradValue [][]float64
}

// Eval computes an objective and its gradient in float64. It defines what the compiled training step must compute:
//
//   - The mask of a reduction from token level selects its tokens. What lies outside is never looked at, so a NaN there
//     does not leak.
//   - A mean or last over nothing is absent, not 0: a sequence without a token in the mask is left out of the mean
//     over sequences, a group without such a sequence out of the mean over groups. A sum over nothing is 0. An
//     elementwise result is absent where an input is. A reduction to a scalar over nothing is 0 without gradient.
//   - A token of no turn (Turns -1) has no value at turn level: it is left out of reductions to turns and absent where
//     a turn's value is broadcast to it.
//   - min and max pass half of the gradient to each side of a tie; clip passes it at and between its bounds; abs passes
//     none at 0; where passes it to the chosen side alone.
func Eval(o Objective, batch Batch) (Result, error) {
	levels, err := o.Levels()
	if err != nil {
		return Result{}, err
	}
	l, err := lay(batch, slices.Contains(levels, Turn))
	if err != nil {
		return Result{}, fmt.Errorf("objective %q: %w", o.Name, err)
	}
	e := evaluator{o: o, batch: batch, layout: l, nodes: make([]nodeState, len(o.Nodes))}
	for i, n := range o.Nodes {
		size := l.size(levels[i])
		e.nodes[i] = nodeState{level: levels[i], value: make([]float64, size), ok: make([]bool, size), grad: make([]float64, size)}
		if err := e.forward(i, n); err != nil {
			return Result{}, fmt.Errorf("objective %q, node %d (%s): %w", o.Name, i, n.Op, err)
		}
	}
	result := Result{Loss: e.nodes[o.Loss].value[0], Skipped: e.skipped()}
	for name, index := range o.Metrics {
		if result.Metrics == nil {
			result.Metrics = map[string]float64{}
		}
		result.Metrics[name] = e.nodes[index].value[0]
	}
	e.nodes[o.Loss].grad[0] = 1
	for i := o.Loss; i >= 0; i-- {
		e.backward(i, o.Nodes[i])
	}
	result.GradLogP = e.leafGradient(OpLogP)
	result.GradEntropy = e.leafGradient(OpEntropy)
	result.GradValue = e.leafGradient(OpValue)
	return result, nil
}

// layout numbers the elements of each level and knows which coarser element each belongs to.
type layout struct {
	rows    []int // offset of each row's tokens; one more entry for the end
	token   [Scalar + 1][]int
	turn    [Scalar + 1][]int
	row     [Scalar + 1][]int
	groups  [][]int // rows of each group
	oneOnly []int   // the scalar as its own parent
}

func lay(batch Batch, turns bool) (layout, error) {
	l := layout{rows: []int{0}, oneOnly: []int{0}}
	groupOf := map[string]int{}
	for r, row := range batch.Rows {
		n := len(row.PolicyMask)
		g, known := groupOf[row.Group]
		if !known {
			g = len(groupOf)
			groupOf[row.Group] = g
			l.groups = append(l.groups, nil)
		}
		l.groups[g] = append(l.groups[g], r)
		l.row[Sequence] = append(l.row[Sequence], r)
		l.row[Group] = append(l.row[Group], g)
		l.row[Scalar] = append(l.row[Scalar], 0)
		if turns && len(row.Turns) != n {
			return l, fmt.Errorf("row %d has %d turn numbers for %d tokens", r, len(row.Turns), n)
		}
		turnOf := map[int]int{}
		for t := range n {
			at := -1
			if turns && row.Turns[t] >= 0 {
				var known bool
				if at, known = turnOf[row.Turns[t]]; !known {
					at = len(l.turn[Turn])
					turnOf[row.Turns[t]] = at
					l.turn[Turn] = append(l.turn[Turn], at)
					l.turn[Sequence] = append(l.turn[Sequence], r)
					l.turn[Group] = append(l.turn[Group], g)
					l.turn[Scalar] = append(l.turn[Scalar], 0)
				}
			}
			l.token[Token] = append(l.token[Token], len(l.token[Token]))
			l.token[Turn] = append(l.token[Turn], at)
			l.token[Sequence] = append(l.token[Sequence], r)
			l.token[Group] = append(l.token[Group], g)
			l.token[Scalar] = append(l.token[Scalar], 0)
		}
		l.rows = append(l.rows, l.rows[r]+n)
	}
	return l, nil
}

func (l *layout) size(level Level) int {
	switch level {
	case Token:
		return len(l.token[Token])
	case Turn:
		return len(l.turn[Turn])
	case Sequence:
		return len(l.row[Sequence])
	case Group:
		return len(l.groups)
	}
	return 1
}

// up gives, for each element of level from, its element of the coarser or equal level to, or -1.
func (l *layout) up(from, to Level) []int {
	switch from {
	case Token:
		return l.token[to]
	case Turn:
		return l.turn[to]
	case Sequence:
		return l.row[to]
	case Group:
		parents := make([]int, len(l.groups))
		for i := range parents {
			if to == Group {
				parents[i] = i
			}
		}
		return parents
	}
	return l.oneOnly
}

type nodeState struct {
	level Level
	value []float64
	ok    []bool // false: absent
	grad  []float64
	count []int // reductions: elements that went into each value, or for last the element itself
}

type evaluator struct {
	o      Objective
	batch  Batch
	layout layout
	nodes  []nodeState
}

func (e *evaluator) forward(i int, n Node) error {
	self := &e.nodes[i]
	switch n.Op {
	case OpConst:
		self.value[0], self.ok[0] = n.Value, true
		return nil
	case OpField:
		return e.field(self, n)
	case OpReduce:
		return e.reduce(self, n)
	case OpGroupDifference:
		return e.groupDifference(self, n)
	}
	if slices.Contains(leaves, n.Op) {
		return e.leaf(self, n.Op)
	}
	args, index := e.inputs(self.level, n)
	var x [3]float64
	for at := range self.value {
		present := true
		for k, in := range args {
			j := index[k][at]
			if j < 0 || !in.ok[j] {
				present = false
				break
			}
			x[k] = in.value[j]
		}
		if present {
			self.value[at], self.ok[at] = compute(n.Op, x), true
		}
	}
	return nil
}

// inputs gives the input nodes of n and, for each, the element that every element of level reads.
func (e *evaluator) inputs(level Level, n Node) ([]*nodeState, [][]int) {
	var args []*nodeState
	var index [][]int
	for _, in := range n.Inputs {
		args = append(args, &e.nodes[in])
		index = append(index, e.layout.up(level, e.nodes[in].level))
	}
	return args, index
}

func leafArray(row Row, op Op) []float64 {
	switch op {
	case OpLogP:
		return row.LogP
	case OpEntropy:
		return row.Entropy
	case OpValue:
		return row.Value
	case OpOldLogP:
		return row.OldLogP
	case OpSamplerLogP:
		return row.SamplerLogP
	case OpRefLogP:
		return row.RefLogP
	}
	return row.OldValue
}

func (e *evaluator) leaf(self *nodeState, op Op) error {
	for r, row := range e.batch.Rows {
		if err := e.place(self, r, string(op), leafArray(row, op)); err != nil {
			return err
		}
	}
	return nil
}

func (e *evaluator) field(self *nodeState, n Node) error {
	for r, row := range e.batch.Rows {
		if n.From == Sequence {
			v, given := row.SequenceFields[n.Name]
			if !given {
				return fmt.Errorf("row %d has no sequence field %q", r, n.Name)
			}
			self.value[r], self.ok[r] = v, true
			continue
		}
		if err := e.place(self, r, n.Name, row.TokenFields[n.Name]); err != nil {
			return err
		}
	}
	return nil
}

func (e *evaluator) place(self *nodeState, r int, what string, values []float64) error {
	start, end := e.layout.rows[r], e.layout.rows[r+1]
	if len(values) != end-start {
		return fmt.Errorf("row %d has %d values of %s for %d tokens", r, len(values), what, end-start)
	}
	copy(self.value[start:end], values)
	for t := start; t < end; t++ {
		self.ok[t] = true
	}
	return nil
}

// selects says whether token t of row r is in the mask.
func (e *evaluator) selects(mask string, r, t int) (bool, error) {
	row := e.batch.Rows[r]
	switch mask {
	case MaskResponse:
		return true, nil
	case MaskPolicy, "":
		return row.PolicyMask[t], nil
	}
	values := row.TokenFields[mask]
	if t >= len(values) {
		return false, fmt.Errorf("row %d has %d values of the mask %q for %d tokens", r, len(values), mask, len(row.PolicyMask))
	}
	return values[t] != 0, nil
}

func (e *evaluator) reduce(self *nodeState, n Node) error {
	in := &e.nodes[n.Inputs[0]]
	read, parent := e.layout.up(n.From, in.level), e.layout.up(n.From, n.To)
	self.count = make([]int, len(self.value))
	if n.Reduce == Last {
		for p := range self.count {
			self.count[p] = -1
		}
	}
	for at := range read {
		if n.From == Token {
			r := e.layout.token[Sequence][at]
			selected, err := e.selects(n.Mask, r, at-e.layout.rows[r])
			if err != nil {
				return err
			}
			if !selected {
				continue
			}
		}
		j, p := read[at], parent[at]
		if j < 0 || p < 0 || !in.ok[j] {
			continue
		}
		self.ok[p] = true
		if n.Reduce == Last {
			self.value[p], self.count[p] = in.value[j], j
			continue
		}
		self.value[p] += in.value[j]
		self.count[p]++
	}
	for p := range self.value {
		if n.Reduce == Mean && self.ok[p] {
			self.value[p] /= float64(self.count[p])
		}
		if n.Reduce == Sum || n.To == Scalar {
			self.ok[p] = true
		}
	}
	return nil
}

func (e *evaluator) groupDifference(self *nodeState, n Node) error {
	in := &e.nodes[n.Inputs[0]]
	for g, rows := range e.layout.groups {
		if len(rows) != 2 {
			return fmt.Errorf("group %q has %d sequences; a difference needs exactly 2", e.batch.Rows[rows[0]].Group, len(rows))
		}
		if in.ok[rows[0]] && in.ok[rows[1]] {
			self.value[g], self.ok[g] = in.value[rows[0]]-in.value[rows[1]], true
		}
	}
	return nil
}

func compute(op Op, x [3]float64) float64 {
	switch op {
	case OpAdd:
		return x[0] + x[1]
	case OpSub:
		return x[0] - x[1]
	case OpMul:
		return x[0] * x[1]
	case OpDiv:
		return x[0] / x[1]
	case OpNeg:
		return -x[0]
	case OpExp:
		return math.Exp(x[0])
	case OpLog:
		return math.Log(x[0])
	case OpSquare:
		return x[0] * x[0]
	case OpAbs:
		return math.Abs(x[0])
	case OpMin:
		return min(x[0], x[1])
	case OpMax:
		return max(x[0], x[1])
	case OpClip:
		return min(max(x[0], x[1]), x[2])
	case OpWhere:
		if x[0] != 0 {
			return x[1]
		}
		return x[2]
	case OpLess:
		if x[0] < x[1] {
			return 1
		}
		return 0
	case OpLogSigmoid:
		return min(x[0], 0) - math.Log1p(math.Exp(-math.Abs(x[0])))
	}
	return x[0] // OpStopGradient
}

func (e *evaluator) backward(i int, n Node) {
	self := &e.nodes[i]
	switch {
	case n.Op == OpReduce:
		e.reduceBackward(self, n)
		return
	case n.Op == OpGroupDifference:
		in := &e.nodes[n.Inputs[0]]
		for g, rows := range e.layout.groups {
			if self.ok[g] {
				in.grad[rows[0]] += self.grad[g]
				in.grad[rows[1]] -= self.grad[g]
			}
		}
		return
	case len(n.Inputs) == 0, n.Op == OpStopGradient, n.Op == OpLess:
		return
	}
	args, index := e.inputs(self.level, n)
	var x [3]float64
	for at, g := range self.grad {
		if g == 0 || !self.ok[at] {
			continue
		}
		for k, in := range args {
			x[k] = in.value[index[k][at]]
		}
		d := derivative(n.Op, x, self.value[at])
		for k, in := range args {
			if d[k] != 0 {
				in.grad[index[k][at]] += g * d[k]
			}
		}
	}
}

func (e *evaluator) reduceBackward(self *nodeState, n Node) {
	in := &e.nodes[n.Inputs[0]]
	if n.Reduce == Last {
		for p, g := range self.grad {
			if g != 0 && self.count[p] >= 0 {
				in.grad[self.count[p]] += g
			}
		}
		return
	}
	read, parent := e.layout.up(n.From, in.level), e.layout.up(n.From, n.To)
	for at := range read {
		j, p := read[at], parent[at]
		if j < 0 || p < 0 || self.grad[p] == 0 || !in.ok[j] {
			continue
		}
		if n.From == Token {
			r := e.layout.token[Sequence][at]
			if selected, _ := e.selects(n.Mask, r, at-e.layout.rows[r]); !selected { // forward has reported the error
				continue
			}
		}
		g := self.grad[p]
		if n.Reduce == Mean {
			g /= float64(self.count[p])
		}
		in.grad[j] += g
	}
}

// derivative is the partial derivative of op with respect to each input at x, where y is its value.
func derivative(op Op, x [3]float64, y float64) [3]float64 {
	switch op {
	case OpAdd:
		return [3]float64{1, 1}
	case OpSub:
		return [3]float64{1, -1}
	case OpMul:
		return [3]float64{x[1], x[0]}
	case OpDiv:
		return [3]float64{1 / x[1], -y / x[1]}
	case OpNeg:
		return [3]float64{-1}
	case OpExp:
		return [3]float64{y}
	case OpLog:
		return [3]float64{1 / x[0]}
	case OpSquare:
		return [3]float64{2 * x[0]}
	case OpAbs:
		switch {
		case x[0] > 0:
			return [3]float64{1}
		case x[0] < 0:
			return [3]float64{-1}
		}
		return [3]float64{}
	case OpMin, OpMax:
		switch {
		case x[0] == x[1]:
			return [3]float64{.5, .5}
		case (x[0] < x[1]) == (op == OpMin):
			return [3]float64{1}
		}
		return [3]float64{0, 1}
	case OpClip:
		if x[0] >= x[1] && x[0] <= x[2] {
			return [3]float64{1}
		}
		return [3]float64{}
	case OpWhere:
		if x[0] != 0 {
			return [3]float64{0, 1}
		}
		return [3]float64{0, 0, 1}
	}
	return [3]float64{1 / (1 + math.Exp(x[0]))} // OpLogSigmoid
}

// skipped counts the rows of which some reduction under the loss found no token.
func (e *evaluator) skipped() int {
	under := make([]bool, len(e.o.Nodes))
	under[e.o.Loss] = true
	empty := map[int]bool{}
	for i := e.o.Loss; i >= 0; i-- {
		if !under[i] {
			continue
		}
		n := e.o.Nodes[i]
		for _, in := range n.Inputs {
			under[in] = true
		}
		if n.Op != OpReduce || n.From != Token {
			continue
		}
		for r, row := range e.batch.Rows {
			found := false
			for t := range row.PolicyMask {
				selected, _ := e.selects(n.Mask, r, t) // forward has reported the error
				found = found || selected
			}
			if !found {
				empty[r] = true
			}
		}
	}
	return len(empty)
}

func (e *evaluator) leafGradient(op Op) [][]float64 {
	rows := make([][]float64, len(e.batch.Rows))
	for r := range rows {
		start, end := e.layout.rows[r], e.layout.rows[r+1]
		rows[r] = make([]float64, end-start)
		for i, n := range e.o.Nodes {
			if n.Op == op {
				for t := range rows[r] {
					rows[r][t] += e.nodes[i].grad[start+t]
				}
			}
		}
	}
	return rows
}
