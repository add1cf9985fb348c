// Package stepsearch is StepSearch's StePPO (arXiv:2505.15107): PPO with a critic whose rewards stand on tokens. The
// episode's total goes to the last token of the response, the turn_total of a turn to the last token of what it did, for
// a search the closing tag of its query. All else is PPO as Search-R1 has it.
//
// What a search or an answer is worth is not decided here: reward plugins and the experiment's expressions do that.
package stepsearch

import (
	"context"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/diag"
	"github.com/forage-rl/forage/core/sdk/episode"
	"github.com/forage-rl/forage/core/sdk/objective"
	"github.com/forage-rl/forage/plugins/algorithms/internal/grpo"
	"github.com/forage-rl/forage/plugins/algorithms/internal/ppo"
)

// Estimators of advantages.
const (
	EstimatorGAE  = "gae"
	EstimatorGRPO = "grpo"
)

// Config is the configuration of the algorithm.
type Config struct {
	Estimator    string `forage:"estimator" default:"gae" enum:"gae,grpo" doc:"How advantages are estimated. gae: by a critic, token by token (PPO). grpo: the sum of an episode's rewards relative to the other episodes of its question; where in the episode they stand is lost." source:"StepSearch (arXiv:2505.15107)"`
	GroupSize    int    `forage:"group_size" default:"1" min:"1" doc:"Episodes sampled per question." source:"StepSearch release, train.sh"`
	NormalizeStd bool   `forage:"normalize_std" default:"true" doc:"With grpo, divide advantages by the standard deviation of the group's rewards." source:"GRPO (arXiv:2402.03300), section 4.1.2"`

	Gamma     float64 `forage:"gamma" default:"1" min:"0" max:"1" doc:"Discount of later rewards, per token, with gae." source:"StepSearch release, train.sh"`
	Lambda    float64 `forage:"lambda" default:"1" min:"0" max:"1" doc:"Decay of later errors of the critic, per token, with gae." source:"StepSearch release, train.sh"`
	GAETokens string  `forage:"gae_tokens" default:"response" enum:"response,policy" doc:"Tokens that gae, whitening and the critic's loss run over. response: all, documents included, as released; policy: those that the policy wrote." source:"StepSearch release"`
	ValueClip float64 `forage:"value_clip" default:"0.5" min:"0" doc:"A value may move by this much in the critic's loss, with gae." source:"StepSearch release, train.sh"`
	Warmup    int     `forage:"critic_warmup" default:"0" min:"0" doc:"Steps in which only the critic is updated, with gae." source:"StepSearch release, train.sh"`

	ClipLow            float64 `forage:"clip_low" default:"0.2" min:"0" max:"1" doc:"The ratio to the sampling policy is clipped below at 1 - clip_low." source:"StepSearch release, train.sh"`
	ClipHigh           float64 `forage:"clip_high" default:"0.2" min:"0" doc:"The ratio to the sampling policy is clipped above at 1 + clip_high." source:"StepSearch release, train.sh"`
	KLCoefficient      float64 `forage:"kl_coefficient" default:"0.001" min:"0" doc:"Weight of the divergence from the policy that the stage started from. gae: its estimate k1 is taken off the reward of each token; grpo: its estimate k3 is added to the loss. 0 turns it off." source:"StepSearch release, train.sh"`
	EntropyCoefficient float64 `forage:"entropy_coefficient" default:"0.001" min:"0" doc:"Weight of the entropy bonus." source:"StepSearch release, train.sh"`

	MiniBatch   int     `forage:"mini_batch" default:"32" min:"0" doc:"Episodes per optimizer step, of the policy and of the critic; 0 takes all of a training step at once." source:"StepSearch release, train.sh"`
	Updates     int     `forage:"updates" default:"0" min:"0" doc:"Optimizer steps per training step and epoch: sets mini_batch from the number of episodes. 0 leaves mini_batch as it is." source:"default (not in the paper)"`
	Epochs      int     `forage:"epochs" default:"1" min:"1" doc:"Passes over the episodes of a training step." source:"StepSearch release, train.sh"`
	Temperature float64 `forage:"temperature" default:"0" min:"0" doc:"Temperature that log-probabilities are taken at; 0 is the one that the episodes were sampled with." source:"default (not in the paper)"`
}

