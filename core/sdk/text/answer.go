package text

import "strings"

// Normalize is the answer normalisation of SQuAD and HotpotQA: lower case, ASCII punctuation deleted, articles removed,
// white space collapsed. It is idempotent except that removing punctuation may create an article.
func Normalize(s string) string {
	return strings.Join(Fields(StripArticles(StripPunct(Lower(s)))), " ")
}

// Score holds the agreement of a predicted with a gold answer; all values lie in [0, 1].
type Score struct {
	EM, F1, Precision, Recall float64
}

// ExactMatch says whether prediction and gold normalise to the same text.
func ExactMatch(prediction, gold string) bool { return Normalize(prediction) == Normalize(gold) }

// ExactMatchAny says whether the prediction equals one of the golds after normalisation.
func ExactMatchAny(prediction string, golds []string) bool {
	p := Normalize(prediction)
	for _, g := range golds {
		if p == Normalize(g) {
			return true
		}
	}
	return false
}

// ContainsAny says whether one of the golds occurs in the prediction, both normalised (Search-R1's "sub EM"). A gold
// that normalises to nothing occurs in everything.
func ContainsAny(prediction string, golds []string) bool {
	p := Normalize(prediction)
	for _, g := range golds {
		if strings.Contains(p, Normalize(g)) {
			return true
		}
	}
	return false
}

// F1 is the token F1 of the normalised answers (SQuAD): bags of words, no rule for yes and no; 0 when nothing is
// shared, so also when both are empty.
func F1(prediction, gold string) float64 {
	return overlap(Fields(Normalize(prediction)), Fields(Normalize(gold))).F1
}

// Squad compares bags of words of the normalised answers: no rule for yes and no, and F1 0 where nothing is shared.
func Squad(prediction, gold string) Score {
	p, g := Normalize(prediction), Normalize(gold)
	s := overlap(Fields(p), Fields(g))
	if p == g {
		s.EM = 1
	}
	return s
}

// SquadBest is the maximum of [Squad] over the golds, taken for each value separately; zero when there are none.
func SquadBest(prediction string, golds []string) Score { return best(Squad, prediction, golds) }

// Hotpot compares with HotpotQA's rule: when either side is yes, no or noanswer the other must be the same word, else
// F1, precision and recall are 0. Two answers that normalise to nothing have EM 1 and F1 0.
func Hotpot(prediction, gold string) Score {
	p, g := Normalize(prediction), Normalize(gold)
	s := Score{}
	if p == g || !closed(p) && !closed(g) {
		s = overlap(Fields(p), Fields(g))
	}
	if p == g {
		s.EM = 1
	}
	return s
}

// HotpotBest is the maximum of [Hotpot] over the golds, taken for each value separately (2WikiMultiHopQA's rule for
// aliases); zero when there are no golds.
func HotpotBest(prediction string, golds []string) Score {
	return best(Hotpot, prediction, golds)
}

// Musique compares with MuSiQue's rule: yes and no are ordinary words, and two answers that normalise to nothing have
// F1 1.
func Musique(prediction, gold string) Score {
	p, g := Normalize(prediction), Normalize(gold)
	if p == "" || g == "" {
		if p == g {
			return Score{1, 1, 1, 1}
		}
		return Score{}
	}
	s := overlap(Fields(p), Fields(g))
	if p == g {
		s.EM = 1
	}
	return s
}

// MusiqueBest is the maximum of [Musique] over the golds, taken for each value separately; zero when there are none.
func MusiqueBest(prediction string, golds []string) Score {
	return best(Musique, prediction, golds)
}

func best(rule func(prediction, gold string) Score, prediction string, golds []string) Score {
	var m Score
	for _, g := range golds {
		s := rule(prediction, g)
		m = Score{max(m.EM, s.EM), max(m.F1, s.F1), max(m.Precision, s.Precision), max(m.Recall, s.Recall)}
	}
	return m
}

func closed(s string) bool { return s == "yes" || s == "no" || s == "noanswer" }

func overlap(p, g []string) Score {
	left := make(map[string]int, len(g))
	for _, w := range g {
		left[w]++
	}
	same := 0
	for _, w := range p {
		if left[w] > 0 {
			left[w]--
			same++
		}
	}
	if same == 0 {
		return Score{}
	}
	pr, re := float64(same)/float64(len(p)), float64(same)/float64(len(g))
	return Score{F1: 2 * pr * re / (pr + re), Precision: pr, Recall: re}
}
