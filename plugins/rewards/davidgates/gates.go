// Package davidgates is the set of conditions that David-GRPO's released reward puts before any credit: one failed
// condition makes an episode worth nothing. The paper does not mention them, but they are a large part of why its
// agents go on searching.
//
// They are read from the text of the response. The release reads prompt and response together, which comes to the
// same.
package davidgates

import (
	"slices"
	"strings"

	"github.com/forage-rl/forage/core/sdk/text"
	"github.com/forage-rl/forage/plugins/rewards/internal/tags"
)

// The conditions, in the order in which they are reported.
const (
	ClosedThink     = "closed_think"     // the response closes its thinking
	SearchesInThink = "searches_inside"  // no search tag stands after the last thought is closed
	Searched        = "searched"         // there is a search in the scope
	Balanced        = "balanced"         // as many of each of the four search tags in the scope; training only
	Distinct        = "distinct_queries" // no query of the scope is repeated; training only
	Answered        = "answered"         // there is an answer after the last thought
	HasGold         = "gold_answer"      // the question has a gold answer
)

// All lists the conditions.
func All() []string {
	return []string{ClosedThink, SearchesInThink, Searched, Balanced, Distinct, Answered, HasGold}
}

// Protocol is the tags that the conditions look at.
type Protocol struct{ Think, Search, Result, Answer tags.Pair }

// Options says which conditions hold and how they are read.
type Options struct {
	Protocol Protocol
	Gates    []string // of [All]
	// LastThink limits the scope of Searched, Balanced and Distinct to the text after the last opening of a thought.
	LastThink bool
	// StripQueries compares queries without surrounding white space.
	StripQueries bool
	Validation   bool // leaves out what holds in training only
}

// Check evaluates the conditions that are on: true for those that are met.
func Check(response string, golds []string, o Options) map[string]bool {
	p := o.Protocol
	scope := response
	if o.LastThink {
		scope = after(response, p.Think.Open)
	}
	closing := after(response, p.Think.Close)
	searchTags := []string{p.Search.Open, p.Search.Close, p.Result.Open, p.Result.Close}
	met := map[string]bool{}
	for _, gate := range o.Gates {
		if o.Validation && (gate == Balanced || gate == Distinct) {
			continue
		}
		switch gate {
		case ClosedThink:
			met[gate] = strings.Contains(response, p.Think.Close)
		case SearchesInThink:
			met[gate] = !slices.ContainsFunc(searchTags, func(tag string) bool { return strings.Contains(closing, tag) })
		case Searched:
			met[gate] = strings.Contains(scope, p.Search.Open)
		case Balanced:
			n := strings.Count(scope, searchTags[0])
			met[gate] = !slices.ContainsFunc(searchTags, func(tag string) bool { return strings.Count(scope, tag) != n })
		case Distinct:
			met[gate] = distinct(p.Search.Contents(scope), o.StripQueries)
		case Answered:
			_, met[gate] = p.Answer.Last(closing)
		case HasGold:
			met[gate] = slices.ContainsFunc(golds, func(g string) bool { return text.Trim(g) != "" })
		}
	}
	return met
}

// after is the text behind the last occurrence of tag, or all of it.
func after(s, tag string) string {
	if _, after, ok := strings.CutLast(s, tag); ok {
		return after
	}
	return s
}

func distinct(queries []string, strip bool) bool {
	seen := map[string]bool{}
	for _, q := range queries {
		if strip {
			q = text.Trim(q)
		}
		if seen[q] {
			return false
		}
		seen[q] = true
	}
	return true
}
