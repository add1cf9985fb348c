package rollout

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/forage-rl/forage/core/internal/vectors"
	"github.com/forage-rl/forage/core/sdk/episode"
)

func TestVectorSearchR1Actions(t *testing.T) {
	type outcome struct {
		Observation  string
		Done, Valid  int
		IsSearch     int `json:"is_search"`
		Cut, Content string
		Action       *string
		UncutAction  *string  `json:"uncut_action"`
		UncutContent string   `json:"uncut_content"`
		FinalTurn    *outcome `json:"final_turn"`
	}
	tags := searchR1Tags()
	kind := map[episode.Action]string{episode.ActionCall: "search", episode.ActionAnswer: "answer"}
	for _, c := range vectors.Load(t, "search-r1", "actions").Cases {
		t.Run(c.ID, func(t *testing.T) {
			response := vectors.Decode[struct{ Response string }](t, c.Input).Response
			want := vectors.Decode[outcome](t, c.Want())
			if got := tags.Cut(response); got != want.Cut {
				t.Errorf("cut: got %q, want %q", got, want.Cut)
			}
			for _, parse := range []struct {
				text, content string
				action        *string
			}{{want.Cut, want.Content, want.Action}, {response, want.UncutContent, want.UncutAction}} {
				a := tags.Parse(parse.text)
				got, content := kind[a.Kind], a.Answer
				if a.Kind == episode.ActionCall {
					content = a.Arguments["query"].(string)
				}
				if wanted := deref(parse.action); got != wanted || content != parse.content {
					t.Errorf("parse %q: got %q %q, want %q %q", parse.text, got, content, wanted, parse.content)
				}
			}
			// The same through the loop, in an ordinary turn and in the closing one.
			for _, last := range []bool{false, true} {
				want := want
				agent := searchR1Agent(2)
				s := &script{turns: [][]string{{response, "<answer>end</answer>"}}, cut: tags.Cut}
				if last {
					want = *want.FinalTurn
					agent.MaxTurns = 1
					s.turns[0] = []string{"<search>first</search>", response}
				}
				e := &Engine{Sampler: s, Tokenizer: runes{}, Tools: reply(func(q string) []episode.Hit {
					return []episode.Hit{{Text: " RESULT(" + q + ") \n"}}
				})}
				episodes, err := run(e, agent, "Q")
				if err != nil {
					t.Fatal(err)
				}
				turn := episodes[0].Turns[0]
				if last {
					turn = episodes[0].Turns[1]
					if len(episodes[0].Turns) != 2 || turn.Observation != "" {
						t.Errorf("the closing turn must be the last and have no observation: %+v", turn)
					}
				} else if want := broken(want.Observation); turn.Observation != want {
					t.Errorf("observation: got %q, want %q", turn.Observation, want)
				}
				valid := turn.Action == episode.ActionCall || turn.Action == episode.ActionAnswer
				if valid != (want.Valid == 1) || (turn.Action == episode.ActionCall) != (want.IsSearch == 1) ||
					(turn.Action == episode.ActionAnswer) != (want.Done == 1) {
					t.Errorf("closing %v: got action %s, want %+v", last, turn.Action, want)
				}
			}
		})
	}
}

