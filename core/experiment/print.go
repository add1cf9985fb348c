package experiment

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// frame is what is known when a study is read: var, local, seed and functions. What refers to nothing else is static;
// everything else in a template or expression is known only while the run goes on.
type frame struct {
	ctx      *hcl.EvalContext
	roots    map[string]bool
	dir      string // that file() is relative to
	deferred *frame // functions alone: what is left when static parts have become values
}

func (f *frame) static(expr hclsyntax.Expression) bool {
	for _, v := range hclsyntax.Variables(expr) {
		if !f.roots[v.RootName()] {
			return false
		}
	}
	return true
}

// printer writes an expression in one canonical way: no comments, single spaces, only the parentheses that precedence
// asks for, numbers as the shortest text of their float64, and static parts replaced by their values.
type printer struct {
	frame *frame
	out   strings.Builder
	diags hcl.Diagnostics
}

func (f *frame) print(expr hclsyntax.Expression) (string, hcl.Diagnostics) {
	p := &printer{frame: f}
	p.expr(expr, 0)
	return p.out.String(), p.diags
}

var precedence = map[*hclsyntax.Operation]struct {
	level int
	sign  string
}{
	hclsyntax.OpLogicalOr: {1, "||"}, hclsyntax.OpLogicalAnd: {2, "&&"},
	hclsyntax.OpEqual: {3, "=="}, hclsyntax.OpNotEqual: {3, "!="},
	hclsyntax.OpGreaterThan: {4, ">"}, hclsyntax.OpGreaterThanOrEqual: {4, ">="},
	hclsyntax.OpLessThan: {4, "<"}, hclsyntax.OpLessThanOrEqual: {4, "<="},
	hclsyntax.OpAdd: {5, "+"}, hclsyntax.OpSubtract: {5, "-"},
	hclsyntax.OpMultiply: {6, "*"}, hclsyntax.OpDivide: {6, "/"}, hclsyntax.OpModulo: {6, "%"},
	hclsyntax.OpLogicalNot: {7, "!"}, hclsyntax.OpNegate: {7, "-"},
}

// expr prints e where an operator of the given level stands around it; lower ones need parentheses.
func (p *printer) expr(e hclsyntax.Expression, level int) {
	if p.frame.static(e) {
		v, diags := e.Value(p.frame.ctx)
		p.diags = append(p.diags, diags...)
		if !diags.HasErrors() {
			p.out.WriteString(printValue(v))
		}
		return
	}
	open := func(own int) func() {
		if own >= level {
			return func() {}
		}
		p.out.WriteByte('(')
		return func() { p.out.WriteByte(')') }
	}
	switch e := e.(type) {
	case *hclsyntax.ScopeTraversalExpr:
		p.traversal(e.Traversal)
	case *hclsyntax.RelativeTraversalExpr:
		p.operand(e.Source)
		p.traversal(e.Traversal)
	case *hclsyntax.ParenthesesExpr:
		p.expr(e.Expression, level)
	case *hclsyntax.TemplateWrapExpr:
		p.expr(e.Wrapped, level)
	case *hclsyntax.TemplateExpr, *hclsyntax.TemplateJoinExpr:
		p.quoted(e)
	case *hclsyntax.FunctionCallExpr:
		p.out.WriteString(e.Name)
		p.out.WriteByte('(')
		p.list(e.Args)
		if e.ExpandFinal {
			p.out.WriteString("...")
		}
		p.out.WriteByte(')')
	case *hclsyntax.ConditionalExpr:
		done := open(0)
		p.expr(e.Condition, 1)
		p.out.WriteString(" ? ")
		p.expr(e.TrueResult, 1)
		p.out.WriteString(" : ")
		p.expr(e.FalseResult, 1)
		done()
	case *hclsyntax.BinaryOpExpr:
		op := precedence[e.Op]
		done := open(op.level)
		p.expr(e.LHS, op.level)
		p.out.WriteString(" " + op.sign + " ")
		p.expr(e.RHS, op.level+1)
		done()
	case *hclsyntax.UnaryOpExpr:
		op := precedence[e.Op]
		done := open(op.level)
		p.out.WriteString(op.sign)
		p.expr(e.Val, op.level+1)
		done()
	case *hclsyntax.IndexExpr:
		p.operand(e.Collection)
		p.out.WriteByte('[')
		p.expr(e.Key, 0)
		p.out.WriteByte(']')
	case *hclsyntax.SplatExpr:
		p.operand(e.Source)
		p.out.WriteString("[*]")
		p.splat(e.Each, e.Item)
	case *hclsyntax.TupleConsExpr:
		p.out.WriteByte('[')
		p.list(e.Exprs)
		p.out.WriteByte(']')
	case *hclsyntax.ObjectConsExpr:
		p.out.WriteByte('{')
		for i, item := range e.Items {
			if i > 0 {
				p.out.WriteString(", ")
			}
			p.expr(item.KeyExpr, 0)
			p.out.WriteString(" = ")
			p.expr(item.ValueExpr, 0)
		}
		p.out.WriteByte('}')
	case *hclsyntax.ObjectConsKeyExpr:
		if key := hcl.ExprAsKeyword(e.Wrapped); key != "" && !e.ForceNonLiteral {
			p.out.WriteString(quote(key))
		} else {
			p.out.WriteByte('(')
			p.expr(e.Wrapped, 0)
			p.out.WriteByte(')')
		}
	case *hclsyntax.ForExpr:
		p.forExpr(e)
	default:
		p.diags = append(p.diags, errorAt(e.Range().Ptr(), "Unsupported expression",
			"An expression of this form (%T) cannot be used where the value is computed while the run goes on.", e))
	}
}

