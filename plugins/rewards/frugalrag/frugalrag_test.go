package frugalrag

import (
	"math"
	"strings"
	"testing"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
)

var paper = Shape{RMax: 2, Zeta: 2, LateMargin: .1}

// TestStoppingInTimeIsBest: for every budget and h*, h* searches are worth most, and every search more is worth less
// than the one before, or as much where the bound cuts it.
func TestStoppingInTimeIsBest(t *testing.T) {
	for budget := 1; budget <= 12; budget++ {
		for h := 1; h <= budget; h++ {
			best := Efficiency(h, h, budget, paper)
			if best <= paper.RMax {
				t.Errorf("budget %d, h* %d: %v", budget, h, best)
			}
			last := best
			for n := h + 1; n <= budget; n++ {
				v := Efficiency(n, h, budget, paper)
				if v > last || v >= best || v < -paper.RMax || v > paper.RMax-paper.LateMargin {
					t.Errorf("budget %d, h* %d, %d searches: %v after %v", budget, h, n, v, last)
				}
				last = v
			}
		}
		for n := 0; n <= budget; n++ {
			if v := Efficiency(n, insufficient, budget, paper); v > 0 || v < -paper.RMax {
				t.Errorf("budget %d, %d searches without the evidence: %v", budget, n, v)
			}
		}
	}
	if got := Efficiency(2, 1, 6, Shape{RMax: 1, Zeta: 0}); got != 1 {
		t.Errorf("a bound of 1: %v", got)
	}
	if got, want := Efficiency(3, 2, 11, Shape{RMax: 2, Zeta: 2}), 2.; got != want {
		t.Errorf("the paper's bound has no margin: %v, want %v", got, want)
	}
}

func hits(titles ...string) (list []episode.Hit) {
	for _, title := range titles {
		list = append(list, episode.Hit{Title: title, DocumentID: "d-" + title, Text: "About " + title + "."})
	}
	return list
}

func TestHStar(t *testing.T) {
	golds := []string{"a1", "b1", "c1", "d1"}
	recall := func(list []episode.Hit) float64 {
		var have []string
		for _, h := range list {
			have = append(have, h.Title)
		}
		return TitleRecall(have, golds)
	}
	searches := [][]episode.Hit{hits("x"), hits("a1"), nil, hits("b1", "x"), hits("x"), hits("c1"), hits("x")}
	for tau, want := range map[float64][2]int{0: {5, 1}, .25: {5, 2}, .5: {5, 3}, .75: {5, 5}, 1: {-1, -1}} {
		for i, first := range []bool{false, true} {
			e := Rule{Recall: recall, Tau: tau, FirstReach: first}.Measure(searches)
			if e.HStar != want[i] || e.Searches != 6 || e.Best != 5 || e.Recall != .75 || e.Met != (tau < 1) {
				t.Errorf("tau %v, first %v: %+v, want h* %d", tau, first, e, want[i])
			}
		}
	}
	units := func(h episode.Hit) []string { return []string{h.Text} }
	e := Rule{Recall: recall, Tau: 1, TauF1: .9, Units: units, Golds: []string{"about b1"}, Threshold: .7}.Measure(searches)
	if !e.Met || e.SupportF1 != 1 {
		t.Errorf("the texts are there: %+v", e)
	}
	// The same titles again, but now the text too: better evidence.
	again := [][]episode.Hit{{{Title: "a1", Text: "nothing"}}, {{Title: "a1", Text: "the text of a1"}}}
	if e := (Rule{Recall: recall, Tau: 1, TauF1: .9, Units: units, Golds: []string{"text of a1"}, Threshold: .7}).Measure(again); e.Best != 2 || e.HStar != 2 {
		t.Errorf("got %+v", e)
	}
}

func TestScore(t *testing.T) {
	q := episode.Question{ID: "q", Answers: []string{"b1"}, Gold: []episode.Gold{{Title: "A1", DocumentID: "d-a1"}, {Title: "b1", DocumentID: "d-b1"}}}
	e := episode.Episode{Turns: []episode.Turn{
		{Action: episode.ActionCall, Executed: true, Hits: hits("a1")},
		{Action: episode.ActionInvalid, Text: "?", Error: "Failed to execute."},
		{Action: episode.ActionCall, Text: "no such tool", Error: "there is no tool"},
		{Action: episode.ActionCall, Text: "a failing tool", Executed: true, Error: "down"},
		{Action: episode.ActionCall, Text: "x", Executed: true, Hits: hits("b1")},
		{Action: episode.ActionAnswer, Text: "done", Executed: true},
	}}
	score := func(config map[string]any) (sdk.Score, error) {
		r, err := Plugin().New(t.Context(), config, nil)
		if err != nil {
			t.Fatal(err)
		}
		out, err := r.Score(t.Context(), sdk.ScoreRequest{Items: []sdk.ScoreItem{{Question: q, Episode: e}}})
		if err != nil {
			return sdk.Score{}, err
		}
		return out.Scores[0], nil
	}
	for name, test := range map[string]struct {
		config   map[string]any
		metadata map[string]any
		want     float64
	}{
		"as released":       {nil, nil, 2 + 2*2/6. + .5*(3-2)/5},
		"by document":       {map[string]any{"match": "document"}, nil, 2 + 2*2/6. + .1},
		"longer budget":     {map[string]any{"max_iters": 10., "format_coefficient": 0.}, nil, 2 + 2*2/11.},
		"cut":               {map[string]any{"max_iters": 2., "format_coefficient": 0.}, nil, max(-2, math.Log(.5))},
		"explorer found 1":  {map[string]any{"hstar": "first_ge_tau", "format_coefficient": 0.}, map[string]any{"tau_recall": .5}, math.Log(5)},
		"other key":         {map[string]any{"hstar": "first_ge_tau", "tau_key": "k", "format_coefficient": 0.}, map[string]any{"k": .5, "tau_recall": 1.}, math.Log(5)},
		"support sentences": {map[string]any{"support": "sentences", "format_coefficient": 0.}, map[string]any{"gold_sentences": []any{"About a1."}}, 2 + 2*2/6.},
		"support documents": {map[string]any{"support": "sentences", "format_coefficient": 0.}, map[string]any{
			"support_docs":     []any{map[string]any{"title": "A1", "paragraph_text": "Well. About a1."}},
			"supporting_facts": []any{[]any{"A1", 1.}, []any{"A1", 0.}},
		}, 2 + 2*2/6.},
	} {
		t.Run(name, func(t *testing.T) {
			q.Metadata = test.metadata
			got, err := score(test.config)
			if err != nil {
				t.Fatal(err)
			}
			if math.Abs(got.Value-test.want) > 1e-9 {
				t.Errorf("got %+v, want %v", got, test.want)
			}
		})
	}
	for want, test := range map[string][2]map[string]any{
		"expected a number":        {nil, {"tau_recall": "much"}},
		"needs its gold texts":     {{"support": "passages"}, nil},
		"expected a list of texts": {{"support": "passages"}, {"gold_sentences": []any{1.}}},
	} {
		q.Metadata = test[1]
		if _, err := score(test[0]); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if ds := Plugin().Validate(map[string]any{"r_max": .05}); !ds.HasErrors() {
		t.Error("a margin above the bound must be refused")
	}
}
