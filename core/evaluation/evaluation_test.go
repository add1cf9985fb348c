package evaluation

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/forage-rl/forage/core/internal/vectors"
	"github.com/forage-rl/forage/core/sdk/episode"
	"github.com/forage-rl/forage/core/sdk/text"
)

// pair is [title, sentence] as files write it.
type pair Fact

func (p *pair) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&p.Title, &p.Sentence})
}

func facts(list []pair) []Fact {
	out := make([]Fact, len(list))
	for i, p := range list {
		out[i] = Fact(p)
	}
	return out
}

func compare(t *testing.T, f vectors.File, id string, got, want map[string]float64) {
	t.Helper()
	if len(got) < len(want) {
		t.Errorf("%s: %v, want %v", id, got, want)
	}
	for name, w := range want {
		if g, ok := got[name]; !ok || !f.Tolerance.Close(g, w) {
			t.Errorf("%s: %s is %v, want %v", id, name, g, w)
		}
	}
}

func spread(prefix string, s text.Score) map[string]float64 {
	return map[string]float64{prefix + "em": s.EM, prefix + "f1": s.F1, prefix + "prec": s.Precision, prefix + "recall": s.Recall}
}

func TestVectorSupportingFacts(t *testing.T) {
	f := vectors.Load(t, "common", "supporting_facts")
	for _, c := range f.Cases {
		in := vectors.Decode[struct{ Prediction, Gold []pair }](t, c.Input)
		want := vectors.Decode[map[string]map[string]float64](t, c.Want())
		compare(t, f, c.ID, spread("sp_", SupportingFacts(facts(in.Prediction), facts(in.Gold))), want["hotpotqa"])
		compare(t, f, c.ID, spread("sp_", SupportingFacts2Wiki(facts(in.Prediction), facts(in.Gold))), want["2wiki_v1.1"])
	}
}

func TestVectorMusiqueSupport(t *testing.T) {
	f := vectors.Load(t, "common", "musique_support")
	for _, c := range f.Cases {
		in := vectors.Decode[struct {
			Predicted []int `json:"predicted_idxs"`
			Gold      []int `json:"gold_idxs"`
		}](t, c.Input)
		s := SupportParagraphs(in.Predicted, in.Gold)
		compare(t, f, c.ID, map[string]float64{"em": s.EM, "f1": s.F1}, vectors.Decode[map[string]float64](t, c.Want()))
	}
}

type fileInput struct {
	Gold []struct {
		ID          string   `json:"_id"`
		Answer      string   `json:"answer"`
		AnswerID    *string  `json:"answer_id"`
		Facts       []pair   `json:"supporting_facts"`
		Evidence    []Triple `json:"evidences"`
		EvidenceIDs []Triple `json:"evidences_id"`
	}
	Prediction struct {
		Answer   map[string]string
		SP       map[string][]pair
		Evidence map[string][]Triple
	}
	Aliases []struct {
		ID       string `json:"Q_id"`
		Aliases  []string
		Demonyms []string
	}
}

func (in fileInput) parts() ([]Gold, Predictions, map[string][]string) {
	var gold []Gold
	for _, g := range in.Gold {
		x := Gold{ID: g.ID, Answer: g.Answer, Facts: facts(g.Facts), Evidence: g.Evidence, EvidenceIDs: g.EvidenceIDs}
		if g.AnswerID != nil {
			x.AnswerID = *g.AnswerID
		}
		gold = append(gold, x)
	}
	p := Predictions{Answers: in.Prediction.Answer, Facts: map[string][]Fact{}, Evidence: in.Prediction.Evidence}
	for id, list := range in.Prediction.SP {
		p.Facts[id] = facts(list)
	}
	aliases := map[string][]string{}
	for _, a := range in.Aliases {
		aliases[a.ID] = append(a.Aliases, a.Demonyms...)
	}
	return gold, p, aliases
}

func TestVectorHotpotJoint(t *testing.T) {
	f := vectors.Load(t, "common", "hotpot_joint")
	for _, c := range f.Cases {
		gold, p, _ := vectors.Decode[fileInput](t, c.Input).parts()
		compare(t, f, c.ID, EvaluateHotpot(gold, p), vectors.Decode[map[string]float64](t, c.Want()))
	}
}

func TestVector2WikiFile(t *testing.T) {
	f := vectors.Load(t, "common", "2wiki_file")
	for _, c := range f.Cases {
		gold, p, aliases := vectors.Decode[fileInput](t, c.Input).parts()
		compare(t, f, c.ID, Evaluate2Wiki(gold, p, aliases), vectors.Decode[map[string]float64](t, c.Want()))
	}
}