// operand prints what an index or an attribute is taken of. What follows a [*] would go into it, so that it needs
// parentheses.
func (p *printer) operand(e hclsyntax.Expression) {
	inner := e
	for {
		parens, ok := inner.(*hclsyntax.ParenthesesExpr)
		if !ok {
			break
		}
		inner = parens.Expression
	}
	if _, splat := inner.(*hclsyntax.SplatExpr); splat {
		p.out.WriteByte('(')
		p.expr(inner, 0)
		p.out.WriteByte(')')
		return
	}
	p.expr(inner, 8)
}

func (p *printer) list(exprs []hclsyntax.Expression) {
	for i, e := range exprs {
		if i > 0 {
			p.out.WriteString(", ")
		}
		p.expr(e, 0)
	}
}

func (p *printer) traversal(t hcl.Traversal) {
	for _, step := range t {
		switch s := step.(type) {
		case hcl.TraverseRoot:
			p.out.WriteString(s.Name)
		case hcl.TraverseAttr:
			p.out.WriteString("." + s.Name)
		case hcl.TraverseIndex:
			p.out.WriteString("[" + printValue(s.Key) + "]")
		}
	}
}

// splat prints what follows [*]: a chain of traversals and indexes that ends in the anonymous item.
func (p *printer) splat(e hclsyntax.Expression, item *hclsyntax.AnonSymbolExpr) {
	switch e := e.(type) {
	case *hclsyntax.AnonSymbolExpr:
		if e != item {
			p.diags = append(p.diags, errorAt(e.Range().Ptr(), "Unsupported expression", "Write nested [*] as a for expression."))
		}
	case *hclsyntax.RelativeTraversalExpr:
		p.splat(e.Source, item)
		p.traversal(e.Traversal)
	case *hclsyntax.IndexExpr:
		p.splat(e.Collection, item)
		p.out.WriteByte('[')
		p.expr(e.Key, 0)
		p.out.WriteByte(']')
	default:
		p.diags = append(p.diags, errorAt(e.Range().Ptr(), "Unsupported expression", "Write this [*] as a for expression."))
	}
}

func (p *printer) forExpr(e *hclsyntax.ForExpr) {
	open, closing := "[", "]"
	if e.KeyExpr != nil {
		open, closing = "{", "}"
	}
	p.out.WriteString(open)
	p.forHead(e)
	p.out.WriteString(" : ")
	if e.KeyExpr != nil {
		p.expr(e.KeyExpr, 0)
		p.out.WriteString(" => ")
	}
	p.expr(e.ValExpr, 0)
	if e.Group {
		p.out.WriteString("...")
	}
	if e.CondExpr != nil {
		p.out.WriteString(" if ")
		p.expr(e.CondExpr, 0)
	}
	p.out.WriteString(closing)
}

func (p *printer) forHead(e *hclsyntax.ForExpr) {
	for _, name := range []string{e.KeyVar, e.ValVar} {
		if p.frame.roots[name] {
			p.diags = append(p.diags, errorAt(e.SrcRange.Ptr(), "Shadowed name", "A loop variable cannot be called %q, which has a meaning in every study. Choose another name.", name))
		}
	}
	p.out.WriteString("for ")
	if e.KeyVar != "" {
		p.out.WriteString(e.KeyVar + ", ")
	}
	p.out.WriteString(e.ValVar + " in ")
	p.expr(e.CollExpr, 0)
}

// quoted prints a template as a quoted string.
func (p *printer) quoted(e hclsyntax.Expression) {
	p.out.WriteByte('"')
	p.parts(e)
	p.out.WriteByte('"')
}

