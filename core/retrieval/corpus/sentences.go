package corpus

import (
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/sentences"
)

// splitterVersion is part of what addresses a cached corpus: raise it when splitSentences gives other sentences.
const splitterVersion = 1

// splitSentences yields the sentences of a text, trimmed, with their first byte. The bounds are those of Unicode
// Standard Annex 29; a bound is taken back where the text before it ends in an abbreviation or initial that does not
// end a sentence, or where the text after it goes on in lower case.
func splitSentences(text string) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		start, end := 0, 0
		segments := sentences.FromString(text)
		for segments.Next() {
			next := segments.End()
			if end > start && !joins(text[start:end], text[end:next]) {
				if !yieldTrimmed(yield, text, start, end) {
					return
				}
				start = end
			}
			end = next
		}
		if end > start {
			yieldTrimmed(yield, text, start, end)
		}
	}
}

func yieldTrimmed(yield func(int, string) bool, text string, start, end int) bool {
	left := strings.TrimLeftFunc(text[start:end], unicode.IsSpace)
	start = end - len(left)
	if s := strings.TrimRightFunc(left, unicode.IsSpace); s != "" {
		return yield(start, s)
	}
	return true
}

// joins says whether next goes on with the sentence that before began.
func joins(before, next string) bool {
	trimmed := strings.TrimRightFunc(before, unicode.IsSpace)
	if strings.ContainsAny(before[len(trimmed):], "\n\r\u2028\u2029") {
		return false
	}
	next = strings.TrimLeftFunc(next, unicode.IsSpace)
	first, _ := utf8.DecodeRuneInString(next)
	if unicode.IsLower(first) {
		return true
	}
	if !strings.HasSuffix(trimmed, ".") {
		return false
	}
	word := trimmed[strings.LastIndexFunc(trimmed, func(r rune) bool {
		return unicode.IsSpace(r) || r == '(' || r == '[' || r == '"' || r == '“' || r == '/'
	})+1:]
	word = strings.TrimLeft(strings.TrimSuffix(word, "."), "(\"“[/")
	switch {
	case beforeName(word):
		return true
	case beforeNumber(word):
		return unicode.IsDigit(first)
	case isInitials(word) || mayEnd(word):
		return !opensSentence(next)
	}
	return false
}

// isInitials says whether word (its last full stop removed) is one capital letter or several with full stops: J, U.S.
func isInitials(word string) bool {
	if word == "" {
		return false
	}
	for part := range strings.SplitSeq(word, ".") {
		r, size := utf8.DecodeRuneInString(part)
		if size != len(part) || !unicode.IsLetter(r) {
			return false
		}
	}
	first, _ := utf8.DecodeRuneInString(word)
	return unicode.IsUpper(first)
}

// beforeName says whether the abbreviation stands before a name and so never ends a sentence.
func beforeName(word string) bool {
	switch word {
	case "Mr", "Mrs", "Ms", "Messrs", "Mx", "Dr", "Drs", "Prof", "St", "Sts", "Ste", "Mt", "Ft", "Gen", "Brig", "Lt", "Maj",
		"Col", "Sgt", "Cpl", "Pvt", "Capt", "Cmdr", "Adm", "Rev", "Fr", "Hon", "Gov", "Sen", "Rep", "Pres", "Supt", "Msgr",
		"vs", "v", "ca", "c", "cf", "e.g", "i.e", "viz", "née", "feat", "ft":
		return true
	}
	return false
}

// beforeNumber says whether the abbreviation goes with a number that follows.
func beforeNumber(word string) bool {
	switch word {
	case "No", "no", "Nos", "nos", "Vol", "vol", "Vols", "vols", "Op", "op", "pp", "p", "Ch", "ch", "Fig", "fig", "Art", "art",
		"Sec", "sec", "b", "d", "r", "est":
		return true
	}
	return false
}

// mayEnd says whether the abbreviation stands within a sentence as well as at its end.
func mayEnd(word string) bool {
	switch word {
	case "Inc", "Ltd", "Co", "Corp", "Bros", "Jr", "Sr", "Esq", "etc", "al", "approx", "Ave", "Blvd", "Rd", "Dept", "Univ",
		"Jan", "Feb", "Mar", "Apr", "Jun", "Jul", "Aug", "Sep", "Sept", "Oct", "Nov", "Dec", "a.m", "p.m", "Ph.D", "B.C", "A.D":
		return true
	}
	return false
}

// opensSentence says whether text begins with a word that is capitalised only at the head of a sentence.
func opensSentence(text string) bool {
	word := text
	if end := strings.IndexFunc(text, func(r rune) bool { return !unicode.IsLetter(r) }); end >= 0 {
		word = text[:end]
	}
	switch word {
	case "The", "A", "An", "He", "She", "It", "They", "We", "You", "His", "Her", "Its", "Their", "Our", "This", "That",
		"These", "Those", "There", "In", "On", "At", "As", "By", "For", "From", "With", "After", "Before", "During", "Since",
		"When", "While", "Where", "Who", "What", "If", "Although", "Though", "However", "But", "And", "Or", "So", "Then",
		"Both", "Some", "Many", "Most", "One", "Two", "According", "Because", "Under", "Among", "Later", "Following":
		return true
	}
	return false
}
