package frugalrag

import (
	"context"
	"fmt"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/diag"
	"github.com/forage-rl/forage/core/sdk/episode"
)

// Config is the configuration of the reward.
type Config struct {
	MaxIters          int     `forage:"max_iters" default:"5" min:"1" doc:"Turns that the policy may write. With the search for the question that the agent makes first, the budget is one search more." source:"FrugalRAG (arXiv:2507.07634), section 5"`
	RMax              float64 `forage:"r_max" default:"2" min:"0" doc:"Bound of the efficiency reward before the bonus." source:"FrugalRAG (arXiv:2507.07634), training settings"`
	Zeta              float64 `forage:"zeta" default:"2" min:"0" doc:"Bonus for stopping exactly when the evidence is complete, times the share of the budget that it took." source:"FrugalRAG, released code (3056d62)"`
	LateClipMargin    float64 `forage:"late_clip_margin" default:"0.1" min:"0" doc:"Searching longer than needed is worth at most r_max less this; the paper's equation has 0." source:"FrugalRAG, released code (3056d62)"`
	FormatCoefficient float64 `forage:"format_coefficient" default:"0.5" min:"0" doc:"Reward of a well-formed call, and the loss for a turn that could not be read, averaged over the episode. An earlier text of the paper has 1, the runs on Llama 0.25." source:"FrugalRAG, released code (3056d62)"`

	HStar         string  `forage:"hstar" default:"argmax" enum:"argmax,first_ge_tau" doc:"Which search should have been the last. argmax: the one at which the episode's own evidence was as good as it ever was; first_ge_tau: the first at which it reached the explorer's." source:"FrugalRAG, released code (3056d62)"`
	Match         string  `forage:"match" default:"title" enum:"title,document" doc:"What recall counts. title: gold titles among those of the hits, normalised; document: gold document ids." source:"FrugalRAG, released code (3056d62)"`
	Support       string  `forage:"support" default:"none" enum:"none,sentences,passages" doc:"Evidence is also enough when the hits hold the gold texts well enough. none: titles alone (HotpotQA with its own abstracts); sentences: gold sentences against the sentences of the hits (HotpotQA, 2WikiMultiHopQA); passages: gold passages against whole hits (MuSiQue)." source:"FrugalRAG, released code (3056d62)"`
	CoverageF1    float64 `forage:"coverage_f1" default:"0.7" min:"0" max:"1" doc:"Token F1 above which a gold text counts as found." source:"FrugalRAG, released code (3056d62)"`
	TauKey        string  `forage:"tau_key" default:"tau_recall" doc:"Field of the question's metadata with the recall that the explorer reached without stopping; an annotation." source:"default (not in the paper)"`
	TauF1Key      string  `forage:"tau_f1_key" default:"tau_support_f1" doc:"Field of the question's metadata with the support F1 that the explorer reached." source:"default (not in the paper)"`
	TauFallback   float64 `forage:"tau_fallback" default:"0.6" min:"0" max:"1" doc:"Recall to reach on a question without that field." source:"FrugalRAG, released code (3056d62)"`
	TauF1Fallback float64 `forage:"tau_f1_fallback" default:"0.6" min:"0" max:"1" doc:"Support F1 to reach on a question without that field." source:"FrugalRAG, released code (3056d62)"`
	GoldTextsKey  string  `forage:"gold_texts_key" default:"gold_sentences" doc:"Field of the question's metadata that lists the gold texts. Without it support_docs and supporting_facts are read: for sentences, the first supporting sentence of each title." source:"default (not in the paper)"`
}

// Validate checks what the settings need of each other.
func (c Config) Validate() diag.Diagnostics {
	var ds diag.Diagnostics
	if c.LateClipMargin > c.RMax {
		ds.Errorf(diag.Attr("late_clip_margin"), "Too large", "late_clip_margin is %v, above r_max %v: searching longer would always cost.", c.LateClipMargin, c.RMax)
	}
	return ds
}

// Plugin describes the reward.
func Plugin() sdk.RewardPlugin {
	return sdk.NewReward("frugalrag", "How well an episode's searches match what its evidence took, against the recall that exploring reached on the question, plus a reward for well-formed turns.",
		"FrugalRAG (arXiv:2507.07634)", func(_ context.Context, c Config, _ sdk.Host) (sdk.Reward, error) {
			return reward{c, NewSplitter()}, nil
		})
}

type reward struct {
	config   Config
	splitter Splitter
}

func (r reward) Score(_ context.Context, req sdk.ScoreRequest) (sdk.ScoreResponse, error) {
	var out sdk.ScoreResponse
	for _, item := range req.Items {
		s, err := r.score(item)
		if err != nil {
			return sdk.ScoreResponse{}, fmt.Errorf("question %s: %w", item.Question.ID, err)
		}
		out.Scores = append(out.Scores, s)
	}
	return out, nil
}

