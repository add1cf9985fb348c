// Package offpolicymix mixes expert episodes into the groups of GRPO (LUFFY, Yan et al., arXiv:2504.14945): the expert's
// reward counts in the group's advantages, its tokens are trained by a shaped probability that turns most to what the
// policy finds unlikely, and neither side is clipped.
package offpolicymix

import (
	"context"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
	"github.com/forage-rl/forage/core/sdk/objective"
	"github.com/forage-rl/forage/plugins/algorithms/internal/grpo"
)

// Config is the configuration of the algorithm.
type Config struct {
	GroupSize    int     `forage:"group_size" default:"8" min:"2" doc:"Episodes per question, the expert's included." source:"LUFFY (arXiv:2504.14945), training settings"`
	ExpertReward float64 `forage:"expert_reward" default:"1" doc:"Reward of an expert episode, which no reward plugin scores." source:"LUFFY (arXiv:2504.14945), section 3"`
	Gamma        float64 `forage:"gamma" default:"0.1" min:"0.000001" doc:"Shaping of expert tokens: p / (p + gamma) of the policy's probability p." source:"LUFFY (arXiv:2504.14945), section 3.2"`
	NormalizeStd bool    `forage:"normalize_std" default:"false" doc:"Divide advantages by the standard deviation of the group's rewards; the released scripts do not." source:"default (not in the paper)"`

	Aggregation        string  `forage:"aggregation" default:"constant" enum:"token_mean,sequence_mean,question_mean,constant" doc:"token_mean: mean over the policy's and experts' tokens of a mini-batch; sequence_mean: mean over episodes of each one's mean; question_mean: mean over questions of that; constant: mean over episodes of each one's sum divided by length_normalizer, as the released scripts have it." source:"default (not in the paper)"`
	LengthNormalizer   float64 `forage:"length_normalizer" default:"8192" min:"1" doc:"Divisor of aggregation = \"constant\": the most tokens of a response." source:"LUFFY (arXiv:2504.14945), training settings"`
	EntropyCoefficient float64 `forage:"entropy_coefficient" default:"0.001" min:"0" doc:"Weight of the entropy bonus; the released scripts have it on." source:"default (not in the paper)"`
	MissingExpert      string  `forage:"missing_expert" default:"error" enum:"error,skip" doc:"What to do with a question that has no expert episode: stop with an error that names it, or sample its whole group." source:"default (not in the paper)"`

	MiniBatch   int     `forage:"mini_batch" default:"0" min:"0" doc:"Episodes per optimizer step; used where updates is 0. 0 takes all of a training step at once." source:"default (not in the paper)"`
	Updates     int     `forage:"updates" default:"2" min:"0" doc:"Optimizer steps per training step and epoch: sets mini_batch from the number of episodes. 0 leaves mini_batch as it is." source:"LUFFY (arXiv:2504.14945), training settings"`
	Epochs      int     `forage:"epochs" default:"1" min:"1" doc:"Passes over the episodes of a training step." source:"default (not in the paper)"`
	Temperature float64 `forage:"temperature" default:"0" min:"0" doc:"Temperature that the log-probabilities of the loss are taken at; 0 is the one that the episodes were sampled with." source:"default (not in the paper)"`
}

// expert is the field that is 1 for expert episodes.
const expert = "expert"

// Objective is the loss of a configuration: per token of the policy minus advantage times ratio, per token of an expert
// minus advantage times p / (p + gamma), averaged over both, minus the entropy, which is a mean over tokens whatever the
// average (as in the release).
func Objective(c Config) (objective.Objective, error) {
	p := objective.Exp(objective.LogP())
	shaped := objective.Div(p, objective.Add(p, objective.Const(c.Gamma)))
	weight := objective.Where(objective.Field(expert, objective.Sequence), shaped, objective.Ratio())
	aggregate := grpo.Aggregation(c.Aggregation, c.LengthNormalizer)
	surrogate := aggregate(objective.Mul(objective.Neg(objective.Field(grpo.Field, objective.Sequence)), weight))
	entropy := objective.TokenMean(objective.Entropy(), objective.MaskPolicy)
	loss := surrogate
	if c.EntropyCoefficient != 0 {
		loss = objective.Sub(loss, objective.Mul(objective.Const(c.EntropyCoefficient), entropy))
	}
	return objective.New("offpolicy-mix", objective.TrainsPolicy, loss, map[string]objective.Expr{"policy_loss": surrogate, "entropy": entropy})
}

// Plugin describes the algorithm.
func Plugin() sdk.AlgorithmPlugin {
	return sdk.NewAlgorithm("offpolicy-mix", "Expert episodes in the groups of GRPO, with shaped probabilities in place of ratios.", "LUFFY (arXiv:2504.14945)",
		func(_ context.Context, c Config, host sdk.Host) (sdk.Algorithm, error) {
			o, err := Objective(c)
			return grpo.Method{
				Label: "offpolicy-mix", Config: c, Objective: o, NeedsExperts: true, AdvantagesOnly: c.EntropyCoefficient == 0,
				Training: grpo.Training{MiniBatch: c.MiniBatch, Updates: c.Updates, Epochs: c.Epochs, Temperature: c.Temperature},
				Collect:  func(ctx context.Context, req sdk.StepRequest) (grpo.Batch, error) { return collect(ctx, c, host, req) },
			}, err
		})
}

func collect(ctx context.Context, c Config, host sdk.Host, req sdk.StepRequest) (grpo.Batch, error) {
	experts := map[string]episode.Episode{}
	for _, e := range req.Experts {
		experts[e.QuestionID] = e
	}
	var with, without []episode.Question
	for _, q := range req.Questions {
		if _, ok := experts[q.ID]; ok {
			with = append(with, q)
		} else {
			without = append(without, q)
		}
	}
	if len(without) > 0 && c.MissingExpert == "error" {
		return grpo.Batch{}, grpo.MissingExperts(without[0].ID, len(without), len(req.Questions))
	}
	groups, err := grpo.Sample(ctx, host, with, c.GroupSize-1)
	if err != nil {
		return grpo.Batch{}, err
	}
	more, err := grpo.SampleMore(ctx, host, without, c.GroupSize, len(groups))
	if err != nil {
		return grpo.Batch{}, err
	}
	// The metrics are of what the policy sampled.
	b := grpo.Batch{Groups: append(groups, more...), UsedRewards: map[string]sdk.UsedReward{}}
	b.Metrics = map[string]float64{"experts/episodes": float64(len(with)), "experts/missing": float64(len(without))}
	mixed := make([]grpo.Group, len(b.Groups))
	origin := map[string]episode.Origin{}
	for i, g := range b.Groups {
		mixed[i] = g
		if e, ok := experts[g.Question.ID]; ok {
			mixed[i].Episodes = append(append([]episode.Episode{}, g.Episodes...), e)
			mixed[i].Rewards = append(append([]float64{}, g.Rewards...), c.ExpertReward)
			b.UsedRewards[e.ID] = sdk.UsedReward{Value: c.ExpertReward}
			origin[e.ID] = e.Origin
		}
	}
	b.Samples = grpo.Samples(mixed, c.NormalizeStd)
	for _, s := range b.Samples {
		s.SequenceFields[expert] = 0
		if origin[s.EpisodeID] == episode.OriginExpert {
			s.SequenceFields[expert] = 1
		}
	}
	return b, nil
}
