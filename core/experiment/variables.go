package experiment

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// envPrefix begins the environment variables that give values to the variables of a study.
const envPrefix = "FORAGE_VAR_"

// variable is a value that a study takes from outside.
type variable struct {
	name        string
	description string
	typ         cty.Type
	defaults    *typeexpr.Defaults
	fallback    hclsyntax.Expression // the default; nil: required
	validation  []*hclsyntax.Block
	at          hcl.Range
	value       cty.Value
	// final says that value is the one to use; before, it is unknown.
	final bool
}

func (s *Study) addVariable(b *hclsyntax.Block) (diags hcl.Diagnostics) {
	v := &variable{name: b.Labels[0], typ: cty.DynamicPseudoType, at: b.DefRange(), value: cty.DynamicVal}
	if first := s.variables[v.name]; first != nil {
		return hcl.Diagnostics{errorAt(b.DefRange().Ptr(), "Duplicate variable", "var.%s is already defined at %s.", v.name, place(first.at))}
	}
	s.variables[v.name] = v
	for _, a := range sortedAttributes(b.Body) {
		switch a.Name {
		case "type":
			t, d, more := typeexpr.TypeConstraintWithDefaults(a.Expr)
			diags = append(diags, more...)
			if !more.HasErrors() {
				v.typ, v.defaults = t, d
			}
		case "default":
			v.fallback = a.Expr
		case "description":
			text, more := a.Expr.Value(nil)
			diags = append(diags, more...)
			if !more.HasErrors() && text.Type() == cty.String && !text.IsNull() {
				v.description = text.AsString()
			}
		default:
			known := []string{"type", "default", "description", "validation"}
			diags = append(diags, errorAt(a.NameRange.Ptr(), "Unsupported attribute", "A variable has no %q.%s It has type, default, description and validation blocks.", a.Name, didYouMean(a.Name, known)))
		}
	}
	for _, inner := range b.Body.Blocks {
		if inner.Type != "validation" || len(inner.Labels) > 0 {
			diags = append(diags, errorAt(inner.DefRange().Ptr(), "Unsupported block", "A variable has only validation blocks.%s", didYouMean(inner.Type, []string{"validation"})))
			continue
		}
		v.validation = append(v.validation, inner)
	}
	return diags
}

// checkVariables gives every variable its value: from -var, the files of -var-file (the last wins), the environment,
// or its default.
func (s *Study) checkVariables() (diags hcl.Diagnostics) {
	given, diags := s.givenValues()
	known := slices.Collect(maps.Keys(s.variables))
	for _, name := range slices.Sorted(maps.Keys(s.inputs.Vars)) {
		v := s.variables[name]
		if v == nil {
			diags = append(diags, &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "Unknown variable",
				Detail: fmt.Sprintf("-var gives %q, but the study has no such variable.%s", name, didYouMean(name, known))})
			continue
		}
		value, more := v.parse(s.inputs.Vars[name], "-var "+name)
		diags = append(diags, more...)
		given[name] = value
	}
	for _, name := range slices.Sorted(maps.Keys(s.variables)) {
		v := s.variables[name]
		value, ok := given[name]
		at := v.at
		if !ok {
			if v.fallback == nil {
				text := fmt.Sprintf("The variable %q needs a value: -var %s=…, a line in a -var-file, or %s%s.", name, name, envPrefix, name)
				if v.description != "" {
					text += " It is the " + strings.TrimPrefix(v.description, "the ") + "."
				}
				diags = append(diags, errorAt(v.at.Ptr(), "Missing value of a variable", "%s", text))
				continue
			}
			var more hcl.Diagnostics
			value, more = v.fallback.Value(&hcl.EvalContext{Functions: s.deferred.ctx.Functions})
			diags = append(diags, more...)
			if more.HasErrors() {
				continue
			}
			at = v.fallback.Range()
		}
		if v.defaults != nil && !value.IsNull() && value.IsKnown() {
			value = v.defaults.Apply(value)
		}
		converted, err := convert.Convert(value, v.typ)
		if err != nil {
			diags = append(diags, errorAt(at.Ptr(), "Invalid value of a variable", "The variable %q is of type %s: %v.", name, v.typ.FriendlyName(), err))
			continue
		}
		v.value, v.final = converted, true
		diags = append(diags, s.validateVariable(v)...)
	}
	return diags
}

