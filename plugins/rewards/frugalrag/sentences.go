package frugalrag

import (
	"regexp"
	"strings"

	"github.com/forage-rl/forage/core/sdk/text"
)

// Marks that stand in a text while it is cut: a dot that ends no sentence, and the end of a sentence.
const (
	quiet = "\ue000"
	stop  = "\ue001"
)

const (
	// space is white space by Unicode's rules, which the class \s of this regular expression language is not.
	space    = `[\t-\r\x1c-\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]`
	letter   = `([A-Za-z])[.]`
	company  = ` (Inc|Ltd|Jr|Sr|Co)[.]`
	starters = `(Mr|Mrs|Ms|Dr|Prof|Capt|Cpt|Lt|Wherever|(?:He|She|It|They|Their|Our|We|But|However|That|This)` + space + `)`
)

// rule rewrites what it finds.
type rule struct {
	find *regexp.Regexp
	to   string
}

// dots are the rules by which the dots of titles, addresses, numbers, ellipses, initials and acronyms end no sentence,
// but that of an acronym or a company does before a word that begins one. They act one after the other.
func dots() []rule {
	r := func(find, to string) rule { return rule{regexp.MustCompile(find), to} }
	return []rule{
		r(`(Mr|St|Mrs|Ms|Dr)[.]`, "${1}"+quiet),
		r(`[.](com|net|org|io|gov|edu|me)`, quiet+"${1}"),
		r(`([0-9])[.]([0-9])`, "${1}"+quiet+"${2}"),
		{regexp.MustCompile(`[.]{2,}`), ""}, // an ellipsis: as many dots, then an end
		r(`Ph[.]D[.]`, "Ph"+quiet+"D"+quiet),
		r(space+letter+` `, " ${1}"+quiet+" "),
		r(`([A-Z][.][A-Z][.](?:[A-Z][.])?) `+starters, "${1}"+stop+" ${2}"),
		r(letter+letter+letter, "${1}"+quiet+"${2}"+quiet+"${3}"+quiet),
		r(letter+letter, "${1}"+quiet+"${2}"+quiet),
		r(company+` `+starters, " ${1}"+stop+" ${2}"),
		r(company, " ${1}"+quiet),
		r(` `+letter, " ${1}"+quiet),
	}
}

// Splitter cuts texts into sentences by the rules of the released code, which evidence is measured by.
type Splitter struct{ rules []rule }

// NewSplitter makes a splitter. It is safe for concurrent use.
func NewSplitter() Splitter { return Splitter{dots()} }

// Sentences cuts a text into its sentences, trimmed. A closing quote moves before the mark that it encloses.
func (s Splitter) Sentences(t string) []string {
	t = " " + strings.ReplaceAll(t, "\n", " ") + "  "
	for _, r := range s.rules {
		if r.to == "" {
			t = r.find.ReplaceAllStringFunc(t, func(dots string) string { return strings.Repeat(quiet, len(dots)) + stop })
			continue
		}
		t = r.find.ReplaceAllString(t, r.to)
	}
	t = strings.NewReplacer(".”", "”.", `."`, `".`, `!"`, `"!`, `?"`, `"?`).Replace(t)
	t = strings.NewReplacer(".", "."+stop, "?", "?"+stop, "!", "!"+stop, quiet, ".").Replace(t)
	parts := strings.Split(t, stop)
	for i := range parts {
		parts[i] = text.Trim(parts[i])
	}
	if last := len(parts) - 1; parts[last] == "" {
		parts = parts[:last]
	}
	return parts
}
