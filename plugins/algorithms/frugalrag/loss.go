package frugalrag

import (
	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
	"github.com/forage-rl/forage/core/sdk/objective"
	"github.com/forage-rl/forage/plugins/algorithms/internal/grpo"
)

const (
	objectiveName = "frugalrag"
	weightField   = "weight"
)

// Objective is the loss of a configuration: the sum over hops of the mean, over the tokens that the policy wrote in that
// hop in all episodes of the mini-batch, of the clipped surrogate plus the divergence from the reference. A sample is a
// hop of an episode; its weight is one by the number of tokens in that mean (see weigh).
func Objective(c Config) (objective.Objective, error) {
	weight, advantage := objective.Field(weightField, objective.Sequence), objective.Field(grpo.Field, objective.Sequence)
	return grpo.Loss{
		Advantage: advantage, ClipLow: c.ClipLow, ClipHigh: c.ClipHigh, KL: c.KL.Kind, KLCoefficient: c.KL.Coefficient,
		Aggregate: func(x objective.Expr) objective.Expr {
			return objective.Reduce(objective.Mul(weight, x), objective.Token, objective.Scalar, objective.Sum, objective.MaskPolicy)
		},
	}.Objective(objectiveName)
}

// hop is a hop of an episode as it is trained on.
type hop struct {
	sample sdk.Sample
	tokens int // that the policy wrote
}

// hops lists the hops of groups of episodes, with the advantage of their episode.
func (c Config) hops(groups []grpo.Group) []hop {
	var out []hop
	for _, g := range groups {
		for i, a := range grpo.Standardise(g.Rewards, c.NormalizeStd, c.AdvantageEpsilon) {
			for k, seq := range g.Episodes[i].Sequences {
				if n := written(seq); n > 0 {
					out = append(out, hop{sdk.Sample{
						EpisodeID: g.Episodes[i].ID, Sequence: k, Group: g.Name, SequenceFields: map[string]float64{grpo.Field: a},
					}, n})
				}
			}
		}
	}
	return out
}

func written(seq episode.Sequence) (n int) {
	for _, policy := range seq.PolicyMask() {
		if policy {
			n++
		}
	}
	return n
}

// weigh gives samples the weights of the loss. Episodes come one after the other, and perBatch of them (0: all) make a
// mini-batch, in which the tokens of a hop are counted over all episodes.
func weigh(hops []hop, perBatch int) []sdk.Sample {
	batch, episodes, last := 0, 0, ""
	type key struct{ batch, hop int }
	tokens := map[key]int{}
	keys := make([]key, len(hops))
	for i, h := range hops {
		if h.sample.EpisodeID != last {
			if perBatch > 0 && episodes == perBatch {
				batch, episodes = batch+1, 0
			}
			episodes, last = episodes+1, h.sample.EpisodeID
		}
		keys[i] = key{batch, h.sample.Sequence}
		tokens[keys[i]] += h.tokens
	}
	samples := make([]sdk.Sample, len(hops))
	for i, h := range hops {
		samples[i] = h.sample
		samples[i].SequenceFields[weightField] = 1 / float64(tokens[keys[i]])
	}
	return samples
}
