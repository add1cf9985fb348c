// Package tags reads the tagged text of a response: what a protocol such as <answer> … </answer> encloses.
//
// It owns the rule that all rewards on text share: a pair is an opening tag with the next closing tag after it, pairs
// do not overlap, tags are compared literally and case-sensitively. It knows no particular protocol.
package tags

import (
	"strings"

	"github.com/forage-rl/forage/core/sdk/diag"
	"github.com/forage-rl/forage/core/sdk/episode"
)

// Pair is an opening and a closing tag.
type Pair struct{ Open, Close string }

// Check reports an empty tag of the configuration attributes <name>_open and <name>_close.
func (p Pair) Check(name string, ds *diag.Diagnostics) {
	for attribute, tag := range map[string]string{name + "_open": p.Open, name + "_close": p.Close} {
		if tag == "" {
			ds.Errorf(diag.Attr(attribute), "Empty tag", "The tag %s must not be empty: every text would match it.", attribute)
		}
	}
}

// Contents lists what the pairs in text enclose, in order.
func (p Pair) Contents(text string) []string {
	var found []string
	for {
		_, rest, opened := strings.Cut(text, p.Open)
		inside, after, closed := strings.Cut(rest, p.Close)
		if !opened || !closed {
			return found
		}
		found = append(found, inside)
		text = after
	}
}

// Last is what the last pair in text encloses.
func (p Pair) Last(text string) (string, bool) {
	found := p.Contents(text)
	if len(found) == 0 {
		return "", false
	}
	return found[len(found)-1], true
}

// Response is the text of an episode after its prompts.
func Response(e episode.Episode) string {
	var parts []string
	for _, s := range e.Sequences {
		parts = append(parts, s.Response())
	}
	return strings.Join(parts, "\n")
}
