package schema

import (
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Of derives a schema from the exported fields of struct type C:
//
//	type Config struct {
//		GroupSize int        `forage:"group_size" default:"5" min:"2" doc:"Rollouts per question." source:"Table 7"`
//		KL        string     `forage:"kl" default:"k3" enum:"k1,k2,k3" doc:"Estimator of the divergence."`
//		Index     schema.Ref `forage:"index" type:"index" enum:"bm25" doc:"The index to search."`
//	}
//
// Fields without the tag are the plugin's own, and doc is required. A field without default is required unless its tag has ",optional". Field types are string, bool, int, float64,
// []string, []float64, map[string]string, map[string]float64, [Ref] and []Ref (with type:"index|corpus|policy|agent")
// and structs or pointers to structs, which are nested single blocks. The enum of a reference to an index lists the kinds
// of index that serve: hnsw, flat, bm25, remote. Lists and maps take a default as comma-separated values.
func Of[C any]() (Schema, error) { return ofType(reflect.TypeFor[C]()) }

var attributeName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

func ofType(t reflect.Type) (Schema, error) {
	var s Schema
	if t.Kind() != reflect.Struct {
		return s, fmt.Errorf("configuration type %s is not a struct", t)
	}
	for f := range t.Fields() {
		tag, tagged := f.Tag.Lookup("forage")
		if !tagged {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		if !attributeName.MatchString(name) {
			return s, fmt.Errorf("field %s.%s: attribute name %q must match %s", t, f.Name, name, attributeName)
		}
		optional := options == "optional"
		if inner := structOf(f.Type); inner != nil {
			nested, err := ofType(inner)
			if err != nil {
				return s, err
			}
			required := f.Type.Kind() != reflect.Pointer && !optional && hasRequired(nested)
			s.Blocks = append(s.Blocks, Block{Type: name, Single: true, Required: required, Schema: nested, Description: f.Tag.Get("doc")})
			continue
		}
		a, err := attributeOf(t, f, name, optional)
		if err != nil {
			return s, err
		}
		s.Attributes = append(s.Attributes, a)
	}
	return s, nil
}

func hasRequired(s Schema) bool {
	for _, a := range s.Attributes {
		if a.Required {
			return true
		}
	}
	return false
}

var refType = reflect.TypeFor[Ref]()

func structOf(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() == reflect.Struct && t != refType {
		return t
	}
	return nil
}

func attributeOf(t reflect.Type, f reflect.StructField, name string, optional bool) (Attribute, error) {
	fail := func(format string, args ...any) (Attribute, error) {
		return Attribute{}, fmt.Errorf("field %s.%s: %s", t, f.Name, fmt.Sprintf(format, args...))
	}
	a := Attribute{
		Name: name, Description: f.Tag.Get("doc"), Source: f.Tag.Get("source"), Sensitive: f.Tag.Get("sensitive") == "true",
	}
	switch {
	case f.Type == refType:
		a.Type = Type(f.Tag.Get("type"))
		if !a.Type.IsRef() {
			return fail(`a reference needs type:"index", "corpus", "policy" or "agent"`)
		}
	case f.Type == reflect.TypeFor[[]Ref]():
		if a.Type = Type(f.Tag.Get("type")); !a.Type.IsRef() {
			return fail(`references need type:"index", "corpus", "policy" or "agent"`)
		}
		a.Type = "list(" + a.Type + ")"
	case f.Type.Kind() == reflect.String:
		a.Type = String
	case f.Type.Kind() == reflect.Bool:
		a.Type = Bool
	case f.Type.Kind() == reflect.Int:
		a.Type = Int
	case f.Type.Kind() == reflect.Float64:
		a.Type = Number
	case f.Type == reflect.TypeFor[[]string]():
		a.Type = StringList
	case f.Type == reflect.TypeFor[[]float64]():
		a.Type = NumberList
	case f.Type == reflect.TypeFor[map[string]string]():
		a.Type = StringMap
	case f.Type == reflect.TypeFor[map[string]float64]():
		a.Type = NumberMap
	default:
		return fail("type %s is not supported", f.Type)
	}
	if a.Description == "" {
		return fail(`needs a doc:"…" tag`)
	}
	if enum := f.Tag.Get("enum"); enum != "" {
		if a.Type != String && a.Type != IndexRef {
			return fail(`only strings and references to an index take an enum:"…" tag`)
		}
		a.Enum = strings.Split(enum, ",")
	}
	for key, bound := range map[string]**float64{"min": &a.Min, "max": &a.Max} {
		if text := f.Tag.Get(key); text != "" {
			v, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return fail("%s %q is not a number", key, text)
			}
			*bound = &v
		}
	}
	text, given := f.Tag.Lookup("default")
	a.Required = !given && !optional
	if given {
		v, err := parseDefault(a.Type, text)
		if err != nil {
			return fail("default %q: %v", text, err)
		}
		if problem := a.Check(v); problem != "" {
			return fail("default %q: %s", text, problem)
		}
		a.Default = v
	}
	return a, nil
}

func parseDefault(t Type, text string) (any, error) {
	switch t {
	case String:
		return text, nil
	case Bool:
		return strconv.ParseBool(text)
	case Int, Number:
		return strconv.ParseFloat(text, 64)
	case StringList:
		list := []any{}
		for part := range strings.SplitSeq(text, ",") {
			if part != "" {
				list = append(list, part)
			}
		}
		return list, nil
	case NumberList:
		list := []any{}
		for part := range strings.SplitSeq(text, ",") {
			if part == "" {
				continue
			}
			v, err := strconv.ParseFloat(part, 64)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, nil
	}
	return nil, fmt.Errorf("a default of type %s is not supported", t)
}

// Check says what is wrong with v as a value of a: a text for the user, or "". v is of the kinds that [Decode] takes.
func (a Attribute) Check(v any) string {
	switch a.Type {
	case Int, Number:
		n, ok := number(v)
		if !ok {
			return "a number is required"
		}
		if math.IsNaN(n) || math.IsInf(n, 0) {
			return "the number must be finite"
		}
		if a.Type == Int && n != math.Trunc(n) {
			return fmt.Sprintf("a whole number is required, got %v", n)
		}
		if a.Min != nil && n < *a.Min {
			return fmt.Sprintf("must be at least %v, got %v", *a.Min, n)
		}
		if a.Max != nil && n > *a.Max {
			return fmt.Sprintf("must be at most %v, got %v", *a.Max, n)
		}
	case String:
		s, ok := v.(string)
		if !ok {
			return "a string is required"
		}
		if len(a.Enum) > 0 {
			if slices.Contains(a.Enum, s) {
				return ""
			}
			return fmt.Sprintf("must be one of %s, got %q", strings.Join(a.Enum, ", "), s)
		}
	}
	return ""
}

func number(v any) (float64, bool) {
	r := reflect.ValueOf(v)
	switch {
	case !r.IsValid():
		return 0, false
	case r.CanInt():
		return float64(r.Int()), true
	case r.CanUint():
		return float64(r.Uint()), true
	case r.CanFloat():
		return r.Float(), true
	}
	return 0, false
}
