package autocoa

import (
	"testing"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
)

func TestScore(t *testing.T) {
	c := Config{AnswerFrom: "text", ThinkClose: "</think>", SearchOpen: "<begin_search>", AnswerOpen: `\boxed{`, AnswerClose: "}"}
	for name, test := range map[string]struct {
		response string
		want     float64
	}{
		"boxed":               {`I search. <begin_search> tam </end_search> found it.</think> It is \boxed{the River Tam}.`, 1},
		"last box":            {`so</think> \boxed{Lorrick} no, \boxed{River Tam}`, 1},
		"no end of thought":   {`\boxed{River Tam}`, 0},
		"search too late":     {`so</think> <begin_search> tam </end_search> \boxed{River Tam}`, 0},
		"contained":           {`so</think> \boxed{Tam}`, 0},
		"containing":          {`so</think> \boxed{River Tam in Lorrick}`, 0},
		"words in disorder":   {`so</think> \boxed{Tam, a river}`, 1},
		"wrong":               {`so</think> \boxed{Ister}`, 0},
		"only sentence":       {`so</think> River Tam.`, 1},
		"last sentence but 1": {"so</think> River Tam. I am sure of it!", 1},
		"nothing":             {"so</think> \n", 0},
	} {
		e := episode.Episode{Sequences: []episode.Sequence{{Segments: []episode.Segment{{Kind: episode.Policy, Text: test.response}}}}}
		out, err := reward{c}.Score(t.Context(), sdk.ScoreRequest{Items: []sdk.ScoreItem{{Question: episode.Question{Answers: []string{"River Tam"}}, Episode: e}}})
		if err != nil || out.Scores[0].Value != test.want {
			t.Errorf("%s: got %v (%v), want %v", name, out.Scores, err, test.want)
		}
	}
	if ds := (Config{AnswerOpen: "x", AnswerClose: "y"}).Validate(); !ds.HasErrors() {
		t.Error("empty tags must be refused")
	}
}
