package stepsearch

import (
	"strings"

	"github.com/forage-rl/forage/core/sdk/text"
)

// Document is one document that a search returned. Documents of equal identity are the same one.
type Document struct{ Text, Identity string }

// Step is what a search was worth. Gain is in [0, 1] and sums to at most 1 over an episode; Penalty is in [0, 1].
type Step struct{ Gain, Penalty float64 }

// Steps evaluates the searches of an episode in order (StepSearch, information gain and redundancy penalty). The gain
// of a search is the mean over golds of what its best document adds to the similarity that earlier searches reached;
// the penalty is the share of its documents that were returned before, by an earlier search or earlier in the same
// one. coverage is the mean similarity reached. Without golds there are no steps.
func Steps(golds []string, searches [][]Document) (steps []Step, coverage float64) {
	if len(golds) == 0 {
		return nil, 0
	}
	normalized := make([]string, len(golds))
	for i, g := range golds {
		normalized[i] = text.Normalize(g)
	}
	units := NewUnits(normalized)
	reached := make([]float64, len(golds))
	seen := map[string]bool{}
	for _, documents := range searches {
		found := make([]float64, len(golds))
		repeated := 0
		for _, d := range documents {
			for i, s := range units.Cosine(text.Normalize(d.Text)) {
				found[i] = max(found[i], s)
			}
			if seen[d.Identity] {
				repeated++
			}
			seen[d.Identity] = true
		}
		var step Step
		for i, s := range found {
			if s > reached[i] {
				step.Gain += (s - reached[i]) / float64(len(golds))
				reached[i] = s
			}
		}
		if len(documents) > 0 {
			step.Penalty = float64(repeated) / float64(len(documents))
		}
		steps = append(steps, step)
	}
	for _, r := range reached {
		coverage += r / float64(len(golds))
	}
	return steps, coverage
}

// Split reads the documents of an observation that lays each out as an opening mark, its title, a closing mark and its
// text: of what follows each closing mark, what stands before the next opening one. Where documents are numbered
// ahead of the mark, a text keeps the number of the document after it at its end, as in the release: the same document
// at another rank is then another text.
func Split(block, titleOpen, titleClose string) []string {
	var documents []string
	for _, piece := range strings.Split(block, titleClose)[1:] {
		body, _, _ := strings.Cut(piece, titleOpen)
		documents = append(documents, text.Trim(body))
	}
	return documents
}
