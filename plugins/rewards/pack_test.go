package main

import (
	"context"
	"maps"
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
	"github.com/forage-rl/forage/plugins/rewards/davidgates"
)

// worldTags are the tags of a protocol with a new thought before each search, as in MiniHop.
var worldTags = map[string]any{
	"search_open": "<search>", "search_close": "</search>", "result_open": "<information>", "result_close": "</information>",
	"answer_open": "<answer>", "answer_close": "</answer>",
}

const (
	fullChain = "<think> author </think> <search> b1 author </search> <information> ( b1 ) author is p2 . </information> " +
		"<think> spouse </think> <search> p2 spouse </search> <information> ( p2 ) spouse is p3 . </information> <think> done </think> <answer> p3 </answer> <eos>"
	atOnce = "<think> done </think> <answer> p3 </answer> <eos>"
)

func TestGatesWithAThoughtPerTurn(t *testing.T) {
	config := maps.Clone(worldTags)
	config["scope"] = "response"
	q := episode.Question{Answers: []string{"p3"}}
	for name, c := range map[string]struct {
		response string
		want     float64
		failed   string
	}{
		"full chain":      {fullChain, 1, ""},
		"at once":         {atOnce, 0, davidgates.Searched},
		"repeated query":  {strings.ReplaceAll(fullChain, "p2 spouse </s", "b1 author </s"), 0, davidgates.Distinct},
		"dangling search": {"<think> author </think> <search> b1 author </search> <think> done </think> <answer> p3 </answer>", 0, davidgates.Balanced},
		"no answer":       {strings.Replace(fullChain, "<answer> p3 </answer> <eos>", "", 1), 0, davidgates.Answered},
		"no last thought": {strings.Replace(fullChain, "<think> done </think>", "", 1), 0, davidgates.SearchesInThink},
		"no thought":      {"<search> b1 </search> <information> x </information> <answer> p3 </answer>", 0, davidgates.ClosedThink},
	} {
		got := score(t, "david-gates", config, c.response, nil, q, false)
		if got.Value != c.want || c.failed != "" && got.Components[c.failed] != 0 {
			t.Errorf("%s: %v, components %v", name, got.Value, got.Components)
		}
	}
	if got := score(t, "david-gates", worldTags, fullChain, nil, q, false); got.Components[davidgates.Searched] != 0 {
		t.Error("with the released scope only the last thought counts")
	}
	if got := score(t, "david-gates", config, fullChain, nil, episode.Question{}, false); got.Value != 0 || got.Components[davidgates.HasGold] != 0 {
		t.Errorf("without a gold answer: %+v", got)
	}
	config["gates"] = []any{"distinct_queries"}
	if got := score(t, "david-gates", config, atOnce, nil, q, false); got.Value != 1 || len(got.Components) != 1 {
		t.Errorf("one gate alone: %+v", got)
	}
}

