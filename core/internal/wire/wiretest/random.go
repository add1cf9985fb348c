// Package wiretest makes random values of the data types that travel between host and plugin.
package wiretest

import (
	"math"
	"math/rand/v2"
	"reflect"

	"github.com/forage-rl/forage/core/sdk/episode"
)

// Fill sets a value of any data type of the SDK with random contents: numbers of all sizes, text of all scripts,
// empty and nil collections. Enumerations and structure are set by the caller.
func Fill(r *rand.Rand, v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Int:
		v.SetInt(int64(r.IntN(1000)) - 1)
	case reflect.Uint64:
		v.SetUint(r.Uint64())
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
			Fill(r, v.Elem())
		}
	case reflect.Slice:
		n := r.IntN(4)
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			Fill(r, v.Index(i))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range r.IntN(4) {
			key, element := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			Fill(r, key)
			Fill(r, element)
			v.SetMapIndex(key, element)
		}
	case reflect.Interface:
		v.Set(reflect.ValueOf(JSON(r, 0)))
	case reflect.Struct:
		for _, field := range v.Fields() {
			Fill(r, field)
		}
	}
}

// JSON is a value of JSON types, never nil at the top.
func JSON(r *rand.Rand, depth int) any {
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
			list = append(list, JSON(r, depth+1))
		}
		return append(list, nil)
	}
	m := map[string]any{}
	for range r.IntN(3) {
		m[string(rune('a'+r.IntN(26)))] = JSON(r, depth+1)
	}
	return m
}

// Episode makes a filled episode one that could be: segments inside their sequence, known enumerations.
func Episode(r *rand.Rand, e *episode.Episode) {
	e.Stop = pick(r, "", episode.StopAnswered, episode.StopBudget, episode.StopLength, episode.StopInvalid)
	e.Origin = pick(r, episode.OriginPolicy, episode.OriginExpert, episode.OriginRerendered)
	for i := range e.Sequences {
		s := &e.Sequences[i]
		s.PromptLength = r.IntN(10)
		s.Length = s.PromptLength
		for j := range s.Segments {
			n := r.IntN(20)
			s.Segments[j] = episode.Segment{
				Kind: pick(r, episode.Policy, episode.Observation, episode.Notice), Start: s.Length, End: s.Length + n, Text: s.Segments[j].Text,
			}
			s.Length += n
		}
	}
	for i := range e.Turns {
		e.Turns[i].Action = pick(r, episode.ActionCall, episode.ActionAnswer, episode.ActionInvalid, episode.ActionNone)
	}
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }
