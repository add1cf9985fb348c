// Package rloo is REINFORCE with a leave-one-out baseline (Ahmadian et al., arXiv:2402.14740): a response is one
// action, its reward less the divergence from the reference is compared with the mean of the other responses to the same
// question, and the gradient is that of the response's log-probability. There is no ratio and no clip.
package rloo

import (
	"context"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/objective"
	"github.com/forage-rl/forage/plugins/algorithms/internal/grpo"
)

// Config is the configuration of the algorithm.
type Config struct {
	GroupSize     int     `forage:"group_size" default:"4" min:"2" doc:"Episodes sampled per question." source:"RLOO (arXiv:2402.14740), section 4"`
	KLCoefficient float64 `forage:"kl_coefficient" default:"0.03" min:"0" doc:"Weight of the divergence from the policy that the stage started from, taken off the reward; 0 turns it off." source:"RLOO (arXiv:2402.14740), appendix C (TL;DR)"`
	MiniBatch     int     `forage:"mini_batch" default:"0" min:"0" doc:"Episodes per optimizer step; used where updates is 0. 0 takes all of a training step at once, so that every gradient is on-policy." source:"default (not in the paper)"`
	Updates       int     `forage:"updates" default:"2" min:"0" doc:"Optimizer steps per training step and epoch: sets mini_batch from the number of episodes. 0 leaves mini_batch as it is." source:"RLOO (arXiv:2402.14740), appendix C"`
	Epochs        int     `forage:"epochs" default:"1" min:"1" doc:"Passes over the episodes of a training step." source:"default (not in the paper)"`
	Temperature   float64 `forage:"temperature" default:"0" min:"0" doc:"Temperature that the log-probabilities are taken at; 0 is the one that the episodes were sampled with." source:"default (not in the paper)"`
}

// Objective is the loss (section 3.2): the mean over responses of minus advantage times log-probability of the
// response, summed over the policy's own tokens.
func Objective() (objective.Objective, error) {
	response := objective.Reduce(objective.LogP(), objective.Token, objective.Sequence, objective.Sum, objective.MaskPolicy)
	loss := objective.Reduce(objective.Mul(objective.Neg(objective.Field(grpo.Field, objective.Sequence)), response),
		objective.Sequence, objective.Scalar, objective.Mean, "")
	return objective.New("rloo", objective.TrainsPolicy, loss, map[string]objective.Expr{
		"policy_loss": loss,
		"entropy":     objective.TokenMean(objective.Entropy(), objective.MaskPolicy),
	})
}

// Plugin describes the algorithm.
func Plugin() sdk.AlgorithmPlugin {
	return sdk.NewAlgorithm("rloo", "REINFORCE with the mean of a question's other episodes as the baseline.", "RLOO (arXiv:2402.14740)",
		func(_ context.Context, c Config, host sdk.Host) (sdk.Algorithm, error) {
			o, err := Objective()
			m := grpo.Method{
				Label: "rloo", Config: c, Objective: o, AdvantagesOnly: true,
				Training: grpo.Training{MiniBatch: c.MiniBatch, Updates: c.Updates, Epochs: c.Epochs, Temperature: c.Temperature},
				Collect:  func(ctx context.Context, req sdk.StepRequest) (grpo.Batch, error) { return collect(ctx, c, host, req) },
			}
			if c.KLCoefficient > 0 {
				m.Reference = sdk.ReferenceStageStart
			}
			return m, err
		})
}

func collect(ctx context.Context, c Config, host sdk.Host, req sdk.StepRequest) (grpo.Batch, error) {
	groups, err := grpo.Sample(ctx, host, req.Questions, c.GroupSize)
	if err != nil {
		return grpo.Batch{}, err
	}
	b := grpo.Batch{Groups: groups}
	penalised := groups
	if c.KLCoefficient > 0 {
		ratios, err := grpo.LogRatios(ctx, host, groups, c.Temperature)
		if err != nil {
			return grpo.Batch{}, err
		}
		penalised = Penalise(groups, ratios, c.KLCoefficient)
		b.UsedRewards, b.Metrics = map[string]sdk.UsedReward{}, map[string]float64{"reward/kl": grpo.MeanSum(ratios)}
		for _, g := range penalised {
			for i, e := range g.Episodes {
				b.UsedRewards[e.ID] = sdk.UsedReward{Value: g.Rewards[i]}
			}
		}
	}
	b.Samples = grpo.SamplesOf(penalised, grpo.LeaveOneOut)
	return b, nil
}

// Penalise takes coefficient times the sum of its log-ratios off the reward of each episode.
func Penalise(groups []grpo.Group, ratios map[string][][]float64, coefficient float64) []grpo.Group {
	out := make([]grpo.Group, len(groups))
	for i, g := range groups {
		rewards := make([]float64, len(g.Rewards))
		for k, e := range g.Episodes {
			rewards[k] = g.Rewards[k] - coefficient*grpo.Sum(ratios[e.ID])
		}
		g.Rewards = rewards
		out[i] = g
	}
	return out
}