// givenValues reads the environment and the variable files.
func (s *Study) givenValues() (map[string]cty.Value, hcl.Diagnostics) {
	var diags hcl.Diagnostics
	given := map[string]cty.Value{}
	for _, line := range s.inputs.Env {
		name, text, _ := strings.Cut(line, "=")
		name, ours := strings.CutPrefix(name, envPrefix)
		v := s.variables[name]
		if !ours || v == nil {
			continue // the environment is shared by many studies
		}
		value, more := v.parse(text, envPrefix+name)
		diags = append(diags, more...)
		given[name] = value
	}
	known := slices.Collect(maps.Keys(s.variables))
	for _, path := range s.inputs.VarFiles {
		file, more := s.parseFile(path)
		diags = append(diags, more...)
		if file == nil || file.Body == nil {
			continue
		}
		attributes, more := file.Body.JustAttributes()
		diags = append(diags, more...)
		for _, name := range slices.Sorted(maps.Keys(attributes)) {
			a := attributes[name]
			if s.variables[name] == nil {
				diags = append(diags, errorAt(a.NameRange.Ptr(), "Unknown variable", "The study has no variable %q.%s", name, didYouMean(name, known)))
				continue
			}
			value, more := a.Expr.Value(nil)
			diags = append(diags, more...)
			if !more.HasErrors() {
				given[name] = value
			}
		}
	}
	return given, diags
}

// parse reads a value from a command line: text as it is for a variable of type string, else an HCL expression.
func (v *variable) parse(text, from string) (cty.Value, hcl.Diagnostics) {
	if v.typ == cty.String {
		return cty.StringVal(text), nil
	}
	expr, diags := parseExpressionText(text, "<"+from+">")
	if !diags.HasErrors() {
		value, more := expr.Value(nil)
		if !more.HasErrors() {
			return value, nil
		}
		diags = more
	}
	if v.typ == cty.DynamicPseudoType {
		return cty.StringVal(text), nil
	}
	return cty.DynamicVal, hcl.Diagnostics{errorAt(v.at.Ptr(), "Invalid value of a variable", "%s gives %q, but the variable is of type %s.", from, text, v.typ.FriendlyName())}
}

func (s *Study) validateVariable(v *variable) (diags hcl.Diagnostics) {
	ctx := &hcl.EvalContext{
		Functions: s.deferred.ctx.Functions,
		Variables: map[string]cty.Value{"var": cty.ObjectVal(map[string]cty.Value{v.name: v.value})},
	}
	for _, b := range v.validation {
		condition, message := b.Body.Attributes["condition"], b.Body.Attributes["error_message"]
		if condition == nil || message == nil || len(b.Body.Attributes) != 2 || len(b.Body.Blocks) > 0 {
			diags = append(diags, errorAt(b.DefRange().Ptr(), "Invalid validation", "A validation block has exactly condition and error_message."))
			continue
		}
		ok, more := condition.Expr.Value(ctx)
		diags = append(diags, more...)
		text, more2 := message.Expr.Value(ctx)
		diags = append(diags, more2...)
		if more.HasErrors() || more2.HasErrors() || !ok.IsKnown() {
			continue
		}
		holds, err := boolOf(ok)
		if err != nil {
			diags = append(diags, errorAt(condition.Expr.Range().Ptr(), "Invalid validation", "A condition must be true or false: %v.", err))
			continue
		}
		if holds {
			continue
		}
		detail, err := textOf(text)
		if err != nil {
			detail = "The value does not meet the condition."
		}
		diags = append(diags, errorAt(condition.Expr.Range().Ptr(), "Invalid value of a variable", "var.%s: %s", v.name, detail))
	}
	return diags
}
