package rollout

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
)

func jsonProtocol() *JSON {
	return &JSON{
		Think: TagPair{"<think>", "</think>"}, Call: TagPair{"<tool_call>", "</tool_call>"},
		Observation: TagPair{"\n<tool_response>\n", "\n</tool_response>\n"}, Answer: TagPair{"<answer>", "</answer>"},
		NameKey: "name", ArgumentsKey: "arguments",
	}
}

// jsonAgent has three tools, as GRASP's.
func jsonAgent(maxTurns int) *Agent {
	text := func(name string) []sdk.Argument { return []sdk.Argument{{Name: name, Type: "string", Required: true}} }
	return &Agent{
		Protocol: jsonProtocol(), User: fn(questionText),
		Observation: fn(func(vars map[string]any) []Piece {
			var pieces []Piece
			for _, h := range vars["hits"].([]any) {
				hit := h.(map[string]any)
				pieces = append(pieces, Piece{fmt.Sprintf("(%s) %s: %s", hit["paragraph_id"], hit["title"], hit["text"]), false}, Piece{"\n", true})
			}
			return append(pieces, Piece{fmt.Sprintf("%s, turns left: %d", vars["tool"], vars["turns_left"]), true})
		}),
		MaxTurns: maxTurns, OnBudget: OnBudgetClose, TurnTokens: TurnTokens{500, 500, 500},
		Tools: []string{"keyword_search", "read_paragraph", "semantic_search"},
		Descriptions: []sdk.Tool{
			{Name: "keyword_search", Arguments: append(text("query"), sdk.Argument{Name: "k", Type: "int"})},
			{Name: "read_paragraph", Arguments: text("paragraph_id")}, {Name: "semantic_search", Arguments: text("query")},
		},
	}
}

func toolCall(name, arguments string) string {
	return `<tool_call>{"name":"` + name + `","arguments":` + arguments + `}</tool_call>`
}

