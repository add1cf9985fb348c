package searchr1

import (
	"github.com/forage-rl/forage/core/sdk/objective"
	"github.com/forage-rl/forage/plugins/algorithms/internal/grpo"
)

// Objective is the loss of a configuration with GRPO: clipped surrogate, plus the divergence from the reference, minus the
// entropy, each aggregated alike over the policy's tokens, or over the whole response with observations not masked out
// (Search-R1, section 3.2).
func Objective(c Config) (objective.Objective, error) {
	mask := objective.MaskPolicy
	if !c.MaskObservations {
		mask = objective.MaskResponse
	}
	return grpo.Loss{
		Advantage: objective.Field(grpo.Field, objective.Sequence), Aggregate: grpo.AggregationOver(c.Aggregation, 0, mask),
		ClipLow: c.ClipLow, ClipHigh: c.ClipHigh, EntropyCoefficient: c.EntropyCoefficient, KL: c.kl(), KLCoefficient: c.KL.Coefficient,
	}.Objective(label)
}