// broken is an observation of the reference with the tags broken up that a query brought into the document: ours
// never lets text from outside hold one.
func broken(observation string) string {
	inner, ok := strings.CutPrefix(observation, "\n\n<information>")
	if !ok {
		return observation
	}
	inner = strings.TrimSuffix(inner, "</information>\n\n")
	pieces := neutralise([]Piece{{Text: inner}}, searchR1Tags().Controls())
	return "\n\n<information>" + pieces[0].Text + "</information>\n\n"
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func TestVectorSearchR1Rollout(t *testing.T) {
	compareRollouts(t, "search-r1", searchR1Agent)
}

// TestVectorStepSearchRollout: the same loop with blanks around the documents, and a text that announces the closing
// turn.
func TestVectorStepSearchRollout(t *testing.T) {
	compareRollouts(t, "stepsearch", func(maxTurns int) *Agent {
		agent := searchR1Agent(maxTurns)
		agent.Protocol.(*Tags).Observation = TagPair{"\n\n<information> ", " </information>\n\n"}
		agent.Closing = text("<LAST NOTE>")
		return agent
	})
}

// compareRollouts runs the whole loop. Ours bounds the context instead of dropping its start, so cases in which the
// window moves or the response is cut afterwards compare only what comes before that.
func compareRollouts(t *testing.T, topic string, newAgent func(maxTurns int) *Agent) {
	type row struct {
		Prompt        string
		Segments      [][2]any
		Turns         int
		StillActive   bool `json:"still_active"`
		ValidActions  int  `json:"valid_actions"`
		ValidSearches int  `json:"valid_searches"`
	}
	for _, c := range vectors.Load(t, topic, "rollout").Cases {
		t.Run(c.ID, func(t *testing.T) {
			in := vectors.Decode[struct {
				Prompts         []string
				ScriptedOutputs [][]string `json:"scripted_outputs"`
				MaxTurns        int        `json:"max_turns"`
				MaxPromptLength int        `json:"max_prompt_length"`
				MaxObsLength    int        `json:"max_obs_length"`
				SearchReply     string     `json:"search_reply"`
			}](t, c.Input)
			want := vectors.Decode[struct {
				Rows            []row
				ContextsPerCall []map[string]string `json:"contexts_per_call"`
			}](t, c.Want())
			agent := newAgent(in.MaxTurns)
			agent.MaxObservationTokens = in.MaxObsLength
			s := &script{turns: in.ScriptedOutputs, cut: searchR1Tags().Cut}
			e := &Engine{Sampler: s, Tokenizer: runes{}, Tools: reply(func(q string) []episode.Hit {
				return []episode.Hit{{Text: strings.ReplaceAll(in.SearchReply, "{q}", q)}}
			})}
			var jobs []Job
			for i, p := range in.Prompts {
				jobs = append(jobs, Job{ID: fmt.Sprint("e", i), Question: episode.Question{ID: fmt.Sprint("q", i), Text: p}, Agent: agent, NoTools: in.MaxTurns == 0})
			}
			agent.MaxTurns = max(in.MaxTurns, 1)
			episodes, err := e.Run(t.Context(), jobs)
			if err != nil {
				t.Fatal(err)
			}
			if len(s.contexts) != len(want.ContextsPerCall) {
				t.Errorf("%d sampling calls, want %d", len(s.contexts), len(want.ContextsPerCall))
			}
			for i, contexts := range s.contexts {
				for id, got := range contexts {
					wanted := want.ContextsPerCall[i][fmt.Sprint(id)]
					if len(wanted) == in.MaxPromptLength && strings.HasSuffix(got, wanted) {
						continue // upstream's window has moved
					}
					if note := strings.ReplaceAll(got, "<eos>", ""); note != wanted {
						t.Errorf("call %d, row %d sees %q, want %q", i, id, note, wanted)
					}
				}
			}
			for i, want := range want.Rows {
				ep := episodes[i]
				if err := Check(ep, runes{}); err != nil {
					t.Fatal(err)
				}
				searches, valid := 0, 0
				for _, turn := range ep.Turns {
					if turn.Action == episode.ActionCall {
						searches++
					}
					if turn.Action == episode.ActionCall || turn.Action == episode.ActionAnswer {
						valid++
					}
				}
				if searches != want.ValidSearches || valid != want.ValidActions || (ep.Answer == nil) != want.StillActive {
					t.Errorf("row %d: %d searches, %d valid, answered %v; want %+v", i, searches, valid, ep.Answer != nil, want)
				}
				if got := segments(ep); !same(got, want.Segments, in.MaxPromptLength) {
					t.Errorf("row %d: segments %q, want %q", i, got, want.Segments)
				}
			}
		})
	}
}

func segments(ep *Episode) [][2]any {
	var list [][2]any
	for _, seg := range ep.Sequences[0].Segments {
		mask := 0.
		if seg.Kind == episode.Policy {
			mask = 1
		}
		text := strings.ReplaceAll(seg.Text, "<eos>", "")
		if n := len(list); n > 0 && list[n-1][0] == mask {
			list[n-1][1] = list[n-1][1].(string) + text
		} else if text != "" {
			list = append(list, [2]any{mask, text})
		}
	}
	return list
}

// same compares segments; want may be cut after limit characters in all.
func same(got, want [][2]any, limit int) bool {
	var g, w []string
	for _, s := range got {
		g = append(g, strings.Repeat(fmt.Sprint(s[0]), len([]rune(s[1].(string)))), s[1].(string))
	}
	total := 0
	for _, s := range want {
		w = append(w, strings.Repeat(fmt.Sprint(s[0]), len([]rune(s[1].(string)))), s[1].(string))
		total += len([]rune(s[1].(string)))
	}
	masks := func(parts []string, from int) (joined string) {
		for i := from; i < len(parts); i += 2 {
			joined += parts[i]
		}
		return joined
	}
	if total == limit {
		return strings.HasPrefix(masks(g, 0), masks(w, 0)) && strings.HasPrefix(masks(g, 1), masks(w, 1))
	}
	return masks(g, 0) == masks(w, 0) && masks(g, 1) == masks(w, 1)
}

func TestVectorDavidTurn(t *testing.T) {
	for _, c := range vectors.Load(t, "david-grpo", "turn").Cases {
		t.Run(c.ID, func(t *testing.T) {
			in := vectors.Decode[struct {
				Prefix, Chunk string
				UsedUp        bool `json:"budget_used_up"`
			}](t, c.Input)
			want := vectors.Decode[struct {
				Query     string
				Searched  bool
				NewPrefix string `json:"new_prefix"`
			}](t, c.Want())
			agent := davidAgent(1)
			s := &script{turns: [][]string{{in.Chunk, "done"}}}
			prompt := in.Prefix
			if in.UsedUp {
				s.turns[0] = append([]string{"<begin_search>first</end_search>"}, s.turns[0]...)
			}
			// The reference cuts a chunk after its call; so does stopping at the call's closing tag, except for one
			// that closes nothing.
			s.cut = func(text string) string {
				if a := agent.Protocol.Parse(text); a.Kind == episode.ActionCall {
					return text[:a.End]
				}
				return text
			}
			e := &Engine{Sampler: s, Tokenizer: runes{}, Tools: reply(func(q string) []episode.Hit {
				var hits []episode.Hit
				for i := range 3 {
					hits = append(hits, episode.Hit{Title: fmt.Sprint("T", i), Text: "body of " + q})
				}
				return hits
			})}
			// A query may hold an opening tag, which the reference passes on to the documents; ours breaks it up there.
			wanted := strings.ReplaceAll(want.NewPrefix, "body of a<begin_search>b", "body of a< begin_search>b")
			episodes, err := run(e, agent, prompt)
			if err != nil {
				t.Fatal(err)
			}
			ep := episodes[0]
			turn := ep.Turns[0]
			if in.UsedUp {
				turn = ep.Turns[1]
			}
			query := turn.Query()
			if turn.Action != episode.ActionCall {
				query = ""
			}
			if query != want.Query || (turn.Action == episode.ActionCall) != want.Searched || (query != "" && turn.Executed) != (want.Searched && !in.UsedUp) {
				t.Errorf("got %+v, want %+v", turn, want)
			}
			got := in.Prefix
			if want.Searched {
				got += turn.Text + turn.Observation
			}
			if got != wanted {
				t.Errorf("got %q, want %q", got, wanted)
			}
			if err := Check(ep, runes{}); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestVectorDavidObservationMask: which characters of a transcript are observations.
func TestVectorDavidObservationMask(t *testing.T) {
	tags := davidAgent(1).Protocol.(*Tags)
	for _, c := range vectors.Load(t, "david-grpo", "observation_mask").Cases {
		response := vectors.Decode[struct{ Response string }](t, c.Input).Response
		want := vectors.Decode[struct {
			MaskedSpans  [][2]int `json:"masked_spans"`
			ActionTokens int      `json:"action_tokens"`
		}](t, c.Want())
		got := [][2]int{}
		trained := len([]rune(response)) + 1 // one end token
		for _, f := range tags.observations(response) {
			start, end := len([]rune(response[:f.start])), len([]rune(response[:f.end]))
			trained -= end - start
			if n := len(got); n > 0 && got[n-1][1] == start {
				got[n-1][1] = end // the reference reports a mask, in which neighbours are one
			} else {
				got = append(got, [2]int{start, end})
			}
		}
		if !slices.Equal(got, want.MaskedSpans) || trained != want.ActionTokens {
			t.Errorf("%s: got %v, %d trained; want %v, %d", c.ID, got, trained, want.MaskedSpans, want.ActionTokens)
		}
	}
}

// observations finds the observations in a text, tags included: from an opening tag to the nearest closing one, one
// after the other.
func (t *Tags) observations(text string) []found {
	var blocks []found
	for at := 0; ; {
		f, more := firstPair(text[at:], t.Observation)
		if !more {
			return blocks
		}
		blocks = append(blocks, found{f.content, at + f.start, at + f.end})
		at += f.end
	}
}
