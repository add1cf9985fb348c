package searchr1

import (
	"github.com/forage-rl/forage/core/sdk/objective"
	"github.com/forage-rl/forage/plugins/algorithms/internal/grpo"
)

// Objective is the loss of a configuration: clipped surrogate, plus the divergence from the reference, minus the
// entropy, each aggregated alike over the policy's tokens (Search-R1, section 3.2, with observations masked out).
func Objective(c Config) (objective.Objective, error) {
	advantage := objective.Field(grpo.Field, objective.Sequence)
	aggregate := aggregation(c.Aggregation)
	surrogate := aggregate(objective.ClippedSurrogate(advantage, c.ClipLow, c.ClipHigh, 0))
	entropy := aggregate(objective.Entropy())
	metrics := map[string]objective.Expr{
		"policy_loss":   surrogate,
		"entropy":       entropy,
		"clip_fraction": objective.TokenMean(objective.ClipFraction(advantage, c.ClipLow, c.ClipHigh), objective.MaskPolicy),
		"old_kl":        objective.TokenMean(objective.Sub(objective.OldLogP(), objective.LogP()), objective.MaskPolicy),
	}
	loss := surrogate
	if c.EntropyCoefficient != 0 {
		loss = objective.Sub(loss, objective.Mul(objective.Const(c.EntropyCoefficient), entropy))
	}
	if c.usesReference() {
		kl, err := objective.KL(c.KL.Kind)
		if err != nil {
			return objective.Objective{}, err
		}
		divergence := aggregate(kl)
		metrics["kl"] = divergence
		loss = objective.Add(loss, objective.Mul(objective.Const(c.KL.Coefficient), divergence))
	}
	return objective.New(objectiveName, objective.TrainsPolicy, loss, metrics)
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
