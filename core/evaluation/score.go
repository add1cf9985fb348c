package evaluation

import (
	"fmt"
	"math"
	"slices"

	"github.com/forage-rl/forage/core/sdk/episode"
	"github.com/forage-rl/forage/core/sdk/evidence"
	"github.com/forage-rl/forage/core/sdk/text"
)

// Rule says how an answer is compared with the golds.
type Rule string

const (
	// RuleHotpot is HotpotQA's: yes, no and noanswer must match whole. The default.
	RuleHotpot Rule = "hotpotqa"
	// RuleMusique is MuSiQue's: yes and no are ordinary words.
	RuleMusique Rule = "musique"
)

// Record is what one episode scored.
type Record struct {
	QuestionID string       `json:"question_id"`
	EpisodeID  string       `json:"episode_id"`
	Hops       int          `json:"hops,omitempty"`
	Type       string       `json:"type,omitempty"`
	Answer     *string      `json:"answer,omitempty"`
	Stop       episode.Stop `json:"stop"`
	// Values by metric name (see [Metrics]). A metric that has no meaning for the question is absent.
	Values map[string]float64 `json:"values"`
}

// Metric describes a value of a record.
type Metric struct{ Name, Description string }

// Metrics lists the values that [Score] gives.
func Metrics() []Metric {
	return []Metric{
		{"em", "the answer equals a gold answer after normalisation"},
		{"f1", "token F1 of the answer, best gold answer"},
		{"answer_precision", "token precision of the answer, best gold answer"},
		{"answer_recall", "token recall of the answer, best gold answer"},
		{"cover_em", "a gold answer occurs in the answer, both normalised"},
		{"answered", "the episode gave an answer"},
		{"evidence_any", "some gold document was retrieved; absent without golds"},
		{"evidence_all", "all gold documents were retrieved; absent without golds"},
		{"evidence_recall", "share of gold documents retrieved; absent without golds"},
		{"precision", "share of retrieved documents, repeats counted once, that are gold; absent without golds or without hits"},
		{"searches", "executed tool calls"},
		{"unnecessary_searches", "tool calls executed after all gold documents had been retrieved; absent without golds"},
		{"turns", "turns"},
		{"valid", "share of actions that the protocol understood; absent without actions"},
		{"policy_tokens", "tokens written by the policy"},
		{"observation_tokens", "tokens returned by tools"},
		{"stop_budget", "the episode ended because its budget was used up"},
		{"stop_length", "the episode ended at a token limit"},
		{"stop_invalid", "the episode ended on an action that could not be understood"},
	}
}

// Score evaluates an episode against its question. An episode without an answer scores 0 on the answer. It fails when
// the episode belongs to another question or the rule is unknown.
func Score(q episode.Question, e episode.Episode, rule Rule) (Record, error) {
	if e.QuestionID != q.ID {
		return Record{}, fmt.Errorf("evaluation: episode %q answers question %q, not %q", e.ID, e.QuestionID, q.ID)
	}
	v := map[string]float64{}
	r := Record{QuestionID: q.ID, EpisodeID: e.ID, Hops: q.Hops, Type: q.Type, Answer: e.Answer, Stop: e.Stop, Values: v}

	var s text.Score
	cover := false
	if e.Answer != nil {
		switch rule {
		case RuleHotpot, "":
			s = text.HotpotBest(*e.Answer, q.Answers)
		case RuleMusique:
			s = text.MusiqueBest(*e.Answer, q.Answers)
		default:
			return Record{}, fmt.Errorf("evaluation: unknown rule %q, want %q or %q", rule, RuleHotpot, RuleMusique)
		}
		cover = text.ContainsAny(*e.Answer, q.Answers)
	}
	v["em"], v["f1"], v["answer_precision"], v["answer_recall"] = s.EM, s.F1, s.Precision, s.Recall
	v["cover_em"], v["answered"] = indicator(cover), indicator(e.Answer != nil)

	c := e.Counters
	v["searches"], v["turns"] = float64(c.Searches), float64(c.Turns)
	v["policy_tokens"], v["observation_tokens"] = float64(c.PolicyTokens), float64(c.ObservationTokens)
	if n := c.Valid + c.Invalid; n > 0 {
		v["valid"] = float64(c.Valid) / float64(n)
	}
	for name, stop := range map[string]episode.Stop{
		"stop_budget": episode.StopBudget, "stop_length": episode.StopLength, "stop_invalid": episode.StopInvalid,
	} {
		v[name] = indicator(e.Stop == stop)
	}
	if len(q.Gold) > 0 {
		scoreEvidence(v, q, e)
	}
	return r, nil
}

func scoreEvidence(v map[string]float64, q episode.Question, e episode.Episode) {
	found := evidence.Found(q.Gold, e.Turns)
	v["evidence_any"] = indicator(found > 0)
	v["evidence_all"] = indicator(found == len(q.Gold))
	v["evidence_recall"] = float64(found) / float64(len(q.Gold))

	unnecessary := 0
	if complete := evidence.Complete(q.Gold, e.Turns); complete >= 0 {
		for _, t := range e.Turns[complete+1:] {
			if t.Action == episode.ActionCall && t.Executed {
				unnecessary++
			}
		}
	}
	v["unnecessary_searches"] = float64(unnecessary)

	// One hit can stand for several units of a document; it counts once, and as gold if any of its units is.
	gold := map[[2]string]bool{}
	for _, h := range e.Hits() {
		key := [2]string{h.DocumentID, h.ParagraphID}
		if h.DocumentID == "" {
			key = [2]string{"", h.Title}
		}
		match := slices.ContainsFunc(q.Gold, func(g episode.Gold) bool { return evidence.Match(g, h) })
		gold[key] = gold[key] || match
	}
	if len(gold) > 0 {
		right := 0
		for _, g := range gold {
			if g {
				right++
			}
		}
		v["precision"] = float64(right) / float64(len(gold))
	}
}

func indicator(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// byHops are the metrics that [Aggregate] also gives per number of hops.
func byHops() []string { return []string{"em", "f1", "evidence_any", "evidence_all", "searches"} }

// Aggregate gives the mean of every value over the records that have it, and for em, f1, evidence_any, evidence_all and
// searches also over the records of each number of hops, as "em_hop2". "episodes" and "questions" count the records and
// the questions they answer. Several samples of a question weigh as much as those of any other with as many.
func Aggregate(records []Record) map[string]float64 {
	sums, counts := map[string]float64{}, map[string]float64{}
	questions := map[string]bool{}
	add := func(name string, v float64) {
		sums[name] += v
		counts[name]++
	}
	for _, r := range records {
		questions[r.QuestionID] = true
		for name, v := range r.Values {
			if math.IsNaN(v) {
				continue
			}
			add(name, v)
			if r.Hops > 0 && slices.Contains(byHops(), name) {
				add(fmt.Sprintf("%s_hop%d", name, r.Hops), v)
			}
		}
	}
	out := map[string]float64{"episodes": float64(len(records)), "questions": float64(len(questions))}
	for name, sum := range sums {
		out[name] = sum / counts[name]
	}
	return out
}
