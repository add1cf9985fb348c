package stepsearch

import (
	"encoding/json"
	"regexp"
	"slices"
	"testing"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
	"github.com/forage-rl/forage/core/sdk/sdktest/vectors"
)

// oneOrMore is a list of strings that may be written as one string.
type oneOrMore []string

func (o *oneOrMore) UnmarshalJSON(data []byte) error {
	if data[0] == '"' {
		*o = make([]string, 1)
		return json.Unmarshal(data, &(*o)[0])
	}
	return json.Unmarshal(data, (*[]string)(o))
}

func TestVectorF1(t *testing.T) {
	f := vectors.Load(t, "stepsearch", "f1")
	for _, c := range f.Cases {
		in := vectors.Decode[struct {
			Prediction string
			Golds      oneOrMore
		}](t, c.Input)
		want := vectors.Decode[struct{ F1 float64 }](t, c.Want()).F1
		if got := Round4(BestF1(in.Prediction, in.Golds)); !f.Tolerance.Close(got, want) {
			t.Errorf("%s: %v, want %v", c.ID, got, want)
		}
	}
}

func TestVectorKeyScore(t *testing.T) {
	f := vectors.Load(t, "stepsearch", "key_score")
	for _, c := range f.Cases {
		in := vectors.Decode[struct {
			Queries []string
			Keys    [][]string
		}](t, c.Input)
		want := vectors.Decode[struct {
			Score float64 `json:"key_score"`
		}](t, c.Want()).Score
		if got := KeyScore(in.Queries, in.Keys, false); !f.Tolerance.Close(got, want) {
			t.Errorf("%s: %v, want %v", c.ID, got, want)
		}
		best := KeyScore(in.Queries, in.Keys, true)
		if best < want-1e-9 || c.HasQuirk() && best <= want {
			t.Errorf("%s: the maximum %v is below what is overwritten, %v", c.ID, best, want)
		}
	}
}

// refused says whether the reference raises where ours gives similarity 0.
func refused(t *testing.T, c vectors.Case) bool {
	return vectors.Decode[struct{ Error string }](t, c.Expected).Error != ""
}

func TestVectorTFIDFCosine(t *testing.T) {
	f := vectors.Load(t, "retrieval", "tfidf_cosine")
	for _, c := range f.Cases {
		in := vectors.Decode[struct {
			Document string
			Units    []string
		}](t, c.Input)
		want := vectors.Decode[struct {
			Vocabulary []string
			Similarity []float64
		}](t, c.Want())
		if refused(t, c) {
			want.Similarity = make([]float64, len(in.Units))
		}
		vocabulary := words(in.Document)
		for _, u := range in.Units {
			vocabulary = append(vocabulary, words(u)...)
		}
		slices.Sort(vocabulary)
		if vocabulary = slices.Compact(vocabulary); !slices.Equal(vocabulary, want.Vocabulary) {
			t.Errorf("%s: vocabulary %q, want %q", c.ID, vocabulary, want.Vocabulary)
		}
		got := NewUnits(in.Units).Cosine(in.Document)
		if !allClose(f.Tolerance, got, want.Similarity) {
			t.Errorf("%s: %v, want %v", c.ID, got, want.Similarity)
		}
	}
}

func allClose(tolerance vectors.Tolerance, got, want []float64) bool {
	return slices.EqualFunc(got, want, tolerance.Close)
}

func TestVectorInformationGain(t *testing.T) {
	f := vectors.Load(t, "stepsearch", "information_gain")
	for _, c := range f.Cases {
		in := vectors.Decode[struct {
			Steps [][]string
			Golds []string
		}](t, c.Input)
		want := vectors.Decode[struct{ Gains, Penalties, Step []float64 }](t, c.Want())
		if refused(t, c) {
			want.Gains, want.Penalties, want.Step = make([]float64, len(in.Steps)), make([]float64, len(in.Steps)), make([]float64, len(in.Steps))
		}
		searches := make([][]Document, len(in.Steps))
		for i, documents := range in.Steps {
			for _, d := range documents {
				searches[i] = append(searches[i], Document{d, d})
			}
		}
		var gains, penalties, step []float64
		steps, _ := Steps(in.Golds, searches)
		for _, s := range steps {
			gains, penalties = append(gains, s.Gain), append(penalties, s.Penalty)
			step = append(step, StepsConfig{StepScale: 1, InformationGain: true, RedundancyPenalty: true}.value(s))
		}
		if !allClose(f.Tolerance, gains, want.Gains) || !allClose(f.Tolerance, penalties, want.Penalties) || !allClose(f.Tolerance, step, want.Step) {
			t.Errorf("%s: gains %v, penalties %v, sum %v; want %+v", c.ID, gains, penalties, step, want)
		}
	}
}

