// Package evidence owns one rule: when a hit of a tool is a gold document of a question, and what follows from it for
// an episode (which golds were found, and when). Metrics and rewards share it.
//
// A gold names what it is matched by: the paragraph id if it has one, else the document id, else the normalised title.
// The core leaves in a gold only what dataset and corpus share, so the rule needs no setting here.
package evidence

import (
	"github.com/forage-rl/forage/core/sdk/episode"
	"github.com/forage-rl/forage/core/sdk/text"
)

// Match says whether the hit is the gold document.
func Match(g episode.Gold, h episode.Hit) bool {
	switch {
	case g.ParagraphID != "":
		return g.ParagraphID == h.ParagraphID
	case g.DocumentID != "":
		return g.DocumentID == h.DocumentID
	}
	return g.Title != "" && text.NormalizeTitle(g.Title) == text.NormalizeTitle(h.Title)
}

// FirstTurns gives, for each gold, the index of the first turn that returned it, or -1.
func FirstTurns(golds []episode.Gold, turns []episode.Turn) []int {
	first := make([]int, len(golds))
	for i, g := range golds {
		first[i] = -1
		for t, turn := range turns {
			if found(g, turn.Hits) {
				first[i] = t
				break
			}
		}
	}
	return first
}

func found(g episode.Gold, hits []episode.Hit) bool {
	for _, h := range hits {
		if Match(g, h) {
			return true
		}
	}
	return false
}

// Found counts the golds that the turns returned.
func Found(golds []episode.Gold, turns []episode.Turn) int {
	n := 0
	for _, t := range FirstTurns(golds, turns) {
		if t >= 0 {
			n++
		}
	}
	return n
}

// Complete gives the index of the turn after which all golds had been returned, or -1 when some were not or there are
// none.
func Complete(golds []episode.Gold, turns []episode.Turn) int {
	last := -1
	for _, t := range FirstTurns(golds, turns) {
		if t < 0 {
			return -1
		}
		last = max(last, t)
	}
	return last
}