// parts prints a template without its quotes. Static parts become literal text.
func (p *printer) parts(e hclsyntax.Expression) {
	parts := p.flatten(e, nil)
	for i, part := range parts {
		if part.expr == nil {
			p.out.WriteString(escape(part.text, i+1 < len(parts)))
			continue
		}
		if join, ok := part.expr.(*hclsyntax.TemplateJoinExpr); ok {
			if loop, ok := join.Tuple.(*hclsyntax.ForExpr); ok {
				p.out.WriteString("%{ ")
				p.forHead(loop)
				p.out.WriteString(" }")
				p.parts(loop.ValExpr)
				p.out.WriteString("%{ endfor }")
				continue
			}
		}
		p.out.WriteString("${")
		p.expr(part.expr, 0)
		p.out.WriteByte('}')
	}
}

// templatePart is literal text, or an expression.
type templatePart struct {
	text string
	expr hclsyntax.Expression
}

func (p *printer) flatten(e hclsyntax.Expression, parts []templatePart) []templatePart {
	if p.frame.static(e) {
		text, diags := staticText(e, p.frame.ctx)
		p.diags = append(p.diags, diags...)
		if n := len(parts); n > 0 && parts[n-1].expr == nil {
			parts[n-1].text += text
			return parts
		}
		if text == "" {
			return parts
		}
		return append(parts, templatePart{text: text})
	}
	switch e := e.(type) {
	case *hclsyntax.TemplateExpr:
		for _, part := range e.Parts {
			parts = p.flatten(part, parts)
		}
		return parts
	case *hclsyntax.TemplateWrapExpr:
		return p.flatten(e.Wrapped, parts)
	case *hclsyntax.ParenthesesExpr:
		return p.flatten(e.Expression, parts)
	}
	return append(parts, templatePart{expr: e})
}

// staticText is the text of a static part of a template.
func staticText(e hclsyntax.Expression, ctx *hcl.EvalContext) (string, hcl.Diagnostics) {
	v, diags := e.Value(ctx)
	if diags.HasErrors() {
		return "", diags
	}
	text, err := textOf(v)
	if err != nil {
		return "", hcl.Diagnostics{errorAt(e.Range().Ptr(), "Invalid template part", "A part of a template must be a text, number or bool: %v.", err)}
	}
	return text, nil
}

func textOf(v cty.Value) (string, error) {
	if v.IsNull() {
		return "", fmt.Errorf("the value is null")
	}
	if !v.IsKnown() {
		return "", fmt.Errorf("the value is not known")
	}
	s, err := convert.Convert(v, cty.String)
	if err != nil {
		return "", fmt.Errorf("got %s", friendly(v))
	}
	return s.AsString(), nil
}

// printValue writes a value as HCL.
func printValue(v cty.Value) string {
	t := v.Type()
	switch {
	case v.IsNull() || !v.IsKnown():
		return "null"
	case t == cty.String:
		return quote(v.AsString())
	case t == cty.Bool:
		return strconv.FormatBool(v.True())
	case t == cty.Number:
		f, _ := v.AsBigFloat().Float64()
		return formatNumber(f)
	case t.IsCapsuleType():
		if r, ok := v.EncapsulatedValue().(*blockRef); ok {
			return r.String()
		}
		return "null"
	case t.IsObjectType() || t.IsMapType():
		var items []string
		for it := v.ElementIterator(); it.Next(); {
			key, element := it.Element()
			items = append(items, quote(key.AsString())+" = "+printValue(element))
		}
		if len(items) == 0 {
			return "{}"
		}
		return "{ " + strings.Join(items, ", ") + " }"
	case t.IsTupleType() || t.IsListType() || t.IsSetType():
		var items []string
		for it := v.ElementIterator(); it.Next(); {
			_, element := it.Element()
			items = append(items, printValue(element))
		}
		return "[" + strings.Join(items, ", ") + "]"
	}
	return "null"
}

// formatNumber is the shortest text that HCL reads as f.
func formatNumber(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

func quote(s string) string { return `"` + escape(s, false) + `"` }

// escape writes s so that it stands in a quoted template as itself. more says that an interpolation follows.
func escape(s string, more bool) string {
	var b strings.Builder
	runes := []rune(s)
	for i, r := range runes {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < ' ' || r == 0x7f || r == 0xfeff:
			fmt.Fprintf(&b, `\u%04x`, r)
		case r == '$' || r == '%':
			next := i+1 < len(runes)
			if next && runes[i+1] == '{' || !next && more || next && (runes[i+1] == '$' || runes[i+1] == '%') {
				fmt.Fprintf(&b, `\u%04x`, r)
			} else {
				b.WriteRune(r)
			}
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func errorAt(at *hcl.Range, summary, detail string, args ...any) *hcl.Diagnostic {
	return &hcl.Diagnostic{Severity: hcl.DiagError, Summary: summary, Detail: fmt.Sprintf(detail, args...), Subject: at}
}

func warningAt(at *hcl.Range, summary, detail string, args ...any) *hcl.Diagnostic {
	return &hcl.Diagnostic{Severity: hcl.DiagWarning, Summary: summary, Detail: fmt.Sprintf(detail, args...), Subject: at}
}