func TestVectorSplitBlock(t *testing.T) {
	for _, c := range vectors.Load(t, "stepsearch", "split_block").Cases {
		in := vectors.Decode[struct{ Block string }](t, c.Input)
		want := vectors.Decode[struct{ Docs []string }](t, c.Want())
		if got := Split(in.Block, "<##", "##>"); !slices.Equal(got, want.Docs) {
			t.Errorf("%s: %q, want %q", c.ID, got, want.Docs)
		}
	}
}

func TestVectorOfflineEval(t *testing.T) {
	f := vectors.Load(t, "stepsearch", "offline_eval")
	r := start(t, AnswerPlugin(), map[string]any{"answer_from": "evaluator"})
	for _, c := range f.Cases {
		in := vectors.Decode[struct {
			Response string
			Golds    oneOrMore
		}](t, c.Input)
		want := vectors.Decode[struct {
			Answer string
			EM, F1 float64
		}](t, c.Want())
		e := episode.Episode{Sequences: []episode.Sequence{{Segments: []episode.Segment{{Text: in.Response}}}}}
		got := score(t, r, e, episode.Question{Answers: in.Golds})
		if !f.Tolerance.Close(got.Value, want.F1) || got.Components["em"] != want.EM {
			t.Errorf("%s: %+v, want %+v", c.ID, got, want)
		}
		config := AnswerConfig{AnswerFrom: FromEvaluator, AnswerOpen: "<answer>", AnswerClose: "</answer>"}
		if answer, _ := config.answer(e); *answer != want.Answer {
			t.Errorf("%s: answer %q, want %q", c.ID, *answer, want.Answer)
		}
	}
}

