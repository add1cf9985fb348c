package run

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/forage-rl/forage/core/experiment"
	"github.com/forage-rl/forage/core/policy"
	"github.com/forage-rl/forage/core/rollout"
	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
	"github.com/forage-rl/forage/core/sdk/objective"
)

// update carries one update of the algorithm out and gives what it did.
func (st *step) update(ctx context.Context, number int, u sdk.Update) (policy.UpdateMetrics, error) {
	fail := func(format string, args ...any) (policy.UpdateMetrics, error) {
		return policy.UpdateMetrics{}, fmt.Errorf("update %d (objective %q): "+format, append([]any{number, u.Objective}, args...)...)
	}
	o, ok := st.stage.objective(u.Objective)
	if !ok {
		return fail("the stage's plan has no such objective: %w", sdk.ErrInvalidRequest)
	}
	if len(u.Samples) == 0 {
		return fail("has no samples: %w", sdk.ErrInvalidRequest)
	}
	if u.Epochs < 0 {
		return fail("asks for %d epochs: %w", u.Epochs, sdk.ErrInvalidRequest)
	}
	spec := policy.UpdateSpec{Objective: o, Epochs: max(1, u.Epochs), Temperature: u.Temperature, MicroTokens: st.stage.run.config.Runtime.MicroBatchTokens}
	if spec.Temperature == 0 {
		spec.Temperature = st.stage.config.Sampling.Temperature
	}
	groups := map[string]int{}
	for i, s := range u.Samples {
		sample, group, err := st.sample(o, s)
		if err != nil {
			return fail("sample %d: %w", i, err)
		}
		if _, known := groups[group]; !known {
			groups[group] = len(groups)
		}
		sample.Group, sample.Known = groups[group], st.known(s.EpisodeID, s.Sequence, spec.Temperature)
		spec.Samples = append(spec.Samples, sample)
	}
	order := make([]int, len(u.Samples))
	for i := range order {
		order[i] = i
	}
	var err error
	if spec.MiniBatches, err = st.miniBatches(number, u, order); err != nil {
		return fail("%w", err)
	}
	trainer := st.stage.trainer
	if o.Trains == objective.TrainsCritic {
		trainer = st.stage.run.critic.trainer
	}
	m, err := trainer.Update(ctx, spec)
	if err != nil {
		return fail("%w", err)
	}
	return m, nil
}

// checkUsed refuses rewards of episodes that the step does not hold, and rewards that are no numbers.
func (st *step) checkUsed(rewards map[string]sdk.UsedReward) error {
	for _, id := range sorted(rewards) {
		ep, ok := st.episodes[id]
		if !ok {
			return fmt.Errorf("the reward of episode %q: %w", id, sdk.ErrUnknownEpisode)
		}
		used := rewards[id]
		if n := len(used.Turns); n > 0 && n != len(ep.Turns) {
			return fmt.Errorf("rewards of %d turns of episode %q, which has %d: %w", n, id, len(ep.Turns), sdk.ErrInvalidRequest)
		}
		for _, v := range append([]float64{used.Value}, used.Turns...) {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return fmt.Errorf("a reward of %v of episode %q; it must be finite: %w", v, id, sdk.ErrInvalidRequest)
			}
		}
	}
	return nil
}

// objective finds an objective of the stage's plan.
func (s *stage) objective(name string) (objective.Objective, bool) {
	at := slices.IndexFunc(s.plan.Objectives, func(o objective.Objective) bool { return o.Name == name })
	if at < 0 {
		return objective.Objective{}, false
	}
	return s.plan.Objectives[at], true
}

// sample turns a sample of the algorithm into one of the trainer, with everything checked that a plugin can get wrong.
func (st *step) sample(o objective.Objective, s sdk.Sample) (policy.TrainSample, string, error) {
	none := policy.TrainSample{}
	ep, ok := st.episodes[s.EpisodeID]
	if !ok {
		return none, "", fmt.Errorf("episode %q: %w", s.EpisodeID, sdk.ErrUnknownEpisode)
	}
	if s.Sequence < 0 || s.Sequence >= len(ep.Sequences) {
		return none, "", fmt.Errorf("episode %q has %d sequences, not one of number %d: %w", ep.ID, len(ep.Sequences), s.Sequence, sdk.ErrInvalidRequest)
	}
	seq := ep.Sequences[s.Sequence]
	if seq.ResponseLength() == 0 {
		return none, "", fmt.Errorf("episode %q has an empty response: %w", ep.ID, sdk.ErrInvalidRequest)
	}
	if ep.Origin != episode.OriginPolicy && o.Uses(objective.OpSamplerLogP) {
		return none, "", fmt.Errorf("episode %q is of origin %s and has no log-probabilities of a sampler, which the objective reads: %w", ep.ID, ep.Origin, sdk.ErrInvalidRequest)
	}
	if ep.Origin == episode.OriginRerendered && o.Uses(objective.OpOldLogP) {
		return none, "", fmt.Errorf("episode %q was written under another prompt: it can be copied, by an objective of logp alone, but this one reads old_logp, as if it had been sampled: %w", ep.ID, sdk.ErrInvalidRequest)
	}
	if by := st.made[ep.ID]; by.model != nil && by.model != st.stage.model {
		if by.model.tokens != st.stage.model.tokens {
			return none, "", fmt.Errorf("episode %q is of policy %q, whose tokenizer is not that of %q, which the stage trains: %w", ep.ID, by.policy, st.stage.role(), sdk.ErrInvalidRequest)
		}
		if o.Uses(objective.OpSamplerLogP) {
			return none, "", fmt.Errorf("episode %q was sampled by policy %q, not by %q, which the stage trains: the objective must not read sampler_logp: %w", ep.ID, by.policy, st.stage.role(), sdk.ErrInvalidRequest)
		}
	}
	sample := policy.TrainSample{
		Tokens: ep.Tokens[s.Sequence], PromptLength: seq.PromptLength, PolicyMask: seq.PolicyMask(),
		SamplerLogProbs: ep.LogProbs[s.Sequence][seq.PromptLength:], Turns: turnsOfTokens(ep, s.Sequence),
		TokenFields: s.TokenFields, SequenceFields: map[string]float32{},
	}
	for _, name := range sorted(s.TokenFields) {
		values := s.TokenFields[name]
		if len(values) != seq.ResponseLength() {
			return none, "", fmt.Errorf("field %q of episode %q has %d numbers, its response has %d tokens: %w", name, ep.ID, len(values), seq.ResponseLength(), sdk.ErrInvalidRequest)
		}
		for i, v := range values {
			if v-v != 0 {
				return none, "", fmt.Errorf("field %q of episode %q is %v at token %d; it must be finite: %w", name, ep.ID, v, i, sdk.ErrInvalidRequest)
			}
		}
	}
	for _, name := range sorted(s.SequenceFields) {
		v := s.SequenceFields[name]
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return none, "", fmt.Errorf("field %q of episode %q is %v; it must be finite: %w", name, ep.ID, v, sdk.ErrInvalidRequest)
		}
		sample.SequenceFields[name] = float32(v)
	}
	fields := o.Fields()
	for _, name := range sorted(fields) {
		_, perToken := s.TokenFields[name]
		_, perSequence := s.SequenceFields[name]
		if fields[name] == objective.Token && !perToken || fields[name] == objective.Sequence && !perSequence {
			return none, "", fmt.Errorf("episode %q lacks the field %q (per %s), which the objective reads: %w", ep.ID, name, fields[name], sdk.ErrInvalidRequest)
		}
	}
	group := s.Group
	if group == "" {
		group = ep.QuestionID
	}
	return sample, group, nil
}

