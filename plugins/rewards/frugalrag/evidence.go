package frugalrag

import (
	"github.com/forage-rl/forage/core/sdk/episode"
	"github.com/forage-rl/forage/core/sdk/text"
)

// TitleRecall is the share of the gold titles, duplicates counted, that are among the predicted ones; both normalised
// as answers are. It is 0 without golds.
func TitleRecall(predicted, golds []string) float64 {
	if len(golds) == 0 {
		return 0
	}
	have := map[string]bool{}
	for _, p := range predicted {
		have[text.Normalize(p)] = true
	}
	found := 0
	for _, g := range golds {
		if have[text.Normalize(g)] {
			found++
		}
	}
	return float64(found) / float64(len(golds))
}

// MultisetRecall is the share of the golds that the predicted cover, each predicted one covering one gold. It is 0
// without golds.
func MultisetRecall(predicted, golds []string) float64 {
	if len(golds) == 0 {
		return 0
	}
	left := map[string]int{}
	for _, p := range predicted {
		left[p]++
	}
	found := 0
	for _, g := range golds {
		if left[g] > 0 {
			left[g]--
			found++
		}
	}
	return float64(found) / float64(len(golds))
}

// AnswerHits says whether a passage holds one of the answers, and which share of the comparisons did: a passage is
// compared with one answer after the other until one is in it.
func AnswerHits(passages, answers []string) (hit bool, precision float64) {
	found, compared := 0, 0
	for _, p := range passages {
		for _, a := range answers {
			compared++
			if text.ContainsAny(p, []string{a}) {
				found++
				break
			}
		}
	}
	if compared > 0 {
		precision = float64(found) / float64(compared)
	}
	return found > 0, precision
}

// SupportF1 is the mean over gold texts of the best token F1 with a unit; 0 without golds.
func SupportF1(units, golds []string) float64 {
	return overGolds(units, golds, func(best float64) float64 { return best })
}

// Coverage is the share of gold texts whose best token F1 with a unit is above threshold; 0 without golds.
func Coverage(units, golds []string, threshold float64) float64 {
	return overGolds(units, golds, func(best float64) float64 {
		if best > threshold {
			return 1
		}
		return 0
	})
}

func overGolds(units, golds []string, value func(best float64) float64) float64 {
	if len(golds) == 0 {
		return 0
	}
	sum := 0.
	for _, g := range golds {
		best := 0.
		for _, u := range units {
			best = max(best, text.F1(u, g))
		}
		sum += value(best)
	}
	return sum / float64(len(golds))
}

// Rule says how evidence is measured.
type Rule struct {
	// Recall measures the golds that the hits of an episode hold.
	Recall func(hits []episode.Hit) float64
	// Golds are the texts of the golds and Units cuts a hit into what is compared with them. Without Units texts are
	// not measured.
	Golds     []string
	Units     func(episode.Hit) []string
	Threshold float64 // F1 above which a gold text counts as covered
	// FirstReach takes h* as the first search that meets the threshold, as the paper's later text has it, in place of
	// the search at which the episode's best evidence was complete.
	FirstReach bool
	// Tau and TauF1 are the recall and the support F1 that the explorer reached on the question.
	Tau, TauF1 float64
}

// Evidence is what an episode's searches found.
type Evidence struct {
	Searches  int // that returned something
	Recall    float64
	SupportF1 float64
	Coverage  float64 // share of gold texts that are covered
	Best      int     // search at which the evidence was best, or -1 when it never was any
	Met       bool    // the evidence reaches the explorer's
	HStar     int     // -1 where it does not
}

// Measure reads the hits of each search in order; searches without hits are no searches.
func (r Rule) Measure(searches [][]episode.Hit) Evidence {
	e := Evidence{Best: insufficient, HStar: insufficient}
	var hits []episode.Hit
	var units []string
	recall, coverage, reached := 0., 0., insufficient
	for _, found := range searches {
		if len(found) == 0 {
			continue
		}
		e.Searches++
		hits = append(hits, found...)
		if r.Units != nil {
			for _, h := range found {
				units = append(units, r.Units(h)...)
			}
		}
		e.Recall, e.SupportF1 = r.Recall(hits), SupportF1(units, r.Golds)
		e.Coverage = Coverage(units, r.Golds, r.Threshold)
		if e.Recall > recall || e.Recall == recall && e.Coverage > coverage {
			recall, coverage, e.Best = e.Recall, e.Coverage, e.Searches
		}
		if reached == insufficient && r.meets(e) {
			reached = e.Searches
		}
	}
	e.Met = r.meets(e)
	if e.Met {
		e.HStar = e.Best
		if r.FirstReach {
			e.HStar = reached
		}
	}
	return e
}

func (r Rule) meets(e Evidence) bool {
	return e.Recall >= r.Tau || r.Units != nil && e.SupportF1 >= r.TauF1
}

// Format is the mean over an episode's actions of k for a well-formed one and -k for one that could not be read; 0
// without actions.
func Format(wellFormed, malformed int, k float64) float64 {
	if wellFormed+malformed == 0 {
		return 0
	}
	return k * float64(wellFormed-malformed) / float64(wellFormed+malformed)
}
