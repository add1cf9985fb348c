package grasp

import (
	"math"
	"testing"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
	"github.com/forage-rl/forage/core/sdk/sdktest"
)

func call(tool string, titles ...string) episode.Turn {
	t := episode.Turn{Action: episode.ActionCall, Tool: tool, Executed: true}
	for _, title := range titles {
		t.Hits = append(t.Hits, episode.Hit{DocumentID: title, ParagraphID: title, Title: title})
	}
	return t
}

// attempt makes an episode of that many turns, the last of which answers.
func attempt(answer string, turns int, calls ...episode.Turn) episode.Episode {
	e := episode.Episode{Answer: &answer, Turns: calls}
	for len(e.Turns) < turns-1 {
		e.Turns = append(e.Turns, episode.Turn{Action: episode.ActionInvalid})
	}
	e.Turns = append(e.Turns, episode.Turn{Action: episode.ActionAnswer, Executed: true})
	return e
}

func score(t *testing.T, values map[string]any, q episode.Question, episodes ...episode.Episode) []sdk.Score {
	t.Helper()
	r := sdktest.Reward(t, Plugin(), values, nil)
	req := sdk.ScoreRequest{}
	for _, e := range episodes {
		req.Items = append(req.Items, sdk.ScoreItem{Question: q, Episode: e})
	}
	out, err := r.Score(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return out.Scores
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

const (
	semantic = "semantic_search"
	keyword  = "keyword_search"
	read     = "read_paragraph"
)

// The cases of the method's description, and those around them, computed by hand.
func TestReward(t *testing.T) {
	byTitle := episode.Question{Answers: []string{"one two three four"}, Gold: []episode.Gold{{Title: "A"}, {Title: "B"}}}
	// "one" and four other words share 1 of 5 and 1 of 4 words: F1 2/9. "one two six seven eight nine": 2 of 6, 2 of 4: .4.
	const right, poor = "the one two three four", "one two six seven eight nine"
	failed := call(read)
	failed.Error, failed.Executed = "No search has found it.", true
	for name, test := range map[string]struct {
		e     episode.Episode
		terms Terms
		total float64
	}{
		"all":             {attempt(right, 6, call(semantic, "A", "X"), call(keyword, "Y", "B"), call(read, "A"), call(read, "B")), Terms{1, 1, 1, .4}, 1.91},
		"one wrong read":  {attempt(right, 4, call(semantic, "A"), call(read, "A"), call(read, "X")), Terms{1, .5, 0, .6}, 1.44},
		"poor answer":     {attempt(poor, 4, call(semantic, "A"), call(keyword, "A"), call(read, "A")), Terms{.4, 2. / 3, 1, 0}, .4 + .7*2/3 + .15},
		"guess":           {attempt("nine", 1), Terms{}, 0},
		"right guess":     {attempt(right, 1), Terms{1, 0, 0, .9}, 1.135},
		"reads twice":     {attempt(right, 4, call(read, "A"), call(read, "A"), call(read, "B")), Terms{1, 1, 0, .6}, 1.79},
		"case of titles":  {attempt(right, 2, call(read, " a")), Terms{1, 2. / 3, 0, .8}, 1 + .7*2/3 + .12},
		"failed read":     {attempt(right, 2, failed), Terms{1, 0, 0, .8}, 1.12},
		"no gold by word": {attempt(right, 3, call(semantic, "A", "B"), call(keyword, "X")), Terms{1, 0, 0, .7}, 1.105},
		"reads no search": {attempt(right, 3, call(semantic, "A"), call(read, "B")), Terms{1, 2. / 3, 0, .7}, 1 + .7*2/3 + .105},
		"too long":        {attempt(right, 12), Terms{1, 0, 0, 0}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			got := score(t, nil, byTitle, test.e)[0]
			c := got.Components
			if !near(c["answer"], test.terms.Answer) || !near(c["read"], test.terms.Read) || !near(c["search"], test.terms.Search) || !near(c["efficiency"], test.terms.Efficiency) {
				t.Errorf("got %v, want %+v", c, test.terms)
			}
			if !near(got.Value, test.total) {
				t.Errorf("total %v, want %v", got.Value, test.total)
			}
		})
	}
}

func TestOptions(t *testing.T) {
	q := episode.Question{Answers: []string{"x"}, Gold: []episode.Gold{{Title: "A"}, {Title: "B"}}}
	full := attempt("x", 5, call(semantic, "A"), call(keyword, "B"), call(read, "A"), call(read, "B"))
	unfinished := full
	unfinished.Answer = nil
	for name, test := range map[string]struct {
		values map[string]any
		e      episode.Episode
		want   float64
	}{
		"defaults":          {nil, full, 1.925},
		"from one":          {map[string]any{"efficiency": "from_one"}, full, 1 + .7 + .15 + .15*5/9},
		"horizon":           {map[string]any{"t_max": 5}, full, 1.85},
		"theta is strict":   {map[string]any{"theta": 1.}, full, 1.85},
		"weights":           {map[string]any{"read_weight": 0., "search_weight": 2., "efficiency_weight": 1.}, full, 3.5},
		"unfinished":        {nil, unfinished, .85},
		"unfinished zero":   {map[string]any{"unfinished_zero": true}, unfinished, 0},
		"names of tools":    {map[string]any{"read": "open", "semantic": "near"}, full, 1.075},
		"finished is as is": {map[string]any{"unfinished_zero": true}, full, 1.925},
	} {
		t.Run(name, func(t *testing.T) {
			if got := score(t, test.values, q, test.e)[0].Value; !near(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

// MuSiQue's titles repeat: there a gold is a paragraph, and another one of the same title is none.
func TestGoldParagraphs(t *testing.T) {
	q := episode.Question{Answers: []string{"x"}, Gold: []episode.Gold{{Title: "A", ParagraphID: "p1"}, {Title: "A", ParagraphID: "p2"}}}
	turn := func(tool string, ids ...string) episode.Turn {
		c := call(tool)
		for _, id := range ids {
			c.Hits = append(c.Hits, episode.Hit{DocumentID: "d" + id, ParagraphID: id, SentenceID: id + ".s0", Title: "A"})
		}
		return c
	}
	got := score(t, nil, q, attempt("x", 5, turn(semantic, "p1"), turn(keyword, "p3"), turn(read, "p1"), turn(read, "p3")))[0]
	if c := got.Components; !near(c["read"], .5) || c["search"] != 0 {
		t.Errorf("got %v", c)
	}
}

// No term leaves [0, 1], and no call that fails or repeats a read lowers the sum of the others.
func FuzzBounds(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3}, "x", 10)
	f.Fuzz(func(t *testing.T, calls []byte, answer string, horizon int) {
		q := episode.Question{Answers: []string{"x y"}, Gold: []episode.Gold{{Title: "A"}, {Title: "B"}}}
		var turns []episode.Turn
		for _, b := range calls {
			turns = append(turns, call([]string{semantic, keyword, read, "other"}[b%4], string(rune('A'+b/4%6))))
		}
		e := attempt(answer, 0, turns...)
		tools := Tools{semantic, keyword, read}
		for _, fromOne := range []bool{false, true} {
			got := Score(e, q, tools, Horizon{horizon, fromOne, .5})
			for _, v := range []float64{got.Answer, got.Read, got.Search, got.Efficiency} {
				if !(v >= 0 && v <= 1) {
					t.Fatalf("%+v of %d calls", got, len(calls))
				}
			}
			if total := (Weights{.7, .15, .15}).Total(got); total > 2+1e-12 {
				t.Fatalf("total %v", total)
			}
		}
	})
}
