package dataset

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/forage-rl/forage/core/sdk/text"
)

func (r record) errorf(format string, args ...any) error {
	return fmt.Errorf("dataset: %s: %w", r.place, fmt.Errorf(format, args...))
}

// missing says that a field is not there, what is, and what to do.
func (r record) missing(name string) error {
	return r.errorf("field %q is missing; the line has %s. Rename a field, or set format = … on the dataset if it was taken for another one", name, strings.Join(slices.Sorted(maps.Keys(r.fields)), ", "))
}

// has says whether the field is there and not null.
func (r record) has(name string) bool { return r.fields[name] != nil }

func (r record) hasAll(names ...string) bool {
	return !slices.ContainsFunc(names, func(n string) bool { return !r.has(n) })
}

// text gives a field that must be a non-empty text (or a number, as it is written).
func (r record) text(name string) (string, error) {
	v, ok := r.fields[name]
	if !ok || v == nil {
		return "", r.missing(name)
	}
	s, ok := scalar(v)
	if !ok {
		return "", r.errorf("field %q is a %s, want a text", name, kindOf(v))
	}
	if text.Trim(s) == "" {
		return "", r.errorf("field %q is empty", name)
	}
	return s, nil
}

// optionalText gives "" for a missing field.
func (r record) optionalText(name string) (string, error) {
	if !r.has(name) {
		return "", nil
	}
	s, ok := scalar(r.fields[name])
	if !ok {
		return "", r.errorf("field %q is a %s, want a text", name, kindOf(r.fields[name]))
	}
	return s, nil
}

// optionalInt gives 0 for a missing field.
func (r record) optionalInt(name string) (int, error) {
	if !r.has(name) {
		return 0, nil
	}
	n, ok := integer(r.fields[name])
	if !ok || n < 0 {
		return 0, r.errorf("field %q is %v, want a whole number of at least 0", name, r.fields[name])
	}
	return n, nil
}

// texts gives the strings of a value that is a text or a list of texts. Booleans count as yes and no.
func (r record) texts(name string, v any) ([]string, error) {
	if v == nil && !r.has(name) {
		return nil, r.missing(name)
	}
	if list, ok := v.([]any); ok {
		out := make([]string, 0, len(list))
		for i, x := range list {
			s, ok := scalar(x)
			if !ok {
				return nil, r.errorf("field %q: entry %d is a %s, want a text", name, i, kindOf(x))
			}
			out = append(out, s)
		}
		return out, nil
	}
	s, ok := scalar(v)
	if !ok {
		return nil, r.errorf("field %q is a %s, want a text or a list of texts", name, kindOf(v))
	}
	return []string{s}, nil
}

// list gives a field that must be a list; nil for a missing one.
func (r record) list(name string) ([]any, error) {
	if !r.has(name) {
		return nil, nil
	}
	v, ok := r.fields[name].([]any)
	if !ok {
		return nil, r.errorf("field %q is a %s, want a list", name, kindOf(r.fields[name]))
	}
	return v, nil
}

func scalar(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case bool:
		if v {
			return "yes", true
		}
		return "no", true
	}
	return "", false
}

func integer(v any) (int, bool) {
	switch v := v.(type) {
	case json.Number:
		f, err := v.Float64() // 3.0 and 3e0 are whole numbers too
		if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
			return 0, false
		}
		return int(f), true
	case string:
		n, err := strconv.Atoi(v)
		return n, err == nil
	}
	return 0, false
}

func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case string:
		return "text"
	case json.Number:
		return "number"
	case bool:
		return "boolean"
	case []any:
		return "list"
	}
	return "object"
}

// plain replaces json.Number by float64, or by its text where a float64 would lose digits of a whole number.
func plain(v any) any {
	switch v := v.(type) {
	case json.Number:
		f, err := v.Float64()
		if whole := !strings.ContainsAny(v.String(), ".eE"); err != nil || whole && math.Abs(f) > 1<<53 {
			return v.String()
		}
		return f
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = plain(x)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, x := range v {
			out[k] = plain(x)
		}
		return out
	}
	return v
}
