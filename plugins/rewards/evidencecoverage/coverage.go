// Package evidencecoverage rewards the share of a question's gold documents that the episode's tools returned
// (David-GRPO, evidence-coverage reward).
package evidencecoverage

import (
	"strings"

	"github.com/forage-rl/forage/core/sdk/episode"
	"github.com/forage-rl/forage/core/sdk/evidence"
	"github.com/forage-rl/forage/core/sdk/text"
	"github.com/forage-rl/forage/plugins/rewards/internal/davidtext"
)

// Coverage counts distinct gold documents, how many of them were found, and how many distinct documents were returned.
type Coverage struct{ Gold, Found, Returned int }

// Recall is found over gold, 0 without golds.
func (c Coverage) Recall() float64 { return ratio(c.Found, c.Gold) }

// Precision is found over returned, 0 when nothing was returned.
func (c Coverage) Precision() float64 { return ratio(c.Found, c.Returned) }

// F1 is the harmonic mean of precision and recall.
func (c Coverage) F1() float64 {
	p, r := c.Precision(), c.Recall()
	if p+r == 0 {
		return 0
	}
	return 2 * p * r / (p + r)
}

func ratio(a, b int) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

// FromHits counts over what the tools returned, and gives the share of golds that each turn was the first to return.
func FromHits(golds []episode.Gold, turns []episode.Turn) (Coverage, []float64) {
	golds = unique(golds)
	gains := make([]float64, len(turns))
	c := Coverage{Gold: len(golds)}
	for _, t := range evidence.FirstTurns(golds, turns) {
		if t >= 0 {
			c.Found++
			gains[t] += 1 / float64(len(golds))
		}
	}
	returned := map[string]bool{}
	for _, t := range turns {
		for _, h := range t.Hits {
			returned[unit(golds, h)] = true
		}
	}
	c.Returned = len(returned)
	return c, gains
}

// unique drops golds that name the same document: data sets list one per supporting sentence.
func unique(golds []episode.Gold) []episode.Gold {
	var out []episode.Gold
	seen := map[string]bool{}
	for _, g := range golds {
		name := "t" + text.NormalizeTitle(g.Title)
		switch {
		case g.ParagraphID != "":
			name = "p" + g.ParagraphID
		case g.DocumentID != "":
			name = "d" + g.DocumentID
		}
		if !seen[name] {
			seen[name] = true
			out = append(out, g)
		}
	}
	return out
}

// unit names the document of a hit at the granularity of the golds.
func unit(golds []episode.Gold, h episode.Hit) string {
	for _, g := range golds {
		switch {
		case g.ParagraphID != "" && h.ParagraphID != "":
			return h.ParagraphID
		case g.DocumentID != "":
			return h.DocumentID
		}
	}
	return text.NormalizeTitle(h.Title)
}

// FromTitles counts over normalised titles read from rendered results.
func FromTitles(golds []episode.Gold, titles []string) Coverage {
	wanted, returned := map[string]bool{}, map[string]bool{}
	for _, g := range golds {
		wanted[davidtext.NormalizeTitle(g.Title)] = true
	}
	for _, t := range titles {
		returned[davidtext.NormalizeTitle(t)] = true
	}
	c := Coverage{Gold: len(wanted), Returned: len(returned)}
	for t := range wanted {
		if returned[t] {
			c.Found++
		}
	}
	return c
}

// Mentions says whether a normalised gold answer occurs in one of the texts.
func Mentions(texts, golds []string) bool {
	for _, t := range texts {
		for _, g := range golds {
			if text.Trim(g) != "" && strings.Contains(davidtext.NormalizeAnswer(t), davidtext.NormalizeAnswer(g)) {
				return true
			}
		}
	}
	return false
}
