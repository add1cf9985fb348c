// Package gspo is group sequence policy optimisation (Zheng et al., arXiv:2507.18071): as the reward is of a whole
// response, so are the ratio to the sampling policy and its clip. The ratio is the geometric mean over the policy's
// tokens, which stays near 1, so the clip is far narrower than that of single tokens.
package gspo

import (
	"context"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/objective"
	"github.com/forage-rl/forage/plugins/algorithms/internal/grpo"
)

// Config is the configuration of the algorithm.
type Config struct {
	GroupSize    int     `forage:"group_size" default:"8" min:"2" doc:"Episodes sampled per question." source:"default (not in the paper)"`
	NormalizeStd bool    `forage:"normalize_std" default:"true" doc:"Divide advantages by the standard deviation of the group's rewards." source:"GSPO (arXiv:2507.18071), eq. 6"`
	ClipLow      float64 `forage:"clip_low" default:"0.0003" min:"0" max:"1" doc:"The ratio of a response is clipped below at 1 - clip_low." source:"GSPO (arXiv:2507.18071), section 5.1"`
	ClipHigh     float64 `forage:"clip_high" default:"0.0004" min:"0" doc:"The ratio of a response is clipped above at 1 + clip_high." source:"GSPO (arXiv:2507.18071), section 5.1"`
	MiniBatch    int     `forage:"mini_batch" default:"0" min:"0" doc:"Episodes per optimizer step; used where updates is 0. 0 takes all of a training step at once." source:"default (not in the paper)"`
	Updates      int     `forage:"updates" default:"4" min:"0" doc:"Optimizer steps per training step and epoch: sets mini_batch from the number of episodes. 0 leaves mini_batch as it is." source:"GSPO (arXiv:2507.18071), section 5.1"`
	Epochs       int     `forage:"epochs" default:"1" min:"1" doc:"Passes over the episodes of a training step." source:"default (not in the paper)"`
	Temperature  float64 `forage:"temperature" default:"0" min:"0" doc:"Temperature that the log-probabilities of the loss are taken at; 0 is the one that the episodes were sampled with." source:"default (not in the paper)"`
}

// Objective is the loss of a configuration (eq. 5, negated): the mean over responses of the clipped surrogate of each
// one's ratio.
func Objective(c Config) (objective.Objective, error) {
	cost, ratio := objective.Neg(objective.Field(grpo.Field, objective.Sequence)), objective.SequenceRatio()
	free, clipped := objective.Mul(cost, ratio), objective.Mul(cost, objective.Clip(ratio, 1-c.ClipLow, 1+c.ClipHigh))
	mean := func(x objective.Expr) objective.Expr {
		return objective.Reduce(x, objective.Sequence, objective.Scalar, objective.Mean, "")
	}
	loss := mean(objective.Max(free, clipped))
	return objective.New("gspo", objective.TrainsPolicy, loss, map[string]objective.Expr{
		"policy_loss":   loss,
		"clip_fraction": mean(objective.Less(free, clipped)),
		"ratio":         mean(ratio),
		"entropy":       objective.TokenMean(objective.Entropy(), objective.MaskPolicy),
	})
}

// Plugin describes the algorithm.
func Plugin() sdk.AlgorithmPlugin {
	return sdk.NewAlgorithm("gspo", "Group-relative advantages with ratio and clip of whole responses.", "GSPO (arXiv:2507.18071)",
		func(_ context.Context, c Config, host sdk.Host) (sdk.Algorithm, error) {
			o, err := Objective(c)
			return grpo.Method{
				Label: "gspo", Config: c, Objective: o, AdvantagesOnly: true,
				Training: grpo.Training{MiniBatch: c.MiniBatch, Updates: c.Updates, Epochs: c.Epochs, Temperature: c.Temperature},
				Collect: grpo.CollectGroups(host, c.GroupSize, func(rewards []float64) []float64 {
					return grpo.Advantages(rewards, c.NormalizeStd)
				}),
			}, err
		})
}
