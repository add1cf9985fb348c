package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// Decode gives the text of ids. skipSpecial leaves control tokens out. Bytes that are not UTF-8 become U+FFFD, one for
// each maximal part of a character; an id outside the vocabulary adds nothing. WordLevel tokens are joined by spaces.
func (t *Tokenizer) Decode(ids []int32, skipSpecial bool) string {
	var b strings.Builder
	words := 0
	for _, id := range ids {
		if id < 0 || int(id) >= len(t.bytes) || skipSpecial && t.bytes[id].special || t.tokens[id] == "" {
			continue
		}
		if words++; words > 1 && !t.pre.byteLevel {
			b.WriteByte(' ')
		}
		b.WriteString(t.bytes[id].content)
	}
	s, held := lossy(b.String())
	if held != "" {
		s += replacement
	}
	return s
}

const replacement = "\uFFFD"

// lossy replaces what is not UTF-8, but for the beginning of a character at the end of s, which it gives as held.
func lossy(s string) (done, held string) {
	if utf8.ValidString(s) {
		return s, ""
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r != utf8.RuneError || n != 1 {
			b.WriteString(s[i : i+n])
			i += n
			continue
		}
		part := beginning(s[i:])
		if i+part == len(s) && !utf8.FullRuneInString(s[i:]) {
			return b.String(), s[i:]
		}
		b.WriteString(replacement)
		i += part
	}
	return b.String(), ""
}

// beginning is the length of the longest start of s that is a start of some character, at least 1: what the Unicode
// standard (section 3.9) calls a maximal subpart.
func beginning(s string) int {
	n := 1
	for n < len(s) && n < utf8.UTFMax && !utf8.FullRuneInString(s[:n]) {
		// FullRune is true as soon as the bytes cannot become a character any more.
		if utf8.FullRuneInString(s[:n+1]) {
			return n
		}
		n++
	}
	return n
}

// Decoder decodes token by token. It is not safe for concurrent use.
type Decoder struct {
	t     *Tokenizer
	held  string
	words int
}

// NewDecoder starts an incremental decoding; control tokens are decoded like others.
func (t *Tokenizer) NewDecoder() *Decoder { return &Decoder{t: t} }

// Add gives the text that id completes. Bytes of a character that is not complete are held back until it is, or until
// it cannot be. All results together, and that of Flush, are what Decode gives.
func (d *Decoder) Add(id int32) string {
	t := d.t
	if id < 0 || int(id) >= len(t.bytes) || t.tokens[id] == "" {
		return ""
	}
	content := t.bytes[id].content
	if d.words++; d.words > 1 && !t.pre.byteLevel {
		content = " " + content
	}
	var done string
	done, d.held = lossy(d.held + content)
	return done
}

// Flush gives what is still held back, as U+FFFD, and forgets it.
func (d *Decoder) Flush() string {
	if d.held == "" {
		return ""
	}
	d.held = ""
	return replacement
}
