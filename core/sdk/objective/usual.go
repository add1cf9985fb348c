package objective

import (
	"fmt"
	"maps"
	"slices"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// Ratio is exp(logp - old_logp) per token.
func Ratio() Expr { return Exp(Sub(LogP(), OldLogP())) }

// ClippedSurrogate is PPO's clipped loss per token (Schulman et al. 2017, eq. 7, negated): the larger of -A·r and
// -A·clip(r, 1-low, 1+high). With dual > 1, tokens of negative advantage are further bounded by -A·dual (Ye et al.
// 2020); dual 0 turns that off. advantage is per token or per sequence.
func ClippedSurrogate(advantage Expr, low, high, dual float64) Expr {
	return Surrogate(Ratio(), advantage, low, high, dual)
}

// Surrogate is [ClippedSurrogate] with a ratio of any level, such as that of the token's turn or sequence.
func Surrogate(ratio, advantage Expr, low, high, dual float64) Expr {
	loss := Max(Mul(Neg(advantage), ratio), Mul(Neg(advantage), Clip(ratio, 1-low, 1+high)))
	if dual <= 0 {
		return loss
	}
	return Where(Less(advantage, Const(0)), Min(loss, Mul(Neg(advantage), Const(dual))), loss)
}

// ClipFraction is 1 for each token whose ratio the clip decides, for use as a metric.
func ClipFraction(advantage Expr, low, high float64) Expr {
	ratio := Ratio()
	return Less(Mul(Neg(advantage), ratio), Mul(Neg(advantage), Clip(ratio, 1-low, 1+high)))
}

// KL estimates the divergence from the reference per token (Schulman, "Approximating KL divergence"): k1 is
// logp - ref_logp, k2 its half square, k3 exp(-k1) - 1 + k1 with the log-ratio bounded to ±20 before the exponential
// and the result to ±10.
func KL(kind string) (Expr, error) {
	d := Sub(LogP(), RefLogP())
	switch kind {
	case "k1":
		return d, nil
	case "k2":
		return Mul(Const(.5), Square(d)), nil
	case "k3":
		r := Clip(Neg(d), -20, 20)
		return Clip(Sub(Sub(Exp(r), r), Const(1)), -10, 10), nil
	}
	return Expr{}, fmt.Errorf("unknown KL estimator %q: use k1, k2 or k3", kind)
}

// NLL is -logp per token.
func NLL() Expr { return Neg(LogP()) }

// valueErrors are the squared errors of value and of value clipped to old_value ± clip.
func valueErrors(target Expr, clip float64) (free, clipped Expr) {
	v, old := Value(), OldValue()
	near := Add(old, Clip(Sub(v, old), -clip, clip))
	return Square(Sub(v, target)), Square(Sub(near, target))
}

// ValueLoss is half the larger of the squared errors of value and of value clipped to old_value ± clip, per token.
// target is per token.
func ValueLoss(target Expr, clip float64) Expr {
	free, clipped := valueErrors(target, clip)
	return Mul(Const(.5), Max(free, clipped))
}

// ValueClipFraction is 1 for each token whose value loss the clip decides, for use as a metric.
func ValueClipFraction(target Expr, clip float64) Expr {
	free, clipped := valueErrors(target, clip)
	return Less(free, clipped)
}

// SequenceRatio is the length-normalised ratio of a sequence (GSPO, Zheng et al. 2025, eq. 7).
func SequenceRatio() Expr {
	return Exp(Reduce(Sub(LogP(), OldLogP()), Token, Sequence, Mean, MaskPolicy))
}

// TokenMean is the mean over all tokens of the mini-batch that the mask holds.
func TokenMean(x Expr, mask string) Expr { return Reduce(x, Token, Scalar, Mean, mask) }

// SequenceMean is the mean over sequences of the mean over each one's tokens.
func SequenceMean(x Expr, mask string) Expr {
	return Reduce(Reduce(x, Token, Sequence, Mean, mask), Sequence, Scalar, Mean, "")
}

// GroupMean is the mean over groups of the mean over each one's sequences of the mean over each one's tokens.
func GroupMean(x Expr, mask string) Expr {
	return Reduce(Reduce(Reduce(x, Token, Sequence, Mean, mask), Sequence, Group, Mean, ""), Group, Scalar, Mean, "")
}

// ConstantMean is the mean over sequences of the sum over each one's tokens divided by a constant (Dr. GRPO, Liu et
// al. 2025).
func ConstantMean(x Expr, constant float64, mask string) Expr {
	return Reduce(Div(Reduce(x, Token, Sequence, Sum, mask), Const(constant)), Sequence, Scalar, Mean, "")
}
