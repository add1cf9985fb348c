package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/vmihailenco/msgpack/v5"
)

// maxDepth bounds the nesting of values: far above any configuration, far below what exhausts a stack.
const maxDepth = 64

// EncodeValues writes a map as msgpack, keys sorted, so that equal maps give equal bytes. Values are nil, bool,
// numbers, strings, and slices, arrays, string-keyed maps and structs with msgpack tags of such. An empty map is no
// bytes.
func EncodeValues(values map[string]any) ([]byte, error) {
	if len(values) == 0 {
		return nil, nil
	}
	plain, err := normalise(reflect.ValueOf(values), 0)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	e := msgpack.GetEncoder()
	defer msgpack.PutEncoder(e)
	e.Reset(&b)
	e.SetSortMapKeys(true)
	if err := e.Encode(plain); err != nil {
		return nil, fmt.Errorf("encode values: %w", err)
	}
	return b.Bytes(), nil
}

// DecodeValues reads what [EncodeValues] wrote: numbers as int64 or float64, lists as []any, maps as map[string]any.
func DecodeValues(b []byte) (map[string]any, error) {
	if len(b) == 0 {
		return nil, nil
	}
	if err := checkMsgpack(b); err != nil {
		return nil, fmt.Errorf("decode values: %w", err)
	}
	d := msgpack.GetDecoder()
	defer msgpack.PutDecoder(d)
	d.Reset(bytes.NewReader(b))
	d.UseLooseInterfaceDecoding(true)
	values := map[string]any{}
	if err := d.Decode(&values); err != nil {
		return nil, fmt.Errorf("decode values: %w", err)
	}
	for k, v := range values {
		values[k] = widen(v)
	}
	return values, nil
}

// widen turns the unsigned numbers of the decoder, which appear only above the range of int64, into floats.
func widen(v any) any {
	switch v := v.(type) {
	case uint64:
		if v <= math.MaxInt64 {
			return int64(v)
		}
		return float64(v)
	case []any:
		for i := range v {
			v[i] = widen(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = widen(v[k])
		}
	}
	return v
}

// normalise turns a value into the kinds that the decoder gives back, so that typed lists and maps survive, and text
// into valid UTF-8, which other languages insist on.
func normalise(v reflect.Value, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("values are nested deeper than %d", maxDepth)
	}
	for v.Kind() == reflect.Interface || v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return nil, nil
		}
		v = v.Elem()
	}
	switch v.Kind() {
	case reflect.Invalid:
		return nil, nil
	case reflect.Bool:
		return v.Bool(), nil
	case reflect.String:
		return validText(v.String()), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return v.Int(), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return v.Uint(), nil
	case reflect.Float32, reflect.Float64:
		return v.Float(), nil
	case reflect.Slice, reflect.Array:
		list := make([]any, v.Len())
		for i := range v.Len() {
			element, err := normalise(v.Index(i), depth+1)
			if err != nil {
				return nil, fmt.Errorf("element %d: %w", i, err)
			}
			list[i] = element
		}
		return list, nil
	case reflect.Map:
		if v.Type().Key().Kind() != reflect.String {
			return nil, fmt.Errorf("a map must have string keys, got %s", v.Type())
		}
		m := make(map[string]any, v.Len())
		for _, key := range v.MapKeys() {
			element, err := normalise(v.MapIndex(key), depth+1)
			if err != nil {
				return nil, fmt.Errorf("%q: %w", key.String(), err)
			}
			m[validText(key.String())] = element
		}
		return m, nil
	case reflect.Struct:
		m := map[string]any{}
		for i := range v.NumField() {
			tag, tagged := v.Type().Field(i).Tag.Lookup("msgpack")
			if !tagged {
				continue
			}
			name, _, _ := strings.Cut(tag, ",")
			element, err := normalise(v.Field(i), depth+1)
			if err != nil {
				return nil, fmt.Errorf("%q: %w", name, err)
			}
			m[name] = element
		}
		return m, nil
	}
	return nil, fmt.Errorf("a value of type %s cannot be sent", v.Type())
}

func validText(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

var errTruncated = errors.New("truncated msgpack")

// checkMsgpack walks one value without recursion and refuses nesting, lengths and types that the decoder would choke
// on: the bytes come from another process.
func checkMsgpack(b []byte) error {
	open := []uint64{1} // values still to come at each level
	for len(open) > 0 {
		if open[len(open)-1] == 0 {
			open = open[:len(open)-1]
			continue
		}
		open[len(open)-1]--
		if len(b) == 0 {
			return errTruncated
		}
		skip, children, err := msgpackHead(b)
		if err != nil {
			return err
		}
		if skip > uint64(len(b)) {
			return errTruncated
		}
		b = b[skip:]
		if children > uint64(len(b)) { // each takes a byte at least
			return errTruncated
		}
		if len(open) > maxDepth {
			return fmt.Errorf("values are nested deeper than %d", maxDepth)
		}
		open = append(open, children)
	}
	if len(b) != 0 {
		return errors.New("bytes after the value")
	}
	return nil
}

// msgpackHead gives the bytes that the value at the start of b takes without its elements, and how many values follow
// as its elements.
func msgpackHead(b []byte) (size, children uint64, err error) {
	c := b[0]
	length := func(width int) (uint64, error) {
		if len(b) < 1+width {
			return 0, errTruncated
		}
		var full [8]byte
		copy(full[8-width:], b[1:1+width])
		return binary.BigEndian.Uint64(full[:]), nil
	}
	blob := func(width int) (uint64, uint64, error) {
		n, err := length(width)
		return 1 + uint64(width) + n, 0, err
	}
	collection := func(width int, per uint64) (uint64, uint64, error) {
		n, err := length(width)
		return 1 + uint64(width), n * per, err
	}
	switch {
	case c <= 0x7f || c >= 0xe0: // small integers
		return 1, 0, nil
	case c <= 0x8f:
		return 1, 2 * uint64(c&0x0f), nil
	case c <= 0x9f:
		return 1, uint64(c & 0x0f), nil
	case c <= 0xbf:
		return 1 + uint64(c&0x1f), 0, nil
	}
	switch c {
	case 0xc0, 0xc2, 0xc3:
		return 1, 0, nil
	case 0xd9:
		return blob(1)
	case 0xda:
		return blob(2)
	case 0xdb:
		return blob(4)
	case 0xcc, 0xd0:
		return 2, 0, nil
	case 0xcd, 0xd1:
		return 3, 0, nil
	case 0xca, 0xce, 0xd2:
		return 5, 0, nil
	case 0xcb, 0xcf, 0xd3:
		return 9, 0, nil
	case 0xdc:
		return collection(2, 1)
	case 0xdd:
		return collection(4, 1)
	case 0xde:
		return collection(2, 2)
	case 0xdf:
		return collection(4, 2)
	}
	return 0, 0, fmt.Errorf("msgpack type 0x%02x is not allowed in values", c)
}
