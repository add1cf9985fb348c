package stepsearch

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
)

func call(query string, hits ...episode.Hit) episode.Turn {
	return episode.Turn{Action: episode.ActionCall, Executed: true, Arguments: map[string]any{"query": query}, Hits: hits}
}

func hit(id, text string) episode.Hit { return episode.Hit{DocumentID: id, Title: id, Text: text} }

var tower = hit("tower", "The Eiffel Tower is in Paris, France.")
var france = hit("france", "Paris is the capital of France.")

func question() episode.Question {
	return rewardInput{
		Targets: []string{"Paris"}, Support: []string{tower.Text, france.Text},
		SearchKeys: [][]string{{"eiffel tower", "tower of eiffel"}, {"capital of france"}},
	}.question()
}

// TestStepsFollowTurns: what a turn earns is its own, whatever other turns stand between; turns that searched nothing
// earn nothing.
func TestStepsFollowTurns(t *testing.T) {
	e := episode.Episode{Turns: []episode.Turn{
		{Action: episode.ActionInvalid, Observation: "<warning><search> and </search></warning>"},
		call("a", tower),
		{Action: episode.ActionCall, Arguments: map[string]any{"query": "over budget"}},
		call("b", france, tower),
		call("c"),
		{Action: episode.ActionAnswer, Executed: true},
	}}
	got := score(t, start(t, StepsPlugin(), map[string]any{"step_scale": 1}), e, question())
	first, second := got.Turns[1], got.Turns[3]
	if got.Turns[0] != 0 || got.Turns[2] != 0 || got.Turns[4] != 0 || got.Turns[5] != 0 {
		t.Errorf("turns %v", got.Turns)
	}
	if first < .5 || first >= 1 || math.Abs(first+second+.5-got.Components["coverage"]) > 1e-12 || got.Components["redundancy"] != .5 {
		t.Errorf("turns %v, components %v", got.Turns, got.Components)
	}
	if math.Abs(got.Components["gain"]-got.Components["coverage"]) > 1e-12 || math.Abs(got.Value-first-second) > 1e-12 {
		t.Errorf("turns %v, components %v", got.Turns, got.Components)
	}
	scaled := score(t, start(t, StepsPlugin(), nil), e, question())
	for i, v := range got.Turns {
		if math.Abs(scaled.Turns[i]-1.6*v) > 1e-12 {
			t.Errorf("the default scale gives %v, want 1.6 times %v", scaled.Turns[i], v)
		}
	}
}

func TestRedundancy(t *testing.T) {
	changed := tower
	changed.Text += " It is tall."
	e := episode.Episode{Turns: []episode.Turn{call("a", tower), call("b", changed)}}
	for redundancy, want := range map[string]float64{"text": 0, "document": 1} {
		got := score(t, start(t, StepsPlugin(), map[string]any{"redundancy": redundancy}), e, question())
		if got.Components["redundancy"] != want {
			t.Errorf("%s: %v, want %v", redundancy, got.Components, want)
		}
	}
}

// TestObservations: documents as the agent sees them, also of an observation that was cut.
func TestObservations(t *testing.T) {
	r := start(t, StepsPlugin(), map[string]any{"documents": "observation", "step_scale": 1})
	observed := func(text string, hits ...episode.Hit) episode.Episode {
		turn := call("q", hits...)
		turn.Observation = text
		return episode.Episode{ID: "e", Turns: []episode.Turn{turn}}
	}
	whole := score(t, r, observed("\n\n<information> Doc 1<## Title: T ##> "+tower.Text+" </information>\n\n<warning>##> "+france.Text+"</warning>", tower), question())
	cut := score(t, r, observed("\n\n<information> Doc 1<## Title: T ##> "+tower.Text, tower), question())
	if whole.Value <= 0 || whole.Value != cut.Value || whole.Components["coverage"] > .9 {
		t.Errorf("whole %+v, cut %+v", whole, cut)
	}
	if got := score(t, r, observed("\n\n<information> nothing found </information>"), question()); got.Value != 0 {
		t.Errorf("nothing found: %+v", got)
	}
	_, err := r.Score(t.Context(), sdk.ScoreRequest{Items: []sdk.ScoreItem{{Question: question(), Episode: observed("<information>Doc 1: x</information>", tower)}}})
	if err == nil || !strings.Contains(err.Error(), "title_open") {
		t.Errorf("an observation without marks: %v", err)
	}
}

func TestKeys(t *testing.T) {
	e := episode.Episode{Turns: []episode.Turn{call("the Eiffel Tower"), {Action: episode.ActionInvalid}, call("eiffel")}}
	for repeated, want := range map[string]float64{"overwrite": .3334, "max": .5} {
		got := score(t, start(t, KeysPlugin(), map[string]any{"repeated": repeated}), e, question())
		if math.Abs(got.Value-want) > 1e-4 || got.Components["queries"] != 2 || got.Components["groups"] != 2 {
			t.Errorf("%s: %+v, want %v", repeated, got, want)
		}
	}
}

