package rollout

import (
	"fmt"
	"slices"

	"github.com/forage-rl/forage/core/sdk/episode"
)

// act records what the policy wrote and decides what follows. It returns a call to carry out, if any.
func (e *Engine) act(l *live, g Generated) (*call, error) {
	if len(g.Tokens) == 0 || len(g.Tokens) != len(g.LogProbs) {
		return nil, fmt.Errorf("the sampler gave %d tokens and %d log-probabilities", len(g.Tokens), len(g.LogProbs))
	}
	span := l.text.append(episode.Policy, g.Tokens, g.LogProbs)
	eos := e.Tokenizer.EOS()
	written := g.Tokens
	for len(written) > 0 && slices.Contains(eos, written[len(written)-1]) {
		written = written[:len(written)-1]
	}
	agent := l.job.Agent
	text := e.Tokenizer.Decode(written)
	action := agent.Protocol.Parse(text)
	turn := episode.Turn{Sequence: l.text.sequence, Span: span, Text: text, Thought: action.Thought, Action: action.Kind}
	turn.ActionSpan = e.actionSpan(span, written, action)
	l.fresh++
	defer func() { l.ep.Turns = append(l.ep.Turns, turn) }()

	switch action.Kind {
	case episode.ActionAnswer:
		turn.Executed, turn.Tool, turn.Arguments = true, action.Tool, action.Arguments
		if !action.Silent {
			l.ep.Answer = &action.Answer
		}
		l.end(episode.StopAnswered)
		return nil, nil
	case episode.ActionCall:
		turn.Tool, turn.Arguments = agent.called(action)
		if fields, ok := agent.Protocol.(*Fields); ok {
			turn.Tool = fields.tool(turn.Tool, agent.Tools)
		}
		return e.allow(l, &turn)
	}
	// Nothing that the protocol understands.
	if g.Length && len(written) == len(g.Tokens) {
		turn.Action = episode.ActionNone
	}
	switch {
	case l.closing:
		l.end(episode.StopBudget)
	case action.Problem != "" && agent.Invalid == nil:
		return nil, e.refuse(l, &turn, action.Problem)
	case action.Ends || agent.Invalid == nil:
		l.end(episode.StopInvalid)
		if turn.Action == episode.ActionNone {
			l.end(episode.StopLength)
		}
	default:
		l.turns++
		turn.Error = action.Problem
		var wrap func([]Piece) []Piece
		if action.Problem != "" {
			wrap = agent.Protocol.Wrap
		}
		if err := e.notice(l, &turn, agent.Invalid, wrap); err != nil {
			return nil, fmt.Errorf("invalid text: %w", err)
		}
		if agent.anew() {
			turn.Error = turn.Observation
		}
		if agent.exhausted(l.turns, 0) {
			l.closing = true
			if agent.OnBudget == OnBudgetStop {
				l.end(episode.StopBudget)
				return nil, nil
			}
			if err := e.announceClosing(l, len(l.ep.Turns)+1, &turn); err != nil {
				return nil, err
			}
		}
	}
	return nil, nil
}

// allow applies the budget to a call. The call is returned when it may be carried out.
func (e *Engine) allow(l *live, turn *episode.Turn) (*call, error) {
	agent := l.job.Agent
	if l.closing {
		l.end(episode.StopBudget)
		return nil, nil
	}
	if agent.exhausted(l.turns, searches(l.ep.Turns)) {
		if agent.OnBudget != OnBudgetLimitText {
			l.end(episode.StopBudget)
			return nil, nil
		}
		l.closing = true
		l.turns++
		if err := e.notice(l, turn, agent.Limit, agent.Protocol.Wrap); err != nil {
			return nil, fmt.Errorf("limit text: %w", err)
		}
		return nil, nil
	}
	if err := agent.checkCall(*turn); err != nil {
		return nil, e.refuse(l, turn, err.Error())
	}
	l.turns++
	return &call{live: l, turn: len(l.ep.Turns)}, nil
}

// refuse answers an action that cannot be carried out by what is wrong with it. It uses up a turn.
func (e *Engine) refuse(l *live, turn *episode.Turn, problem string) error {
	turn.Error = problem
	l.turns++
	if err := e.observe(l, len(l.ep.Turns)+1, turn, nil, problem); err != nil {
		return err
	}
	return e.closeAfter(l, len(l.ep.Turns)+1, turn)
}

// closeAfter leaves only the closing turn when the call of turn, which has been observed, used the budget up.
func (e *Engine) closeAfter(l *live, number int, turn *episode.Turn) error {
	agent := l.job.Agent
	if !agent.exhausted(l.turns, searches(l.ep.Turns)) {
		return nil
	}
	if agent.anew() && agent.OnBudget == OnBudgetStop {
		l.end(episode.StopBudget) // nobody reads what the last call found
	}
	if agent.OnBudget != OnBudgetClose {
		return nil
	}
	l.closing = true
	return e.announceClosing(l, number, turn)
}

// exhausted says whether the budget leaves no further call.
func (a *Agent) exhausted(turns, searches int) bool {
	return a.MaxTurns > 0 && turns >= a.MaxTurns || a.MaxSearches > 0 && searches >= a.MaxSearches
}

// closed says whether the turns leave only the closing one.
func closed(a *Agent, turns []episode.Turn) bool {
	if a.OnBudget == OnBudgetClose {
		return a.exhausted(counted(turns), searches(turns))
	}
	for _, t := range turns {
		if t.Action == episode.ActionCall && !t.Executed && t.Error == "" {
			return true // it was answered by the limit text
		}
	}
	return false
}

func searches(turns []episode.Turn) (n int) {
	for _, t := range turns {
		if t.Action == episode.ActionCall && t.Executed {
			n++
		}
	}
	return n
}

// actionSpan is the token range that covers the action's bytes in the turn's text.
func (e *Engine) actionSpan(span episode.Span, tokens []int32, a Action) episode.Span {
	if a.End <= a.Start {
		return episode.Span{Start: span.Start, End: span.Start}
	}
	decode := e.Tokenizer.Decoder()
	start, end, at := -1, len(tokens), 0
	for i, id := range tokens {
		at += len(decode(id))
		if start < 0 && at > a.Start {
			start = i
		}
		if at >= a.End {
			end = i + 1
			break
		}
	}
	return episode.Span{Start: span.Start + max(start, 0), End: span.Start + end}
}
