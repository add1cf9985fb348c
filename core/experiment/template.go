package experiment

import (
	"fmt"
	"path/filepath"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// Piece is a part of a rendered text. What the template itself says, and values known when the study is read, are
// trusted: they may hold tags and special tokens. Values that come in while the run goes on are not.
type Piece struct {
	Text    string
	Trusted bool
}

// Template is a text of an agent with places for values.
type Template struct {
	expr   hclsyntax.Expression // parsed from source, so that what is evaluated is what identifies the run
	frame  *frame               // functions only
	source string
	at     hcl.Range
}

// Source is the template as the inside of an HCL quoted string, with all that is known filled in. Equal templates have
// equal sources whatever their layout in the file.
func (t *Template) Source() string { return t.source }

// Range is where the template is written.
func (t *Template) Range() hcl.Range { return t.at }

// MarshalText gives [Template.Source].
func (t *Template) MarshalText() ([]byte, error) { return []byte(t.source), nil }

// Render fills the template in. vars are Go values by name: texts, numbers, bools, slices, maps, structs with json
// tags. Neighbouring pieces of equal trust are joined and empty ones left out. Errors name file and line.
func (t *Template) Render(vars map[string]any) ([]Piece, error) {
	values, err := scopeValues(vars)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", place(t.at), err)
	}
	ctx := t.frame.ctx.NewChild()
	ctx.Variables = values
	r := renderer{frame: t.frame}
	r.walk(t.expr, ctx)
	if r.diags.HasErrors() {
		return nil, diagnosticsError(r.diags)
	}
	return r.pieces, nil
}

// renderer walks a template structurally, so that it knows where each character comes from.
type renderer struct {
	frame  *frame
	pieces []Piece
	diags  hcl.Diagnostics
	// check visits every branch and lets unknown values pass.
	check bool
}

func (r *renderer) emit(text string, trusted bool) {
	if text == "" {
		return
	}
	if n := len(r.pieces); n > 0 && r.pieces[n-1].Trusted == trusted {
		r.pieces[n-1].Text += text
		return
	}
	r.pieces = append(r.pieces, Piece{text, trusted})
}

func (r *renderer) walk(e hclsyntax.Expression, ctx *hcl.EvalContext) {
	switch e := e.(type) {
	case *hclsyntax.TemplateExpr:
		for _, part := range e.Parts {
			r.walk(part, ctx)
		}
	case *hclsyntax.TemplateWrapExpr:
		r.walk(e.Wrapped, ctx)
	case *hclsyntax.ParenthesesExpr:
		r.walk(e.Expression, ctx)
	case *hclsyntax.ConditionalExpr:
		r.conditional(e, ctx)
	case *hclsyntax.TemplateJoinExpr:
		if loop, ok := e.Tuple.(*hclsyntax.ForExpr); ok {
			r.loop(loop, ctx)
			return
		}
		r.value(e, ctx)
	default:
		r.value(e, ctx)
	}
}

// evaluate gives the value of an expression; checking, attributes are looked at first, for better messages.
func (r *renderer) evaluate(e hclsyntax.Expression, ctx *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	if r.check {
		if diags := checkAttributes(e, ctx); diags.HasErrors() {
			r.diags = append(r.diags, diags...)
			return cty.DynamicVal, diags
		}
	}
	v, diags := e.Value(ctx)
	if r.check {
		v, diags = tolerant(v, diags)
	}
	r.diags = append(r.diags, diags...)
	return v, diags
}

// tolerant takes an index that a sample's short lists do not have for an unknown value.
func tolerant(v cty.Value, diags hcl.Diagnostics) (cty.Value, hcl.Diagnostics) {
	if !diags.HasErrors() {
		return v, diags
	}
	for _, d := range diags {
		if d.Severity == hcl.DiagError && d.Summary != "Invalid index" {
			return v, diags
		}
	}
	return cty.DynamicVal, nil
}

func (r *renderer) value(e hclsyntax.Expression, ctx *hcl.EvalContext) {
	v, diags := r.evaluate(e, ctx)
	if diags.HasErrors() || r.check && !v.IsWhollyKnown() {
		return
	}
	text, err := textOf(v)
	if err != nil {
		r.diags = append(r.diags, errorAt(e.Range().Ptr(), "Invalid template part", "A part of a template must be a text, number or bool: %v.", err))
		return
	}
	r.emit(text, r.frame.static(e))
}

func (r *renderer) conditional(e *hclsyntax.ConditionalExpr, ctx *hcl.EvalContext) {
	yes, known := r.condition(e.Condition, ctx)
	if r.check || !known {
		r.walk(e.TrueResult, ctx)
		r.walk(e.FalseResult, ctx)
		return
	}
	if yes {
		r.walk(e.TrueResult, ctx)
	} else {
		r.walk(e.FalseResult, ctx)
	}
}