// Validate warns of groups that compare nothing.
func (c Config) Validate() diag.Diagnostics {
	var ds diag.Diagnostics
	if c.Estimator == EstimatorGRPO && c.GroupSize == 1 {
		ds.Warnf(diag.Attr("group_size"), "Group of one", "A group of one has nothing to be compared with: its advantage is its reward. Use 2 or more with estimator = \"grpo\".")
	}
	return ds
}

// Uses implements [sdk.User].
func (c Config) Uses() []sdk.Use {
	if c.Estimator == EstimatorGRPO {
		return []sdk.Use{sdk.UseTurnRewards}
	}
	return []sdk.Use{sdk.UseTurnRewards, sdk.UseCritic}
}

// Plugin describes the algorithm.
func Plugin() sdk.AlgorithmPlugin {
	return sdk.NewAlgorithm("stepsearch", "StePPO: PPO with a critic, the episode's total on its last token and the turn_total of each turn on the last token of its action.",
		"StepSearch (arXiv:2505.15107)",
		func(_ context.Context, c Config, host sdk.Host) (sdk.Algorithm, error) {
			if c.Estimator == EstimatorGRPO {
				return c.grpo(host)
			}
			return c.gae(host), nil
		})
}

func (c Config) training() grpo.Training {
	return grpo.Training{MiniBatch: c.MiniBatch, Updates: c.Updates, Epochs: c.Epochs, Temperature: c.Temperature}
}

func (c Config) gae(host sdk.Host) ppo.Method {
	return ppo.Method{
		Label: "stepsearch", Config: c, Host: host, GroupSize: c.GroupSize, Further: TurnRewards,
		Settings: ppo.Settings{
			Gamma: c.Gamma, Lambda: c.Lambda, KLCoefficient: c.KLCoefficient, ClipLow: c.ClipLow, ClipHigh: c.ClipHigh, ValueClip: c.ValueClip,
			EntropyCoefficient: c.EntropyCoefficient, PolicyTokens: c.GAETokens == "policy", CriticWarmup: c.Warmup, Training: c.training(),
		},
	}
}

func (c Config) grpo(host sdk.Host) (sdk.Algorithm, error) {
	m := grpo.Method{Label: "stepsearch", Config: c, Training: c.training(), AdvantagesOnly: c.KLCoefficient == 0 && c.EntropyCoefficient == 0}
	if c.KLCoefficient > 0 {
		m.Reference = sdk.ReferenceStageStart
	}
	m.Collect = func(ctx context.Context, req sdk.StepRequest) (grpo.Batch, error) {
		groups, err := grpo.Sample(ctx, host, req.Questions, c.GroupSize)
		if err != nil {
			return grpo.Batch{}, err
		}
		b := grpo.Batch{Groups: groups, UsedRewards: map[string]sdk.UsedReward{}}
		for _, g := range groups {
			for i, e := range g.Episodes {
				for _, p := range TurnRewards(e) {
					g.Rewards[i] += p.Value
				}
				b.UsedRewards[e.ID] = sdk.UsedReward{Value: g.Rewards[i], Turns: e.Rewards.TurnTotals}
			}
		}
		b.Samples = grpo.Samples(groups, c.NormalizeStd)
		return b, nil
	}
	o, err := grpo.Loss{
		Advantage: objective.Field(grpo.Field, objective.Sequence), Aggregate: grpo.Aggregation("token_mean", 0), ClipLow: c.ClipLow, ClipHigh: c.ClipHigh,
		EntropyCoefficient: c.EntropyCoefficient, KL: "k3", KLCoefficient: c.KLCoefficient,
	}.Objective("stepsearch")
	m.Objective = o
	return m, err
}

// TurnRewards places the turn totals of an episode on its response tokens, counted over all its sequences: on the last
// token of the turn's action, or where there was none of what the policy wrote. A turn in which the policy wrote
// nothing, such as a search that the agent makes by itself, has no token and its reward is left out.
func TurnRewards(e episode.Episode) []ppo.Placed {
	first := make([]int, len(e.Sequences)) // response token at which a sequence begins, less its prompt
	at := 0
	for i, seq := range e.Sequences {
		first[i] = at - seq.PromptLength
		at += seq.ResponseLength()
	}
	var placed []ppo.Placed
	for i, value := range e.Rewards.TurnTotals {
		t := e.Turns[i]
		if value == 0 || t.Span.Len() <= 0 {
			continue
		}
		end := t.Span.End
		if t.ActionSpan.Len() > 0 {
			end = t.ActionSpan.End
		}
		placed = append(placed, ppo.Placed{At: first[t.Sequence] + end - 1, Value: value})
	}
	return placed
}
