package experiment

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// scopes are made once per study.
type scopes struct {
	prompt, turn, guard scope
	reward, turnReward  map[string]scope // by the names of the sources
}

func newScopes() *scopes {
	return &scopes{prompt: promptScope(), turn: turnScope(), guard: guardScope(), reward: map[string]scope{}, turnReward: map[string]scope{}}
}

// rewards gives the scopes of total and turn_total.
func (s *scopes) rewards(sources []string) (total, turn scope) {
	key := strings.Join(sources, " ")
	if _, ok := s.reward[key]; !ok {
		s.reward[key], s.turnReward[key] = rewardScope(sources), turnRewardScope(sources)
	}
	return s.reward[key], s.turnReward[key]
}

// scope is what a text or expression may refer to besides var, local and seed. The sample has the types of the real
// values, and uneven numbers, so that no difference of two is 0 by chance; unknown parts stand for what only the run
// knows.
type scope struct {
	what   string
	sample map[string]cty.Value
	key    string // tells scopes of the same kind apart
}

func (s scope) describe() string {
	return "the names " + strings.Join(slices.Sorted(maps.Keys(s.sample)), ", ")
}

// check reports names that the scope does not have, each with the nearest one that it has.
func (s scope) check(expr hclsyntax.Expression, f *frame) hcl.Diagnostics {
	var diags hcl.Diagnostics
	known := slices.Concat(slices.Collect(maps.Keys(s.sample)), slices.Collect(maps.Keys(f.roots)))
	known = slices.DeleteFunc(known, func(name string) bool { return name == "set" }) // near many words, and never meant here
	for _, t := range hclsyntax.Variables(expr) {
		root := t.RootName()
		if _, ok := s.sample[root]; !ok && !f.roots[root] {
			diags = append(diags, errorAt(t.SourceRange().Ptr(), "Unknown name", "There is no %q in %s.%s It may use %s.",
				root, s.what, didYouMean(root, known), s.describe()))
		}
	}
	return diags
}

// checkAttributes reports attributes that the values of a context do not have, with the nearest that they have.
func checkAttributes(expr hclsyntax.Expression, ctx *hcl.EvalContext) hcl.Diagnostics {
	var diags hcl.Diagnostics
	for _, t := range hclsyntax.Variables(expr) {
		at, ok := lookup(ctx, t.RootName())
		if !ok {
			continue
		}
		for i, step := range t[1:] {
			if at.IsNull() || !at.IsKnown() {
				break
			}
			if index, ok := step.(hcl.TraverseIndex); ok && isList(at) && at.LengthInt() > 0 && index.Key.Type() == cty.Number {
				at = at.Index(cty.NumberIntVal(0)) // all elements of a sample are alike
				continue
			}
			attr, ok := step.(hcl.TraverseAttr)
			if !ok || !at.Type().IsObjectType() {
				break
			}
			if !at.Type().HasAttribute(attr.Name) {
				known := slices.Sorted(maps.Keys(at.Type().AttributeTypes()))
				hint := didYouMean(attr.Name, known)
				if name, _, dash := strings.Cut(attr.Name, "-"); dash && slices.Contains(known, name) {
					hint = " A minus needs spaces around it, since names may hold one."
				}
				diags = append(diags, errorAt(attr.SrcRange.Ptr(), "Unknown name", "%s has no %q.%s It has %s.",
					written(t[:i+1]), attr.Name, hint, strings.Join(known, ", ")))
				break
			}
			at = at.GetAttr(attr.Name)
		}
	}
	return diags
}

func lookup(ctx *hcl.EvalContext, name string) (cty.Value, bool) {
	for ; ctx != nil; ctx = ctx.Parent() {
		if v, ok := ctx.Variables[name]; ok {
			return v, true
		}
	}
	return cty.NilVal, false
}

// written is a traversal as source text.
func written(t hcl.Traversal) string {
	p := &printer{}
	p.traversal(t)
	return p.out.String()
}

func object(fields map[string]cty.Value) cty.Value { return cty.ObjectVal(fields) }

func text(s string) cty.Value { return cty.StringVal(s) }

func num(n float64) cty.Value { return cty.NumberFloatVal(n) }

func sampleQuestion() cty.Value {
	return object(map[string]cty.Value{
		"id": text("q1"), "text": text("who?"), "hops": num(2), "type": text(""), "metadata": cty.DynamicVal,
	})
}

func sampleHits() cty.Value {
	return cty.ListVal([]cty.Value{object(map[string]cty.Value{
		"document_id": text("d"), "paragraph_id": text("d.0"), "sentence_id": text(""), "title": text("t"), "text": text("x"), "score": num(1),
	})})
}

func sampleTools() cty.Value {
	return cty.ListVal([]cty.Value{object(map[string]cty.Value{
		"name": text("search"), "description": text("d"),
		"arguments": cty.ListVal([]cty.Value{object(map[string]cty.Value{
			"name": text("query"), "type": text("string"), "description": text("d"), "required": cty.True,
		})}),
	})})
}