func TestJSONParse(t *testing.T) {
	j := jsonProtocol()
	finish := *j
	finish.FinishTool, finish.FinishArgument = "finish", "answer"
	search := map[string]any{"query": "Ada"}
	for name, test := range map[string]struct {
		text      string
		kind      episode.Action
		tool      string
		arguments map[string]any
		answer    string
		problem   string
	}{
		"call":            {text: "<think>t</think>\n" + toolCall("search", `{"query":"Ada"}`), kind: episode.ActionCall, tool: "search", arguments: search},
		"white space":     {text: "<tool_call>\n {\"arguments\": {\"query\": \"Ada\"},\n \"name\": \"search\"}\n</tool_call>", kind: episode.ActionCall, tool: "search", arguments: search},
		"quoted":          {text: toolCall("search", `"{\"query\": \"Ada\"}"`), kind: episode.ActionCall, tool: "search", arguments: search},
		"two calls":       {text: toolCall("search", `{"query":"Ada"}`) + toolCall("search", `{"query":"Bob"}`), kind: episode.ActionCall, tool: "search", arguments: search},
		"two objects":     {text: `<tool_call>{"name":"search","arguments":{"query":"Ada"}}{"name":"b"}</tool_call>`, kind: episode.ActionCall, tool: "search", arguments: search},
		"no arguments":    {text: `<tool_call>{"name":"search"}</tool_call>`, kind: episode.ActionCall, tool: "search", arguments: map[string]any{}},
		"null arguments":  {text: toolCall("search", "null"), kind: episode.ActionCall, tool: "search", arguments: map[string]any{}},
		"mentioned":       {text: "<think>I write <tool_call> now</think>" + toolCall("search", `{"query":"Ada"}`), kind: episode.ActionCall, tool: "search", arguments: search},
		"within":          {text: toolCall("search", `{"query":"<tool_call>"}`), kind: episode.ActionCall, tool: "search", arguments: map[string]any{"query": "<tool_call>"}},
		"types":           {text: toolCall("x", `{"a":1,"b":true,"c":["d"],"e":{"f":null}}`), kind: episode.ActionCall, tool: "x", arguments: map[string]any{"a": 1., "b": true, "c": []any{"d"}, "e": map[string]any{"f": nil}}},
		"answer":          {text: "<think>t</think><answer> Ada \n</answer>", kind: episode.ActionAnswer, answer: "Ada"},
		"empty answer":    {text: "<answer></answer>", kind: episode.ActionAnswer},
		"answer first":    {text: "<answer>x</answer>" + toolCall("search", `{"query":"Ada"}`), kind: episode.ActionAnswer, answer: "x"},
		"answer after":    {text: toolCall("search", `{"query":"Ada"}`) + "<answer>x</answer>", kind: episode.ActionCall, tool: "search", arguments: search},
		"answer's tag":    {text: "<think>in <answer> I say it</think><answer>x</answer>", kind: episode.ActionAnswer, answer: "x"},
		"nothing":         {text: "I do not know", problem: "no action"},
		"unclosed":        {text: `<tool_call>{"name":"search"}`, problem: "no action"},
		"empty":           {text: "", problem: "no action"},
		"unopened":        {text: `{"name":"search"}</tool_call>`, problem: "</tool_call> without <tool_call>"},
		"unopened answer": {text: "x</answer>", problem: "</answer> without <answer>"},
		"no JSON":         {text: "<tool_call>search Ada</tool_call>", problem: `no JSON object; expected {"name": "…", "arguments": {…}}`},
		"cut":             {text: `<tool_call>{"name":"search","arguments":{"query":"A</tool_call>`, problem: "no JSON object"},
		"a list":          {text: `<tool_call>[{"name":"search"}]</tool_call>`, problem: "no JSON object"},
		"null":            {text: `<tool_call>null</tool_call>`, problem: "no JSON object"},
		"text after":      {text: `<tool_call>{"name":"search","arguments":{}} please</tool_call>`, problem: "text after"},
		"no name":         {text: `<tool_call>{"arguments":{"query":"Ada"}}</tool_call>`, problem: `needs "name"`},
		"name no text":    {text: `<tool_call>{"name":7}</tool_call>`, problem: `needs "name"`},
		"arguments list":  {text: toolCall("search", `["Ada"]`), problem: `"arguments" of the call must be a JSON object`},
		"arguments text":  {text: toolCall("search", `"Ada"`), problem: `"arguments" of the call must be a JSON object`},
	} {
		t.Run(name, func(t *testing.T) {
			got := j.Parse(test.text)
			if test.kind == "" {
				test.kind = episode.ActionInvalid
			}
			if got.Kind != test.kind || got.Tool != test.tool || got.Answer != test.answer || !strings.Contains(got.Problem, test.problem) || (got.Problem == "") != (test.problem == "") {
				t.Errorf("got %+v", got)
			}
			if test.arguments != nil && !cmp.Equal(got.Arguments, test.arguments) {
				t.Error(cmp.Diff(test.arguments, got.Arguments))
			}
		})
	}
	if got := finish.Parse(toolCall("finish", `{"answer":" Ada "}`)); got.Kind != episode.ActionAnswer || got.Answer != "Ada" || !got.Ends {
		t.Errorf("a call of the finishing tool gives the answer: %+v", got)
	}
	if got := finish.Parse(toolCall("finish", `{"answer":7}`)); got.Kind != episode.ActionInvalid || !strings.Contains(got.Problem, "finish needs the argument answer, a string") {
		t.Errorf("got %+v", got)
	}
}

// threeTools answers as GRASP's tools and keeps what it was asked.
type threeTools struct{ calls map[string][]sdk.Call }

func (x *threeTools) Call(_ context.Context, tool string, calls []sdk.Call) ([]sdk.CallResult, error) {
	if x.calls == nil {
		x.calls = map[string][]sdk.Call{}
	}
	var out []sdk.CallResult
	for _, c := range calls {
		x.calls[tool] = append(x.calls[tool], c)
		hit := episode.Hit{DocumentID: "d", ParagraphID: "d#p1", Title: "D", Text: "text of d"}
		if tool != "read_paragraph" {
			hit.SentenceID = "d#p1.s3"
		}
		out = append(out, sdk.CallResult{Hits: []episode.Hit{hit}})
	}
	return out, nil
}

