package grpo

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// NotInPaper marks, in the source tag of a configuration field, a default that the method's paper does not give.
const NotInPaper = "default (not in the paper)"

// DefaultsInForce lists the settings of a configuration struct that still have a default which the method's paper does
// not give, nested blocks with a dot.
func DefaultsInForce(config any) []string { return defaults(reflect.ValueOf(config), "") }

func defaults(v reflect.Value, prefix string) []string {
	var names []string
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("forage"), ",")
		value := v.Field(i)
		if value.Kind() == reflect.Struct {
			names = append(names, defaults(value, prefix+name+".")...)
			continue
		}
		if f.Tag.Get("source") == NotInPaper && isDefault(value, f.Tag.Get("default")) {
			names = append(names, prefix+name)
		}
	}
	return names
}

func isDefault(v reflect.Value, text string) bool {
	if v.CanInt() || v.CanFloat() {
		want, err := strconv.ParseFloat(text, 64)
		return err == nil && fmt.Sprint(v.Interface()) == fmt.Sprint(reflect.ValueOf(want).Convert(v.Type()).Interface())
	}
	return fmt.Sprint(v.Interface()) == text
}
