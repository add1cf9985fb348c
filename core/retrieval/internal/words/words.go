// Package words cuts texts into the words that indexes and the hashed encoder count. It must not know what is done with
// them.
package words

import (
	"fmt"
	"iter"
	"strings"
	"unicode"
)

// Rule is a way to cut a text.
type Rule string

// The rules.
const (
	// Letters are runs of letters, marks and numbers in lower case: for real text.
	Letters Rule = "letters"
	// Blanks are what stands between white space, as it is: for worlds whose tokens are words.
	Blanks Rule = "blanks"
)

// Check refuses a rule that does not exist.
func (r Rule) Check() error {
	if r != Letters && r != Blanks {
		return fmt.Errorf("words = %q, expected %q or %q", string(r), Letters, Blanks)
	}
	return nil
}

// Cut yields the words of text in order.
func (r Rule) Cut(text string) iter.Seq[string] {
	if r == Blanks {
		return strings.FieldsSeq(text)
	}
	return strings.FieldsFuncSeq(strings.ToLower(text), func(c rune) bool {
		return !unicode.IsLetter(c) && !unicode.IsMark(c) && !unicode.IsNumber(c)
	})
}
