package evaluation

// The published file-level evaluations of HotpotQA, 2WikiMultihopQA and MuSiQue, made of the scores of answers that
// [Score] uses: their vectors hold those scores to what the published programs give. Agents here write no files of
// predictions, so they stand with the tests.

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/forage-rl/forage/core/sdk/text"
)

// Fact is a supporting fact: a sentence of a page.
type Fact struct {
	Title    string
	Sentence int
}

// Triple is a piece of 2WikiMultihopQA's evidence: subject, relation, object.
type Triple [3]string

// SupportingFacts compares predicted with gold supporting facts as HotpotQA does: as sets, titles as they are. Two empty
// sets have EM 1 and F1 0.
func SupportingFacts(predicted, gold []Fact) text.Score {
	return overlap(distinct(predicted), distinct(gold))
}

// SupportingFacts2Wiki is 2WikiMultihopQA's variant: duplicates are removed first and titles put in lower case after.
func SupportingFacts2Wiki(predicted, gold []Fact) text.Score {
	return overlap(lowered(distinct(predicted)), lowered(distinct(gold)))
}

// SupportParagraphs compares the numbers of supporting paragraphs as MuSiQue does. Two empty sets score 1, one empty
// set 0.
func SupportParagraphs(predicted, gold []int) text.Score {
	p, g := distinct(predicted), distinct(gold)
	if len(p) == 0 && len(g) == 0 {
		return text.Score{EM: 1, F1: 1, Precision: 1, Recall: 1}
	}
	return overlap(p, g)
}

func lowered(facts []Fact) []Fact {
	out := slices.Clone(facts)
	for i := range out {
		out[i].Title = text.Lower(out[i].Title)
	}
	return out
}

func distinct[T comparable](list []T) []T {
	var out []T
	for _, x := range list {
		if !slices.Contains(out, x) {
			out = append(out, x)
		}
	}
	return out
}

// overlap counts members of one list in the other; repeated members count each time.
func overlap[T comparable](predicted, gold []T) text.Score {
	tp, fp, fn := 0, 0, 0
	for _, x := range predicted {
		if slices.Contains(gold, x) {
			tp++
		} else {
			fp++
		}
	}
	for _, x := range gold {
		if !slices.Contains(predicted, x) {
			fn++
		}
	}
	s := harmonic(ratio(tp, tp+fp), ratio(tp, tp+fn))
	s.EM = indicator(fp+fn == 0)
	return s
}

func ratio(a, b int) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

func harmonic(precision, recall float64) text.Score {
	s := text.Score{Precision: precision, Recall: recall}
	if precision+recall > 0 {
		s.F1 = 2 * precision * recall / (precision + recall)
	}
	return s
}

// joint combines scores as HotpotQA's joint metric does: precision, recall and EM multiply, F1 follows from them.
func joint(scores ...text.Score) text.Score {
	p, r, em := 1., 1., 1.
	for _, s := range scores {
		p, r, em = p*s.Precision, r*s.Recall, em*s.EM
	}
	s := harmonic(p, r)
	s.EM = em
	return s
}

// Gold is a question of a HotpotQA or 2WikiMultihopQA file as its evaluation sees it.
type Gold struct {
	ID       string
	Answer   string
	AnswerID string
	Facts    []Fact
	// Evidence and EvidenceIDs are 2WikiMultihopQA's; EvidenceIDs may be shorter or empty.
	Evidence    []Triple
	EvidenceIDs []Triple
}

// Predictions are answers, facts and evidence by question id.
type Predictions struct {
	Answers  map[string]string
	Facts    map[string][]Fact
	Evidence map[string][]Triple
}

// EvaluateHotpot is HotpotQA's evaluation of a file of predictions: em, f1, prec, recall of answers, with the prefixes
// sp_ of supporting facts and joint_ of both, as shares. A question without a prediction counts as 0 in that part and in
// the joint one.
func EvaluateHotpot(gold []Gold, p Predictions) map[string]float64 {
	sums := map[string]float64{}
	for _, g := range gold {
		answer, okAnswer := p.Answers[g.ID]
		facts, okFacts := p.Facts[g.ID]
		a, s := text.Hotpot(answer, g.Answer), SupportingFacts(facts, g.Facts)
		accumulate(sums, "", a, okAnswer)
		accumulate(sums, "sp_", s, okFacts)
		accumulate(sums, "joint_", joint(a, s), okAnswer && okFacts)
	}
	for name := range sums {
		sums[name] /= float64(len(gold))
	}
	return sums
}

func accumulate(sums map[string]float64, prefix string, s text.Score, counts bool) {
	if !counts {
		s = text.Score{}
	}
	sums[prefix+"em"] += s.EM
	sums[prefix+"f1"] += s.F1
	sums[prefix+"prec"] += s.Precision
	sums[prefix+"recall"] += s.Recall
}

