// Package grpo is group relative policy optimisation as it was first described (DeepSeekMath, Shao et al.,
// arXiv:2402.03300): groups of episodes per question, advantages relative to the group, a clipped surrogate on the
// policy's own tokens, and the divergence from a reference in the loss. How tokens are averaged, whether advantages are
// divided by their spread and how the divergence is estimated are options, so that it serves as the common ground of
// its variants.
package grpo

import (
	"context"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/diag"
	"github.com/forage-rl/forage/core/sdk/objective"
	"github.com/forage-rl/forage/plugins/algorithms/internal/grpo"
)

// Config is the configuration of the algorithm.
type Config struct {
	GroupSize    int  `forage:"group_size" default:"64" min:"1" doc:"Episodes sampled per question." source:"DeepSeekMath (arXiv:2402.03300), section 4.2"`
	NormalizeStd bool `forage:"normalize_std" default:"true" doc:"Divide advantages by the standard deviation of the group's rewards." source:"DeepSeekMath (arXiv:2402.03300), section 4.1.2"`

	ClipLow            float64 `forage:"clip_low" default:"0.2" min:"0" max:"1" doc:"The ratio to the sampling policy is clipped below at 1 - clip_low." source:"default (not in the paper)"`
	ClipHigh           float64 `forage:"clip_high" default:"0.2" min:"0" doc:"The ratio to the sampling policy is clipped above at 1 + clip_high." source:"default (not in the paper)"`
	KL                 KL      `forage:"kl" doc:"Divergence from the policy that the stage started from, added to the loss."`
	EntropyCoefficient float64 `forage:"entropy_coefficient" default:"0" min:"0" doc:"Weight of an entropy bonus." source:"DeepSeekMath (arXiv:2402.03300), eq. 3"`
	Aggregation        string  `forage:"aggregation" default:"sequence_mean" enum:"token_mean,sequence_mean,question_mean,constant" doc:"token_mean: mean over the policy tokens of a mini-batch; sequence_mean: mean over episodes of each one's mean; question_mean: mean over questions of that; constant: mean over episodes of each one's sum divided by length_normalizer." source:"DeepSeekMath (arXiv:2402.03300), eq. 3"`
	LengthNormalizer   float64 `forage:"length_normalizer" default:"1024" min:"1" doc:"Divisor of aggregation = \"constant\": the most tokens of a response." source:"DeepSeekMath (arXiv:2402.03300), section 4.2"`

	MiniBatch   int     `forage:"mini_batch" default:"0" min:"0" doc:"Episodes per optimizer step; 0 takes all of a training step at once, as the paper does." source:"DeepSeekMath (arXiv:2402.03300), section 4.2"`
	Updates     int     `forage:"updates" default:"0" min:"0" doc:"Optimizer steps per training step and epoch: sets mini_batch from the number of episodes. 0 leaves mini_batch as it is." source:"default (not in the paper)"`
	Epochs      int     `forage:"epochs" default:"1" min:"1" doc:"Passes over the episodes of a training step." source:"DeepSeekMath (arXiv:2402.03300), section 4.2"`
	Temperature float64 `forage:"temperature" default:"0" min:"0" doc:"Temperature that the log-probabilities of the loss are taken at; 0 is the one that the episodes were sampled with." source:"default (not in the paper)"`
}

// KL is the divergence term.
type KL struct {
	Kind        string  `forage:"kind" default:"k3" enum:"none,k1,k2,k3" doc:"Estimator: k3 is exp(-d) - 1 + d of the log-ratio d, k2 is d²/2, k1 is d." source:"DeepSeekMath (arXiv:2402.03300), eq. 4"`
	Coefficient float64 `forage:"coefficient" default:"0.04" min:"0" doc:"Weight of the divergence." source:"DeepSeekMath (arXiv:2402.03300), section 4.2"`
}

// Validate warns of a group that cannot be compared.
func (c Config) Validate() diag.Diagnostics {
	var ds diag.Diagnostics
	if c.GroupSize == 1 {
		ds.Warnf(diag.Attr("group_size"), "Group of one", "A group of one has nothing to be compared with: its advantage is its reward. Use 2 or more.")
	}
	return ds
}

func (c Config) usesReference() bool { return c.KL.Kind != "none" && c.KL.Coefficient != 0 }

// Objective is the loss of a configuration.
func Objective(c Config) (objective.Objective, error) {
	return grpo.Loss{
		Advantage: objective.Field(grpo.Field, objective.Sequence), Aggregate: grpo.Aggregation(c.Aggregation, c.LengthNormalizer),
		ClipLow: c.ClipLow, ClipHigh: c.ClipHigh,
		EntropyCoefficient: c.EntropyCoefficient, KL: c.KL.Kind, KLCoefficient: c.KL.Coefficient,
	}.Objective("grpo")
}

// Plugin describes the algorithm.
func Plugin() sdk.AlgorithmPlugin {
	return sdk.NewAlgorithm("grpo", "Group-relative advantages with a clipped surrogate, means and divergence as options.", "DeepSeekMath (arXiv:2402.03300)",
		func(_ context.Context, c Config, host sdk.Host) (sdk.Algorithm, error) {
			o, err := Objective(c)
			m := grpo.Method{
				Label: "grpo", Config: c, Objective: o, AdvantagesOnly: !c.usesReference() && c.EntropyCoefficient == 0,
				Training: grpo.Training{MiniBatch: c.MiniBatch, Updates: c.Updates, Epochs: c.Epochs, Temperature: c.Temperature},
				Collect: grpo.CollectGroups(host, c.GroupSize, func(rewards []float64) []float64 {
					return grpo.Advantages(rewards, c.NormalizeStd)
				}),
			}
			if c.usesReference() {
				m.Reference = sdk.ReferenceStageStart
			}
			return m, err
		})
}