// TestJSONEpisode: every call that cannot be carried out is answered by what was expected and uses up a turn, the others
// reach their tools with what the episode has seen.
func TestJSONEpisode(t *testing.T) {
	s := &script{turns: [][]string{{
		"<think>a</think>" + toolCall("semantic_search", `{"query":"Ada"}`) + "more",
		toolCall("keyword_search", `{"query":"Ada","k":3}`),
		toolCall("search", `{"query":"Ada"}`),
		toolCall("semantic_search", `{"text":"Ada"}`),
		toolCall("keyword_search", `{"query":["Ada"]}`),
		toolCall("keyword_search", `{"query":"Ada","k":1.5}`),
		"<tool_call>oh</tool_call>",
		"nothing at all",
		toolCall("read_paragraph", `{"paragraph_id":"d#p1"}`),
		"<think>now</think><answer>x</answer>",
	}}}
	tools := &threeTools{}
	e := &Engine{Sampler: s, Tokenizer: runes{}, Tools: tools}
	episodes, err := run(e, jsonAgent(9), "Q")
	if err != nil {
		t.Fatal(err)
	}
	ep := episodes[0]
	if err := Check(ep, runes{}); err != nil {
		t.Fatal(err)
	}
	if ep.Answer == nil || *ep.Answer != "x" || ep.Stop != episode.StopAnswered {
		t.Fatalf("got %+v", ep.Episode)
	}
	if strings.Contains(ep.Turns[0].Text, "more") {
		t.Error("a turn ends with its call")
	}
	want := []string{
		"(d#p1) D: text of d\nsemantic_search, turns left: 8",
		"(d#p1) D: text of d\nkeyword_search, turns left: 7",
		`there is no tool "search"; the tools are: keyword_search, read_paragraph, semantic_search`,
		"semantic_search needs the argument query (string), got text",
		"the argument query of keyword_search must be string, got list",
		"the argument k of keyword_search must be int, got number",
		`the call is no JSON object; expected {"name": "…", "arguments": {…}}`,
		`no action: expected < tool_call>{"name": "…", "arguments": {…}}< /tool_call> or < answer>…< /answer>`,
		"(d#p1) D: text of d\nread_paragraph, turns left: 0",
		"",
	}
	for i, turn := range ep.Turns {
		inner := strings.TrimSuffix(strings.TrimPrefix(turn.Observation, "\n<tool_response>\n"), "\n</tool_response>\n")
		if inner != want[i] {
			t.Errorf("turn %d: got %q, want %q", i, inner, want[i])
		}
		executed := i < 2 || i > 7
		if turn.Executed != executed || (turn.Error == "") != executed {
			t.Errorf("turn %d: executed %t, error %q", i, turn.Executed, turn.Error)
		}
	}
	seen := []sdk.Seen{
		{Turn: 0, Tool: "semantic_search", DocumentID: "d", ParagraphID: "d#p1", SentenceID: "d#p1.s3"},
		{Turn: 1, Tool: "keyword_search", DocumentID: "d", ParagraphID: "d#p1", SentenceID: "d#p1.s3"},
	}
	if got := tools.calls["read_paragraph"][0]; !cmp.Equal(got.Seen, seen) || got.Turn != 8 {
		t.Errorf("a call comes with what was seen: %+v", got)
	}
	if c := ep.Counters; c.Turns != 10 || c.Searches != 3 || c.Invalid != 2 {
		t.Errorf("got %+v", c)
	}
}

// TestJSONBudget: after the last turn the policy may only answer.
func TestJSONBudget(t *testing.T) {
	s := &script{turns: [][]string{{"<tool_call>oh</tool_call>", "nothing", toolCall("semantic_search", `{"query":"Ada"}`)}}}
	e := &Engine{Sampler: s, Tokenizer: runes{}, Tools: &threeTools{}}
	episodes, err := run(e, jsonAgent(2), "Q")
	if err != nil {
		t.Fatal(err)
	}
	if ep := episodes[0]; ep.Stop != episode.StopBudget || len(ep.Turns) != 3 || ep.Turns[2].Executed {
		t.Errorf("got %+v", ep.Episode)
	}
	agent := jsonAgent(0)
	agent.MaxSearches = 3
	if _, err := run(e, agent, "Q"); err == nil || !strings.Contains(err.Error(), "needs max_turns") {
		t.Errorf("got %v", err)
	}
	agent = jsonAgent(1)
	agent.Invalid = text("try again")
	e.Sampler = &script{turns: [][]string{{"<tool_call>oh</tool_call>", "<answer>x</answer>"}}}
	if episodes, err = run(e, agent, "Q"); err != nil {
		t.Fatal(err)
	}
	if turn := episodes[0].Turns[0]; turn.Observation != "\n<tool_response>\ntry again\n</tool_response>\n" || turn.Error == "" {
		t.Errorf("an invalid text takes the place of the error: %+v", turn)
	}
}

