package davidgrpo

import (
	"github.com/forage-rl/forage/core/sdk/objective"
	"github.com/forage-rl/forage/plugins/algorithms/internal/grpo"
)

// Objective is the loss of a configuration: clipped surrogate, minus the entropy, plus the divergence from the
// reference. C2 averages tokens, then episodes, then questions, over policy tokens only. C1 averages over all tokens
// after the prompt; its advantage is per token and 0 outside the policy's own, so only the entropy, the divergence and
// the denominator see the rest. C1 is offered in its form for one micro-batch.
func Objective(c Config) (objective.Objective, error) {
	advantage := objective.Field(grpo.Field, objective.Sequence)
	aggregate := func(x objective.Expr) objective.Expr { return objective.GroupMean(x, objective.MaskPolicy) }
	if c.loss() == lossC1 {
		advantage = objective.Field(grpo.Field, objective.Token)
		aggregate = func(x objective.Expr) objective.Expr { return objective.TokenMean(x, objective.MaskResponse) }
	}
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
	if kind := c.kl(); kind != "none" {
		kl, err := objective.KL(kind)
		if err != nil {
			return objective.Objective{}, err
		}
		divergence := aggregate(kl)
		metrics["kl"] = divergence
		loss = objective.Add(loss, objective.Mul(objective.Const(c.KL.Coefficient), divergence))
	}
	return objective.New(objectiveName, objective.TrainsPolicy, loss, metrics)
}
