package run

import (
	"context"
	"fmt"

	"github.com/forage-rl/forage/core/policy"
	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/objective"
)

// LogProbs implements [sdk.Host].
func (st *step) LogProbs(ctx context.Context, req sdk.LogProbsRequest) ([]sdk.SequenceValues, error) {
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
	if m == st.stage.model {
		op, version := objective.OpOldLogP, m.Version()
		if req.Reference {
			op, version = objective.OpRefLogP, 0
		}
		st.remember(op, version, req.Temperature, values)
	}
	return values, nil
}

// computedKey is something that the trained policy, its reference or its critic was asked for in a step: an update that needs
// it takes it over.
type computedKey struct {
	op          objective.Op
	version     uint64  // of the weights; 0 for the reference, which stays what it is during a step
	temperature float64 // 0 for values
	episode     string
	sequence    int
}

func (st *step) remember(op objective.Op, version uint64, temperature float64, values []sdk.SequenceValues) {
	for _, v := range values {
		st.computed[computedKey{op, version, temperature, v.EpisodeID, v.Sequence}] = v.Values
	}
}

// known gives what has been computed of a sequence and is still true.
func (st *step) known(episode string, sequence int, temperature float64) map[objective.Op][]float32 {
	out := map[objective.Op][]float32{}
	take := func(op objective.Op, version uint64, temperature float64) {
		if values, ok := st.computed[computedKey{op, version, temperature, episode, sequence}]; ok {
			out[op] = values
		}
	}
	take(objective.OpOldLogP, st.stage.model.Version(), temperature)
	take(objective.OpRefLogP, 0, temperature)
	if critic := st.stage.run.critic; critic != nil {
		take(objective.OpOldValue, critic.Version(), 0)
	}
	return out
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
	st.remember(objective.OpOldValue, critic.Version(), 0, values)
	return values, nil
}
