package experiment

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// Expression is evaluated while the run goes on: per episode (total, turn_total) or per training step (when).
type Expression struct {
	expr  hclsyntax.Expression // parsed from text
	frame *frame               // functions only
	text  string
	at    hcl.Range
}

// Text is the expression with all that is known filled in. Equal expressions have equal texts whatever their layout.
func (x *Expression) Text() string { return x.text }

// Range is where the expression is written.
func (x *Expression) Range() hcl.Range { return x.at }

// MarshalText gives [Expression.Text].
func (x *Expression) MarshalText() ([]byte, error) { return []byte(x.text), nil }

// Number evaluates the expression with Go values by name (see [Template.Render]). A result that is not a finite number
// is an error that names file and line.
func (x *Expression) Number(vars map[string]any) (float64, error) {
	v, err := x.value(vars)
	if err != nil {
		return 0, err
	}
	n, err := numberOf(v)
	if err != nil {
		return 0, fmt.Errorf("%s: %s: %w", place(x.Range()), x.text, err)
	}
	return n, nil
}

// Bool evaluates a condition.
func (x *Expression) Bool(vars map[string]any) (bool, error) {
	v, err := x.value(vars)
	if err != nil {
		return false, err
	}
	b, err := boolOf(v)
	if err != nil {
		return false, fmt.Errorf("%s: %s: %w", place(x.Range()), x.text, err)
	}
	return b, nil
}

func (x *Expression) value(vars map[string]any) (v cty.Value, err error) {
	values, err := scopeValues(vars)
	if err != nil {
		return cty.NilVal, fmt.Errorf("%s: %w", place(x.Range()), err)
	}
	ctx := x.frame.ctx.NewChild()
	ctx.Variables = values
	v, diags := x.expr.Value(ctx)
	if diags.HasErrors() {
		if absent := absentKeys(x.expr, ctx); absent.HasErrors() {
			diags = absent
		}
		return cty.NilVal, diagnosticsError(diags)
	}
	return v, nil
}

// absentKeys reports reads of keys that a map, such as the components of a reward, does not have.
func absentKeys(expr hclsyntax.Expression, ctx *hcl.EvalContext) hcl.Diagnostics {
	var diags hcl.Diagnostics
	for _, t := range hclsyntax.Variables(expr) {
		at, ok := lookup(ctx, t.RootName())
		for i, step := range t[1:] {
			if !ok || !at.IsKnown() || at.IsNull() || !at.Type().IsObjectType() && !at.Type().IsMapType() {
				break
			}
			var name string
			switch step := step.(type) {
			case hcl.TraverseAttr:
				name = step.Name
			case hcl.TraverseIndex:
				if step.Key.Type() != cty.String {
					break
				}
				name = step.Key.AsString()
			}
			values := at.AsValueMap()
			if at, ok = values[name]; !ok {
				known := slices.Sorted(maps.Keys(values))
				r := step.SourceRange()
				diags = append(diags, errorAt(&r, "Unknown name", "%s has no %q.%s It has %s.", written(t[:i+1]), name, didYouMean(name, known), listed(known)))
			}
		}
	}
	return diags
}

// Keys lists the literal keys under which the expression reads the map called name, such as the metrics of a guard,
// sorted.
func (x *Expression) Keys(name string) []string {
	var keys []string
	for _, t := range hclsyntax.Variables(x.expr) {
		if t.RootName() != name || len(t) < 2 {
			continue
		}
		switch step := t[1].(type) {
		case hcl.TraverseIndex:
			if step.Key.Type() == cty.String {
				keys = append(keys, step.Key.AsString())
			}
		case hcl.TraverseAttr:
			keys = append(keys, step.Name)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// newExpression compiles an expression and tries it on the scope's sample.
func newExpression(expr hclsyntax.Expression, f *frame, s scope, result cty.Type) (*Expression, hcl.Diagnostics) {
	text, diags := f.print(expr)
	if diags.HasErrors() {
		return nil, diags
	}
	if diags := s.check(expr, f); diags.HasErrors() {
		return nil, diags
	}
	ctx := f.ctx.NewChild()
	ctx.Variables = s.sample
	if diags := checkAttributes(expr, ctx); diags.HasErrors() {
		return nil, diags
	}
	v, diags := tolerant(expr.Value(ctx))
	if diags.HasErrors() {
		return nil, diags
	}
	if v.IsKnown() || v.Type() != cty.DynamicPseudoType {
		var err error
		switch {
		case !v.IsKnown() && v.Type() != result:
			err = fmt.Errorf("%s is required, got %s", friendly(cty.UnknownVal(result)), friendly(v))
		case !v.IsKnown():
		case result == cty.Number:
			_, err = numberOf(v)
		default:
			_, err = boolOf(v)
		}
		if err != nil {
			return nil, hcl.Diagnostics{errorAt(expr.Range().Ptr(), "Invalid expression", "%v, on a sample with %s.", err, s.describe())}
		}
	}
	return parseExpression(text, expr.Range(), f.deferred)
}

// parseExpression makes an expression of its canonical text, so that what is evaluated is what identifies the run.
func parseExpression(text string, at hcl.Range, f *frame) (*Expression, hcl.Diagnostics) {
	expr, diags := hclsyntax.ParseExpression([]byte(text), at.Filename, at.Start)
	return &Expression{expr: expr, frame: f, text: text, at: at}, diags
}

func numberOf(v cty.Value) (float64, error) {
	if v.IsNull() {
		return 0, errors.New("a number is required, got null")
	}
	if !v.IsKnown() {
		return 0, errors.New("a number is required, got an unknown value")
	}
	if v.Type() != cty.Number {
		return 0, fmt.Errorf("a number is required, got %s", friendly(v))
	}
	f, _ := v.AsBigFloat().Float64()
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return 0, fmt.Errorf("the result %v is not finite", f)
	}
	return f, nil
}

func boolOf(v cty.Value) (bool, error) {
	if v.IsNull() {
		return false, errors.New("true or false is required, got null")
	}
	b, err := convert.Convert(v, cty.Bool)
	if err != nil || !b.IsKnown() {
		return false, fmt.Errorf("true or false is required, got %s", friendly(v))
	}
	return b.True(), nil
}

func friendly(v cty.Value) string {
	if v == cty.NilVal {
		return "nothing"
	}
	if v.IsNull() {
		return "null"
	}
	if v.Type().IsCapsuleType() {
		if r, ok := v.EncapsulatedValue().(*blockRef); ok {
			return "the reference " + r.String()
		}
		return "a setting made by " + v.Type().FriendlyName() + "()"
	}
	switch t := v.Type(); {
	case t == cty.String:
		return "a text"
	case t == cty.Number:
		return "a number"
	case t == cty.Bool:
		return "a bool"
	case isList(v):
		return "a list"
	case t.IsObjectType() || t.IsMapType():
		return "an object"
	}
	return v.Type().FriendlyName()
}

// diagnosticsError is diagnostics as one error: file:line, what, where.
func diagnosticsError(diags hcl.Diagnostics) error {
	var lines []string
	for _, d := range diags {
		if d.Severity != hcl.DiagError {
			continue
		}
		text := d.Summary
		if d.Detail != "" {
			text += ": " + d.Detail
		}
		if d.Subject != nil {
			text = place(*d.Subject) + ": " + text
		}
		lines = append(lines, text)
	}
	if len(lines) == 0 {
		return nil
	}
	return errors.New(strings.Join(lines, "; "))
}

func place(r hcl.Range) string { return fmt.Sprintf("%s:%d", r.Filename, r.Start.Line) }
