package treegrpo

import (
	"github.com/forage-rl/forage/core/sdk/objective"
	"github.com/forage-rl/forage/plugins/algorithms/internal/grpo"
)

const objectiveName = "tree-grpo"

// maxLogRatio bounds the log-ratio of a token before it is averaged or exponentiated, as in the release.
const maxLogRatio = 20

// Objective is the loss of a configuration: a clipped surrogate whose ratio is that of the token, of its turn or of its
// sequence, plus the divergence from the reference, minus the entropy, each averaged alike over the policy's tokens.
func Objective(c Config) (objective.Objective, error) {
	advantage := objective.Field(grpo.Field, objective.Sequence)
	if perToken(c.Advantage) {
		advantage = objective.Field(grpo.Field, objective.Token)
	}
	change := objective.Clip(objective.Sub(objective.LogP(), objective.OldLogP()), -maxLogRatio, maxLogRatio)
	ratio, dual := objective.Exp(change), c.DualClip
	switch c.PolicyLoss {
	case "turn":
		ratio = objective.Exp(objective.Reduce(change, objective.Token, objective.Turn, objective.Mean, objective.MaskPolicy))
	case "sequence":
		ratio, dual = objective.Exp(objective.Reduce(change, objective.Token, objective.Sequence, objective.Mean, objective.MaskPolicy)), 0
	}
	average := aggregation(c.Aggregation)
	perTokenMean := aggregation("token_mean")
	raw, clipped := objective.Mul(objective.Neg(advantage), ratio), objective.Mul(objective.Neg(advantage), objective.Clip(ratio, 1-c.ClipLow, 1+c.ClipHigh))
	loss := average(objective.Surrogate(ratio, advantage, c.ClipLow, c.ClipHigh, dual))
	entropy := average(objective.Entropy())
	metrics := map[string]objective.Expr{
		"policy_loss":   loss,
		"entropy":       entropy,
		"clip_fraction": perTokenMean(objective.Less(raw, clipped)),
		"old_kl":        perTokenMean(objective.Neg(change)),
	}
	if dual > 0 {
		bound := objective.Mul(objective.Neg(advantage), objective.Const(dual))
		metrics["dual_clip_fraction"] = perTokenMean(objective.Mul(objective.Less(advantage, objective.Const(0)), objective.Less(bound, objective.Max(raw, clipped))))
	}
	if c.EntropyCoefficient != 0 {
		loss = objective.Sub(loss, objective.Mul(objective.Const(c.EntropyCoefficient), entropy))
	}
	if c.usesReference() {
		kl, err := objective.KL(c.KL.Kind)
		if err != nil {
			return objective.Objective{}, err
		}
		divergence := average(kl)
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