func TestJSONExpert(t *testing.T) {
	e := &Engine{Tokenizer: runes{}}
	q := episode.Question{ID: "q", Text: "Q"}
	observed := "\n<tool_response>\ndoc <tool_call> and more\n</tool_response>\n"
	ep, err := e.Expert("x", q, jsonAgent(9), "<think>t</think>"+toolCall("read_paragraph", `{"paragraph_id":"d"}`)+observed+"<answer>b</answer>\n")
	if err != nil {
		t.Fatal(err)
	}
	if err := Check(ep, runes{}); err != nil {
		t.Fatal(err)
	}
	turn := ep.Turns[0]
	if *ep.Answer != "b" || turn.Tool != "read_paragraph" || turn.Arguments["paragraph_id"] != "d" || turn.Thought != "t" || turn.Observation != observed {
		t.Errorf("got %+v", ep.Episode)
	}
	if want := []episode.SegmentKind{episode.Policy, episode.Observation, episode.Policy}; !slices.Equal(kinds(ep), want) {
		t.Errorf("got %v", kinds(ep))
	}
	for transcript, want := range map[string]string{
		"": "ends without an answer",
		toolCall("semantic_search", `{"query":"a"}`):                                     "not followed by a closed observation",
		toolCall("find", `{"query":"a"}`) + observed + "<answer>b</answer>":              `there is no tool "find"`,
		toolCall("semantic_search", `{"q":"a"}`) + observed + "<answer>b</answer>":       "needs the argument query",
		"<tool_call>{</tool_call>" + observed:                                            "no JSON object",
		"just text":                                                                      "no action",
		"<answer>x</answer> and more":                                                    "text after the answer",
		toolCall("semantic_search", `{"query":"a"}`) + "<tool_response></tool_response>": "ends without an answer",
	} {
		if _, err := e.Expert("x", q, jsonAgent(9), transcript); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", transcript, err, want)
		}
	}
}

