package rollout

import (
	"context"
	"fmt"
	"time"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
)

// firstSearches carries out the calls that agents make before the policy speaks.
func (e *Engine) firstSearches(ctx context.Context, lives []*live) error {
	var calls []*call
	for _, l := range lives {
		if l.job.Agent.FirstSearch && len(l.ep.Turns) == 0 && !l.job.NoTools {
			at := episode.Span{}
			if l.text != nil {
				at = episode.Span{Start: l.text.length(), End: l.text.length()}
			}
			l.ep.Turns = append(l.ep.Turns, firstTurn(l.job.Question, l.job.Agent, at))
			calls = append(calls, &call{live: l, turn: len(l.ep.Turns) - 1})
		}
	}
	return e.call(ctx, calls)
}

// firstTurn is the search that an agent makes before the policy speaks.
func firstTurn(q episode.Question, agent *Agent, at episode.Span) episode.Turn {
	tool, arguments := agent.called(Action{Arguments: map[string]any{"query": q.Text}, Plain: true})
	return episode.Turn{Span: at, ActionSpan: at, Action: episode.ActionCall, Tool: tool, Arguments: arguments}
}

// call is one tool call of an episode's turn.
type call struct {
	live *live
	turn int // index into the episode's turns
}

// call carries calls out, one batch per tool, and appends the observations.
func (e *Engine) call(ctx context.Context, calls []*call) error {
	byTool := map[string][]*call{}
	var tools []string
	for _, c := range calls {
		tool := c.live.ep.Turns[c.turn].Tool
		if byTool[tool] == nil {
			tools = append(tools, tool)
		}
		byTool[tool] = append(byTool[tool], c)
	}
	for _, tool := range tools {
		if err := e.callTool(ctx, tool, byTool[tool]); err != nil {
			return err
		}
	}
	return nil
}

func (e *Engine) callTool(ctx context.Context, tool string, calls []*call) error {
	requests := make([]sdk.Call, len(calls))
	for i, c := range calls {
		ep := c.live.ep
		requests[i] = sdk.Call{EpisodeID: ep.ID, Turn: c.turn, Arguments: ep.Turns[c.turn].Arguments, Seen: seen(ep.Turns[:c.turn])}
	}
	began := time.Now()
	results, err := e.Tools.Call(ctx, tool, requests)
	if err != nil {
		return fmt.Errorf("rollout: tool %q: %w", tool, err)
	}
	if len(results) != len(calls) {
		return fmt.Errorf("rollout: tool %q answered %d of %d calls", tool, len(results), len(calls))
	}
	latency := time.Since(began).Seconds()
	for i, c := range calls {
		l := c.live
		turn := &l.ep.Turns[c.turn]
		turn.Executed, turn.Error, turn.LatencySeconds = true, results[i].Error, latency
		if err := e.observe(l, c.turn+1, turn, results[i].Hits, results[i].Error); err != nil {
			return fmt.Errorf("rollout: episode %s of question %s: %w", l.ep.ID, l.ep.QuestionID, err)
		}
		if err := e.closeAfter(l, c.turn+1, turn); err != nil {
			return fmt.Errorf("rollout: episode %s of question %s: %w", l.ep.ID, l.ep.QuestionID, err)
		}
	}
	return nil
}

func seen(turns []episode.Turn) []sdk.Seen {
	var list []sdk.Seen
	for i, t := range turns {
		for _, h := range t.Hits {
			list = append(list, sdk.Seen{Turn: i, Tool: t.Tool, DocumentID: h.DocumentID, ParagraphID: h.ParagraphID, SentenceID: h.SentenceID})
		}
	}
	return list
}
