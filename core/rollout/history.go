package rollout

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/forage-rl/forage/core/sdk/episode"
)

// anew says whether every turn answers a prompt of its own.
func (a *Agent) anew() bool {
	_, ok := a.Protocol.(*Fields)
	return ok
}

// prompt renders an agent's prompt. turns is what has happened, for protocols that render it anew each turn, of which
// the prompt shows those from index first on; closing leaves the tools out of such a prompt.
func (e *Engine) prompt(q episode.Question, agent *Agent, turns []episode.Turn, first int, closing bool) ([]int32, error) {
	vars, err := e.promptVars(q, agent, turns, first, closing)
	if err != nil {
		return nil, err
	}
	var messages []Message
	for _, part := range []struct {
		role     string
		template Template
	}{{"system", agent.System}, {"user", agent.User}} {
		if part.template == nil {
			continue
		}
		pieces, err := part.template.Render(vars)
		if err != nil {
			return nil, fmt.Errorf("%s text: %w", part.role, err)
		}
		messages = append(messages, Message{part.role, neutralise(pieces, e.controls(agent))})
	}
	var pieces []Piece
	if agent.ChatTemplate {
		if pieces, err = e.Tokenizer.RenderChat(messages); err != nil {
			return nil, fmt.Errorf("chat template: %w", err)
		}
	} else {
		for _, m := range messages {
			pieces = append(pieces, m.Content...)
		}
	}
	tokens := e.Tokenizer.EncodePieces(neutralise(pieces, e.controls(agent)))
	if len(tokens) == 0 {
		return nil, fmt.Errorf("the prompt is empty")
	}
	return tokens, nil
}

// tooLong is the error of a prompt beyond the agent's limit.
func tooLong(tokens int, agent *Agent) error {
	return fmt.Errorf("the prompt has %d tokens, max_prompt_tokens is %d", tokens, agent.MaxPromptTokens)
}

// keepRecent is how many turns keep their observations longest when a prompt with its history is too long
// (FrugalRAG, released code).
const keepRecent = 2

// historyPrompt renders a prompt that holds the history and fits into limit tokens (0: no limit). Of a history that is
// too long, the observations go first, the oldest first and those of the first and the last two turns after all
// others, then whole turns, the oldest first. ok is false when nothing helps.
func (e *Engine) historyPrompt(q episode.Question, agent *Agent, turns []episode.Turn, closing bool, limit int) (tokens []int32, ok bool, err error) {
	turns = slices.Clone(turns)
	first := 0
	fits := func() (bool, error) {
		tokens, err = e.prompt(q, agent, turns, first, closing)
		return err == nil && (limit <= 0 || len(tokens) <= limit), err
	}
	if ok, err = fits(); ok || err != nil {
		return tokens, ok, err
	}
	var order []int
	recent := max(1, len(turns)-keepRecent)
	for i := 1; i < recent; i++ {
		order = append(order, i)
	}
	if len(turns) > 0 {
		order = append(order, 0)
	}
	for i := recent; i < len(turns); i++ {
		order = append(order, i)
	}
	for _, i := range order {
		turns[i].Hits, turns[i].Observation = nil, ""
		if ok, err = fits(); ok || err != nil {
			return tokens, ok, err
		}
	}
	for first < len(turns) {
		first++
		if ok, err = fits(); ok || err != nil {
			return tokens, ok, err
		}
	}
	return tokens, false, nil
}

// promptVars is what system and user texts see. turns and hits are the history, which a prompt that is rendered once
// does not have.
func (e *Engine) promptVars(q episode.Question, agent *Agent, turns []episode.Turn, first int, closing bool) (map[string]any, error) {
	tools := []any{}
	for _, t := range agent.Descriptions {
		if closing && agent.anew() {
			break
		}
		arguments := make([]any, len(t.Arguments))
		for j, a := range t.Arguments {
			arguments[j] = map[string]any{"name": a.Name, "type": a.Type, "description": a.Description, "required": a.Required}
		}
		tools = append(tools, map[string]any{"name": t.Name, "description": t.Description, "arguments": arguments})
	}
	hits, history := []any{}, []any{}
	for i := first; i < len(turns); i++ {
		t := &turns[i]
		observation, err := e.observation(q, agent, turns, i)
		if err != nil {
			return nil, fmt.Errorf("history, turn %d: %w", i+1, err)
		}
		found := hitVars(t.Hits)
		hits = append(hits, found...)
		history = append(history, map[string]any{
			"number": i + 1, "thought": t.Thought, "tool": t.Tool, "arguments": argumentsText(t), "query": t.Query(),
			"observation": observation, "hits": found, "error": t.Error,
		})
	}
	return map[string]any{
		"question": questionVars(q), "tools": tools, "hits": hits, "turns": history,
		"max_turns": agent.MaxTurns, "max_searches": agent.MaxSearches,
	}, nil
}

// observation is what turn i came to, as the agent lays it out, whoever ran the episode.
func (e *Engine) observation(q episode.Question, agent *Agent, turns []episode.Turn, i int) (string, error) {
	t := &turns[i]
	if !t.Executed || t.Error != "" || t.Action != episode.ActionCall || len(t.Hits) == 0 && t.Observation != "" {
		return t.Observation, nil // said by a tool or by the agent itself, or known as text alone
	}
	pieces, err := agent.Observation.Render(stateVars(q, agent, turns[:i+1], i+1, t, t.Hits))
	if err != nil {
		return "", fmt.Errorf("observation text: %w", err)
	}
	return e.cutObservation(agent, pieces), nil
}

