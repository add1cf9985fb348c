package run

import (
	"context"
	"fmt"

	"github.com/forage-rl/forage/core/policy"
	"github.com/forage-rl/forage/core/sdk"
)

// LogProbs implements [sdk.Host].
func (st *step) LogProbs(ctx context.Context, req sdk.LogProbsRequest) ([]sdk.SequenceValues, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if req.Policy == "" {
		req.Policy = st.stage.role()
	}
	m, err := st.stage.run.models.get(ctx, req.Policy)
	if err != nil {
		return nil, err
	}
	if m.Policy == nil {
		return nil, fmt.Errorf("policy %q is behind an endpoint, which tells no log-probabilities: %w", req.Policy, sdk.ErrNotSupported)
	}
	if req.Reference && m != st.stage.model {
		return nil, fmt.Errorf("policy %q has no reference, only the one that the stage trains has: %w", req.Policy, sdk.ErrInvalidRequest)
	}
	if req.Reference && !st.stage.reference {
		return nil, fmt.Errorf("the stage's plan asks for no reference policy: %w", sdk.ErrInvalidRequest)
	}
	if req.Temperature == 0 {
		req.Temperature = st.stage.config.Sampling.Temperature
	}
	for _, id := range req.EpisodeIDs {
		if by := st.made[id]; by.model != nil && by.model.tokens != m.tokens {
			return nil, fmt.Errorf("episode %q is of policy %q, whose tokenizer is not that of %q: %w", id, by.policy, req.Policy, sdk.ErrInvalidRequest)
		}
	}
	var values []sdk.SequenceValues
	sequences, err := st.sequences(req.EpisodeIDs, &values)
	if err != nil {
		return nil, err
	}
	logps, _, err := m.LogProbs(ctx, sequences, req.Temperature, req.Reference, false)
	if err != nil {
		return nil, err
	}
	for i := range values {
		values[i].Values = logps[i]
	}
	return values, nil
}

// sequences lays the sequences of episodes out, and beside them which they are.
func (st *step) sequences(ids []string, values *[]sdk.SequenceValues) ([]policy.Sequence, error) {
	var list []policy.Sequence
	for _, id := range ids {
		ep, ok := st.episodes[id]
		if !ok {
			return nil, fmt.Errorf("episode %q: %w", id, sdk.ErrUnknownEpisode)
		}
		for i, seq := range ep.Sequences {
			list = append(list, policy.Sequence{Tokens: ep.Tokens[i], PromptLength: seq.PromptLength})
			*values = append(*values, sdk.SequenceValues{EpisodeID: id, Sequence: i})
		}
	}
	return list, nil
}

// Values implements [sdk.Host].
func (st *step) Values(ctx context.Context, ids []string) ([]sdk.SequenceValues, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	critic := st.stage.run.critic
	if critic == nil {
		return nil, fmt.Errorf("the stage's plan asks for no critic: %w", sdk.ErrInvalidRequest)
	}
	var values []sdk.SequenceValues
	sequences, err := st.sequences(ids, &values)
	if err != nil {
		return nil, err
	}
	read, err := critic.Values(ctx, sequences)
	if err != nil {
		return nil, err
	}
	for i := range values {
		values[i].Values = read[i]
	}
	return values, nil
}
