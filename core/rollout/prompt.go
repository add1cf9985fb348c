package rollout

import (
	"fmt"
	"slices"

	"github.com/forage-rl/forage/core/sdk/episode"
)

// newTurn gives an episode whose agent renders its prompt anew the prompt of its next turn. Without room for it the
// episode ends.
func (e *Engine) newTurn(l *live) error {
	agent := l.job.Agent
	limit := e.Sampler.MaxContext() - 1
	if agent.MaxPromptTokens > 0 {
		limit = min(limit, agent.MaxPromptTokens)
	}
	tokens, ok, err := e.historyPrompt(l.job.Question, agent, slices.Concat(shown(l.job.Evidence), l.ep.Turns), l.closing, limit)
	if err != nil {
		return err
	}
	if !ok && len(l.ep.Turns) == 0 {
		return fmt.Errorf("the prompt has %d tokens, it may have %d", len(tokens), limit)
	}
	if !ok {
		l.end(episode.StopLength)
		return nil
	}
	l.text = newSequence(e.Tokenizer, l.ep, tokens)
	return nil
}

// Fitting is how many of the hits, from the first on, an agent's prompt can show beside its answer, given the agent's
// limits and the policy's context. Where not even the question fits it is an error.
func (e *Engine) Fitting(q episode.Question, agent *Agent, evidence []episode.Hit) (int, error) {
	limit := e.Sampler.MaxContext() - agent.TurnTokens.Last
	if agent.MaxPromptTokens > 0 {
		limit = min(limit, agent.MaxPromptTokens)
	}
	for n := len(evidence); ; n-- {
		tokens, err := e.prompt(q, agent, shown(evidence[:n]), 0, false)
		if err != nil {
			return 0, err
		}
		if len(tokens) <= limit {
			return n, nil
		}
		if n == 0 {
			return 0, fmt.Errorf("the prompt has %d tokens without any evidence, %d are left beside turn_tokens.last = %d", len(tokens), limit, agent.TurnTokens.Last)
		}
	}
}

// shown is a history that only has hits.
func shown(evidence []episode.Hit) []episode.Turn {
	if len(evidence) == 0 {
		return nil
	}
	return []episode.Turn{{Hits: evidence}}
}

// Prompt makes an episode that holds only its prompt, which shows the evidence as found.
func (e *Engine) Prompt(q episode.Question, agent *Agent, evidence []episode.Hit) (*Episode, error) {
	tokens, err := e.prompt(q, agent, shown(evidence), 0, false)
	if err != nil {
		return nil, err
	}
	if agent.MaxPromptTokens > 0 && len(tokens) > agent.MaxPromptTokens {
		return nil, tooLong(len(tokens), agent)
	}
	ep := &Episode{}
	newSequence(e.Tokenizer, ep, tokens)
	return ep, nil
}