// condition evaluates a condition; known is false where checking meets an unknown value.
func (r *renderer) condition(e hclsyntax.Expression, ctx *hcl.EvalContext) (yes, known bool) {
	v, diags := r.evaluate(e, ctx)
	if diags.HasErrors() || r.check && !v.IsKnown() {
		return false, !r.check
	}
	b, err := boolOf(v)
	if err != nil {
		r.diags = append(r.diags, errorAt(e.Range().Ptr(), "Invalid condition", "A condition must be true or false: %v.", err))
	}
	return b, true
}

func (r *renderer) loop(e *hclsyntax.ForExpr, ctx *hcl.EvalContext) {
	coll, diags := r.evaluate(e.CollExpr, ctx)
	if diags.HasErrors() {
		return
	}
	if r.check && !coll.IsKnown() {
		r.iteration(e, ctx, cty.DynamicVal, cty.DynamicVal)
		return
	}
	if coll.IsNull() || !coll.CanIterateElements() {
		r.diags = append(r.diags, errorAt(e.CollExpr.Range().Ptr(), "Invalid loop", "A for loop needs a list or a map, got %s.", friendly(coll)))
		return
	}
	for it := coll.ElementIterator(); it.Next(); {
		k, v := it.Element()
		r.iteration(e, ctx, k, v)
	}
}

func (r *renderer) iteration(e *hclsyntax.ForExpr, ctx *hcl.EvalContext, k, v cty.Value) {
	child := ctx.NewChild()
	child.Variables = map[string]cty.Value{e.ValVar: v}
	if e.KeyVar != "" {
		child.Variables[e.KeyVar] = k
	}
	if e.CondExpr != nil {
		if yes, known := r.condition(e.CondExpr, child); known && !yes && !r.check {
			return
		}
	}
	r.walk(e.ValExpr, child)
}

// newTemplate compiles a template: an expression that mentions names of the scope, or a fixed text. A text that is not
// written in place (it comes from file() or a local) is itself read as a template.
func newTemplate(expr hclsyntax.Expression, f *frame, s scope) (*Template, hcl.Diagnostics) {
	inner := expr
	for {
		if wrap, ok := inner.(*hclsyntax.TemplateWrapExpr); ok {
			inner = wrap.Wrapped
		} else if parens, ok := inner.(*hclsyntax.ParenthesesExpr); ok {
			inner = parens.Expression
		} else {
			break
		}
	}
	_, inPlace := inner.(*hclsyntax.TemplateExpr)
	if !inPlace && f.static(inner) {
		v, diags := inner.Value(f.ctx)
		if diags.HasErrors() {
			return nil, diags
		}
		if v.IsNull() || !v.IsKnown() {
			return nil, nil
		}
		if v.Type() != cty.String {
			return nil, hcl.Diagnostics{errorAt(inner.Range().Ptr(), "Invalid text", "A text is required, got %s.", friendly(v))}
		}
		name, start := inner.Range().Filename, inner.Range().Start
		if file := fileArgument(inner, f); file != "" {
			name, start = file, hcl.InitialPos
		}
		parsed, diags := parseTemplateText(v.AsString(), name, start)
		if diags.HasErrors() {
			for _, d := range diags {
				if name == inner.Range().Filename {
					d.Subject = inner.Range().Ptr()
				}
			}
			return nil, diags
		}
		inner = parsed
	}
	p := &printer{frame: f}
	p.parts(inner)
	if p.diags.HasErrors() {
		return nil, p.diags
	}
	diags := s.check(inner, f)
	if diags.HasErrors() {
		return nil, diags
	}
	r := renderer{frame: f, check: true}
	ctx := f.ctx.NewChild()
	ctx.Variables = s.sample
	r.walk(inner, ctx)
	if r.diags.HasErrors() {
		return nil, r.diags
	}
	source := p.out.String()
	compiled, diags := hclsyntax.ParseExpression([]byte(`"`+source+`"`), inner.Range().Filename, inner.Range().Start)
	return &Template{expr: compiled, frame: f.deferred, source: source, at: inner.Range()}, diags
}

// fileArgument is the file that a call of file() reads, as diagnostics name it.
func fileArgument(expr hclsyntax.Expression, f *frame) string {
	call, ok := expr.(*hclsyntax.FunctionCallExpr)
	if !ok || call.Name != "file" || len(call.Args) != 1 {
		return ""
	}
	v, diags := call.Args[0].Value(f.ctx)
	if diags.HasErrors() || v.IsNull() || !v.IsKnown() || v.Type() != cty.String {
		return ""
	}
	return filepath.Join(f.dir, v.AsString())
}
