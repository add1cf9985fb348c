package searchr1

import (
	"github.com/forage-rl/forage/core/sdk/objective"
	"github.com/forage-rl/forage/plugins/algorithms/internal/grpo"
)

// Objective is the loss of a configuration: clipped surrogate, plus the divergence from the reference, minus the
// entropy, each aggregated alike over the policy's tokens (Search-R1, section 3.2, with observations masked out).
func Objective(c Config) (objective.Objective, error) {
	return grpo.Loss{
		Advantage: objective.Field(grpo.Field, objective.Sequence), Aggregate: aggregation(c.Aggregation), ClipLow: c.ClipLow, ClipHigh: c.ClipHigh,
		EntropyCoefficient: c.EntropyCoefficient, KL: c.KL.Kind, KLCoefficient: c.KL.Coefficient,
	}.Objective(objectiveName)
}

func aggregation(name string) func(objective.Expr) objective.Expr {
	mean := objective.TokenMean
	switch name {
	case "sequence_mean":
		mean = objective.SequenceMean
	case "question_mean":
		mean = objective.GroupMean
	}
	return func(x objective.Expr) objective.Expr { return mean(x, objective.MaskPolicy) }
}
