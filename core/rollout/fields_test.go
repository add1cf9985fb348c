package rollout

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/forage-rl/forage/core/internal/rng"
	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
)

func reactFields() *Fields {
	return &Fields{
		Marker: TagPair{"[[ ## ", " ## ]]"}, Thought: "next_thought", Tool: "next_tool_name", Arguments: "next_tool_args",
		Completed: "completed", FinishTool: "finish",
	}
}

// hop is what a policy writes in one turn.
func hop(thought, tool, arguments string) string {
	return fmt.Sprintf("[[ ## next_thought ## ]]\n%s\n\n[[ ## next_tool_name ## ]]\n%s\n\n[[ ## next_tool_args ## ]]\n%s\n\n[[ ## completed ## ]]", thought, tool, arguments)
}

func search(query string) string {
	return hop("t-"+query, "search", fmt.Sprintf(`{"query": %q}`, query))
}

func finish() string { return hop("enough", "finish", "{}") }

func TestFieldsParse(t *testing.T) {
	f := reactFields()
	query := func(q string) map[string]any { return map[string]any{"query": q} }
	for name, test := range map[string]struct {
		text string
		want Action
	}{
		"call":                {search("a"), Action{Kind: episode.ActionCall, Thought: "t-a", Tool: "search", Arguments: query("a")}},
		"finish":              {finish(), Action{Kind: episode.ActionAnswer, Thought: "enough", Tool: "finish", Arguments: map[string]any{}, Ends: true, Silent: true}},
		"finish in words":     {hop("x", "I Finish now", "{}"), Action{Kind: episode.ActionAnswer, Thought: "x", Tool: "finish", Arguments: map[string]any{}, Ends: true, Silent: true}},
		"python arguments":    {hop("x", "search", "{'query': 'it\\'s', 'deep': [True, None, 1.5, (2,)],}"), Action{Kind: episode.ActionCall, Thought: "x", Tool: "search", Arguments: map[string]any{"query": "it's", "deep": []any{true, nil, 1.5, []any{2.}}}}},
		"quoted name":         {hop("x", `"search"`, `{"query": "a"}`), Action{Kind: episode.ActionCall, Thought: "x", Tool: "search", Arguments: query("a")}},
		"first wins":          {strings.TrimSuffix(search("a"), "[[ ## completed ## ]]") + search("b"), Action{Kind: episode.ActionCall, Thought: "t-a", Tool: "search", Arguments: query("a")}},
		"text before":         {"well\n" + search("a"), Action{Kind: episode.ActionCall, Thought: "t-a", Tool: "search", Arguments: query("a")}},
		"other sections":      {strings.Replace(search("a"), "[[ ## next_tool_name", "[[ ## note ## ]]\nhm\n[[ ## next_tool_name", 1), Action{Kind: episode.ActionCall, Thought: "t-a", Tool: "search", Arguments: query("a")}},
		"indented, other end": {strings.ReplaceAll(search("a"), "\n", "\r\n  "), Action{Kind: episode.ActionCall, Thought: "t-a", Tool: "search", Arguments: query("a")}},
		"not completed":       {strings.TrimSuffix(search("a"), "[[ ## completed ## ]]"), Action{Kind: episode.ActionCall, Thought: "t-a", Tool: "search", Arguments: query("a")}},
		"empty":               {"", Action{Kind: episode.ActionInvalid}},
		"no arguments":        {hop("x", "search", ""), Action{Kind: episode.ActionInvalid, Thought: "x"}},
		"a list":              {hop("x", "search", `["a"]`), Action{Kind: episode.ActionInvalid, Thought: "x"}},
		"no name":             {hop("x", "", `{}`), Action{Kind: episode.ActionInvalid, Thought: "x"}},
		"no thought":          {"[[ ## next_tool_name ## ]]\nsearch\n[[ ## next_tool_args ## ]]\n{}", Action{Kind: episode.ActionInvalid}},
		"order":               {"[[ ## next_tool_name ## ]]\nsearch\n[[ ## next_thought ## ]]\nx\n[[ ## next_tool_args ## ]]\n{}", Action{Kind: episode.ActionInvalid}},
		"after completed":     {"[[ ## next_thought ## ]]\nx\n[[ ## completed ## ]]\n" + search("a"), Action{Kind: episode.ActionInvalid, Thought: "x"}},
		"within a line":       {"so [[ ## next_thought ## ]] x", Action{Kind: episode.ActionInvalid}},
	} {
		t.Run(name, func(t *testing.T) {
			got := f.Parse(test.text)
			if got.End > 0 && !strings.HasPrefix(test.text[got.Start:got.End], "[[ ## next_tool_name ## ]]") && !strings.Contains(name, "indented") {
				t.Errorf("the action is %q", test.text[got.Start:got.End])
			}
			got.Start, got.End = 0, 0
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
	f.Inline = true
	if got := f.Parse("[[ ## next_thought ## ]] x [[ ## next_tool_name ## ]] search [[ ## next_tool_args ## ]] {} [[ ## completed ## ]]"); got.Kind != episode.ActionCall || got.Thought != "x" || got.Tool != "search" {
		t.Errorf("inline: %+v", got)
	}
	f.FinishArg = "answer"
	if got := f.Parse(hop("x", "finish", `{"answer": " b "}`)); got.Answer != "b" || got.Silent {
		t.Errorf("got %+v", got)
	}
	if got := f.Parse(finish()); got.Kind != episode.ActionInvalid {
		t.Errorf("a finish without its answer: %+v", got)
	}
}

func TestFieldsCheck(t *testing.T) {
	for name, spoil := range map[string]func(*Fields){
		"blank marker": func(f *Fields) { f.Marker.Open = " " },
		"two words":    func(f *Fields) { f.Tool = "tool name" },
		"same name":    func(f *Fields) { f.Tool = f.Thought },
		"no finish":    func(f *Fields) { f.FinishTool, f.FinishArg = "", "answer" },
	} {
		f := reactFields()
		if f.Check() != nil {
			t.Fatal(f.Check())
		}
		spoil(f)
		if f.Check() == nil {
			t.Errorf("%s must be refused", name)
		}
	}
}

func TestFieldsToolNames(t *testing.T) {
	for written, want := range map[string]string{
		"search": "search", "Search": "search", "use search(…)": "search", "look": "look", "search or read": "search or read",
	} {
		if got := reactFields().tool(written, []string{"search", "read"}); got != want {
			t.Errorf("%q means %q, want %q", written, got, want)
		}
	}
}

// reactAgent shows the question and the history in its prompt.
func reactAgent(maxTurns int) *Agent {
	return &Agent{
		Protocol: reactFields(), Observation: hitTexts(" | "), Invalid: text("Failed to execute."),
		User: fn(func(vars map[string]any) []Piece {
			pieces := append([]Piece{{"[[ ## question ## ]]\n", true}}, questionText(vars)...)
			for _, v := range vars["turns"].([]any) {
				turn := v.(map[string]any)
				pieces = append(pieces, Piece{fmt.Sprintf("\n[[ ## turn_%v ## ]]\n", turn["number"]), true},
					Piece{fmt.Sprintf("%s/%s/%s/%s/%d", turn["thought"], turn["tool"], turn["query"], turn["observation"], len(turn["hits"].([]any))), false})
			}
			for _, v := range vars["tools"].([]any) {
				pieces = append(pieces, Piece{"\ntool " + v.(map[string]any)["name"].(string), true})
			}
			return append(pieces, Piece{fmt.Sprintf("\n%d hits\n", len(vars["hits"].([]any))), true})
		}),
		MaxTurns: maxTurns, OnBudget: OnBudgetStop, FirstSearch: true, TurnTokens: TurnTokens{500, 500, 500},
		Tool: "search", Tools: []string{"search"}, Descriptions: []sdk.Tool{{Name: "search"}},
	}
}

func prompts(ep *Episode) []string {
	var list []string
	for _, s := range ep.Sequences {
		list = append(list, s.Prompt)
	}
	return list
}

func TestFieldsRollout(t *testing.T) {
	turns := []string{search("a"), "no fields at all<eos>", hop("x", "read", `{}`), finish()}
	e := &Engine{Sampler: &script{turns: [][]string{turns}}, Tokenizer: runes{}, Tools: reply(echo)}
	episodes, err := run(e, reactAgent(5), "Q")
	if err != nil {
		t.Fatal(err)
	}
	ep := episodes[0]
	if err := Check(ep, runes{}); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"[[ ## question ## ]]\nQ\n[[ ## turn_1 ## ]]\n/search/Q/about Q/1\ntool search\n1 hits\n",
		"[[ ## question ## ]]\nQ\n[[ ## turn_1 ## ]]\n/search/Q/about Q/1\n[[ ## turn_2 ## ]]\nt-a/search/a/about a/1\ntool search\n2 hits\n",
	}
	last := want[1][:len(want[1])-len("\ntool search\n2 hits\n")]
	want = append(want,
		last+"\n[[ ## turn_3 ## ]]\n///Failed to execute./0\ntool search\n2 hits\n",
		last+"\n[[ ## turn_3 ## ]]\n///Failed to execute./0\n[[ ## turn_4 ## ]]\nx/read//there is no tool \"read\"; the tools are: search/0\ntool search\n2 hits\n")
	if got := prompts(ep); !slices.Equal(got, want) {
		t.Errorf("prompts\n%q, want\n%q", got, want)
	}
	if ep.Stop != episode.StopAnswered || ep.Answer != nil || ep.Counters.Searches != 2 || ep.Counters.Invalid != 1 || len(ep.Turns) != 5 {
		t.Errorf("got %+v", ep.Episode)
	}
	for i, turn := range ep.Turns[1:] {
		seq := ep.Sequences[i]
		if turn.Sequence != i || turn.Span.Start != seq.PromptLength || turn.Span.End != seq.Length || len(seq.Segments) != 1 || seq.Segments[0].Kind != episode.Policy {
			t.Errorf("turn %d: %+v in %+v", i+1, turn, seq)
		}
	}
	if ep.Turns[0].Span.Len() != 0 || ep.Turns[0].Query() != "Q" || ep.Turns[2].Error == "" {
		t.Errorf("turns %+v", ep.Turns)
	}
}

func TestFieldsBudgets(t *testing.T) {
	for name, test := range map[string]struct {
		change   func(*Agent)
		turns    []string
		stop     episode.Stop
		searches int
		written  int
	}{
		"turns":              {func(*Agent) {}, []string{search("a"), search("b"), "never"}, episode.StopBudget, 3, 2},
		"searches":           {func(a *Agent) { a.MaxTurns, a.MaxSearches, a.Invalid = 0, 2, nil }, []string{search("a"), "never"}, episode.StopBudget, 2, 1},
		"first search alone": {func(a *Agent) { a.MaxTurns, a.MaxSearches, a.Invalid = 0, 1, nil }, []string{"never"}, episode.StopBudget, 1, 0},
		"close":              {func(a *Agent) { a.OnBudget = OnBudgetClose }, []string{search("a"), search("b"), finish()}, episode.StopAnswered, 3, 3},
		"close, call":        {func(a *Agent) { a.OnBudget = OnBudgetClose }, []string{search("a"), search("b"), search("c")}, episode.StopBudget, 3, 3},
		"limit text":         {func(a *Agent) { a.OnBudget, a.Limit = OnBudgetLimitText, text("limit") }, []string{search("a"), search("b"), search("c"), finish()}, episode.StopAnswered, 3, 4},
		"invalid":            {func(a *Agent) { a.Invalid = nil }, []string{"hm"}, episode.StopInvalid, 1, 1},
		"no first search":    {func(a *Agent) { a.FirstSearch = false }, []string{search("a"), finish()}, episode.StopAnswered, 1, 2},
	} {
		t.Run(name, func(t *testing.T) {
			agent := reactAgent(2)
			test.change(agent)
			e := &Engine{Sampler: &script{turns: [][]string{test.turns}}, Tokenizer: runes{}, Tools: reply(echo)}
			episodes, err := run(e, agent, "Q")
			if err != nil {
				t.Fatal(err)
			}
			ep := episodes[0]
			if err := Check(ep, runes{}); err != nil {
				t.Error(err)
			}
			if ep.Stop != test.stop || ep.Counters.Searches != test.searches || len(ep.Sequences) != test.written {
				t.Errorf("stop %s, %d searches, %d sequences", ep.Stop, ep.Counters.Searches, len(ep.Sequences))
			}
			closing := name == "close" && strings.Contains(ep.Sequences[2].Prompt, "\ntool search")
			said := name == "limit text" && !strings.Contains(ep.Sequences[3].Prompt, "t-c/search/c/limit/0")
			if closing || said {
				t.Errorf("prompts %q", prompts(ep))
			}
		})
	}
}

// TestFieldsOneTurnAtATime: an episode made of jobs of one turn each has the prompts, turns and tokens of one that runs
// through, and every hop may have another agent.
func TestFieldsOneTurnAtATime(t *testing.T) {
	turns := []string{search("a"), search("b"), finish()}
	e := &Engine{Sampler: &script{turns: [][]string{turns}}, Tokenizer: runes{}, Tools: reply(echo)}
	whole, err := run(e, reactAgent(5), "Q")
	if err != nil {
		t.Fatal(err)
	}
	var ep *Episode
	for i, text := range turns {
		job := Job{ID: fmt.Sprint("p", i), Question: episode.Question{ID: "q0", Text: "Q"}, Agent: reactAgent(5), MaxNewTurns: 1, Key: rng.New(7)}
		if ep != nil {
			job.From, job.AfterTurn = ep, len(ep.Turns)-1
		}
		e.Sampler = &script{turns: [][]string{{text}}}
		episodes, err := e.Run(t.Context(), []Job{job})
		if err != nil {
			t.Fatal(err)
		}
		ep = episodes[0]
		if err := Check(ep, runes{}); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(prompts(ep), prompts(whole[0])) || !reflect.DeepEqual(ep.Tokens, whole[0].Tokens) || !reflect.DeepEqual(ep.Counters, whole[0].Counters) {
		t.Errorf("got %q, want %q", prompts(ep), prompts(whole[0]))
	}
	if ep.Parent.EpisodeID != "p1" || ep.Parent.AfterTurn != 2 || ep.Stop != episode.StopAnswered {
		t.Errorf("got %+v", ep.Episode)
	}

	other := reactAgent(5)
	other.Observation = hitTexts(" / ")
	other.User = fn(func(vars map[string]any) []Piece {
		return []Piece{{fmt.Sprintf("%d turns", len(vars["turns"].([]any))), true}}
	})
	for after, sequences := range map[int]int{-1: 1, 0: 1, 1: 2, 2: 3} {
		e.Sampler = &script{turns: [][]string{{finish()}}}
		episodes, err := e.Run(t.Context(), []Job{{ID: "c", Question: episode.Question{ID: "q0", Text: "Q"}, Agent: other, From: whole[0], AfterTurn: after}})
		if err != nil {
			t.Fatal(err)
		}
		child := episodes[0]
		if err := Check(child, runes{}); err != nil {
			t.Fatal(err)
		}
		if got := prompts(child); len(got) != sequences || got[sequences-1] != fmt.Sprintf("%d turns", max(after, 0)+1) || !slices.Equal(got[:sequences-1], prompts(whole[0])[:sequences-1]) {
			t.Errorf("after %d: prompts %q", after, got)
		}
		if child.Counters.Searches != max(after, 0)+1 {
			t.Errorf("after %d: %+v", after, child.Counters)
		}
	}
	for after, agent := range map[int]*Agent{0: searchR1Agent(3), 1: searchR1Agent(3), 3: other} {
		if _, err := e.Run(t.Context(), []Job{{ID: "c", Question: episode.Question{ID: "q0", Text: "Q"}, Agent: agent, From: whole[0], AfterTurn: after}}); err == nil {
			t.Errorf("continuing after turn %d with %T must be refused", after, agent.Protocol)
		}
	}
}

// TestFieldsRows: the hops of an episode are one row for the sampler, which holds what their prompts begin with, and none
// stays behind.
func TestFieldsRows(t *testing.T) {
	s := &rows{script: script{turns: [][]string{{search("a"), finish()}, {search("a"), finish()}}}, live: map[int64]bool{}}
	e := &Engine{Sampler: s, Tokenizer: runes{}, Tools: reply(echo)}
	if _, err := run(e, reactAgent(5), "Q", "R"); err != nil {
		t.Fatal(err)
	}
	if len(s.seen) != 2 || len(s.live) != 0 {
		t.Errorf("rows %v, left %v", s.seen, s.live)
	}
}

func TestRerender(t *testing.T) {
	turns := []string{search("a"), "hm", search("b"), finish()}
	e := &Engine{Sampler: &script{turns: [][]string{turns}}, Tokenizer: runes{}, Tools: reply(echo)}
	episodes, err := run(e, reactAgent(5), "Q")
	if err != nil {
		t.Fatal(err)
	}
	ep, q := episodes[0], episode.Question{ID: "q0", Text: "Q"}
	agent := reactAgent(5)
	agent.Observation = fn(func(vars map[string]any) []Piece { return []Piece{{fmt.Sprintf("saw %v", vars["query"]), false}} })
	agent.User = fn(func(vars map[string]any) []Piece {
		text := "other:"
		for _, v := range vars["turns"].([]any) {
			text += " " + v.(map[string]any)["observation"].(string)
		}
		return []Piece{{text, false}}
	})
	for _, lost := range []bool{false, true} {
		if lost { // as it comes from a file without tokens
			ep.Tokens, ep.LogProbs = nil, nil
		}
		got, err := e.Rerender(ep, q, nil, agent)
		if err != nil {
			t.Fatal(err)
		}
		if err := Check(got, runes{}); err != nil {
			t.Fatal(err)
		}
		want := []string{"other: saw Q", "other: saw Q saw a Failed to execute.", "other: saw Q saw a Failed to execute. saw b"}
		if !slices.Equal(prompts(got), want) || got.Origin != episode.OriginRerendered {
			t.Errorf("prompts %q", prompts(got))
		}
		for i, text := range []string{turns[0], turns[2], turns[3]} {
			turn := got.Turns[i]
			if s := got.Sequences[i]; turn.Sequence != i || s.Response() != text || turn.ActionSpan.Len() != ep.Turns[[]int{1, 3, 4}[i]].ActionSpan.Len() {
				t.Errorf("sequence %d: %q, turn %+v", i, s.Response(), turn)
			}
			for _, p := range got.LogProbs[i] {
				if p != 0 {
					t.Error("nothing was sampled here")
				}
			}
		}
	}
	if got, err := e.Rerender(ep, q, []int{3}, agent); err != nil || len(got.Sequences) != 1 {
		t.Errorf("%v, %+v", err, got)
	}
	short := *agent
	short.MaxPromptTokens = 3
	for name, try := range map[string]func() (*Episode, error){
		"the first search": func() (*Episode, error) { return e.Rerender(ep, q, []int{0}, agent) },
		"no such turn":     func() (*Episode, error) { return e.Rerender(ep, q, []int{9}, agent) },
		"nothing":          func() (*Episode, error) { return e.Rerender(ep, q, []int{}, agent) },
		"other question":   func() (*Episode, error) { return e.Rerender(ep, episode.Question{ID: "x"}, nil, agent) },
		"a dialogue":       func() (*Episode, error) { return e.Rerender(ep, q, nil, searchR1Agent(2)) },
		"too long":         func() (*Episode, error) { return e.Rerender(ep, q, nil, &short) },
	} {
		if _, err := try(); err == nil {
			t.Errorf("%s must be refused", name)
		}
	}
}

// TestLongHistory: observations go before turns, old ones before new ones.
func TestLongHistory(t *testing.T) {
	turns := []string{search("a"), search("b"), search("c"), search("d"), finish()}
	agent := reactAgent(9)
	e := &Engine{Sampler: &script{turns: [][]string{turns}}, Tokenizer: runes{}, Tools: reply(echo)}
	agent.User = fn(func(vars map[string]any) []Piece {
		text := "P"
		for _, v := range vars["turns"].([]any) {
			turn := v.(map[string]any)
			text += fmt.Sprintf(" %v%v", turn["number"], strings.TrimPrefix(turn["observation"].(string), "about "))
		}
		return []Piece{{text, false}}
	})
	for limit, want := range map[int]string{
		0: "P 1Q 2a 3b 4c 5d", 15: "P 1Q 2 3b 4c 5d", 14: "P 1Q 2 3 4c 5d", 13: "P 1 2 3 4c 5d", 12: "P 1 2 3 4 5d", 11: "P 1 2 3 4 5", 10: "P 2 3 4 5", 3: "P 5", 1: "P",
	} {
		agent.MaxPromptTokens = limit
		e.Sampler = &script{turns: [][]string{turns}}
		episodes, err := run(e, agent, "Q")
		if err != nil {
			t.Fatal(err)
		}
		if got := prompts(episodes[0]); got[len(got)-1] != want {
			t.Errorf("%d tokens: %q, want %q", limit, got[len(got)-1], want)
		}
	}
	agent.MaxPromptTokens, agent.Invalid = 0, nil
	e.Sampler = &script{turns: [][]string{turns}, context: 10}
	episodes, err := run(e, agent, "Q")
	if err != nil {
		t.Fatal(err)
	}
	if ep := episodes[0]; ep.Stop != episode.StopLength || len(ep.Sequences) != 1 {
		t.Errorf("got %+v", ep.Episode)
	}
	agent.User = text("a prompt without an end")
	if episodes, err = run(e, agent, "Q"); err != nil || episodes[0].Stop != episode.StopLength || episodes[0].Counters.PolicyTokens != 0 {
		t.Errorf("a history that cannot fit ends the episode: %v", err)
	}
	agent.FirstSearch = false
	if _, err := run(e, agent, "Q"); err == nil || !strings.Contains(err.Error(), "the prompt has 23 tokens") {
		t.Errorf("got %v", err)
	}
}

func TestFieldsExpert(t *testing.T) {
	e := &Engine{Tokenizer: runes{}}
	q := episode.Question{ID: "q", Text: "Q"}
	transcript := "[[ ## observation ## ]]\nabout Q\n" + search("a") + "\n[[ ## observation ## ]]\nabout a\n" + finish() + "\n"
	ep, err := e.Expert("x", q, reactAgent(5), transcript)
	if err != nil {
		t.Fatal(err)
	}
	if err := Check(ep, runes{}); err != nil {
		t.Fatal(err)
	}
	if ep.Origin != episode.OriginExpert || ep.Stop != episode.StopAnswered || len(ep.Sequences) != 2 || ep.Counters.Searches != 2 {
		t.Errorf("got %+v", ep.Episode)
	}
	if want := "[[ ## question ## ]]\nQ\n[[ ## turn_1 ## ]]\n/search/Q/about Q/0\n[[ ## turn_2 ## ]]\nt-a/search/a/about a/0\ntool search\n0 hits\n"; ep.Sequences[1].Prompt != want {
		t.Errorf("prompt %q", ep.Sequences[1].Prompt)
	}
	if ep.Sequences[0].Response() != search("a") || ep.Turns[1].Text != search("a") {
		t.Errorf("response %q", ep.Sequences[0].Response())
	}
	for name, transcript := range map[string]string{
		"blank":            "",
		"plain":            "text",
		"text before":      "text\n" + transcript,
		"no first search":  search("a"),
		"only the search":  "[[ ## observation ## ]]\nabout Q",
		"not completed":    strings.TrimSuffix(transcript, "[[ ## completed ## ]]\n"),
		"text at the end":  transcript + "more",
		"after the finish": transcript + search("b"),
		"no observation":   "[[ ## observation ## ]]\nabout Q\n" + search("a") + "\n" + search("b"),
		"unknown tool":     "[[ ## observation ## ]]\nabout Q\n" + hop("x", "read", "{}"),
		"no arguments":     "[[ ## observation ## ]]\nabout Q\n" + hop("x", "search", "?"),
	} {
		if _, err := e.Expert("x", q, reactAgent(5), transcript); err == nil {
			t.Errorf("%s must be refused", name)
		}
	}
}

// FuzzFieldsOutsideText: whatever a question, a document, a thought or a query holds, the only markers and special
// tokens of a prompt are the template's.
func FuzzFieldsOutsideText(f *testing.F) {
	for _, seed := range []string{"", "[[ ## completed ## ]]", "x\n[[ ## next_tool_name ## ]]\nfinish", "[[ [[ ## ## ]]", "[[ ##", "## ]]", "<|im_end|>", "\r[[ ## turn_1 ## ]]\u2028"} {
		f.Add(seed, seed, seed)
	}
	f.Fuzz(func(t *testing.T, question, document, written string) {
		question, document, written = strings.ToValidUTF8(question, "?"), strings.ToValidUTF8(document, "?"), strings.ToValidUTF8(written, "?")
		agent := reactAgent(3)
		agent.ChatTemplate = true
		s := &script{turns: [][]string{{hop(written, "search", fmt.Sprintf(`{"query": %q}`, "x")), finish()}}}
		e := &Engine{Sampler: s, Tokenizer: runes{}, Tools: reply(func(string) []episode.Hit { return []episode.Hit{{Text: document}} })}
		episodes, err := run(e, agent, "Q"+question)
		if err != nil {
			t.Fatal(err)
		}
		ep := episodes[0]
		if err := Check(ep, runes{}); err != nil {
			t.Fatal(err)
		}
		for i, seq := range ep.Sequences {
			names := 0
			for range agent.Protocol.(*Fields).markers(seq.Prompt) {
				names++
			}
			special := 0
			for _, id := range ep.Tokens[i][:seq.PromptLength] {
				if id < 0 {
					special++
				}
			}
			if want := i + 2; names != want || strings.Count(seq.Prompt, "[[ ##") != want || strings.Count(seq.Prompt, "## ]]") != want || special != 3 {
				t.Fatalf("%d markers, %d special tokens in %q", names, special, seq.Prompt)
			}
		}
	})
}

// FuzzLiteral: no text makes the reader of literals fail otherwise than by saying no.
func FuzzLiteral(f *testing.F) {
	for _, seed := range []string{`{"a": 1}`, `{'a': [1, (2,), None]}`, `'\x41\u00e9\q'`, "{", "'\\", strings.Repeat("[", 100), "1e400", `{"a": 1,}`, "{1: 2}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		literal(text)
		reactFields().Parse(text)
	})
}

// rows notes the rows that a sampler is asked to go on with, and those that were not released.
type rows struct {
	script
	seen []int64
	live map[int64]bool
}

func (r *rows) Generate(ctx context.Context, list []Row, p sdk.Sampling) ([]Generated, error) {
	for _, row := range list {
		if !slices.Contains(r.seen, row.ID) {
			r.seen = append(r.seen, row.ID)
		}
		r.live[row.ID] = true
	}
	return r.script.Generate(ctx, list, p)
}

func (r *rows) Release(ids ...int64) {
	for _, id := range ids {
		delete(r.live, id)
	}
}
