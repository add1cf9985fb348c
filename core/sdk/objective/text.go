package objective

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// String writes the objective as formulas, for people: first a line for each value that is used more than once, then the
// loss, then the metrics. token_to_scalar(mean, policy, x) is a reduction of x over the tokens of a mask.
func (o Objective) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "objective %q trains the %s\n", o.Name, o.Trains)
	if _, err := o.Levels(); err != nil {
		return b.String() + "  " + err.Error() + "\n"
	}
	uses := make([]int, len(o.Nodes))
	roots := []int{o.Loss}
	names := slices.Sorted(maps.Keys(o.Metrics))
	for _, name := range names {
		roots = append(roots, o.Metrics[name])
	}
	for _, i := range roots {
		uses[i]++
	}
	for i := len(o.Nodes) - 1; i >= 0; i-- { // users come after what they use
		if uses[i] > 0 {
			for _, in := range o.Nodes[i].Inputs {
				uses[in]++
			}
		}
	}
	texts := make([]string, len(o.Nodes))
	shared := 0
	for i, n := range o.Nodes {
		if uses[i] == 0 {
			continue
		}
		texts[i] = o.text(n, texts)
		if uses[i] > 1 && len(n.Inputs) > 0 {
			shared++
			name := fmt.Sprint("x", shared)
			fmt.Fprintf(&b, "  %s = %s\n", name, texts[i])
			texts[i] = name
		}
	}
	fmt.Fprintf(&b, "  loss = %s\n", texts[o.Loss])
	for _, name := range names {
		fmt.Fprintf(&b, "  metric %s = %s\n", name, texts[o.Metrics[name]])
	}
	return b.String()
}

// text is one node, given the texts of earlier ones.
func (o Objective) text(n Node, texts []string) string {
	in := make([]string, len(n.Inputs))
	for i, at := range n.Inputs {
		in[i] = texts[at]
	}
	switch n.Op {
	case OpConst:
		return strconv.FormatFloat(n.Value, 'g', -1, 64)
	case OpField:
		return fmt.Sprintf("%s[%s]", n.Name, n.From)
	case OpReduce:
		if n.From == Token {
			mask := n.Mask
			if mask == "" {
				mask = MaskPolicy
			}
			in = append([]string{mask}, in...)
		}
		return fmt.Sprintf("%s_to_%s(%s)", n.From, n.To, strings.Join(append([]string{string(n.Reduce)}, in...), ", "))
	case OpNeg:
		return "-" + operand(in[0])
	}
	if sign, ok := infix()[n.Op]; ok {
		return operand(in[0]) + " " + sign + " " + operand(in[1])
	}
	if len(in) == 0 {
		return string(n.Op)
	}
	return string(n.Op) + "(" + strings.Join(in, ", ") + ")"
}

func infix() map[Op]string {
	return map[Op]string{OpAdd: "+", OpSub: "-", OpMul: "*", OpDiv: "/", OpLess: "<"}
}

// operand puts brackets around the text of an infix operation, which alone has a space outside of any.
func operand(text string) string {
	depth := 0
	for _, r := range text {
		switch {
		case r == '(':
			depth++
		case r == ')':
			depth--
		case r == ' ' && depth == 0:
			return "(" + text + ")"
		}
	}
	return text
}
