package wire

import (
	"math"
	"math/rand/v2"
	"reflect"
)

// random fills a value of any data type of the SDK with random contents: numbers of all sizes, text of all scripts,
// empty and nil collections. Enumerations and structure are set by the caller.
func random(r *rand.Rand, v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Int:
		v.SetInt(int64(r.IntN(1000)) - 1)
	case reflect.Uint8:
		v.SetUint(uint64(1 + r.IntN(2)))
	case reflect.Float64, reflect.Float32:
		v.SetFloat([]float64{0, 1.5, -2, math.MaxFloat32, r.NormFloat64()}[r.IntN(5)])
		if v.Kind() == reflect.Float32 {
			v.SetFloat(float64(float32(v.Float())))
		}
	case reflect.String:
		v.SetString([]string{"", "a", "zwei Wörter", "日本語\n", "\x00\"quoted\"", "<answer>"}[r.IntN(6)])
	case reflect.Pointer:
		if r.IntN(2) == 0 {
			v.Set(reflect.New(v.Type().Elem()))
			random(r, v.Elem())
		}
	case reflect.Slice:
		n := r.IntN(4)
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			random(r, v.Index(i))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range r.IntN(4) {
			key, element := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			random(r, key)
			random(r, element)
			v.SetMapIndex(key, element)
		}
	case reflect.Interface:
		v.Set(reflect.ValueOf(randomJSON(r, 0)))
	case reflect.Struct:
		for i := range v.NumField() {
			random(r, v.Field(i))
		}
	}
}

// randomJSON is a value of JSON types, never nil at the top.
func randomJSON(r *rand.Rand, depth int) any {
	kinds := 4
	if depth < 3 {
		kinds = 6
	}
	switch r.IntN(kinds) {
	case 0:
		return r.IntN(2) == 0
	case 1:
		return r.NormFloat64()
	case 2:
		return "text é"
	case 3:
		return int64(r.Uint64())
	case 4:
		list := []any{}
		for range r.IntN(3) {
			list = append(list, randomJSON(r, depth+1))
		}
		return append(list, nil)
	}
	m := map[string]any{}
	for range r.IntN(3) {
		m[string(rune('a'+r.IntN(26)))] = randomJSON(r, depth+1)
	}
	return m
}
