// Package searchr1 is Search-R1 (Jin et al., arXiv:2503.09516) with GRPO or with PPO: a clipped surrogate on the policy's
// own tokens. With GRPO advantages are relative to the other episodes of the question and the divergence from the
// reference stands in the loss; with PPO a critic gives advantages per token and the divergence stands in the reward.
//
// The loss is a mean over all tokens of a mini-batch. The release takes it per micro-batch and averages those; with one
// micro-batch the two are the same.
package searchr1

import (
	"context"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/diag"
	"github.com/forage-rl/forage/plugins/algorithms/internal/grpo"
	"github.com/forage-rl/forage/plugins/algorithms/internal/ppo"
)

// Config is the configuration of the algorithm.
type Config struct {
	Estimator        string `forage:"estimator" default:"grpo" enum:"grpo,gae" doc:"How advantages are estimated. grpo: relative to the other episodes of the question. gae: PPO, per token with a critic." source:"Search-R1 (arXiv:2503.09516), section 3.1"`
	GroupSize        int    `forage:"group_size" default:"5" min:"1" doc:"Episodes sampled per question. The paper has 5 with grpo and 1 with gae." source:"Search-R1 (arXiv:2503.09516), training settings"`
	NormalizeStd     bool   `forage:"normalize_std" default:"true" doc:"Divide advantages by the standard deviation of the group's rewards. Only with grpo." source:"GRPO (arXiv:2402.03300), section 4.1.2"`
	GAE              GAE    `forage:"gae" doc:"Settings of estimator = gae."`
	MaskObservations bool   `forage:"mask_observations" default:"true" doc:"Leave what the search engine returned out of the policy's loss. Without it the policy also learns to write documents: the paper's ablation." source:"Search-R1 (arXiv:2503.09516), section 3.1"`

	ClipLow            float64 `forage:"clip_low" default:"0.2" min:"0" max:"1" doc:"The ratio to the sampling policy is clipped below at 1 - clip_low." source:"Search-R1 (arXiv:2503.09516), training settings"`
	ClipHigh           float64 `forage:"clip_high" default:"0.2" min:"0" doc:"The ratio to the sampling policy is clipped above at 1 + clip_high." source:"Search-R1 (arXiv:2503.09516), training settings"`
	KL                 KL      `forage:"kl" doc:"Divergence from the policy that the stage started from, added to the loss."`
	EntropyCoefficient float64 `forage:"entropy_coefficient" default:"0.001" min:"0" doc:"Weight of the entropy bonus; the released code has it on." source:"default (not in the paper)"`
	Aggregation        string  `forage:"aggregation" default:"token_mean" enum:"token_mean,sequence_mean,question_mean" doc:"token_mean: mean over the policy tokens of a mini-batch; sequence_mean: mean over episodes of each one's mean; question_mean: mean over questions of that." source:"default (not in the paper)"`

	MiniBatch   int     `forage:"mini_batch" default:"256" min:"0" doc:"Episodes per optimizer step; 0 takes all of a training step at once. The released scripts have 256." source:"default (not in the paper)"`
	Updates     int     `forage:"updates" default:"0" min:"0" doc:"Optimizer steps per training step and epoch: sets mini_batch from the number of episodes. 0 leaves mini_batch as it is." source:"default (not in the paper)"`
	Epochs      int     `forage:"epochs" default:"1" min:"1" doc:"Passes over the episodes of a training step." source:"default (not in the paper)"`
	Temperature float64 `forage:"temperature" default:"0" min:"0" doc:"Temperature that the log-probabilities of the loss are taken at; 0 is the one that the episodes were sampled with." source:"default (not in the paper)"`
}

// KL is the divergence term.
type KL struct {
	Kind        string  `forage:"kind" default:"auto" enum:"auto,none,k1,k2,k3,reward" doc:"auto is the paper's: k3 with grpo, reward with gae. In the loss, of the log-ratio d: k3 is exp(-d) - 1 + d, k2 is d²/2, k1 is d. reward: d is taken off the reward of each token of the policy; only with gae." source:"Search-R1 (arXiv:2503.09516), section 3.1"`
	Coefficient float64 `forage:"coefficient" default:"0.001" min:"0" doc:"Weight of the divergence." source:"Search-R1 (arXiv:2503.09516), training settings"`
}