func TestVectorMusiqueFile(t *testing.T) {
	f := vectors.Load(t, "common", "musique_file")
	for _, c := range f.Cases {
		in := vectors.Decode[struct {
			Gold []struct {
				ID         string
				Answer     string
				Aliases    []string `json:"answer_aliases"`
				Paragraphs []struct {
					Idx        int
					Supporting bool `json:"is_supporting"`
				}
				Answerable bool
			}
			Prediction []struct {
				ID         string
				Answer     string `json:"predicted_answer"`
				Support    []int  `json:"predicted_support_idxs"`
				Answerable bool   `json:"predicted_answerable"`
			}
		}](t, c.Input)
		var gold []MusiqueGold
		var predictions []MusiquePrediction
		for i, g := range in.Gold {
			x := MusiqueGold{ID: g.ID, Answers: append([]string{g.Answer}, g.Aliases...), Answerable: g.Answerable}
			for _, p := range g.Paragraphs {
				if p.Supporting {
					x.Support = append(x.Support, p.Idx)
				}
			}
			gold = append(gold, x)
			p := in.Prediction[i]
			predictions = append(predictions, MusiquePrediction(p))
		}
		got, err := EvaluateMusique(gold, predictions)
		if err != nil {
			t.Fatal(err)
		}
		want := vectors.Decode[map[string]float64](t, c.Want())
		compare(t, f, c.ID, got, want)
		if len(got) != len(want) {
			t.Errorf("%s: %v, want %v", c.ID, got, want)
		}
	}
	if _, err := EvaluateMusique([]MusiqueGold{{ID: "a"}}, nil); err == nil {
		t.Error("missing predictions must be an error")
	}
	if _, err := EvaluateMusique([]MusiqueGold{{ID: "a"}}, []MusiquePrediction{{ID: "b"}}); err == nil {
		t.Error("a prediction for another question must be an error")
	}
	if _, err := EvaluateMusique([]MusiqueGold{{ID: "a"}}, []MusiquePrediction{{ID: "a"}}); err == nil {
		t.Error("an unpaired unanswerable question must be an error")
	}
}

func call(executed bool, ids ...string) episode.Turn {
	t := episode.Turn{Action: episode.ActionCall, Executed: executed}
	for _, id := range ids {
		t.Hits = append(t.Hits, episode.Hit{DocumentID: id, Title: id})
	}
	return t
}

func TestScore(t *testing.T) {
	answer := "The Paris tower"
	q := episode.Question{ID: "q", Answers: []string{"Eiffel", "Paris"}, Hops: 2, Type: "bridge", Gold: []episode.Gold{{DocumentID: "a"}, {DocumentID: "b"}}}
	e := episode.Episode{
		ID: "e", QuestionID: "q", Answer: &answer, Stop: episode.StopAnswered,
		Turns:    []episode.Turn{call(true, "x", "a"), call(true, "b", "a"), call(true, "y"), call(false), {Action: episode.ActionAnswer}},
		Counters: episode.Counters{Turns: 5, Searches: 3, Valid: 4, Invalid: 1, PolicyTokens: 30, ObservationTokens: 90},
	}
	r, err := Score(q, e, RuleHotpot)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{
		"em": 0, "f1": 2. / 3, "answer_precision": .5, "answer_recall": 1, "cover_em": 1, "answered": 1,
		"evidence_any": 1, "evidence_all": 1, "evidence_recall": 1, "precision": .5, "searches": 3, "unnecessary_searches": 1,
		"turns": 5, "valid": .8, "policy_tokens": 30, "observation_tokens": 90, "stop_budget": 0, "stop_length": 0, "stop_invalid": 0,
	}
	if len(r.Values) != len(want) || len(want) != len(Metrics()) {
		t.Errorf("%d values, %d described, want %d", len(r.Values), len(Metrics()), len(want))
	}
	for _, m := range Metrics() {
		if got, ok := r.Values[m.Name]; !ok || math.Abs(got-want[m.Name]) > 1e-12 {
			t.Errorf("%s: %v, want %v", m.Name, got, want[m.Name])
		}
	}

	// No answer, no golds, nothing done: the answer scores 0, what has no meaning is absent.
	r, err = Score(episode.Question{ID: "q", Answers: []string{"x"}}, episode.Episode{ID: "f", QuestionID: "q", Stop: episode.StopLength}, RuleMusique)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"evidence_any", "evidence_all", "precision", "unnecessary_searches", "valid"} {
		if v, ok := r.Values[name]; ok {
			t.Errorf("%s is %v, want none", name, v)
		}
	}
	if r.Values["em"] != 0 || r.Values["answered"] != 0 || r.Values["stop_length"] != 1 {
		t.Errorf("%+v", r)
	}

	yes := "yes it is"
	e.Answer = &yes
	q.Answers = []string{"yes"}
	if h, _ := Score(q, e, RuleHotpot); h.Values["f1"] != 0 {
		t.Error("HotpotQA's yes must match whole")
	}
	if m, _ := Score(q, e, RuleMusique); m.Values["f1"] != .5 {
		t.Error("MuSiQue's yes is a word")
	}
	if _, err := Score(q, e, "other"); err == nil {
		t.Error("unknown rule must be refused")
	}
	if _, err := Score(q, episode.Episode{QuestionID: "p"}, ""); err == nil {
		t.Error("another question's episode must be refused")
	}
}

func TestAggregate(t *testing.T) {
	got := Aggregate([]Record{
		{QuestionID: "a", Hops: 2, Values: map[string]float64{"em": 1, "searches": 2, "precision": .5}},
		{QuestionID: "a", Hops: 2, Values: map[string]float64{"em": 0, "searches": 1}},
		{QuestionID: "b", Hops: 3, Values: map[string]float64{"em": 1, "searches": 3, "precision": math.NaN()}},
		{QuestionID: "c", Values: map[string]float64{"em": 0, "searches": 0}},
	})
	want := map[string]float64{
		"episodes": 4, "questions": 3, "em": .5, "searches": 1.5, "precision": .5,
		"em_hop2": .5, "em_hop3": 1, "searches_hop2": 1.5, "searches_hop3": 3,
	}
	if len(got) != len(want) {
		t.Errorf("%v, want %v", got, want)
	}
	for name, w := range want {
		if got[name] != w {
			t.Errorf("%s: %v, want %v", name, got[name], w)
		}
	}
	if got := Aggregate(nil); len(got) != 2 || got["episodes"] != 0 {
		t.Errorf("nothing: %v", got)
	}
}