func (r reward) score(item sdk.ScoreItem) (sdk.Score, error) {
	c := r.config
	rule, err := r.rule(item.Question)
	if err != nil {
		return sdk.Score{}, err
	}
	a := Read(item.Episode, c.MaxIters)
	e := rule.Measure(a.Hits)
	efficiency := Efficiency(e.Searches, e.HStar, c.MaxIters+1, Shape{c.RMax, c.Zeta, c.LateClipMargin})
	format := Format(a.WellFormed, a.Malformed, c.FormatCoefficient)
	score := sdk.Score{Value: efficiency + format, Components: map[string]float64{
		"efficiency": efficiency, "format": format, "searches": float64(e.Searches), "recall": e.Recall, "h_star": float64(e.HStar),
		"met": 0, "tau": rule.Tau,
	}}
	if e.Met {
		score.Components["met"] = 1
	}
	if rule.Units != nil {
		score.Components["support_f1"], score.Components["coverage"] = e.SupportF1, e.Coverage
	}
	var passages []string
	for _, found := range a.Hits {
		for _, h := range found {
			passages = append(passages, h.Title+"\n"+h.Text)
		}
	}
	hit, precision := AnswerHits(passages, item.Question.Answers)
	if hit {
		score.Components["answer_found"] = 1
	} else {
		score.Components["answer_found"] = 0
	}
	score.Components["answer_precision"] = precision
	return score, nil
}

// rule is how the evidence on a question is measured.
func (r reward) rule(q episode.Question) (Rule, error) {
	c := r.config
	rule := Rule{Threshold: c.CoverageF1, FirstReach: c.HStar == "first_ge_tau"}
	var err error
	if rule.Tau, err = number(q, c.TauKey, c.TauFallback); err != nil {
		return rule, err
	}
	if rule.TauF1, err = number(q, c.TauF1Key, c.TauF1Fallback); err != nil {
		return rule, err
	}
	rule.Recall = func(hits []episode.Hit) float64 {
		var have, golds []string
		for _, g := range q.Gold {
			if c.Match == "document" {
				golds = append(golds, g.DocumentID)
			} else {
				golds = append(golds, g.Title)
			}
		}
		for _, h := range hits {
			if c.Match == "document" {
				have = append(have, h.DocumentID)
			} else {
				have = append(have, h.Title)
			}
		}
		if c.Match == "document" {
			return MultisetRecall(have, golds)
		}
		return TitleRecall(have, golds)
	}
	switch c.Support {
	case "sentences":
		rule.Units = func(h episode.Hit) []string { return r.splitter.Sentences(h.Text) }
	case "passages":
		rule.Units = func(h episode.Hit) []string { return []string{h.Text} }
	default:
		return rule, nil
	}
	rule.Golds, err = r.goldTexts(q)
	return rule, err
}

// number reads a field of the metadata.
func number(q episode.Question, key string, fallback float64) (float64, error) {
	v, given := q.Metadata[key]
	if !given || v == nil {
		return fallback, nil
	}
	n, ok := v.(float64)
	if !ok {
		return 0, fmt.Errorf("its metadata %s is %v, expected a number", key, v)
	}
	return n, nil
}

// goldTexts lists the texts that the answer rests on.
func (r reward) goldTexts(q episode.Question) ([]string, error) {
	key := r.config.GoldTextsKey
	if v, given := q.Metadata[key]; given {
		list, ok := v.([]any)
		var golds []string
		for _, element := range list {
			s, isText := element.(string)
			ok = ok && isText
			golds = append(golds, s)
		}
		if !ok {
			return nil, fmt.Errorf("its metadata %s is %v, expected a list of texts", key, v)
		}
		return golds, nil
	}
	docs, _ := q.Metadata["support_docs"].([]any)
	if len(docs) == 0 {
		return nil, fmt.Errorf("support = %q needs its gold texts, and its metadata has neither %s nor support_docs: give them in the dataset, or set support = \"none\"", r.config.Support, key)
	}
	facts, _ := q.Metadata["supporting_facts"].([]any)
	var golds []string
	for _, d := range docs {
		doc, _ := d.(map[string]any)
		title, _ := doc["title"].(string)
		t, _ := doc["paragraph_text"].(string)
		if r.config.Support == "sentences" {
			t = firstFact(r.splitter.Sentences(t), title, facts)
		}
		golds = append(golds, t)
	}
	return golds, nil
}

// firstFact is the first supporting sentence of a title; without a fact about it, its first sentence.
func firstFact(sentences []string, title string, facts []any) string {
	at := 0
	for _, f := range facts {
		if pair, _ := f.([]any); len(pair) == 2 && pair[0] == title {
			if n, ok := pair[1].(float64); ok {
				at = int(n)
			}
			break
		}
	}
	if at < 0 || at >= len(sentences) {
		return ""
	}
	return sentences[at]
}

// Actions is what the reward reads from an episode.
type Actions struct {
	Hits                  [][]episode.Hit // per turn
	WellFormed, Malformed int             // calls, and turns that could not be read
}

// Read lists an episode's searches up to its first finish, and at most maxIters turns of the policy.
func Read(e episode.Episode, maxIters int) Actions {
	var a Actions
	written := 0
	for _, t := range e.Turns {
		if t.Text != "" || t.Span.Len() > 0 {
			if written++; written > maxIters {
				break
			}
		}
		if t.Action == episode.ActionAnswer {
			break
		}
		// A call of a tool that there is not cannot be read either.
		if t.Action == episode.ActionCall && (t.Executed || t.Error == "") {
			a.WellFormed++
		} else {
			a.Malformed++
		}
		a.Hits = append(a.Hits, t.Hits)
	}
	return a
}
