package objective

// Expr is an expression under construction; see [New].
type Expr struct{ n *exprNode }

type exprNode struct {
	node   Node
	inputs []*exprNode
}

func leaf(op Op) Expr                  { return Expr{&exprNode{node: Node{Op: op}}} }
func apply(op Op, inputs ...Expr) Expr { return with(Node{Op: op}, inputs...) }
func with(node Node, inputs ...Expr) Expr {
	e := &exprNode{node: node}
	for _, in := range inputs {
		e.inputs = append(e.inputs, in.n)
	}
	return Expr{e}
}

// LogP is the log-probability of each response token under the policy being trained.
func LogP() Expr { return leaf(OpLogP) }

// Entropy is the entropy of the policy's distribution at each response token.
func Entropy() Expr { return leaf(OpEntropy) }

// Value is the critic's value before each response token.
func Value() Expr { return leaf(OpValue) }

// OldLogP is LogP before the update.
func OldLogP() Expr { return leaf(OpOldLogP) }

// SamplerLogP is the log-probability recorded while sampling.
func SamplerLogP() Expr { return leaf(OpSamplerLogP) }

// RefLogP is LogP under the reference policy.
func RefLogP() Expr { return leaf(OpRefLogP) }

// OldValue is Value before the update.
func OldValue() Expr { return leaf(OpOldValue) }

// Field is a field of the sample, per token or per sequence.
func Field(name string, level Level) Expr { return with(Node{Op: OpField, Name: name, From: level}) }

// Const is a number.
func Const(v float64) Expr { return with(Node{Op: OpConst, Value: v}) }

// Elementwise operations; a coarser value counts for all elements of the finer one.

// Add is a + b.
func Add(a, b Expr) Expr { return apply(OpAdd, a, b) }

// Sub is a - b.
func Sub(a, b Expr) Expr { return apply(OpSub, a, b) }

// Mul is a · b.
func Mul(a, b Expr) Expr { return apply(OpMul, a, b) }

// Div is a / b.
func Div(a, b Expr) Expr { return apply(OpDiv, a, b) }

// Neg is -x.
func Neg(x Expr) Expr { return apply(OpNeg, x) }

// Exp is e to the power of x.
func Exp(x Expr) Expr { return apply(OpExp, x) }

// Log is the natural logarithm of x.
func Log(x Expr) Expr { return apply(OpLog, x) }

// Square is x · x.
func Square(x Expr) Expr { return apply(OpSquare, x) }

// Abs is x without its sign.
func Abs(x Expr) Expr { return apply(OpAbs, x) }

// Min is the smaller of a and b.
func Min(a, b Expr) Expr { return apply(OpMin, a, b) }

// Max is the greater of a and b.
func Max(a, b Expr) Expr { return apply(OpMax, a, b) }

// Less is 1 where a < b, else 0.
func Less(a, b Expr) Expr { return apply(OpLess, a, b) }

// Where is a where cond is not 0, else b.
func Where(cond, a, b Expr) Expr { return apply(OpWhere, cond, a, b) }

// StopGradient is x as a constant of the training step.
func StopGradient(x Expr) Expr { return apply(OpStopGradient, x) }

// LogSigmoid is log(1 / (1 + exp(-x))).
func LogSigmoid(x Expr) Expr { return apply(OpLogSigmoid, x) }

// GroupDifference is first minus second for each group of exactly two sequences (preference losses).
func GroupDifference(x Expr) Expr { return apply(OpGroupDifference, x) }

// Clip bounds x to [low, high].
func Clip(x Expr, low, high float64) Expr { return apply(OpClip, x, Const(low), Const(high)) }

// Reduce takes x from one level to a coarser one. mask (only from token level) is MaskPolicy, MaskResponse or the name of a token
// field; "" means MaskPolicy.
func Reduce(x Expr, from, to Level, how Reduction, mask string) Expr {
	if from == Token && mask == "" {
		mask = MaskPolicy
	}
	return with(Node{Op: OpReduce, From: from, To: to, Reduce: how, Mask: mask}, x)
}

// New lays the expressions out as an objective and type-checks it.
func New(name string, trains Trains, loss Expr, metrics map[string]Expr) (Objective, error) {
	o := Objective{Name: name, Trains: trains}
	index := map[*exprNode]int{}
	var place func(*exprNode) int
	place = func(e *exprNode) int {
		if i, done := index[e]; done {
			return i
		}
		node := e.node
		for _, in := range e.inputs {
			node.Inputs = append(node.Inputs, place(in))
		}
		o.Nodes = append(o.Nodes, node)
		index[e] = len(o.Nodes) - 1
		return index[e]
	}
	o.Loss = place(loss.n)
	for _, metric := range sortedKeys(metrics) {
		if o.Metrics == nil {
			o.Metrics = map[string]int{}
		}
		o.Metrics[metric] = place(metrics[metric].n)
	}
	_, err := o.Levels()
	return o, err
}
