package davidgrpo

import (
	"github.com/forage-rl/forage/core/sdk/diag"
)

// Config is the configuration of the algorithm.
type Config struct {
	Phase        string `forage:"phase" default:"main" enum:"seed,main" doc:"seed: expert episodes are put into the groups, nothing is continued. main: promising prefixes are continued, no experts." source:"David-GRPO"`
	GroupSize    int    `forage:"group_size" default:"5" min:"1" doc:"Episodes sampled per question; a replaced or inserted episode does not change it." source:"David-GRPO, training settings"`
	NormalizeStd bool   `forage:"normalize_std" default:"true" doc:"Divide advantages by the standard deviation of the group's rewards." source:"GRPO (arXiv:2402.03300), section 4.1.2"`

	Loss string `forage:"loss" default:"auto" enum:"auto,c1,c2" doc:"c2: mean over questions of the mean over episodes of the mean over policy tokens. c1, the older release: mean over all tokens after the prompt, where results take part in the entropy, the divergence and the denominator; needs the stage to train on observations. auto: c1 in the seed phase, c2 in the main phase, as released." source:"default (not in the paper)"`

	ClipLow            float64 `forage:"clip_low" default:"0.2" min:"0" max:"1" doc:"The ratio to the sampling policy is clipped below at 1 - clip_low." source:"default (not in the paper)"`
	ClipHigh           float64 `forage:"clip_high" default:"0.2" min:"0" doc:"The ratio to the sampling policy is clipped above at 1 + clip_high." source:"default (not in the paper)"`
	KL                 KL      `forage:"kl" doc:"Divergence from the policy that the stage started from, added to the loss."`
	EntropyCoefficient float64 `forage:"entropy_coefficient" default:"0.001" min:"0" doc:"Weight of the entropy bonus." source:"default (not in the paper)"`

	MiniBatch   int     `forage:"mini_batch" default:"12" min:"0" doc:"Questions per optimizer step; 0 takes all of a training step at once." source:"default (not in the paper)"`
	Updates     int     `forage:"updates" default:"0" min:"0" doc:"Optimizer steps per training step and epoch: sets mini_batch from the number of questions. 0 leaves mini_batch as it is." source:"default (not in the paper)"`
	Epochs      int     `forage:"epochs" default:"1" min:"1" doc:"Passes over the episodes of a training step." source:"default (not in the paper)"`
	Temperature float64 `forage:"temperature" default:"0" min:"0" doc:"Temperature that the log-probabilities of the loss are taken at; 0 is the one that the episodes were sampled with." source:"default (not in the paper)"`

	FullReward   float64      `forage:"full_reward" default:"1" doc:"A group in which an episode reaches this reward needs no expert and no continuation." source:"David-GRPO"`
	ScoreFloor   float64      `forage:"score_floor" default:"0" min:"0" doc:"A group whose best reward is not above this is trained as if all its rewards were 0; 0 turns it off." source:"default (not in the paper)"`
	Expert       Expert       `forage:"expert" doc:"How experts enter the groups of the seed phase."`
	Continuation Continuation `forage:"continuation" doc:"How prefixes are continued in the main phase."`
}

// KL is the divergence term.
type KL struct {
	Kind        string  `forage:"kind" default:"auto" enum:"auto,none,k1,k2,k3" doc:"Estimator: k1 is the log-ratio d, k2 is d²/2, k3 is exp(-d) - 1 + d. auto: none in the seed phase; in the main phase k2, or k1 with loss = \"c1\", as released." source:"default (not in the paper)"`
	Coefficient float64 `forage:"coefficient" default:"0.001" min:"0" doc:"Weight of the divergence." source:"default (not in the paper)"`
}

// Expert says how experts enter a group.
type Expert struct {
	Insert string  `forage:"insert" default:"when_needed" enum:"when_needed,always,never" doc:"when_needed, as released: the expert takes the place of the worst episode of a group in which none reaches full_reward. always, as in the paper: in every group. never: leaves the experts out." source:"default (not in the paper)"`
	Reward float64 `forage:"reward" default:"1" doc:"Reward of an expert. It is set, not computed: the released experts themselves would earn 0.75." source:"default (not in the paper)"`
}

// Continuation says how a prefix is continued.
type Continuation struct {
	Enabled bool `forage:"enabled" default:"true" doc:"Continue the best episode of each group that does not reach full_reward from where its evidence last grew." source:"David-GRPO, prefix continuation"`
	// Candidates 0 is the group size.
	Candidates int  `forage:"candidates" default:"0" min:"0" doc:"Continuations sampled per group; 0 is group_size. The best one replaces the worst episode if it earns more than the best." source:"David-GRPO, prefix continuation"`
	Restart    bool `forage:"restart" default:"true" doc:"Sample whole new episodes where the best one found no evidence at all, as released. This costs a second group; the paper counts 1.1 extra episodes per question." source:"default (not in the paper)"`
}

const (
	seedPhase = "seed"
	lossC1    = "c1"
)

// loss resolves auto.
func (c Config) loss() string {
	if c.Loss != "auto" {
		return c.Loss
	}
	if c.Phase == seedPhase {
		return lossC1
	}
	return "c2"
}

// kl resolves auto: the estimator, or none.
func (c Config) kl() string {
	switch {
	case c.KL.Coefficient == 0:
		return "none"
	case c.KL.Kind != "auto":
		return c.KL.Kind
	case c.Phase == seedPhase:
		return "none"
	case c.loss() == lossC1:
		return "k1"
	}
	return "k2"
}

func (c Config) candidates() int {
	if c.Continuation.Candidates > 0 {
		return c.Continuation.Candidates
	}
	return c.GroupSize
}

// Validate warns of settings that have no effect or no sense.
func (c Config) Validate() diag.Diagnostics {
	var ds diag.Diagnostics
	if c.GroupSize == 1 {
		ds.Warnf(diag.Attr("group_size"), "Group of one", "A group of one has nothing to be compared with: its advantage is its reward. Use 2 or more.")
	}
	if c.kl() == "k1" {
		ds.Warnf(diag.Attr("kl").Attr("kind"), "Divergence without force", "As a loss, k1 has a gradient whose mean is zero on the policy's own samples: it does not hold the policy near its reference. Use k2 or k3 unless you reproduce the older release.")
	}
	return ds
}
