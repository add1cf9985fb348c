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
	return grpo.Loss{
		Advantage: advantage, Aggregate: aggregate, ClipLow: c.ClipLow, ClipHigh: c.ClipHigh,
		EntropyCoefficient: c.EntropyCoefficient, KL: c.kl(), KLCoefficient: c.KL.Coefficient,
	}.Objective(objectiveName)
}
