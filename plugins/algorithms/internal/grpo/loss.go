package grpo

import "github.com/forage-rl/forage/core/sdk/objective"

// Aggregation is the mean of that name over a quantity per token of the policy: token_mean over all tokens of a
// mini-batch; sequence_mean over sequences of each one's mean; question_mean over questions of that; constant over
// sequences of each one's sum divided by length (Dr. GRPO, Liu et al. 2025, section 3.2).
func Aggregation(name string, length float64) func(objective.Expr) objective.Expr {
	return AggregationOver(name, length, objective.MaskPolicy)
}

// AggregationOver is [Aggregation] over the tokens of another mask.
func AggregationOver(name string, length float64, mask string) func(objective.Expr) objective.Expr {
	mean := objective.TokenMean
	switch name {
	case "sequence_mean":
		mean = objective.SequenceMean
	case "question_mean":
		mean = objective.GroupMean
	case "constant":
		mean = func(x objective.Expr, mask string) objective.Expr { return objective.ConstantMean(x, length, mask) }
	}
	return func(x objective.Expr) objective.Expr { return mean(x, mask) }
}

// Loss are the terms that the objectives of these methods are made of.
type Loss struct {
	Advantage objective.Expr
	// Aggregate averages a quantity per token over the batch.
	Aggregate          func(objective.Expr) objective.Expr
	ClipLow, ClipHigh  float64
	EntropyCoefficient float64
	KL                 string // estimator of the divergence from the reference, or "none"
	KLCoefficient      float64
}

// Objective is the clipped surrogate, minus the entropy, plus the divergence from the reference, each averaged alike. A
// term whose coefficient is 0 is not computed.
func (l Loss) Objective(name string) (objective.Objective, error) {
	surrogate := l.Aggregate(objective.ClippedSurrogate(l.Advantage, l.ClipLow, l.ClipHigh, 0))
	entropy := l.Aggregate(objective.Entropy())
	metrics := map[string]objective.Expr{
		"policy_loss":   surrogate,
		"entropy":       entropy,
		"clip_fraction": objective.TokenMean(objective.ClipFraction(l.Advantage, l.ClipLow, l.ClipHigh), objective.MaskPolicy),
		"old_kl":        objective.TokenMean(objective.Sub(objective.OldLogP(), objective.LogP()), objective.MaskPolicy),
	}
	loss := surrogate
	if l.EntropyCoefficient != 0 {
		loss = objective.Sub(loss, objective.Mul(objective.Const(l.EntropyCoefficient), entropy))
	}
	if l.KL != "none" && l.KLCoefficient != 0 {
		kl, err := objective.KL(l.KL)
		if err != nil {
			return objective.Objective{}, err
		}
		divergence := l.Aggregate(kl)
		metrics["kl"] = divergence
		loss = objective.Add(loss, objective.Mul(objective.Const(l.KLCoefficient), divergence))
	}
	return objective.New(name, objective.TrainsPolicy, loss, metrics)
}