// turnsOfTokens gives the turn of each response token; tokens of an observation belong to the turn that asked for it,
// -1 to none.
func turnsOfTokens(ep *rollout.Episode, sequence int) []int {
	seq := ep.Sequences[sequence]
	turns := make([]int, seq.ResponseLength())
	for i := range turns {
		turns[i] = -1
	}
	for number, t := range ep.Turns {
		if t.Sequence != sequence {
			continue
		}
		for _, span := range []episode.Span{t.Span, t.ObservationSpan} {
			for i := span.Start; i < span.End; i++ {
				turns[i-seq.PromptLength] = number
			}
		}
	}
	return turns
}

// miniBatches cuts the samples into groups of whole units, in the order in which the units first come.
func (st *step) miniBatches(number int, u sdk.Update, samples []int) ([][]int, error) {
	unit := func(i int) string {
		s := u.Samples[i]
		switch u.MiniBatch.Unit {
		case sdk.UnitQuestion:
			if s.Group != "" {
				return s.Group
			}
			return st.episodes[s.EpisodeID].QuestionID
		case sdk.UnitEpisode:
			return s.EpisodeID
		}
		return fmt.Sprint(i)
	}
	switch u.MiniBatch.Unit {
	case sdk.UnitQuestion, sdk.UnitEpisode, sdk.UnitSequence:
	case "":
		if u.MiniBatch.Count != 0 {
			return nil, fmt.Errorf("a mini-batch of %d needs a unit: %w", u.MiniBatch.Count, sdk.ErrInvalidRequest)
		}
	default:
		return nil, fmt.Errorf("unknown unit %q of mini-batches; use %s, %s or %s: %w", u.MiniBatch.Unit, sdk.UnitQuestion, sdk.UnitEpisode, sdk.UnitSequence, sdk.ErrInvalidRequest)
	}
	if u.MiniBatch.Count < 0 {
		return nil, fmt.Errorf("a mini-batch of %d units: %w", u.MiniBatch.Count, sdk.ErrInvalidRequest)
	}
	members := map[string][]int{}
	var units []string
	for _, i := range samples {
		name := unit(i)
		if members[name] == nil {
			units = append(units, name)
		}
		members[name] = append(members[name], i)
	}
	switch u.Order {
	case "", sdk.OrderGiven:
	case sdk.OrderShuffled:
		rand.New(st.key.WithString("order").With(uint64(number)).Source()).Shuffle(len(units), func(i, j int) { units[i], units[j] = units[j], units[i] })
	default:
		return nil, fmt.Errorf("unknown order %q; use %s or %s: %w", u.Order, sdk.OrderGiven, sdk.OrderShuffled, sdk.ErrInvalidRequest)
	}
	count := u.MiniBatch.Count
	if count == 0 {
		count = len(units)
	}
	var batches [][]int
	for chunk := range slices.Chunk(units, count) {
		var batch []int
		for _, name := range chunk {
			batch = append(batch, members[name]...)
		}
		batches = append(batches, batch)
	}
	return batches, nil
}

func optimizer(c *experiment.Stage) policy.OptimizerConfig {
	return optimizerConfig(c.Optimizer, c.Schedule, c.Steps)
}

func optimizerConfig(o experiment.Optimizer, sch experiment.Schedule, steps int) policy.OptimizerConfig {
	return policy.OptimizerConfig{
		LearningRate: o.LearningRate, Beta1: o.Betas[0], Beta2: o.Betas[1], Epsilon: o.Eps, WeightDecay: o.WeightDecay, ClipNorm: o.ClipNorm,
		Schedule: policy.Schedule{Kind: sch.Kind, Warmup: sch.Warmup, Total: steps, Final: sch.Final, FirstAtZero: sch.FromZero, AfterWarmup: sch.AfterWarmup},
	}
}
