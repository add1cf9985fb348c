// Package reinforcepp is REINFORCE++ (Hu et al., arXiv:2501.03262): no critic and no comparison within a question. The
// reward of the response and a penalty per token for the divergence from the reference are added up from each token to
// the end, normalised over all tokens of the training step, and trained with a clipped surrogate. The variant with a
// baseline takes the mean reward of the question off first.
package reinforcepp

import (
	"context"
	"math"
	"slices"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/diag"
	"github.com/forage-rl/forage/core/sdk/objective"
	"github.com/forage-rl/forage/plugins/algorithms/internal/grpo"
)

// Config is the configuration of the algorithm.
type Config struct {
	GroupSize     int     `forage:"group_size" default:"1" min:"1" doc:"Episodes sampled per question. The method needs one; the first version of the paper samples 4 in its experiments." source:"REINFORCE++ (arXiv:2501.03262), section 3"`
	Baseline      string  `forage:"baseline" default:"none" enum:"none,group_mean" doc:"none: rewards as they are; group_mean: less the mean reward of the question's episodes, which needs group_size 2 or more." source:"REINFORCE++ (arXiv:2501.03262), section 3"`
	KLCoefficient float64 `forage:"kl_coefficient" default:"0.001" min:"0" doc:"Weight of the divergence from the policy that the stage started from, taken off the reward of each token; 0 turns it off. The paper has 0.001 for mathematics and 0.01 for other tasks." source:"REINFORCE++ (arXiv:2501.03262v1), table 1"`
	ClipLow       float64 `forage:"clip_low" default:"0.2" min:"0" max:"1" doc:"The ratio to the sampling policy is clipped below at 1 - clip_low." source:"REINFORCE++ (arXiv:2501.03262v1), table 1"`
	ClipHigh      float64 `forage:"clip_high" default:"0.2" min:"0" doc:"The ratio to the sampling policy is clipped above at 1 + clip_high." source:"REINFORCE++ (arXiv:2501.03262v1), table 1"`
	MiniBatch     int     `forage:"mini_batch" default:"128" min:"0" doc:"Episodes per optimizer step; 0 takes all of a training step at once." source:"REINFORCE++ (arXiv:2501.03262v1), table 1"`
	Updates       int     `forage:"updates" default:"0" min:"0" doc:"Optimizer steps per training step and epoch: sets mini_batch from the number of episodes. 0 leaves mini_batch as it is." source:"default (not in the paper)"`
	Epochs        int     `forage:"epochs" default:"1" min:"1" doc:"Passes over the episodes of a training step." source:"default (not in the paper)"`
	Temperature   float64 `forage:"temperature" default:"0" min:"0" doc:"Temperature that the log-probabilities are taken at; 0 is the one that the episodes were sampled with." source:"default (not in the paper)"`
}

// Validate refuses a baseline without a group.
func (c Config) Validate() diag.Diagnostics {
	var ds diag.Diagnostics
	if c.Baseline == "group_mean" && c.GroupSize < 2 {
		ds.Errorf(diag.Attr("group_size"), "Group of one", "baseline = \"group_mean\" compares the episodes of a question: set group_size to 2 or more.")
	}
	return ds
}

// Objective is the loss of a configuration: the clipped surrogate of each token's own advantage, averaged over all
// tokens of the policy.
func Objective(c Config) (objective.Objective, error) {
	return grpo.Loss{
		Advantage: objective.Field(grpo.Field, objective.Token), Aggregate: grpo.Aggregation("token_mean", 0),
		ClipLow: c.ClipLow, ClipHigh: c.ClipHigh, KL: "none",
	}.Objective("reinforce-pp")
}