// cutObservation is the text of an observation that becomes part of a prompt, cut at the agent's limit.
func (e *Engine) cutObservation(agent *Agent, pieces []Piece) string {
	pieces = trimPieces(pieces)
	if agent.MaxObservationTokens > 0 {
		if tokens := e.Tokenizer.EncodePieces(pieces); len(tokens) > agent.MaxObservationTokens {
			return strings.ToValidUTF8(e.Tokenizer.Decode(tokens[:agent.MaxObservationTokens]), "")
		}
	}
	return joined(pieces)
}

// stateVars is what texts of a turn see, given all turns up to it.
func stateVars(q episode.Question, agent *Agent, turns []episode.Turn, number int, turn *episode.Turn, hits []episode.Hit) map[string]any {
	return turnVars(q, agent, counted(turns), searches(turns), number, turn, hits)
}

// counted is how many turns count towards max_turns: those that the policy wrote.
func counted(turns []episode.Turn) (n int) {
	for _, t := range turns {
		if t.Span.Len() > 0 {
			n++
		}
	}
	return n
}

func hitVars(hits []episode.Hit) []any {
	list := make([]any, len(hits))
	for i, h := range hits {
		list[i] = map[string]any{
			"title": h.Title, "text": h.Text, "document_id": h.DocumentID, "paragraph_id": h.ParagraphID,
			"sentence_id": h.SentenceID, "score": h.Score,
		}
	}
	return list
}

func argumentsText(turn *episode.Turn) string {
	if turn.Arguments != nil {
		if text, err := json.Marshal(turn.Arguments); err == nil {
			return string(text)
		}
	}
	return "{}"
}

// Rerender lays chosen turns of an episode out under another agent's prompt: an episode of origin rerendered with one
// sequence per turn, whose prompt holds the history up to that turn as the agent lays it out, and whose response is
// what the policy wrote. It has no log-probabilities of a sampler. turns are indices into ep.Turns; nil chooses all
// turns that the policy wrote and that came to something: an answer, or a call that was carried out without an error.
// q is the episode's question. The agent must render its prompt anew each turn (protocol fields). The result has the
// id of ep; its turns are the chosen ones.
func (e *Engine) Rerender(ep *Episode, q episode.Question, turns []int, agent *Agent) (*Episode, error) {
	fail := func(format string, args ...any) (*Episode, error) {
		return nil, fmt.Errorf("rerender episode %s of question %s: %w", ep.ID, ep.QuestionID, fmt.Errorf(format, args...))
	}
	if q.ID != ep.QuestionID {
		return fail("given question %s", q.ID)
	}
	if !agent.anew() {
		return fail("the agent's protocol must be fields, which renders its prompt anew each turn, got %T", agent.Protocol)
	}
	if turns == nil {
		for i, t := range ep.Turns {
			if t.Text != "" && t.Error == "" && t.Executed {
				turns = append(turns, i)
			}
		}
	}
	out := &Episode{Key: ep.Key}
	out.ID, out.QuestionID, out.Origin, out.Stop = ep.ID, ep.QuestionID, episode.OriginRerendered, ep.Stop
	out.Answer, out.Rewards = ep.Answer, ep.Rewards
	for _, i := range turns {
		if i < 0 || i >= len(ep.Turns) {
			return fail("there is no turn %d, it has turns 0 to %d", i, len(ep.Turns)-1)
		}
		turn := ep.Turns[i]
		if turn.Text == "" {
			return fail("turn %d was not written by the policy", i)
		}
		if action := agent.Protocol.Parse(turn.Text); action.Kind != turn.Action {
			return fail("turn %d is a turn of action %q, the agent's protocol reads it as %q: %q", i, turn.Action, action.Kind, clip(turn.Text))
		}
		written, err := e.written(ep, turn, agent)
		if err != nil {
			return fail("turn %d: %w", i, err)
		}
		prompt, ok, err := e.historyPrompt(q, agent, ep.Turns[:i], false, agent.MaxPromptTokens)
		if err != nil {
			return fail("turn %d: %w", i, err)
		}
		if !ok {
			return fail("turn %d: %w", i, tooLong(len(prompt), agent))
		}
		text := newSequence(e.Tokenizer, out, prompt)
		turn.Sequence = len(out.Sequences) - 1
		turn.ActionSpan = episode.Span{Start: turn.ActionSpan.Start - turn.Span.Start, End: turn.ActionSpan.End - turn.Span.Start}
		turn.Span = text.append(episode.Policy, written, nil)
		turn.ActionSpan.Start += turn.Span.Start
		turn.ActionSpan.End += turn.Span.Start
		turn.ObservationSpan = episode.Span{}
		out.Turns = append(out.Turns, turn)
	}
	if len(out.Sequences) == 0 {
		return fail("it has no turn to lay out")
	}
	out.Counters = count(out.Episode)
	return out, nil
}

// written gives the tokens of a turn: those that were sampled, else those of its text.
func (e *Engine) written(ep *Episode, turn episode.Turn, agent *Agent) ([]int32, error) {
	if turn.Sequence < len(ep.Tokens) && turn.Span.Len() > 0 {
		if tokens := ep.Tokens[turn.Sequence]; turn.Span.End <= len(tokens) {
			return tokens[turn.Span.Start:turn.Span.End], nil
		}
		return nil, fmt.Errorf("its tokens [%d, %d) are not in a sequence of %d", turn.Span.Start, turn.Span.End, len(ep.Tokens[turn.Sequence]))
	}
	return e.Tokenizer.EncodePieces(agent.Protocol.(*Fields).trust(turn.Text)), nil
}

// trust splits text so that only its markers are trusted.
func (f *Fields) trust(text string) []Piece {
	var pieces []Piece
	done := 0
	for m := range f.markers(text) {
		pieces = append(pieces, Piece{Text: text[done:m.start]}, Piece{Text: text[m.start:m.end], Trusted: true})
		done = m.end
	}
	return append(pieces, Piece{Text: text[done:]})
}