func TestFormatOfAThoughtPerTurn(t *testing.T) {
	q := episode.Question{Answers: []string{"p3"}}
	answer := "p3"
	if got := score(t, "searchr1-format", nil, fullChain, &answer, q, false).Value; got != .8 {
		t.Errorf("an end token is text outside the elements: %v", got)
	}
	config := map[string]any{"end_tokens": []any{"<eos>"}}
	wrong := "p4"
	for name, c := range map[string]struct {
		response string
		answer   *string
		want     float64
	}{
		"right": {fullChain, &answer, 1}, "at once": {atOnce, &answer, 1}, "wrong": {atOnce, &wrong, .2}, "invalid and wrong": {"p4 <eos>", &wrong, .1}, "nothing": {"", nil, 0},
	} {
		if got := score(t, "searchr1-format", config, c.response, c.answer, q, false).Value; got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func coverage(t *testing.T, config map[string]any, golds []episode.Gold, answers []string, turns ...[]episode.Hit) sdk.Score {
	t.Helper()
	for _, p := range pack().Rewards {
		if p.Name != "evidence-coverage" {
			continue
		}
		r, err := p.New(t.Context(), config, nil)
		if err != nil {
			t.Fatal(err)
		}
		e := episode.Episode{ID: "e"}
		for _, hits := range turns {
			e.Turns = append(e.Turns, episode.Turn{Hits: hits})
		}
		out, err := r.Score(t.Context(), sdk.ScoreRequest{Items: []sdk.ScoreItem{{Question: episode.Question{Gold: golds, Answers: answers}, Episode: e}}})
		if err != nil {
			t.Fatal(err)
		}
		return out.Scores[0]
	}
	panic("no evidence-coverage")
}

func TestCoverageFromHits(t *testing.T) {
	golds := []episode.Gold{{Title: "A", DocumentID: "a"}, {Title: "B", DocumentID: "b"}, {Title: "A", DocumentID: "a"}}
	hit := func(ids ...string) (hits []episode.Hit) {
		for _, id := range ids {
			hits = append(hits, episode.Hit{DocumentID: id, Text: "text of " + id})
		}
		return hits
	}
	got := coverage(t, nil, golds, nil, hit("x"), hit("a", "x", "a"), hit("a"))
	if got.Value != .5 || got.Components["found"] != 1 || got.Components["gold"] != 2 || len(got.Turns) != 3 || got.Turns[0] != 0 || got.Turns[1] != .5 || got.Turns[2] != 0 {
		t.Errorf("%+v", got)
	}
	if got := coverage(t, map[string]any{"measure": "f1"}, golds, nil, hit("x"), hit("a")); got.Value != .5 || got.Turns != nil {
		t.Errorf("f1 of recall 1/2 and precision 1/2: %+v", got)
	}
	if got := coverage(t, nil, nil, nil, hit("a")); got.Value != 0 {
		t.Errorf("no golds: %+v", got)
	}
	if got := coverage(t, nil, golds, nil); got.Value != 0 {
		t.Errorf("no turns: %+v", got)
	}
	for answer, want := range map[string]float64{"Text of B!": 1, "q": 0, "": 0} {
		if got := coverage(t, map[string]any{"measure": "answer"}, golds, []string{answer}, hit("a", "b")); got.Value != want {
			t.Errorf("answer %q: %v", answer, got.Value)
		}
	}
	byTitle := coverage(t, nil, []episode.Gold{{Title: `The "Weird" Al`}}, nil, []episode.Hit{{DocumentID: "7", Title: `the "weird" al`}})
	if byTitle.Value != 1 {
		t.Errorf("a title with quotes: %+v", byTitle)
	}
}

func TestF1Rules(t *testing.T) {
	yes := "yes it is"
	for rule, want := range map[string]float64{"hotpot": 0, "squad": .5, "musique": .5} {
		if got := score(t, "f1", map[string]any{"rule": rule}, "", &yes, episode.Question{Answers: []string{"yes"}}, false); got.Value != want {
			t.Errorf("%s: %v, want %v", rule, got.Value, want)
		}
	}
	if got := score(t, "f1", nil, "", nil, episode.Question{Answers: []string{"yes"}}, false); got.Value != 0 {
		t.Errorf("no answer: %v", got.Value)
	}
}

func TestConfigurationErrors(t *testing.T) {
	for name, config := range map[string]map[string]any{
		"david-gates":       {"gates": []any{"no_such_gate"}},
		"searchr1-format":   {"think_open": "<search>"},
		"david-outcome":     {"answer_open": ""},
		"evidence-coverage": {"measure": "precision"},
		"em":                {"match": "fuzzy"},
		"f1":                {"rul": "squad"},
	} {
		for _, p := range pack().Rewards {
			if p.Name == name {
				if ds := p.Validate(config); !ds.HasErrors() || len(ds[0].Path) == 0 {
					t.Errorf("%s accepts %v: %v", name, config, ds)
				}
			}
		}
	}
}

var pluginName = regexp.MustCompile(`^[a-z][a-z0-9_-]*$`)

func TestPackDescribesItself(t *testing.T) {
	for _, p := range pack().Rewards {
		if !pluginName.MatchString(p.Name) || p.Description == "" {
			t.Errorf("plugin %q: %q", p.Name, p.Description)
		}
		for _, a := range p.Schema.Attributes {
			if a.Source == "" || !strings.HasSuffix(a.Description, ".") {
				t.Errorf("%s.%s: source %q, description %q", p.Name, a.Name, a.Source, a.Description)
			}
		}
		if ds := p.Validate(nil); len(ds) != 0 {
			t.Errorf("%s: the defaults give %v", p.Name, ds)
		}
	}
}

// No text makes a reward fail or leave its range, which is [0, 1] for all but those that add terms up.
func FuzzScores(f *testing.F) {
	f.Add(fullChain, "p3")
	f.Add("<think>a</think><answer>x</answer>", "x")
	f.Add("0", "0") // GRASP adds efficiency to a right answer
	f.Add(`<begin_search>q</end_search><search_result>result 1: "A"</search_result></think>\boxed{x}`, "\xff")
	rewards := map[string]sdk.Reward{}
	for _, p := range pack().Rewards {
		r, err := p.New(context.Background(), nil, nil)
		if err != nil {
			f.Fatal(err)
		}
		rewards[p.Name] = r
	}
	f.Fuzz(func(t *testing.T, response, gold string) {
		e := episode.Episode{Answer: &response, Sequences: []episode.Sequence{{Segments: []episode.Segment{{Text: response}}}}}
		q := episode.Question{Answers: []string{gold}, Gold: []episode.Gold{{Title: gold}}}
		for name, r := range rewards {
			out, err := r.Score(t.Context(), sdk.ScoreRequest{Items: []sdk.ScoreItem{{Question: q, Episode: e}, {Question: q, Episode: e}}})
			if err != nil || len(out.Scores) != 2 {
				t.Fatalf("%s: %v", name, err)
			}
			low, high := 0., 1.
			switch name {
			case "frugalrag":
				low, high = -2.5, 4.5
			case "grasp":
				high = 2 // 1 + α + β + γ
			}
			if v := out.Scores[0].Value; v < low || v > high || math.IsNaN(v) || out.Scores[1].Value != v {
				t.Fatalf("%s: %v and %v", name, v, out.Scores[1].Value)
			}
		}
	})
}
