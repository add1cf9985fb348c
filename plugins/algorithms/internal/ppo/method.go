package ppo

import (
	"cmp"
	"context"
	"fmt"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
	"github.com/forage-rl/forage/core/sdk/objective"
	"github.com/forage-rl/forage/plugins/algorithms/internal/grpo"
)

// Settings are what the methods with a critic share.
type Settings struct {
	Gamma, Lambda float64
	// KLCoefficient weighs the divergence from the reference inside the reward; 0 turns it off.
	KLCoefficient     float64
	ClipLow, ClipHigh float64
	// ValueClip bounds how far a value may move in the critic's loss.
	ValueClip          float64
	EntropyCoefficient float64
	// Aggregation of the policy's loss, as [grpo.Aggregation] names it; "" means token_mean.
	Aggregation string
	// LossKL is the estimator of a divergence from the reference that is added to the policy's loss, "" for none.
	LossKL            string
	LossKLCoefficient float64
	// TrainObservations lets the policy's loss run over documents too.
	TrainObservations bool
	// PolicyTokens takes documents out of the recursion, of whitening and of the critic's loss.
	PolicyTokens bool
	// CriticWarmup is the number of steps in which only the critic is updated.
	CriticWarmup int
	Training     grpo.Training
}

// Names of the fields of samples.
const (
	advantageField = grpo.Field
	returnField    = "return"
)

// Method is PPO on rewards per token: one episode or more per question, advantages by [GAE] and whitened, the critic
// updated before the policy.
type Method struct {
	Label     string
	Config    any // for the defaults in force
	Settings  Settings
	Host      sdk.Host
	GroupSize int
	// Further gives the rewards of an episode beside its total, which goes to its last token; nil for none. At counts the
	// response tokens of all its sequences, one after the other.
	Further func(e episode.Episode) []Placed
}

var _ sdk.Algorithm = Method{}

func (m Method) policyObjective() string { return m.Label }

func (m Method) criticObjective() string { return m.Label + "-critic" }

// Objectives are the losses: of the critic, half the squared error of its clipped value, and of the policy, the clipped
// surrogate less the entropy.
func (m Method) Objectives() (critic, policy objective.Objective, err error) {
	s := m.Settings
	mask := objective.MaskResponse
	if s.PolicyTokens {
		mask = objective.MaskPolicy
	}
	target := objective.Field(returnField, objective.Token)
	loss := objective.TokenMean(objective.ValueLoss(target, s.ValueClip), mask)
	critic, err = objective.New(m.criticObjective(), objective.TrainsCritic, loss, map[string]objective.Expr{
		"value_loss":          loss,
		"value":               objective.TokenMean(objective.Value(), mask),
		"value_clip_fraction": objective.TokenMean(objective.ValueClipFraction(target, s.ValueClip), mask),
	})
	if err != nil {
		return critic, policy, err
	}
	policyMask, kl := objective.MaskPolicy, s.LossKL
	if s.TrainObservations {
		policyMask = objective.MaskResponse
	}
	if kl == "" {
		kl = "none"
	}
	policy, err = grpo.Loss{
		Advantage: objective.Field(advantageField, objective.Token), Aggregate: grpo.AggregationOver(cmp.Or(s.Aggregation, "token_mean"), 0, policyMask),
		ClipLow: s.ClipLow, ClipHigh: s.ClipHigh, EntropyCoefficient: s.EntropyCoefficient, KL: kl, KLCoefficient: s.LossKLCoefficient,
	}.Objective(m.policyObjective())
	return critic, policy, err
}

// Plan implements [sdk.Algorithm].
func (m Method) Plan(_ context.Context, req sdk.PlanRequest) (sdk.PlanResponse, error) {
	if req.Produce {
		return sdk.PlanResponse{}, grpo.NotSupported("%s only trains: stage %q makes no updates; use a training stage", m.Label, req.Stage)
	}
	critic, policy, err := m.Objectives()
	plan := sdk.PlanResponse{
		Objectives: []objective.Objective{critic, policy}, Critic: &sdk.Critic{Warmup: m.Settings.CriticWarmup},
		TrainsObservations: m.Settings.TrainObservations, DefaultsNotInPaper: grpo.DefaultsInForce(m.Config),
	}
	if m.Settings.KLCoefficient > 0 || policy.Uses(objective.OpRefLogP) {
		plan.Reference = sdk.ReferenceStageStart
	}
	return plan, err
}

// Step implements [sdk.Algorithm].
func (m Method) Step(ctx context.Context, req sdk.StepRequest) (sdk.StepResponse, error) {
	groups, err := grpo.Sample(ctx, m.Host, req.Questions, m.GroupSize)
	if err != nil {
		return sdk.StepResponse{}, err
	}
	responses, err := m.collect(ctx, groups)
	if err != nil {
		return sdk.StepResponse{}, err
	}
	for i := range groups {
		groups[i].Rewards = nil // of all tokens, not of the last alone
	}
	for _, r := range responses {
		groups[r.group].Rewards = append(groups[r.group].Rewards, sum(r.rewards))
	}
	out := sdk.StepResponse{Metrics: grpo.Metrics(groups), UsedRewards: map[string]sdk.UsedReward{}}
	critic, policy, err := m.samples(groups, responses, out)
	if err != nil {
		return sdk.StepResponse{}, err
	}
	if len(policy) == 0 {
		out.Metrics["groups/no_update"] = 1
		return out, nil
	}
	t := m.Settings.Training
	out.Updates = []sdk.Update{t.Update(m.criticObjective(), critic), t.Update(m.policyObjective(), policy)}
	return out, nil
}

// response is the tokens after the prompts of one episode, those of its sequences one after the other.
type response struct {
	group   int
	episode episode.Episode
	rewards []float64 // without the divergence
	values  []float64
	old     []float64
	ref     []float64
	policy  []bool
}

