// Package searchr1format is the reward of Search-R1 v0.3: the answer, the form of the response and what was retrieved,
// combined by a decision tree. Tree-GRPO has the same with exact match, and a variant with F1.
//
// The form is checked on the response alone. The release also asked for a ChatML assistant marker, which made every
// response under another chat template invalid; that is left out.
package searchr1format

import (
	"strings"

	"github.com/forage-rl/forage/core/sdk/text"
	"github.com/forage-rl/forage/plugins/rewards/internal/tags"
)

// Protocol is the tags that a response is made of.
type Protocol struct{ Think, Search, Information, Answer tags.Pair }

// Valid says whether a response has the required form: think, then either search, information and think again, or
// answer and the end. Text may stand inside the elements only; every tag must be balanced by its counterpart.
func Valid(response string, p Protocol) bool {
	for _, pair := range []tags.Pair{p.Think, p.Search, p.Information, p.Answer} {
		if strings.Count(response, pair.Open) != strings.Count(response, pair.Close) {
			return false
		}
	}
	type state int
	const (
		start state = iota
		inThink
		afterThink
		inSearch
		afterSearch
		inInformation
		afterInformation
		inAnswer
		end
	)
	type step struct {
		from state
		tag  string
	}
	next := map[step]state{
		{start, p.Think.Open}: inThink, {afterInformation, p.Think.Open}: inThink, {inThink, p.Think.Close}: afterThink,
		{afterThink, p.Search.Open}: inSearch, {inSearch, p.Search.Close}: afterSearch,
		{afterSearch, p.Information.Open}: inInformation, {inInformation, p.Information.Close}: afterInformation,
		{afterThink, p.Answer.Open}: inAnswer, {inAnswer, p.Answer.Close}: end,
	}
	at := start
	for response != "" {
		before, tag, rest := cutTag(response, p)
		inside := at == inThink || at == inSearch || at == inInformation || at == inAnswer
		if !inside && text.Trim(before) != "" {
			return false
		}
		if tag != "" {
			to, allowed := next[step{at, tag}]
			if !allowed {
				return false
			}
			at = to
		}
		response = rest
	}
	return at == end
}

// cutTag splits s around its first tag.
func cutTag(s string, p Protocol) (before, tag, after string) {
	first := len(s)
	for _, pair := range []tags.Pair{p.Think, p.Search, p.Information, p.Answer} {
		for _, t := range []string{pair.Open, pair.Close} {
			if i := strings.Index(s, t); i >= 0 && i < first {
				first, tag = i, t
			}
		}
	}
	return s[:first], tag, s[min(first+len(tag), len(s)):]
}

// Retrieved says whether a gold answer occurs in what one of the response's information elements holds, both
// normalised.
func Retrieved(response string, p Protocol, golds []string) bool {
	for _, block := range p.Information.Contents(response) {
		if text.ContainsAny(block, golds) {
			return true
		}
	}
	return false
}

// Weights are the partial rewards: Structure for a valid form, Final for any answer, Retrieval for retrieved evidence.
type Weights struct{ Structure, Final, Retrieval float64 }

// Outcome is what the decision tree looks at.
type Outcome struct{ Answered, Correct, Valid, Retrieved bool }

// Value is the decision tree: 1 for a right answer in valid form, 1-Structure for one in invalid form; otherwise
// Structure for a valid form, plus Retrieval where evidence was retrieved, and Final for a wrong answer in invalid
// form.
func Value(o Outcome, w Weights) float64 {
	switch {
	case o.Correct && o.Valid:
		return 1
	case o.Correct:
		return 1 - w.Structure
	case o.Valid && o.Retrieved:
		return w.Structure + w.Retrieval
	case o.Valid:
		return w.Structure
	case o.Answered:
		return w.Final
	}
	return 0
}

// PartialValue is the decision tree where an answer can be right in part (Tree-GRPO's F1 reward): the agreement with
// the gold answers, less Structure in invalid form, which may be below 0; without any agreement Structure for a valid
// form, plus Retrieval where evidence was retrieved, and 0 for an invalid one.
func PartialValue(agreement float64, o Outcome, w Weights) float64 {
	switch {
	case agreement > 0 && o.Valid:
		return agreement
	case agreement > 0:
		return agreement - w.Structure
	case o.Valid && o.Retrieved:
		return w.Structure + w.Retrieval
	case o.Valid:
		return w.Structure
	}
	return 0
}