// Plugin describes the algorithm.
func Plugin() sdk.AlgorithmPlugin {
	return sdk.NewAlgorithm("reinforce-pp", "REINFORCE with a divergence penalty per token and advantages normalised over the whole step.", "REINFORCE++ (arXiv:2501.03262)",
		func(_ context.Context, c Config, host sdk.Host) (sdk.Algorithm, error) {
			o, err := Objective(c)
			m := grpo.Method{
				Label: "reinforce-pp", Config: c, Objective: o, AdvantagesOnly: true,
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
	var ratios map[string][][]float64
	if c.KLCoefficient > 0 {
		if ratios, err = grpo.LogRatios(ctx, host, groups, c.Temperature); err != nil {
			return grpo.Batch{}, err
		}
		b.Metrics = map[string]float64{"reward/kl": grpo.MeanSum(ratios)}
	}
	var episodes []Episode
	for _, g := range groups {
		rewards := g.Rewards
		if c.Baseline == "group_mean" {
			rewards = grpo.Advantages(g.Rewards, false)
		}
		for i, e := range g.Episodes {
			one := Episode{Reward: rewards[i]}
			for k, seq := range e.Sequences {
				one.Mask = append(one.Mask, seq.PolicyMask())
				if ratios == nil {
					one.Penalty = append(one.Penalty, make([]float64, seq.ResponseLength()))
					continue
				}
				penalty := make([]float64, seq.ResponseLength())
				for t, v := range ratios[e.ID][k] {
					penalty[t] = c.KLCoefficient * v
				}
				one.Penalty = append(one.Penalty, penalty)
			}
			episodes = append(episodes, one)
			for k, seq := range e.Sequences {
				if grpo.Trainable(seq) {
					b.Samples = append(b.Samples, sdk.Sample{EpisodeID: e.ID, Sequence: k, Group: g.Name})
				}
			}
			if ratios != nil {
				if b.UsedRewards == nil {
					b.UsedRewards = map[string]sdk.UsedReward{}
				}
				b.UsedRewards[e.ID] = sdk.UsedReward{Value: g.Rewards[i] - grpo.Sum(one.Penalty)}
			}
		}
	}
	at := 0
	for i, sequences := range Advantages(episodes) {
		for k, values := range sequences {
			if slices.Contains(episodes[i].Mask[k], true) {
				b.Samples[at].TokenFields = map[string][]float32{grpo.Field: values}
				at++
			}
		}
	}
	return b, nil
}

// Episode is what the advantages of an episode are computed from: its reward, and for each token of each sequence
// whether the policy wrote it and what is taken off its reward.
type Episode struct {
	Reward  float64
	Mask    [][]bool
	Penalty [][]float64
}

// smallest bounds the variance that advantages are divided by.
const smallest = 1e-8

// Advantages gives, per episode, sequence and token of the policy, the reward less the penalties of this and all later
// tokens, normalised by mean and standard deviation over all tokens of all episodes (section 3, global advantage
// normalisation; n in the denominator of the variance). Tokens of others get 0. Where all values are the same, all
// advantages are exactly 0.
func Advantages(episodes []Episode) [][][]float32 {
	returns := make([][][]float64, len(episodes))
	var first float64
	n, sum, same := 0, 0., true
	for i, e := range episodes {
		returns[i] = make([][]float64, len(e.Mask))
		value := e.Reward
		for k := len(e.Mask) - 1; k >= 0; k-- {
			returns[i][k] = make([]float64, len(e.Mask[k]))
			for t := len(e.Mask[k]) - 1; t >= 0; t-- {
				if !e.Mask[k][t] {
					continue
				}
				value -= e.Penalty[k][t]
				returns[i][k][t] = value
				if n == 0 {
					first = value
				}
				same = same && value == first
				sum += value
				n++
			}
		}
	}
	mean, squares := sum/max(1, float64(n)), 0.
	each(episodes, func(i, k, t int) { squares += (returns[i][k][t] - mean) * (returns[i][k][t] - mean) })
	scale := 1 / math.Sqrt(max(smallest, squares/max(1, float64(n))))
	out := make([][][]float32, len(episodes))
	for i, e := range episodes {
		out[i] = make([][]float32, len(e.Mask))
		for k := range e.Mask {
			out[i][k] = make([]float32, len(e.Mask[k]))
		}
	}
	if !same {
		each(episodes, func(i, k, t int) { out[i][k][t] = float32((returns[i][k][t] - mean) * scale) })
	}
	return out
}

// each visits the policy's tokens.
func each(episodes []Episode, visit func(episode, sequence, token int)) {
	for i, e := range episodes {
		for k, mask := range e.Mask {
			for t, policy := range mask {
				if policy {
					visit(i, k, t)
				}
			}
		}
	}
}
