// Package drgrpo is Dr. GRPO (Liu et al., arXiv:2503.20783): GRPO without the two divisions that bias it. Advantages
// are not divided by the spread of a group's rewards, and the sum over a response's tokens is divided by a constant in
// place of the response's own length.
package drgrpo

import (
	"context"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/objective"
	"github.com/forage-rl/forage/plugins/algorithms/internal/grpo"
)

// Config is the configuration of the algorithm.
type Config struct {
	GroupSize        int     `forage:"group_size" default:"8" min:"2" doc:"Episodes sampled per question; the released scripts have 8." source:"default (not in the paper)"`
	LengthNormalizer float64 `forage:"length_normalizer" default:"3000" min:"1" doc:"Constant that the sum over a response's tokens is divided by: the most tokens of a response. The released scripts generate at most 3000." source:"default (not in the paper)"`
	ClipLow          float64 `forage:"clip_low" default:"0.2" min:"0" max:"1" doc:"The ratio to the sampling policy is clipped below at 1 - clip_low." source:"default (not in the paper)"`
	ClipHigh         float64 `forage:"clip_high" default:"0.2" min:"0" doc:"The ratio to the sampling policy is clipped above at 1 + clip_high." source:"default (not in the paper)"`
	MiniBatch        int     `forage:"mini_batch" default:"128" min:"0" doc:"Episodes per optimizer step; 0 takes all of a training step at once. The released scripts have 128." source:"default (not in the paper)"`
	Updates          int     `forage:"updates" default:"0" min:"0" doc:"Optimizer steps per training step and epoch: sets mini_batch from the number of episodes. 0 leaves mini_batch as it is." source:"default (not in the paper)"`
	Epochs           int     `forage:"epochs" default:"1" min:"1" doc:"Passes over the episodes of a training step." source:"default (not in the paper)"`
	Temperature      float64 `forage:"temperature" default:"0" min:"0" doc:"Temperature that the log-probabilities of the loss are taken at; 0 is the one that the episodes were sampled with." source:"default (not in the paper)"`
}

// Objective is the loss of a configuration (section 3.2): the clipped surrogate, summed over the policy's tokens,
// divided by the constant, averaged over episodes.
func Objective(c Config) (objective.Objective, error) {
	return grpo.Loss{
		Advantage: objective.Field(grpo.Field, objective.Sequence), Aggregate: grpo.Aggregation("constant", c.LengthNormalizer),
		ClipLow: c.ClipLow, ClipHigh: c.ClipHigh, KL: "none",
	}.Objective("dr-grpo")
}

// Plugin describes the algorithm.
func Plugin() sdk.AlgorithmPlugin {
	return sdk.NewAlgorithm("dr-grpo", "GRPO without division by the spread of rewards or by the length of a response.", "Dr. GRPO (arXiv:2503.20783)",
		func(_ context.Context, c Config, host sdk.Host) (sdk.Algorithm, error) {
			o, err := Objective(c)
			return grpo.Method{
				Label: "dr-grpo", Config: c, Objective: o, AdvantagesOnly: true,
				Training: grpo.Training{MiniBatch: c.MiniBatch, Updates: c.Updates, Epochs: c.Epochs, Temperature: c.Temperature},
				Collect:  grpo.CollectGroups(host, c.GroupSize, func(rewards []float64) []float64 { return grpo.Advantages(rewards, false) }),
			}, err
		})
}
