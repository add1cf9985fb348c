package schema

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/forage-rl/forage/core/sdk/diag"
)

// Decode fills the struct that into points to, whose type [Of] describes, from a configuration's values: strings,
// bools, numbers of any Go kind, []any, map[string]any, and for references a Ref or a map with their fields. An
// absent or nil value takes the default. Unknown names, missing required values, wrong types and values out of range
// are diagnostics with their path.
func Decode(values map[string]any, into any) diag.Diagnostics {
	target := reflect.ValueOf(into)
	var ds diag.Diagnostics
	if target.Kind() != reflect.Pointer || target.Elem().Kind() != reflect.Struct {
		ds.Errorf(nil, "Invalid target", "A configuration is decoded into a pointer to a struct, got %T.", into)
		return ds
	}
	s, err := ofType(target.Elem().Type())
	if err != nil {
		ds.Errorf(nil, "Invalid configuration type", "%v.", err)
		return ds
	}
	decodeStruct(values, target.Elem(), s, nil, &ds)
	return ds
}

func decodeStruct(values map[string]any, target reflect.Value, s Schema, path diag.Path, ds *diag.Diagnostics) {
	known := map[string]bool{}
	t := target.Type()
	for i := range t.NumField() {
		tag, tagged := t.Field(i).Tag.Lookup("forage")
		if !tagged {
			continue
		}
		name, _, _ := strings.Cut(tag, ",")
		known[name] = true
		value := values[name]
		field := target.Field(i)
		if structOf(field.Type()) != nil {
			decodeBlock(value, field, s, name, path.Attr(name), ds)
			continue
		}
		a, _ := s.Attribute(name)
		if value == nil {
			value = a.Default
		}
		if value == nil {
			if a.Required {
				ds.Errorf(path.Attr(name), "Missing required attribute", "The attribute %q is required: %s", name, a.Description)
			}
			continue
		}
		if problem := a.Check(value); problem != "" {
			ds.Errorf(path.Attr(name), "Invalid value", "%s: %s.", name, problem)
			continue
		}
		if problem := set(field, value); problem != "" {
			ds.Errorf(path.Attr(name), "Invalid value", "%s: %s.", name, problem)
		}
	}
	for name := range values {
		if !known[name] {
			ds.Errorf(path.Attr(name), "Unsupported attribute", "An attribute or block named %q is not expected here.", name)
		}
	}
}

func decodeBlock(value any, field reflect.Value, s Schema, name string, path diag.Path, ds *diag.Diagnostics) {
	inner, isMap := value.(map[string]any)
	if value == nil && field.Kind() == reflect.Pointer {
		return
	}
	if value != nil && !isMap {
		ds.Errorf(path, "Invalid value", "%s must be a block, got %T.", name, value)
		return
	}
	target := field
	if field.Kind() == reflect.Pointer {
		field.Set(reflect.New(field.Type().Elem()))
		target = field.Elem()
	}
	for _, b := range s.Blocks {
		if b.Type == name {
			decodeStruct(inner, target, b.Schema, path, ds)
		}
	}
}

func set(field reflect.Value, value any) string {
	switch field.Interface().(type) {
	case Ref:
		return setRef(field, value)
	case string:
		s, ok := value.(string)
		if !ok {
			return "a string is required"
		}
		field.SetString(s)
		return ""
	case bool:
		b, ok := value.(bool)
		if !ok {
			return "true or false is required"
		}
		field.SetBool(b)
		return ""
	case int:
		n, ok := number(value)
		if !ok {
			return "a whole number is required"
		}
		field.SetInt(int64(n))
		return ""
	case float64:
		n, ok := number(value)
		if !ok {
			return "a number is required"
		}
		field.SetFloat(n)
		return ""
	}
	source := reflect.ValueOf(value)
	switch {
	case field.Kind() == reflect.Slice && source.Kind() == reflect.Slice:
		list := reflect.MakeSlice(field.Type(), source.Len(), source.Len())
		for i := range source.Len() {
			if problem := set(list.Index(i), source.Index(i).Interface()); problem != "" {
				return fmt.Sprintf("element %d: %s", i, problem)
			}
		}
		field.Set(list)
		return ""
	case field.Kind() == reflect.Map && source.Kind() == reflect.Map && source.Type().Key().Kind() == reflect.String:
		m := reflect.MakeMap(field.Type())
		for _, key := range source.MapKeys() {
			element := reflect.New(field.Type().Elem()).Elem()
			if problem := set(element, source.MapIndex(key).Interface()); problem != "" {
				return fmt.Sprintf("element %q: %s", key.String(), problem)
			}
			m.SetMapIndex(reflect.ValueOf(key.String()), element)
		}
		field.Set(m)
		return ""
	}
	return fmt.Sprintf("a value of type %s is required, got %T", field.Type(), value)
}

func setRef(field reflect.Value, value any) string {
	switch v := value.(type) {
	case Ref:
		field.Set(reflect.ValueOf(v))
		return ""
	case map[string]any:
		handle, _ := v["handle"].(string)
		digest, _ := v["digest"].(string)
		unit, _ := v["unit"].(string)
		if handle == "" {
			return "a reference needs a handle"
		}
		field.Set(reflect.ValueOf(Ref{Handle: handle, Digest: digest, Unit: unit}))
		return ""
	}
	return fmt.Sprintf("a reference to a block of the study is required, got %T", value)
}
