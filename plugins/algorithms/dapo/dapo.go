// Package dapo is DAPO (Yu et al., arXiv:2503.14476): GRPO with a clip that leaves more room upwards, a mean over all
// tokens, no divergence from a reference, more questions drawn in place of those whose episodes are all equally good,
// and a penalty for responses near the length limit.
package dapo

import (
	"context"
	"fmt"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/diag"
	"github.com/forage-rl/forage/core/sdk/episode"
	"github.com/forage-rl/forage/core/sdk/objective"
	"github.com/forage-rl/forage/plugins/algorithms/internal/grpo"
)

// Config is the configuration of the algorithm.
type Config struct {
	GroupSize int     `forage:"group_size" default:"16" min:"2" doc:"Episodes sampled per question." source:"DAPO (arXiv:2503.14476), section 4.1"`
	ClipLow   float64 `forage:"clip_low" default:"0.2" min:"0" max:"1" doc:"The ratio to the sampling policy is clipped below at 1 - clip_low." source:"DAPO (arXiv:2503.14476), section 4.1"`
	ClipHigh  float64 `forage:"clip_high" default:"0.28" min:"0" doc:"The ratio to the sampling policy is clipped above at 1 + clip_high." source:"DAPO (arXiv:2503.14476), section 4.1"`

	DynamicSampling bool     `forage:"dynamic_sampling" default:"true" doc:"Leave out questions whose episodes all have the same reward, and draw others until the step has as many as it began with." source:"DAPO (arXiv:2503.14476), section 3.2"`
	MaxDraws        int      `forage:"max_draws" default:"10" min:"1" doc:"Most batches of questions sampled in a step, the first one included; what has been found by then is trained on. The released scripts have 10." source:"default (not in the paper)"`
	Overlong        Overlong `forage:"overlong" doc:"Penalty for long responses, added to the reward after the choice of questions."`

	MiniBatch   int     `forage:"mini_batch" default:"0" min:"0" doc:"Episodes per optimizer step; used where updates is 0. 0 takes all of a training step at once." source:"default (not in the paper)"`
	Updates     int     `forage:"updates" default:"16" min:"0" doc:"Optimizer steps per training step and epoch: sets mini_batch from the number of episodes. 0 leaves mini_batch as it is." source:"DAPO (arXiv:2503.14476), section 4.1"`
	Epochs      int     `forage:"epochs" default:"1" min:"1" doc:"Passes over the episodes of a training step." source:"default (not in the paper)"`
	Temperature float64 `forage:"temperature" default:"0" min:"0" doc:"Temperature that the log-probabilities of the loss are taken at; 0 is the one that the episodes were sampled with." source:"default (not in the paper)"`
}

// Overlong is the soft penalty for long responses.
type Overlong struct {
	MaxTokens int     `forage:"max_tokens" default:"20480" min:"0" doc:"Policy tokens of an episode from which the whole penalty is due; 0 turns it off." source:"DAPO (arXiv:2503.14476), section 4.1"`
	Buffer    int     `forage:"buffer" default:"4096" min:"0" doc:"The penalty grows over this many tokens before max_tokens." source:"DAPO (arXiv:2503.14476), section 4.1"`
	Penalty   float64 `forage:"penalty" default:"1" min:"0" doc:"The whole penalty." source:"DAPO (arXiv:2503.14476), eq. 13"`
}

// Of is the penalty (eq. 13), at most 0, of an episode of so many policy tokens.
func (o Overlong) Of(tokens int) float64 {
	over := tokens - (o.MaxTokens - o.Buffer)
	switch {
	case o.MaxTokens == 0 || over <= 0:
		return 0
	case tokens > o.MaxTokens || o.Buffer == 0:
		return -o.Penalty
	}
	return -o.Penalty * float64(over) / float64(o.Buffer)
}

// Validate refuses a buffer that is larger than the limit.
func (c Config) Validate() diag.Diagnostics {
	var ds diag.Diagnostics
	if c.Overlong.MaxTokens > 0 && c.Overlong.Buffer > c.Overlong.MaxTokens {
		ds.Errorf(diag.Attr("overlong"), "Buffer too large", "overlong.buffer (%d) must not exceed overlong.max_tokens (%d).", c.Overlong.Buffer, c.Overlong.MaxTokens)
	}
	return ds
}

// Objective is the loss of a configuration (eq. 8, negated).
func Objective(c Config) (objective.Objective, error) {
	return grpo.Loss{
		Advantage: objective.Field(grpo.Field, objective.Sequence), Aggregate: grpo.Aggregation("token_mean", 0),
		ClipLow: c.ClipLow, ClipHigh: c.ClipHigh, KL: "none",
	}.Objective("dapo")
}

// Plugin describes the algorithm.
func Plugin() sdk.AlgorithmPlugin {
	return sdk.NewAlgorithm("dapo", "GRPO with a wider clip upwards, a mean over tokens, and questions drawn until their episodes differ.", "DAPO (arXiv:2503.14476)",
		func(_ context.Context, c Config, host sdk.Host) (sdk.Algorithm, error) {
			o, err := Objective(c)
			return grpo.Method{
				Label: "dapo", Config: c, Objective: o, AdvantagesOnly: true,
				Training: grpo.Training{MiniBatch: c.MiniBatch, Updates: c.Updates, Epochs: c.Epochs, Temperature: c.Temperature},
				Collect:  func(ctx context.Context, req sdk.StepRequest) (grpo.Batch, error) { return collect(ctx, c, host, req) },
			}, err
		})
}

func collect(ctx context.Context, c Config, host sdk.Host, req sdk.StepRequest) (grpo.Batch, error) {
	var b grpo.Batch
	var kept []grpo.Group
	want, questions, draws := len(req.Questions), req.Questions, 0
	for len(questions) > 0 {
		groups, err := grpo.SampleMore(ctx, host, questions, c.GroupSize, len(b.Groups))
		if err != nil {
			return b, err
		}
		b.Groups = append(b.Groups, groups...)
		for _, g := range groups {
			if !c.DynamicSampling || !grpo.Equal(g.Rewards) {
				kept = append(kept, g)
			}
		}
		if draws++; !c.DynamicSampling || len(kept) >= want || draws >= c.MaxDraws {
			break
		}
		if questions, err = host.Questions(ctx, want); err != nil {
			return b, fmt.Errorf("draw further questions: %w", err)
		}
	}
	kept = kept[:min(len(kept), want)]
	b.Metrics = map[string]float64{"dapo/draws": float64(draws), "dapo/questions": float64(len(b.Groups)), "dapo/kept": float64(len(kept))}
	shaped := 0
	for i, g := range kept {
		rewards := make([]float64, len(g.Rewards))
		for k, e := range g.Episodes {
			penalty := c.Overlong.Of(policyTokens(e))
			if penalty != 0 {
				if b.UsedRewards == nil {
					b.UsedRewards = map[string]sdk.UsedReward{}
				}
				b.UsedRewards[e.ID] = sdk.UsedReward{Value: g.Rewards[k] + penalty}
				shaped++
			}
			rewards[k] = g.Rewards[k] + penalty
		}
		kept[i].Rewards = rewards
	}
	b.Metrics["dapo/overlong"] = float64(shaped)
	b.Samples = grpo.Samples(kept, true)
	return b, nil
}

func policyTokens(e episode.Episode) int {
	n := 0
	for _, seq := range e.Sequences {
		for _, s := range seq.Segments {
			if s.Kind == episode.Policy {
				n += s.End - s.Start
			}
		}
	}
	return n
}