func start(t testing.TB, p sdk.RewardPlugin, values map[string]any) sdk.Reward {
	t.Helper()
	r, err := p.New(t.Context(), values, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func score(t testing.TB, r sdk.Reward, e episode.Episode, q episode.Question) sdk.Score {
	t.Helper()
	out, err := r.Score(t.Context(), sdk.ScoreRequest{Items: []sdk.ScoreItem{{Question: q, Episode: e}}})
	if err != nil || len(out.Scores) != 1 {
		t.Fatalf("%v, %d scores", err, len(out.Scores))
	}
	return out.Scores[0]
}

// released reads the searches of a response as the release does: a query, and the information that follows some
// closing tag. One match may swallow searches without information. Each becomes a turn.
func released(response string) episode.Episode {
	e := episode.Episode{Sequences: []episode.Sequence{{Segments: []episode.Segment{{Kind: episode.Policy, Text: response}}}}}
	for _, m := range regexp.MustCompile(`(?s)<search>.*?</search>\s*(<information>.*?</information>)`).FindAllStringSubmatch(response, -1) {
		e.Turns = append(e.Turns, episode.Turn{Action: episode.ActionCall, Executed: true, Observation: m[1]})
	}
	return e
}

type rewardInput struct {
	Response   string
	Targets    []string
	SearchKeys [][]string `json:"search_keys"`
	Support    []string
}

func (in rewardInput) question() episode.Question {
	var keys, support []any
	for _, group := range in.SearchKeys {
		var list []any
		for _, k := range group {
			list = append(list, k)
		}
		keys = append(keys, list)
	}
	for _, s := range in.Support {
		support = append(support, map[string]any{"title": "T", "paragraph_text": s})
	}
	return episode.Question{ID: "q", Answers: in.Targets, Metadata: map[string]any{"search_keys": keys, "support_docs": support}}
}

// combined is the whole reward: total and turn_total as an experiment writes them.
type combined struct {
	Total, Answer, Keys float64
	Steps               []float64
}

func combine(t *testing.T, in rewardInput, stepsValues map[string]any, withKeys bool) combined {
	e, q := released(in.Response), in.question()
	values := map[string]any{"documents": "observation", "step_scale": 1.}
	for k, v := range stepsValues {
		values[k] = v
	}
	answer := score(t, start(t, AnswerPlugin(), map[string]any{"answer_from": "text"}), e, q)
	keys := score(t, start(t, KeysPlugin(), map[string]any{"queries_from": "text"}), e, q)
	steps := score(t, start(t, StepsPlugin(), values), e, q)
	out := combined{Total: -1, Answer: answer.Value}
	if answer.Components["closed"] == 1 {
		out.Keys = keys.Value
		out.Total = answer.Value
		if withKeys {
			out.Total += .618 * keys.Value
		}
		out.Steps = steps.Turns
	}
	return out
}

func TestVectorReward(t *testing.T) {
	f := vectors.Load(t, "stepsearch", "reward")
	for _, c := range f.Cases {
		in := vectors.Decode[rewardInput](t, c.Input)
		type flagged struct {
			Score float64
			Steps []float64 `json:"step_scores"`
		}
		want := vectors.Decode[struct {
			flagged
			Answer float64            `json:"answer_correct"`
			Keys   float64            `json:"search_key_score"`
			Off    map[string]flagged `json:"with_flag_off"`
		}](t, c.Want())
		check := func(name string, got combined, want flagged) {
			if !f.Tolerance.Close(got.Total, want.Score) || !allClose(f.Tolerance, got.Steps, want.Steps) {
				t.Errorf("%s, %s: %+v, want %+v", c.ID, name, got, want)
			}
		}
		got := combine(t, in, nil, true)
		check("all on", got, want.flagged)
		if !f.Tolerance.Close(got.Answer, want.Answer) || !f.Tolerance.Close(got.Keys, want.Keys) {
			t.Errorf("%s: %+v, want %+v", c.ID, got, want)
		}
		off := map[string]any{"information_gain": false, "redundancy_penalty": false}
		check("no gain", combine(t, in, map[string]any{"information_gain": false}, true), want.Off["no_gain"])
		check("no penalty", combine(t, in, map[string]any{"redundancy_penalty": false}, true), want.Off["no_penalty"])
		check("no steps", combine(t, in, off, true), want.Off["no_steps"])
		check("no keys", combine(t, in, nil, false), want.Off["no_key"])
	}
}

// TestVectorPlacementValues checks the values of the placement file, the released factor of 1.6 among them; where on
// the tokens they go is the algorithm's.
func TestVectorPlacementValues(t *testing.T) {
	f := vectors.Load(t, "stepsearch", "placement")
	for _, c := range f.Cases {
		in := vectors.Decode[rewardInput](t, c.Input)
		want := vectors.Decode[struct {
			Rewards [][2]float64 `json:"nonzero_rewards"`
			Raw     []float64    `json:"step_scores_raw"`
			Answer  float64      `json:"answer_f1"`
			Keys    float64      `json:"key_score"`
		}](t, c.Want())
		raw, scaled := combine(t, in, nil, true), combine(t, in, map[string]any{"step_scale": 1.6}, true)
		if !allClose(f.Tolerance, raw.Steps, want.Raw) || !f.Tolerance.Close(raw.Answer, want.Answer) || !f.Tolerance.Close(raw.Keys, want.Keys) {
			t.Errorf("%s: %+v, want %+v", c.ID, raw, want)
		}
		var got, values []float64
		for _, v := range append(scaled.Steps, scaled.Total) {
			if v != 0 {
				got = append(got, v)
			}
		}
		for _, r := range want.Rewards {
			values = append(values, r[1])
		}
		if !allClose(f.Tolerance, got, values) {
			t.Errorf("%s: rewards %v, want %v", c.ID, got, values)
		}
	}
}