func TestGate(t *testing.T) {
	answer := "Paris"
	last := func(text string, action, span int) episode.Episode {
		return episode.Episode{Answer: &answer, Turns: []episode.Turn{{Action: episode.ActionAnswer, Text: text, Span: episode.Span{End: span}, ActionSpan: episode.Span{End: action}}}}
	}
	r := start(t, AnswerPlugin(), nil)
	for name, test := range map[string]struct {
		e      episode.Episode
		closed float64
	}{
		"ends with the answer":       {last("<answer>Paris</answer>", 5, 5), 1},
		"in the token of the tag":    {last("<answer>Paris</answer>.", 5, 5), 1},
		"the end of sequence":        {last("<answer>Paris</answer>", 5, 6), 1},
		"goes on":                    {last("<answer>Paris</answer> and more", 5, 8), 0},
		"no answer":                  {episode.Episode{Turns: []episode.Turn{{}}}, 0},
		"an answer from no own turn": {episode.Episode{Answer: &answer}, 1},
	} {
		got := score(t, r, test.e, question())
		if got.Components["closed"] != test.closed || (got.Value == 1) != (test.e.Answer != nil) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestMetadata(t *testing.T) {
	for name, c := range map[string]struct {
		plugin sdk.RewardPlugin
		values map[string]any
		want   string // of the error
	}{
		"no keys":           {KeysPlugin(), nil, ""},
		"no documents":      {StepsPlugin(), nil, ""},
		"one text per key":  {KeysPlugin(), map[string]any{"search_keys": []any{"a", "b"}}, ""},
		"keys no list":      {KeysPlugin(), map[string]any{"search_keys": "a"}, "search_keys"},
		"group no list":     {KeysPlugin(), map[string]any{"search_keys": []any{1.}}, "group 1"},
		"key no text":       {KeysPlugin(), map[string]any{"search_keys": []any{[]any{"a"}, []any{"a", 1.}}}, "group 2, entry 2"},
		"document no text":  {StepsPlugin(), map[string]any{"support_docs": []any{map[string]any{"title": "T"}}}, "entry 1"},
		"documents no list": {StepsPlugin(), map[string]any{"support_docs": map[string]any{}}, "support_docs"},
	} {
		item := sdk.ScoreItem{Question: episode.Question{ID: "q7", Metadata: c.values}, Episode: episode.Episode{Turns: []episode.Turn{call("a", tower)}}}
		out, err := start(t, c.plugin, nil).Score(t.Context(), sdk.ScoreRequest{Items: []sdk.ScoreItem{item}})
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want == "" && strings.HasPrefix(name, "no ") && out.Scores[0].Value != 0:
			t.Errorf("%s: %+v", name, out.Scores[0])
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "q7")):
			t.Errorf("%s: error %v, want one about %q", name, err, c.want)
		}
	}
	if ds := StepsPlugin().Validate(map[string]any{"documents": "observation", "redundancy": "document"}); !ds.HasErrors() {
		t.Error("texts without identity are accepted")
	}
}

// TestStepProperties: gains are not negative and sum to the coverage, which is at most 1; the order of golds does not
// matter; documents that come again gain nothing and cost their share.
func TestStepProperties(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	words := strings.Fields("river tower france king film lake born city the of 1999 paris")
	sentence := func() string {
		var list []string
		for range 1 + random.IntN(6) {
			list = append(list, words[random.IntN(len(words))])
		}
		return strings.Join(list, " ")
	}
	for range 200 {
		golds := []string{sentence(), sentence(), sentence()}
		var searches [][]Document
		for range 1 + random.IntN(4) {
			var documents []Document
			for range random.IntN(4) {
				s := sentence()
				documents = append(documents, Document{s, s})
			}
			searches = append(searches, documents)
		}
		steps, coverage := Steps(golds, searches)
		sum := 0.
		for _, s := range steps {
			if s.Gain < 0 || s.Penalty < 0 || s.Penalty > 1 {
				t.Fatalf("step %+v", s)
			}
			sum += s.Gain
		}
		if math.Abs(sum-coverage) > 1e-9 || coverage > 1+1e-9 {
			t.Fatalf("gains sum to %v, coverage %v", sum, coverage)
		}
		turned, _ := Steps([]string{golds[2], golds[0], golds[1]}, searches)
		again, _ := Steps(golds, append(searches, searches...))
		for i, s := range steps {
			if math.Abs(turned[i].Gain-s.Gain) > 1e-9 || turned[i].Penalty != s.Penalty {
				t.Fatalf("other order of golds: %+v, want %+v", turned[i], s)
			}
			if repeat := again[len(steps)+i]; repeat.Gain > 1e-9 || len(searches[i]) > 0 && repeat.Penalty != 1 {
				t.Fatalf("repeated search: %+v", repeat)
			}
		}
	}
}
