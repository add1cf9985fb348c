// Package davidtext owns the text rules of David-GRPO's reward: how answers and titles are normalised, how titles are
// read from rendered results, and how much an answer is worth.
//
// The rules are those of the released training code (generation C2), which the paper does not describe. They are
// looser than exact match on purpose of reproduction: half credit for substrings, full credit for 0.7 of the gold's
// words. The package knows no episodes and no tags beyond what it is given.
package davidtext

import (
	"regexp"
	"strings"

	"github.com/forage-rl/forage/core/sdk/text"
)

// NormalizeAnswer maps an answer to the form in which training compares it: lower case, ASCII punctuation and corner
// brackets deleted, articles and filler words removed, the words zero to nine as digits, white space collapsed.
func NormalizeAnswer(s string) string {
	s = text.StripArticles(text.StripPunct(text.Lower(s)))
	s = strings.NewReplacer("「", "", "」", "", "『", "", "』", "").Replace(s)
	s = mapWords(s, digit)
	return collapse(mapWords(s, dropFiller))
}

// NormalizeTitle maps a page title to the form in which the release compares it: ten HTML entities resolved one after
// the other, lower case, everything deleted that is neither a word character nor white space.
func NormalizeTitle(s string) string {
	for _, e := range [...][2]string{
		{"&amp;", "&"}, {"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", `"`}, {"&#39;", "'"}, {"&apos;", "'"}, {"&nbsp;", " "},
		{"&copy;", "©"}, {"&reg;", "®"}, {"&trade;", "™"},
	} {
		s = strings.ReplaceAll(s, e[0], e[1])
	}
	return collapse(strings.Map(func(r rune) rune {
		if text.IsWord(r) || text.IsSpace(r) {
			return r
		}
		return -1
	}, text.Lower(s)))
}

// resultTitle is how results are rendered: "result 1: "Title"". Digits and white space are Unicode's.
var resultTitle = regexp.MustCompile(`result` + space + `+\p{Nd}+:` + space + `*"([^"]+)"`)

const space = `[\s\v\x{1c}-\x{1f}\x{85}\p{Z}]`

// Titles lists the titles that a rendered result block names. A title loses what follows an inner double quote.
func Titles(block string) []string {
	var titles []string
	for _, m := range resultTitle.FindAllStringSubmatch(block, -1) {
		titles = append(titles, m[1])
	}
	return titles
}

// Grade says how much an answer is worth against one gold answer: 1 when they are equal after [NormalizeAnswer], 0.5
// when one contains the other (an empty one is contained in everything), 1 when the answer holds at least 0.7 of the
// gold's distinct words, else 0.
func Grade(answer, gold string) float64 {
	a, g := NormalizeAnswer(answer), NormalizeAnswer(gold)
	if value := contained(a, g); value > 0 {
		return value
	}
	given, wanted := wordSet(a), wordSet(g)
	shared := 0
	for w := range wanted {
		if given[w] {
			shared++
		}
	}
	if float64(shared) >= .7*float64(len(wanted)) {
		return 1
	}
	return 0
}

// GradeInEvaluation is the grade of the release's evaluation script: 1 when answer and gold are equal after
// [text.Normalize], 0.5 when one contains the other, else 0. Exact match, as the paper's tables have it, is a grade of 1.
func GradeInEvaluation(answer, gold string) float64 {
	return contained(text.Normalize(answer), text.Normalize(gold))
}

func contained(a, g string) float64 {
	switch {
	case a == g:
		return 1
	case strings.Contains(a, g), strings.Contains(g, a):
		return .5
	}
	return 0
}

// Best is the highest grade over the golds that are not blank, and 0 without any.
func Best(grade func(answer, gold string) float64, answer string, golds []string) float64 {
	best := 0.
	for _, g := range golds {
		if text.Trim(g) != "" {
			best = max(best, grade(answer, g))
		}
	}
	return best
}

func wordSet(s string) map[string]bool {
	set := map[string]bool{}
	for _, w := range text.Fields(s) {
		set[w] = true
	}
	return set
}

func digit(word string) string {
	switch word {
	case "zero":
		return "0"
	case "one":
		return "1"
	case "two":
		return "2"
	case "three":
		return "3"
	case "four":
		return "4"
	case "five":
		return "5"
	case "six":
		return "6"
	case "seven":
		return "7"
	case "eight":
		return "8"
	case "nine":
		return "9"
	}
	return word
}

func dropFiller(word string) string {
	switch word {
	case "well", "so", "basically", "actually", "literally", "simply", "just", "um", "uh":
		return ""
	}
	return word
}

func mapWords(s string, f func(string) string) string {
	var b strings.Builder
	last := 0
	for at, w := range text.Words(s) {
		b.WriteString(s[last:at])
		b.WriteString(f(w))
		last = at + len(w)
	}
	b.WriteString(s[last:])
	return b.String()
}

func collapse(s string) string { return strings.Join(text.Fields(s), " ") }