// collect asks for what the advantages are computed from.
func (m Method) collect(ctx context.Context, groups []grpo.Group) ([]response, error) {
	var out []response
	var ids []string
	for g, group := range groups {
		for _, e := range group.Episodes {
			r := response{group: g, episode: e}
			for _, seq := range e.Sequences {
				r.policy = append(r.policy, seq.PolicyMask()...)
			}
			var further []Placed
			if m.Further != nil {
				further = m.Further(e)
			}
			var err error
			if r.rewards, err = Rewards(len(r.policy), e.Rewards.Total, further...); err != nil {
				return nil, fmt.Errorf("episode %s: %w", e.ID, err)
			}
			out = append(out, r)
			ids = append(ids, e.ID)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	values, err := m.Host.Values(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("values: %w", err)
	}
	place := func(what string, values []sdk.SequenceValues, to func(*response) *[]float64) error {
		read := map[string][]float64{}
		for _, v := range values { // sequences of an episode come in their order
			for _, x := range v.Values {
				read[v.EpisodeID] = append(read[v.EpisodeID], float64(x))
			}
		}
		for i := range out {
			r := &out[i]
			if n := len(read[r.episode.ID]); n != len(r.policy) {
				return fmt.Errorf("the host gave %d %s for episode %s, whose response has %d tokens", n, what, r.episode.ID, len(r.policy))
			}
			*to(r) = read[r.episode.ID]
		}
		return nil
	}
	if err := place("values", values, func(r *response) *[]float64 { return &r.values }); err != nil {
		return nil, err
	}
	if m.Settings.KLCoefficient == 0 {
		return out, nil
	}
	for _, reference := range []bool{false, true} {
		logProbs, err := m.Host.LogProbs(ctx, sdk.LogProbsRequest{EpisodeIDs: ids, Reference: reference, Temperature: m.Settings.Training.Temperature})
		if err != nil {
			return nil, fmt.Errorf("log-probabilities: %w", err)
		}
		to := func(r *response) *[]float64 { return &r.old }
		if reference {
			to = func(r *response) *[]float64 { return &r.ref }
		}
		if err := place("log-probabilities", logProbs, to); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// samples estimates advantages and returns, and reports the rewards behind them in out. The samples of critic and policy
// are the same sequences, each with the field that its objective reads; those in which the policy wrote nothing teach
// the critic alone.
func (m Method) samples(groups []grpo.Group, responses []response, out sdk.StepResponse) (critic, policy []sdk.Sample, err error) {
	s := m.Settings
	var raw, returns [][]float64
	var masks [][]bool
	tokens, divergence := 0, 0.
	for _, r := range responses {
		rewards := r.rewards
		if s.KLCoefficient > 0 {
			var kl float64
			rewards, kl = KLInReward(r.rewards, r.old, r.ref, r.policy, s.KLCoefficient)
			divergence += kl / float64(len(responses))
		}
		var skip []bool // nil: no token
		mask := make([]bool, len(rewards))
		for t := range mask {
			mask[t] = !s.PolicyTokens || r.policy[t]
			if mask[t] {
				tokens++
			}
		}
		if s.PolicyTokens {
			skip = mask
		}
		a, g := GAE(rewards, r.values, skip, s.Gamma, s.Lambda)
		raw, returns, masks = append(raw, a), append(returns, g), append(masks, mask)
		used := sdk.UsedReward{Value: sum(rewards)}
		if m.Further != nil {
			used.Turns = r.episode.Rewards.TurnTotals
		}
		out.UsedRewards[r.episode.ID] = used
	}
	if tokens < 2 {
		return nil, nil, nil // nothing to compare
	}
	whitened, err := Whiten(raw, masks)
	if err != nil {
		return nil, nil, err
	}
	describe(out.Metrics, raw, returns, masks)
	if s.KLCoefficient > 0 {
		out.Metrics["reward/kl"] = divergence
	}
	for i, r := range responses {
		at := 0
		for k, seq := range r.episode.Sequences {
			n := seq.ResponseLength()
			if n > 0 {
				sample := func(field string, values []float64) sdk.Sample {
					return sdk.Sample{EpisodeID: r.episode.ID, Sequence: k, Group: groups[r.group].Name,
						TokenFields: map[string][]float32{field: float32s(values[at : at+n])}}
				}
				critic = append(critic, sample(returnField, returns[i]))
				if grpo.Trainable(seq) {
					policy = append(policy, sample(advantageField, whitened[i]))
				}
			}
			at += n
		}
	}
	return critic, policy, nil
}

// describe reports how good the critic is over the masked tokens: the mean return, and the share of the returns' variance
// that the values explain, where the returns vary at all. An advantage is a return less the value.
func describe(metrics map[string]float64, advantages, returns [][]float64, masks [][]bool) {
	moments := func(values [][]float64) (mean, variance float64) {
		n := 0.
		for i, row := range values {
			for t, v := range row {
				if masks[i][t] {
					mean += v
					n++
				}
			}
		}
		mean /= n
		for i, row := range values {
			for t, v := range row {
				if masks[i][t] {
					variance += (v - mean) * (v - mean) / n
				}
			}
		}
		return mean, variance
	}
	mean, variance := moments(returns)
	metrics["critic/return"] = mean
	if _, errors := moments(advantages); variance > 0 {
		metrics["critic/explained_variance"] = 1 - errors/variance
	}
}

func sum(values []float64) float64 {
	total := 0.
	for _, v := range values {
		total += v
	}
	return total
}

func float32s(values []float64) []float32 {
	out := make([]float32, len(values))
	for i, v := range values {
		out[i] = float32(v)
	}
	return out
}
