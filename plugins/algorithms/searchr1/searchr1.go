// Package searchr1 is Search-R1 with GRPO (Jin et al., arXiv:2503.09516): groups of episodes per question, advantages
// relative to the group, a clipped surrogate on the policy's own tokens, and a divergence from the reference in the
// loss.
//
// The loss is a mean over all policy tokens of a mini-batch. The release takes it per micro-batch and averages those;
// with one micro-batch the two are the same.
package searchr1

import (
	"context"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/diag"
	"github.com/forage-rl/forage/core/sdk/objective"
	"github.com/forage-rl/forage/plugins/algorithms/internal/grpo"
)

// Config is the configuration of the algorithm.
type Config struct {
	Estimator    string `forage:"estimator" default:"grpo" enum:"grpo,gae" doc:"How advantages are estimated. grpo: relative to the other episodes of the question. gae (PPO with a critic) is not supported yet." source:"Search-R1 (arXiv:2503.09516), section 3.1"`
	GroupSize    int    `forage:"group_size" default:"5" min:"1" doc:"Episodes sampled per question." source:"Search-R1 (arXiv:2503.09516), training settings"`
	NormalizeStd bool   `forage:"normalize_std" default:"true" doc:"Divide advantages by the standard deviation of the group's rewards." source:"GRPO (arXiv:2402.03300), section 4.1.2"`

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
	Kind        string  `forage:"kind" default:"k3" enum:"none,k1,k2,k3" doc:"Estimator: k3 is exp(-d) - 1 + d of the log-ratio d, k2 is d²/2, k1 is d." source:"GRPO (arXiv:2402.03300), eq. 4"`
	Coefficient float64 `forage:"coefficient" default:"0.001" min:"0" doc:"Weight of the divergence." source:"Search-R1 (arXiv:2503.09516), training settings"`
}

const objectiveName = "search-r1"

func (c Config) usesReference() bool { return c.KL.Kind != "none" && c.KL.Coefficient != 0 }

// Validate refuses what this version does not offer.
func (c Config) Validate() diag.Diagnostics {
	var ds diag.Diagnostics
	if c.Estimator == "gae" {
		ds.Errorf(diag.Attr("estimator"), "Not supported", "PPO with a critic (estimator = \"gae\") is not supported in this version; use estimator = \"grpo\".")
	}
	if c.GroupSize == 1 {
		ds.Warnf(diag.Attr("group_size"), "Group of one", "A group of one has nothing to be compared with: its advantage is its reward. Use 2 or more.")
	}
	return ds
}

// Plugin describes the algorithm.
func Plugin() sdk.AlgorithmPlugin {
	return sdk.NewAlgorithm("search-r1", "GRPO with retrieval: group-relative advantages, clipped surrogate on the policy's tokens, divergence in the loss.",
		"Search-R1 (arXiv:2503.09516)",
		func(_ context.Context, c Config, host sdk.Host) (sdk.Algorithm, error) {
			return algorithm{c, host}, nil
		})
}

type algorithm struct {
	config Config
	host   sdk.Host
}

func (a algorithm) Plan(_ context.Context, req sdk.PlanRequest) (sdk.PlanResponse, error) {
	if req.Produce {
		return sdk.PlanResponse{}, grpo.NotSupported("search-r1 only trains: stage %q makes no updates; use a training stage", req.Stage)
	}
	o, err := Objective(a.config)
	if err != nil {
		return sdk.PlanResponse{}, err
	}
	plan := sdk.PlanResponse{Objectives: []objective.Objective{o}, DefaultsNotInPaper: grpo.DefaultsInForce(a.config)}
	if a.config.usesReference() {
		plan.Reference = sdk.ReferenceStageStart
	}
	return plan, nil
}

func (a algorithm) Step(ctx context.Context, req sdk.StepRequest) (sdk.StepResponse, error) {
	c := a.config
	groups, err := grpo.Sample(ctx, a.host, req.Questions, c.GroupSize)
	if err != nil {
		return sdk.StepResponse{}, err
	}
	out := sdk.StepResponse{Metrics: grpo.Metrics(groups)}
	if samples := grpo.Samples(groups, c.NormalizeStd); len(samples) > 0 {
		out.Updates = []sdk.Update{{
			Objective: objectiveName, Samples: samples, Epochs: c.Epochs, Temperature: c.Temperature, Order: sdk.OrderGiven,
			MiniBatch: sdk.MiniBatch{Count: grpo.MiniBatch(grpo.Episodes(samples), c.MiniBatch, c.Updates), Unit: sdk.UnitEpisode},
		}}
	}
	return out, nil
}
