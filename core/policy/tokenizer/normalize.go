package tokenizer

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"
)

// buildNormalizer says whether text is brought into NFC.
func buildNormalizer(c *componentJSON) (nfc bool, err error) {
	if c == nil {
		return false, nil
	}
	switch c.Type {
	case "NFC":
		return true, nil
	case "Sequence":
		for i := range c.Normalizers {
			one, err := buildNormalizer(&c.Normalizers[i])
			if err != nil {
				return false, err
			}
			nfc = nfc || one
		}
		return nfc, nil
	}
	return false, fmt.Errorf("normalizer %q is not supported (supported: NFC, Sequence)", c.Type)
}

// longRun is below the number of combining marks in a row (30) at which golang.org/x/text starts to insert U+034F,
// which the stream-safe format wants and NFC does not.
const longRun = 20

// toNFC brings text into Normalization Form C.
func toNFC(s string) string {
	if norm.NFC.IsNormalString(s) && !hasLongRun(s) {
		return s
	}
	if !hasLongRun(s) {
		return norm.NFC.String(s)
	}
	return composeRunes(s)
}

func hasLongRun(s string) bool {
	run := 0
	for i := 0; i < len(s); {
		if s[i] < 0x80 {
			run = 0
			i++
			continue
		}
		p := norm.NFC.PropertiesString(s[i:])
		if p.CCC() == 0 && len(p.Decomposition()) == 0 {
			run = 0
		} else if run++; run > longRun {
			return true
		}
		i += max(p.Size(), 1)
	}
	return false
}

// composeRunes is the textbook algorithm of Unicode Standard Annex 15: decompose, order by combining class, compose.
func composeRunes(s string) string {
	type char struct {
		r     rune
		class uint8
	}
	var chars []char
	class := func(r rune) uint8 { return norm.NFD.PropertiesString(string(r)).CCC() }
	for _, r := range s {
		for _, d := range norm.NFD.String(string(r)) {
			chars = append(chars, char{d, class(d)})
		}
	}
	for i := 0; i < len(chars); {
		if chars[i].class == 0 {
			i++
			continue
		}
		j := i
		for j < len(chars) && chars[j].class != 0 {
			j++
		}
		slices.SortStableFunc(chars[i:j], func(a, b char) int { return int(a.class) - int(b.class) })
		i = j
	}
	out := make([]char, 0, len(chars))
	starter := -1 // index in out of the last starter
	for _, c := range chars {
		if starter >= 0 {
			last := out[len(out)-1]
			blocked := len(out)-1 > starter && (last.class >= c.class || last.class == 0)
			if !blocked {
				if pair := []rune(norm.NFC.String(string([]rune{out[starter].r, c.r}))); len(pair) == 1 {
					out[starter].r = pair[0]
					continue
				}
			}
		}
		out = append(out, c)
		if c.class == 0 {
			starter = len(out) - 1
		}
	}
	var b strings.Builder
	b.Grow(len(s))
	for _, c := range out {
		b.WriteRune(c.r)
	}
	return b.String()
}