// GAE configures the advantages per token and the critic. The optimizer of the critic is the stage's block critic.
type GAE struct {
	Gamma        float64 `forage:"gamma" default:"1" min:"0" max:"1" doc:"Discount per token." source:"Search-R1 (arXiv:2503.09516), training settings"`
	Lambda       float64 `forage:"lambda" default:"1" min:"0" max:"1" doc:"Weight of later errors of the critic: 1 takes the rewards to come as they are, 0 the value of the next token alone." source:"Search-R1 (arXiv:2503.09516), training settings"`
	ValueClip    float64 `forage:"value_clip" default:"0.5" min:"0" doc:"The critic's loss holds a value within value_clip of what it was before the update." source:"default (not in the paper)"`
	CriticWarmup int     `forage:"critic_warmup" default:"0" min:"0" doc:"Steps at the start of the stage in which only the critic is trained." source:"default (not in the paper)"`
}

const label = "search-r1"

func (c Config) usesCritic() bool { return c.Estimator == "gae" }

// kl is the divergence that is meant: in the reward, none, or the estimator in the loss.
func (c Config) kl() string {
	switch {
	case c.KL.Coefficient == 0:
		return "none"
	case c.KL.Kind != "auto":
		return c.KL.Kind
	case c.usesCritic():
		return "reward"
	}
	return "k3"
}

func (c Config) training() grpo.Training {
	return grpo.Training{MiniBatch: c.MiniBatch, Updates: c.Updates, Epochs: c.Epochs, Temperature: c.Temperature}
}

// Uses implements [sdk.User].
func (c Config) Uses() []sdk.Use {
	if c.usesCritic() {
		return []sdk.Use{sdk.UseCritic}
	}
	return nil
}

// Validate refuses settings that contradict each other.
func (c Config) Validate() diag.Diagnostics {
	var ds diag.Diagnostics
	if !c.usesCritic() && c.KL.Kind == "reward" {
		ds.Errorf(diag.Attr("kl").Attr("kind"), "No reward per token", "kl.kind = \"reward\" takes the divergence off the rewards of single tokens, which only estimator = \"gae\" has; use k1, k2, k3 or none.")
	}
	if !c.usesCritic() && c.GroupSize == 1 {
		ds.Warnf(diag.Attr("group_size"), "Group of one", "A group of one has nothing to be compared with: its advantage is its reward. Use 2 or more.")
	}
	if !c.usesCritic() && (c.GAE.Gamma != 1 || c.GAE.Lambda != 1 || c.GAE.ValueClip != 0.5 || c.GAE.CriticWarmup != 0) {
		ds.Warnf(diag.Attr("gae"), "No critic", "The block gae is for estimator = \"gae\"; with estimator = \"grpo\" nothing of it is used.")
	}
	return ds
}

// Plugin describes the algorithm.
func Plugin() sdk.AlgorithmPlugin {
	return sdk.NewAlgorithm(label, "GRPO or PPO with retrieval: a clipped surrogate on the policy's own tokens, documents left out.",
		"Search-R1 (arXiv:2503.09516)",
		func(_ context.Context, c Config, host sdk.Host) (sdk.Algorithm, error) {
			if c.usesCritic() {
				return c.ppo(host), nil
			}
			return c.grpo(host)
		})
}

func (c Config) grpo(host sdk.Host) (sdk.Algorithm, error) {
	o, err := Objective(c)
	m := grpo.Method{
		Label: label, Config: c, Objective: o, Training: c.training(), TrainsObservations: !c.MaskObservations,
		AdvantagesOnly: c.kl() == "none" && c.EntropyCoefficient == 0,
		Collect:        grpo.CollectGroups(host, c.GroupSize, func(rewards []float64) []float64 { return grpo.Advantages(rewards, c.NormalizeStd) }),
	}
	if c.kl() != "none" {
		m.Reference = sdk.ReferenceStageStart
	}
	return m, err
}

func (c Config) ppo(host sdk.Host) sdk.Algorithm {
	s := ppo.Settings{
		Gamma: c.GAE.Gamma, Lambda: c.GAE.Lambda, ClipLow: c.ClipLow, ClipHigh: c.ClipHigh, ValueClip: c.GAE.ValueClip,
		EntropyCoefficient: c.EntropyCoefficient, Aggregation: c.Aggregation, TrainObservations: !c.MaskObservations,
		CriticWarmup: c.GAE.CriticWarmup, Training: c.training(),
	}
	if kind := c.kl(); kind == "reward" {
		s.KLCoefficient = c.KL.Coefficient
	} else {
		s.LossKL, s.LossKLCoefficient = kind, c.KL.Coefficient
	}
	return ppo.Method{Label: label, Config: c, Settings: s, Host: host, GroupSize: c.GroupSize}
}