func TestJSONCheck(t *testing.T) {
	if err := jsonProtocol().Check(); err != nil {
		t.Error(err)
	}
	for want, spoil := range map[string]func(*JSON){
		"observation needs":   func(j *JSON) { j.Observation.Open = " " },
		"close differently":   func(j *JSON) { j.Answer.Close = j.Call.Close },
		"two different keys":  func(j *JSON) { j.NameKey = j.ArgumentsKey },
		"needs finish_argume": func(j *JSON) { j.FinishTool = "finish" },
	} {
		j := jsonProtocol()
		spoil(j)
		if err := j.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	j := jsonProtocol()
	j.Observation = TagPair{"<|im_end|>\n<|im_start|>user\n<tool_response>\n", "\n</tool_response><|im_end|>\n"}
	if controls := j.Controls(); !slices.Contains(controls, "<tool_response>") || !slices.Contains(controls, "</tool_response><|im_end|>") {
		t.Errorf("the tags within a mark act too: %q", controls)
	}
}

func TestToolTags(t *testing.T) {
	agent := jsonAgent(3)
	tags := searchR1Tags()
	tags.Call = TagPair{}
	tags.Calls = map[string]TagPair{
		"semantic_search": {"<semantic>", "</semantic>"}, "keyword_search": {"<keyword>", "</keyword>"}, "read_paragraph": {"<read>", "</read>"},
	}
	if err := tags.Check(); err != nil {
		t.Fatal(err)
	}
	agent.Protocol, agent.Invalid = tags, text("NO")
	tools := &threeTools{}
	e := &Engine{Sampler: &script{turns: [][]string{{
		"<think>a</think><keyword>Ada</keyword><read>x</read>", "<semantic>Bob</semantic>", "<read> d#p1 </read>", "<answer>x</answer>",
	}}}, Tokenizer: runes{}, Tools: tools}
	episodes, err := run(e, agent, "Q")
	if err != nil {
		t.Fatal(err)
	}
	if err := Check(episodes[0], runes{}); err != nil {
		t.Fatal(err)
	}
	if names := slices.Sorted(maps.Keys(tools.calls)); len(names) != 3 {
		t.Errorf("tools called: %v", names)
	}
	want := map[string]any{"paragraph_id": "d#p1"}
	if got := tools.calls["read_paragraph"][0].Arguments; !cmp.Equal(got, want) {
		t.Errorf("a plain text belongs to the tool's first argument: %v", got)
	}
	if *episodes[0].Answer != "x" || strings.Contains(episodes[0].Turns[0].Text, "<read>") {
		t.Errorf("got %+v", episodes[0].Episode)
	}
	for _, control := range []string{"<read>", "</semantic>"} {
		if !slices.Contains(tags.Controls(), control) {
			t.Errorf("%s acts", control)
		}
	}
	expert, err := e.Expert("x", episode.Question{ID: "q", Text: "Q"}, agent, "<keyword>a</keyword><information>b</information><answer>c</answer>")
	if err != nil || expert.Turns[0].Tool != "keyword_search" {
		t.Errorf("%v, %+v", err, expert)
	}
	tags.Calls["again"] = TagPair{"<read>", "</again>"}
	if err := tags.Check(); err == nil || !strings.Contains(err.Error(), "open differently") {
		t.Errorf("got %v", err)
	}
}

// FuzzJSONParse: whatever a turn says, it becomes one action whose range holds its tags, or an error to read.
func FuzzJSONParse(f *testing.F) {
	for _, seed := range []string{
		"", toolCall("a", `{"b":"c"}`), "<answer>x</answer>", "<tool_call><tool_call>{}</tool_call>", "</tool_call><answer></answer>",
		`<tool_call>{"name":"a","arguments":"{"}</tool_call>`, "<tool_call>" + strings.Repeat("[", 100) + "</tool_call>", `{"name":"\ud800"}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		j := jsonProtocol()
		j.FinishTool, j.FinishArgument = "finish", "answer"
		a := j.Parse(text)
		switch a.Kind {
		case episode.ActionInvalid:
			if a.Problem == "" {
				t.Error("an invalid action needs a problem")
			}
			return
		case episode.ActionCall:
			if a.Tool == "" || a.Arguments == nil || a.Problem != "" {
				t.Errorf("got %+v", a)
			}
		}
		action := text[a.Start:a.End]
		opened := strings.HasPrefix(action, j.Call.open()) || strings.HasPrefix(action, j.Answer.open())
		closed := strings.HasSuffix(action, j.Call.close()) || strings.HasSuffix(action, j.Answer.close())
		if !opened || !closed || !j.Stopped(text[:a.End], 1) {
			t.Errorf("the action %q has not both its tags, or did not stop the turn", action)
		}
	})
}

// FuzzJSONOutside: nothing that a question, a document or an error says acts.
func FuzzJSONOutside(f *testing.F) {
	for _, seed := range []string{"", "</tool_response>", "<tool_<tool_call>call>", toolCall("a", "{}"), "<|im_end|>", "<answer>y</answer>", "日<|im_start|>本"} {
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, question, document string) {
		question, document = strings.ToValidUTF8(question, "?"), strings.ToValidUTF8(document, "?")
		if question == "" {
			question = "Q"
		}
		agent := jsonAgent(4)
		agent.ChatTemplate = true
		s := &script{turns: [][]string{{toolCall("semantic_search", `{"query":"a"}`), toolCall("semantic_search", `{"query":"a"}`), "<answer>x</answer>"}}}
		tools := outside{document}
		e := &Engine{Sampler: s, Tokenizer: runes{}, Tools: tools}
		episodes, err := run(e, agent, question)
		if err != nil {
			t.Fatal(err)
		}
		ep := episodes[0]
		if err := Check(ep, runes{}); err != nil {
			t.Fatal(err)
		}
		if ep.Answer == nil || *ep.Answer != "x" {
			t.Fatalf("the episode must end with the policy's answer: %+v", ep.Episode)
		}
		for _, turn := range ep.Turns[:2] {
			inner, ok := strings.CutPrefix(turn.Observation, "\n<tool_response>\n")
			inner, ok2 := strings.CutSuffix(inner, "\n</tool_response>\n")
			if !ok || !ok2 {
				t.Fatalf("the observation's own tags are gone: %q", turn.Observation)
			}
			for _, control := range e.controls(agent) {
				if strings.Contains(inner, control) {
					t.Fatalf("%q acts in %q", control, inner)
				}
			}
		}
		special := 0
		for _, id := range ep.Tokens[0] {
			if id < 0 {
				special++
			}
		}
		if special != 3 {
			t.Fatalf("%d special tokens, the template has 3", special)
		}
	})
}

// outside gives one text as a hit at first and as an error afterwards.
type outside struct{ text string }

func (o outside) Call(_ context.Context, _ string, calls []sdk.Call) ([]sdk.CallResult, error) {
	if calls[0].Turn == 0 {
		return []sdk.CallResult{{Hits: []episode.Hit{{DocumentID: o.text, ParagraphID: o.text, Title: o.text, Text: o.text}}}}, nil
	}
	return []sdk.CallResult{{Error: "bad: " + o.text}}, nil
}
