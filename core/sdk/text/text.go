package text

import (
	"html"
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"
)

// IsSpace says whether r separates words: Unicode white space and the separators U+001C..U+001F. U+200B is not white
// space.
func IsSpace(r rune) bool { return unicode.IsSpace(r) || (r >= 0x1c && r <= 0x1f) }

// IsWord says whether r belongs to a word in the sense of `\w` with Unicode rules: a letter, a number of any kind or an
// underscore. Combining marks do not belong.
func IsWord(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r) }

// IsPunct says whether r is one of the 32 ASCII punctuation characters, the only ones answer normalisation drops.
func IsPunct(r rune) bool {
	return r > ' ' && r < 0x7f && !('0' <= r && r <= '9') && !('a' <= r && r <= 'z') && !('A' <= r && r <= 'Z')
}

// Fields splits s at runs of white space.
func Fields(s string) []string { return strings.FieldsFunc(s, IsSpace) }

// Trim removes white space at both ends of s.
func Trim(s string) string { return strings.TrimFunc(s, IsSpace) }

// Words yields the maximal runs of word characters of s in order, with their byte offsets.
func Words(s string) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		start := -1
		for i, r := range s {
			switch in := IsWord(r); {
			case in && start < 0:
				start = i
			case !in && start >= 0:
				if !yield(start, s[start:i]) {
					return
				}
				start = -1
			}
		}
		if start >= 0 {
			yield(start, s[start:])
		}
	}
}

// StripPunct deletes ASCII punctuation; nothing is put in its place.
func StripPunct(s string) string {
	return strings.Map(func(r rune) rune {
		if IsPunct(r) {
			return -1
		}
		return r
	}, s)
}

// StripArticles replaces the whole words a, an and the (lower case) by a blank.
func StripArticles(s string) string {
	var b strings.Builder
	last := 0
	for at, w := range Words(s) {
		if w == "a" || w == "an" || w == "the" {
			b.WriteString(s[last:at])
			b.WriteByte(' ')
			last = at + len(w)
		}
	}
	b.WriteString(s[last:])
	return b.String()
}

// Lower maps s to lower case with the full Unicode mapping: U+0130 becomes i and U+0307, and a capital sigma at the
// end of a word becomes U+03C2 (Unicode chapter 3.13, Final_Sigma).
func Lower(s string) string {
	if !strings.ContainsAny(s, "İΣ") {
		return strings.ToLower(s)
	}
	var b strings.Builder
	b.Grow(len(s) + 2)
	for i, r := range s {
		switch r {
		case 'İ':
			b.WriteString("i̇")
		case 'Σ':
			if casedBefore(s[:i]) && !casedAfter(s[i+utf8.RuneLen(r):]) {
				b.WriteRune('ς')
			} else {
				b.WriteRune('σ')
			}
		default:
			b.WriteRune(unicode.ToLower(r))
		}
	}
	return b.String()
}

func casedBefore(s string) bool {
	for len(s) > 0 {
		r, n := utf8.DecodeLastRuneInString(s)
		if !caseIgnorable(r) {
			return cased(r)
		}
		s = s[:len(s)-n]
	}
	return false
}

func casedAfter(s string) bool {
	for _, r := range s {
		if !caseIgnorable(r) {
			return cased(r)
		}
	}
	return false
}

func cased(r rune) bool {
	return unicode.In(r, unicode.Lu, unicode.Ll, unicode.Lt, unicode.Other_Lowercase, unicode.Other_Uppercase)
}

// caseIgnorable is the property Case_Ignorable: marks, format characters, modifiers, and the characters that word
// breaking treats as being inside a word.
func caseIgnorable(r rune) bool {
	return unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf, unicode.Lm, unicode.Sk) ||
		strings.ContainsRune("'.:·\u0387\u055f\u05f4\u2018\u2019\u2024\u2027\ufe13\ufe52\ufe55\uff07\uff0e\uff1a", r)
}

// NormalizeTitle is the form in which page titles are compared when dataset and corpus share no identifier: HTML
// entities resolved, underscores as blanks, lower case, white space collapsed. Punctuation stays, since it tells pages
// apart ("C", "C++").
func NormalizeTitle(s string) string {
	return strings.Join(Fields(strings.ReplaceAll(Lower(html.UnescapeString(s)), "_", " ")), " ")
}