// promptScope is that of system and user. turns and hits hold the history where the protocol renders the prompt anew
// each hop and where another policy writes the answer; else they are empty.
func promptScope() scope {
	return scope{what: "a prompt", sample: map[string]cty.Value{
		"question": sampleQuestion(), "tools": sampleTools(), "hits": sampleHits(), "max_turns": num(4), "max_searches": num(4),
		"turns": cty.ListVal([]cty.Value{object(map[string]cty.Value{
			"number": num(1), "thought": text("t"), "tool": text("search"), "arguments": text("{}"), "query": text("q"),
			"observation": text("o"), "hits": sampleHits(), "error": text(""),
		})}),
	}}
}

// turnScope is that of observation, invalid, limit and closing.
func turnScope() scope {
	return scope{what: "a text of a turn", sample: map[string]cty.Value{
		"question": sampleQuestion(), "hits": sampleHits(), "tool": text("search"), "query": text("q"), "arguments": text("{}"),
		"error": text(""), "turn": num(1), "searches": num(1), "turns_left": num(3), "searches_left": num(3),
	}}
}

// rewardScope is that of total: every source by name, the episode's counters, and the question.
func rewardScope(sources []string) scope {
	s := scope{what: "a reward expression", key: strings.Join(sources, " "), sample: map[string]cty.Value{
		"question": object(map[string]cty.Value{"hops": num(2), "type": text("")}),
		"episode": object(map[string]cty.Value{
			"turns": num(7), "searches": num(4), "valid": num(5), "invalid": num(2), "policy_tokens": num(201),
			"observation_tokens": num(307), "answered": cty.True, "stop": text("answered"),
		}),
	}}
	for _, name := range sources {
		s.sample[name] = object(map[string]cty.Value{
			"value": num(0.4375), "components": cty.UnknownVal(cty.Map(cty.Number)), "turns": cty.ListVal([]cty.Value{num(0.1875), num(0.3125)}),
		})
	}
	return s
}

// turnRewardScope is that of turn_total: in addition the turn, and what each source gave it.
func turnRewardScope(sources []string) scope {
	s := rewardScope(sources)
	s.what = "a reward expression of a turn"
	s.sample["turn"] = object(map[string]cty.Value{
		"index": num(0), "last": cty.False, "valid": cty.True, "search": cty.True, "policy_tokens": num(10),
	})
	for _, name := range sources {
		fields := s.sample[name].AsValueMap()
		fields["turn"] = num(0.1875)
		s.sample[name] = object(fields)
	}
	return s
}

// guardScope is that of when.
func guardScope() scope {
	return scope{what: "a guard's condition", sample: map[string]cty.Value{
		"metrics": cty.UnknownVal(cty.Map(cty.Number)), "step": num(30), "stage": text("main"),
	}}
}

func scopeValues(vars map[string]any) (map[string]cty.Value, error) {
	values := make(map[string]cty.Value, len(vars))
	for name, v := range vars {
		value, err := toCty(reflect.ValueOf(v))
		if err != nil {
			return nil, fmt.Errorf("value of %q: %w", name, err)
		}
		values[name] = value
	}
	return values, nil
}

// toCty converts a Go value. Slices become tuples and maps objects, so that elements may differ in type.
func toCty(v reflect.Value) (cty.Value, error) {
	for v.IsValid() && (v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface) {
		if v.Kind() == reflect.Pointer && v.IsNil() {
			return cty.NullVal(cty.DynamicPseudoType), nil
		}
		v = v.Elem()
	}
	if !v.IsValid() {
		return cty.NullVal(cty.DynamicPseudoType), nil
	}
	if n, ok := reflect.TypeAssert[json.Number](v); ok {
		return cty.ParseNumberVal(n.String())
	}
	switch v.Kind() {
	case reflect.String:
		return cty.StringVal(v.String()), nil
	case reflect.Bool:
		return cty.BoolVal(v.Bool()), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return cty.NumberIntVal(v.Int()), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return cty.NumberUIntVal(v.Uint()), nil
	case reflect.Float32, reflect.Float64:
		f := v.Float()
		if f != f {
			return cty.NilVal, fmt.Errorf("not a number")
		}
		return cty.NumberFloatVal(f), nil
	case reflect.Slice, reflect.Array:
		elements := make([]cty.Value, v.Len())
		for i := range elements {
			element, err := toCty(v.Index(i))
			if err != nil {
				return cty.NilVal, err
			}
			elements[i] = element
		}
		return cty.TupleVal(elements), nil
	case reflect.Map:
		if v.Type().Key().Kind() != reflect.String {
			return cty.NilVal, fmt.Errorf("a map needs text keys, got %s", v.Type())
		}
		fields := make(map[string]cty.Value, v.Len())
		for it := v.MapRange(); it.Next(); {
			field, err := toCty(it.Value())
			if err != nil {
				return cty.NilVal, err
			}
			fields[it.Key().String()] = field
		}
		return cty.ObjectVal(fields), nil
	case reflect.Struct:
		fields := map[string]cty.Value{}
		for i := range v.NumField() {
			tag, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			if tag == "" || tag == "-" || !v.Type().Field(i).IsExported() {
				continue
			}
			field, err := toCty(v.Field(i))
			if err != nil {
				return cty.NilVal, err
			}
			fields[tag] = field
		}
		return cty.ObjectVal(fields), nil
	}
	return cty.NilVal, fmt.Errorf("a value of type %s cannot be used in a text or expression", v.Type())
}
