package rollout

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"
)

// object reads arguments: a JSON object, else a dictionary as Python writes one.
func object(text string) (map[string]any, bool) {
	v, ok := literal(text)
	if !ok {
		return nil, false
	}
	m, ok := v.(map[string]any)
	return m, ok
}

// literal reads a JSON value, else a Python literal of the kinds that JSON has: strings in either quote, numbers, True,
// False, None, lists, tuples and dictionaries with string keys.
func literal(text string) (any, bool) {
	var v any
	if err := json.Unmarshal([]byte(text), &v); err == nil {
		return v, true
	}
	p := python{rest: text}
	v, ok := p.value(0)
	p.space()
	return v, ok && p.rest == ""
}

// mostNested bounds the depth of a literal, so that no text can exhaust the stack.
const mostNested = 50

type python struct{ rest string }

func (p *python) space() { p.rest = strings.TrimLeft(p.rest, " \t\r\n\f") }

func (p *python) take(token string) bool {
	p.space()
	rest, ok := strings.CutPrefix(p.rest, token)
	if ok {
		p.rest = rest
	}
	return ok
}

func (p *python) value(depth int) (any, bool) {
	p.space()
	if depth > mostNested || p.rest == "" {
		return nil, false
	}
	switch c := p.rest[0]; c {
	case '\'', '"':
		return p.str()
	case '[':
		p.rest = p.rest[1:]
		return p.list("]", depth)
	case '(':
		p.rest = p.rest[1:]
		return p.list(")", depth)
	case '{':
		p.rest = p.rest[1:]
		return p.dict(depth)
	}
	end := strings.IndexAny(p.rest, ",:]}) \t\r\n\f")
	if end < 0 {
		end = len(p.rest)
	}
	token := p.rest[:end]
	p.rest = p.rest[end:]
	switch token {
	case "True":
		return true, true
	case "False":
		return false, true
	case "None":
		return nil, true
	}
	if strings.Trim(token, "+-0123456789.eE_") != "" {
		return nil, false
	}
	n, err := strconv.ParseFloat(strings.ReplaceAll(token, "_", ""), 64)
	return n, err == nil
}

func (p *python) list(closing string, depth int) (any, bool) {
	list := []any{}
	for !p.take(closing) {
		v, ok := p.value(depth + 1)
		if !ok {
			return nil, false
		}
		list = append(list, v)
		if !p.take(",") {
			return list, p.take(closing)
		}
	}
	return list, true
}

func (p *python) dict(depth int) (any, bool) {
	m := map[string]any{}
	for !p.take("}") {
		key, ok := p.value(depth + 1)
		name, text := key.(string)
		if !ok || !text || !p.take(":") {
			return nil, false
		}
		if m[name], ok = p.value(depth + 1); !ok {
			return nil, false
		}
		if !p.take(",") {
			return m, p.take("}")
		}
	}
	return m, true
}

// str reads a string on one line, with the common escapes.
func (p *python) str() (any, bool) {
	quote := p.rest[0]
	var b strings.Builder
	for i := 1; i < len(p.rest); i++ {
		switch c := p.rest[i]; {
		case c == quote:
			p.rest = p.rest[i+1:]
			return b.String(), true
		case c == '\n':
			return nil, false
		case c != '\\':
			b.WriteByte(c)
		default:
			i++
			if i == len(p.rest) {
				return nil, false
			}
			size := map[byte]int{'x': 2, 'u': 4, 'U': 8}[p.rest[i]]
			if size > 0 {
				if i+size >= len(p.rest) {
					return nil, false
				}
				r, err := strconv.ParseUint(p.rest[i+1:i+1+size], 16, 32)
				if err != nil || !utf8.ValidRune(rune(r)) {
					return nil, false
				}
				b.WriteRune(rune(r))
				i += size
				continue
			}
			if plain, ok := map[byte]string{'n': "\n", 't': "\t", 'r': "\r", '\\': `\`, '\'': "'", '"': `"`, '\n': ""}[p.rest[i]]; ok {
				b.WriteString(plain)
			} else {
				b.WriteString(p.rest[i-1 : i+1]) // Python keeps an escape that it does not know
			}
		}
	}
	return nil, false
}
