package rollout

import (
	"fmt"
	"strings"

	"github.com/forage-rl/forage/core/sdk/episode"
)

// notice appends a text of the agent, between the marks of an observation if wrap is given, unless the text holds
// them itself.
func (e *Engine) notice(l *live, turn *episode.Turn, template Template, wrap func([]Piece) []Piece) error {
	mark := ""
	if l.job.Agent.anew() {
		wrap = nil // a part of the next prompt
	}
	if wrap != nil {
		mark = strings.TrimSpace(wrap(nil)[0].Text)
	}
	pieces, err := template.Render(l.vars(len(l.ep.Turns)+1, turn, nil))
	if err != nil {
		return err
	}
	if wrap != nil && !strings.Contains(joined(pieces), mark) {
		pieces = wrap(trimPieces(pieces))
	}
	if l.job.Agent.anew() {
		turn.Observation = e.cutObservation(l.job.Agent, pieces)
		return nil
	}
	tokens := e.Tokenizer.EncodePieces(neutralise(pieces, e.controls(l.job.Agent)))
	turn.ObservationSpan, turn.Observation = e.tell(l, episode.Notice, tokens)
	return nil
}

// tell appends what the policy did not write, as much of it as the policy's context has room for: no sequence gets
// longer than what it can be trained on. A sequence without room left is at its end.
func (e *Engine) tell(l *live, kind episode.SegmentKind, tokens []int32) (episode.Span, string) {
	length := l.text.length()
	tokens = tokens[:min(len(tokens), max(0, e.Sampler.MaxContext()-length))]
	if len(tokens) == 0 {
		return episode.Span{Start: length, End: length}, ""
	}
	return l.text.append(kind, tokens, nil), l.text.last()
}

// observe appends the observation of a call.
func (e *Engine) observe(l *live, number int, turn *episode.Turn, hits []episode.Hit, failure string) error {
	agent := l.job.Agent
	pieces := []Piece{{Text: failure}}
	if failure == "" {
		var err error
		if pieces, err = agent.Observation.Render(l.vars(number, turn, hits)); err != nil {
			return fmt.Errorf("observation text: %w", err)
		}
	}
	if agent.anew() {
		turn.Hits, turn.Observation = hits, e.cutObservation(agent, pieces)
		return nil
	}
	pieces = neutralise(agent.Protocol.Wrap(trimPieces(pieces)), e.controls(agent))
	tokens := e.Tokenizer.EncodePieces(pieces)
	if agent.MaxObservationTokens > 0 && len(tokens) > agent.MaxObservationTokens {
		tokens = tokens[:agent.MaxObservationTokens]
	}
	turn.Hits = hits
	turn.ObservationSpan, turn.Observation = e.tell(l, episode.Observation, tokens)
	if l.text.length() >= e.Sampler.MaxContext() {
		l.end(episode.StopLength)
	}
	return nil
}

// announceClosing says the closing text, if there is one, after what turn came to: it becomes part of what follows
// the turn, so that an episode that is continued there holds it.
func (e *Engine) announceClosing(l *live, number int, turn *episode.Turn) error {
	agent := l.job.Agent
	if agent.Closing == nil || l.done {
		return nil
	}
	pieces, err := agent.Closing.Render(l.vars(number, turn, turn.Hits))
	if err != nil {
		return fmt.Errorf("closing text: %w", err)
	}
	span, text := e.tell(l, episode.Notice, e.Tokenizer.EncodePieces(neutralise(pieces, e.controls(agent))))
	turn.ObservationSpan.End = span.End
	turn.Observation += text
	if l.text.length() >= e.Sampler.MaxContext() {
		l.end(episode.StopLength)
	}
	return nil
}

// turnVars is what observation, invalid, limit and closing texts see. done and called are the turns that the policy
// has written and the calls that were carried out; number counts turns from 1; turns_left and searches_left are 0
// where there is no bound.
func turnVars(q episode.Question, agent *Agent, done, called, number int, turn *episode.Turn, hits []episode.Hit) map[string]any {
	return map[string]any{
		"question": questionVars(q), "hits": hitVars(hits), "tool": turn.Tool, "query": turn.Query(),
		"arguments": argumentsText(turn), "error": turn.Error, "turn": number, "searches": called,
		"turns_left": max(0, agent.MaxTurns-done), "searches_left": max(0, agent.MaxSearches-called),
	}
}

func (l *live) vars(number int, turn *episode.Turn, hits []episode.Hit) map[string]any {
	return turnVars(l.job.Question, l.job.Agent, l.turns, searches(l.ep.Turns), number, turn, hits)
}

func questionVars(q episode.Question) map[string]any {
	metadata := q.Metadata
	if metadata == nil {
		metadata = map[string]any{}
	}
	return map[string]any{"id": q.ID, "text": q.Text, "type": q.Type, "hops": q.Hops, "metadata": metadata}
}

func (e *Engine) controls(agent *Agent) []string {
	return append(agent.Protocol.Controls(), e.Tokenizer.SpecialTokens()...)
}