// Evaluate2Wiki is 2WikiMultihopQA's evaluation (version 1.1): as HotpotQA's, with aliases of answers and of the
// entities in evidence triples by Wikidata id, the evidence as a third part (evi_), in percent rounded to two decimals.
func Evaluate2Wiki(gold []Gold, p Predictions, aliases map[string][]string) map[string]float64 {
	sums := map[string]float64{}
	for _, g := range gold {
		answer, okAnswer := p.Answers[g.ID]
		facts, okFacts := p.Facts[g.ID]
		triples, okTriples := p.Evidence[g.ID]
		a := text.HotpotBest(answer, append([]string{g.Answer}, aliases[g.AnswerID]...))
		s := SupportingFacts2Wiki(facts, g.Facts)
		e := evidenceTriples(triples, g, aliases)
		accumulate(sums, "", a, okAnswer)
		accumulate(sums, "sp_", s, okFacts)
		accumulate(sums, "evi_", e, okTriples)
		accumulate(sums, "joint_", joint(a, s, e), okAnswer && okFacts && okTriples)
	}
	for name := range sums {
		sums[name] = round(100*sums[name]/float64(len(gold)), 2)
	}
	return sums
}

func evidenceTriples(predicted []Triple, g Gold, aliases map[string][]string) text.Score {
	var p []Triple
	for _, t := range predicted {
		p = append(p, normalized(t[0], t[1], t[2]))
	}
	p = distinct(p)
	var gold [][]Triple // all forms of each piece
	for i, t := range g.Evidence {
		subjects, objects := []string{t[0]}, []string{t[2]}
		if i < len(g.EvidenceIDs) {
			subjects = append(subjects, aliases[g.EvidenceIDs[i][0]]...)
			objects = append(objects, aliases[g.EvidenceIDs[i][2]]...)
		}
		var forms []Triple
		for _, s := range subjects {
			for _, o := range objects {
				forms = append(forms, normalized(s, t[1], o))
			}
		}
		gold = append(gold, forms)
	}
	matches := 0
	for _, x := range p {
		if slices.ContainsFunc(gold, func(forms []Triple) bool { return slices.Contains(forms, x) }) {
			matches++
		}
	}
	s := harmonic(ratio(matches, len(p)), ratio(matches, len(g.Evidence)))
	s.EM = indicator(matches == len(p) && matches == len(g.Evidence))
	return s
}

// normalized keeps articles, unlike the normalisation of answers: the evaluation of triples does.
func normalized(s, r, o string) Triple {
	t := Triple{s, r, o}
	for i := range t {
		t[i] = strings.Join(text.Fields(text.StripPunct(text.Lower(t[i]))), " ")
	}
	return t
}

// MusiqueGold is a question of a MuSiQue file as its evaluation sees it.
type MusiqueGold struct {
	ID         string
	Answers    []string // the answer and its aliases
	Support    []int    // numbers of the supporting paragraphs
	Answerable bool
}

// MusiquePrediction is a prediction for a question, in the order of the golds.
type MusiquePrediction struct {
	ID         string
	Answer     string
	Support    []int
	Answerable bool
}

// EvaluateMusique is MuSiQue's evaluation, rounded to three decimals: answer_em, answer_f1 and support_f1 over the
// answerable questions; where there are unanswerable ones, also the group metrics, in which a pair of an answerable and
// an unanswerable question with the same id counts only when both were told apart rightly.
func EvaluateMusique(gold []MusiqueGold, predictions []MusiquePrediction) (map[string]float64, error) {
	if len(gold) != len(predictions) {
		return nil, fmt.Errorf("evaluation: %d predictions for %d questions", len(predictions), len(gold))
	}
	type group struct {
		members     int
		right       bool
		answer, sup float64
	}
	var answerEM, answerF1, supportF1 float64
	answerable := 0
	groups := map[string]*group{}
	for i, g := range gold {
		p := predictions[i]
		if p.ID != g.ID {
			return nil, fmt.Errorf("evaluation: prediction %d is for %q, want %q", i, p.ID, g.ID)
		}
		if groups[g.ID] == nil {
			groups[g.ID] = &group{right: true}
		}
		pair := groups[g.ID]
		pair.members++
		pair.right = pair.right && p.Answerable == g.Answerable
		if !g.Answerable {
			continue
		}
		a, s := text.MusiqueBest(p.Answer, g.Answers), SupportParagraphs(p.Support, g.Support)
		answerable++
		answerEM += a.EM
		answerF1 += a.F1
		supportF1 += s.F1
		pair.answer, pair.sup = a.F1, s.F1
	}
	mean := func(sum float64, n int) float64 {
		if n == 0 {
			return 0
		}
		return round(sum/float64(n), 3)
	}
	out := map[string]float64{
		"answer_em": mean(answerEM, answerable), "answer_f1": mean(answerF1, answerable), "support_f1": mean(supportF1, answerable),
	}
	if answerable == len(gold) {
		return out, nil
	}
	var groupAnswer, groupSupport float64
	for id, g := range groups {
		if g.members != 2 {
			return nil, fmt.Errorf("evaluation: question %q stands %d times among answerable and unanswerable ones, want twice", id, g.members)
		}
		if g.right {
			groupAnswer += g.answer
			groupSupport += g.sup
		}
	}
	out["group_answer_sufficiency_f1"] = mean(groupAnswer, len(groups))
	out["group_support_sufficiency_f1"] = mean(groupSupport, len(groups))
	return out, nil
}

// round gives the decimal nearest to the exact binary value, as Python's round does.
func round(x float64, digits int) float64 {
	y, err := strconv.ParseFloat(strconv.FormatFloat(x, 'f', digits, 64), 64)
	if err != nil { // cannot happen for what FormatFloat wrote
		return math.NaN()
	}
	return y
}
