package grpo

import "math"

// Epsilon is added to the standard deviation that an advantage is divided by.
const Epsilon = 1e-6

// Advantages compares the rewards of one group: reward minus mean, and with normalize divided by the standard deviation
// (n-1 in the denominator) plus [Epsilon] (GRPO, Shao et al. 2024, section 4.1.2). Equal rewards give exactly 0. A group
// of one has mean 0 and standard deviation 1, as the released implementations have it: its advantage is its reward.
func Advantages(rewards []float64, normalize bool) []float64 {
	if len(rewards) == 1 {
		if normalize {
			return []float64{rewards[0] / (1 + Epsilon)}
		}
		return []float64{rewards[0]}
	}
	return Standardise(rewards, normalize, Epsilon)
}

// Standardise takes the mean off each reward of a group, and with normalize divides by the standard deviation (n-1 in the
// denominator) plus epsilon. Equal rewards give exactly 0, and so does a group of one.
func Standardise(rewards []float64, normalize bool, epsilon float64) []float64 {
	out := make([]float64, len(rewards))
	if len(rewards) < 2 || Equal(rewards) {
		return out
	}
	mean := 0.
	for _, r := range rewards {
		mean += r
	}
	mean /= float64(len(rewards))
	squares := 0.
	for i, r := range rewards {
		out[i] = r - mean
		squares += out[i] * out[i]
	}
	if normalize {
		deviation := math.Sqrt(squares / float64(len(rewards)-1))
		for i := range out {
			out[i] /= deviation + epsilon
		}
	}
	return out
}

// LeaveOneOut compares each reward of a group with the mean of the others (RLOO, Ahmadian et al. 2024, section 3.2).
// Equal rewards give exactly 0. There must be two or more: one alone has no others and gets 0.
func LeaveOneOut(rewards []float64) []float64 {
	out := make([]float64, len(rewards))
	if len(rewards) < 2 || Equal(rewards) {
		return out
	}
	sum := 0.
	for _, r := range rewards {
		sum += r
	}
	for i, r := range rewards {
		out[i] = r - (sum-r)/float64(len(rewards)-1)
	}
	return out
}

// Equal says whether all rewards are the same, so that the group teaches nothing.
func Equal(rewards []float64) bool {
	for _, r := range rewards {
		if r != rewards[0] {
			return false
		}
	}
	return true
}

// ArgMax is the first index of the highest value, ArgMin that of the lowest; both are -1 without values.
func ArgMax(values []float64) int {
	best := -1
	for i, v := range values {
		if best < 0 || v > values[best] {
			best = i
		}
	}
	return best
}

// ArgMin is the first index of the lowest value.
func ArgMin(values []float64) int {
	worst := -1
	for i, v := range values {
		if worst < 0 || v < values[worst] {
			worst = i
		}
	}
	return worst
}

// MiniBatch is how many units make one optimizer step: count, or where updates is not 0 as many as split the units into
// that many steps, the last one smaller if they do not divide. 0 means all at once.
func MiniBatch(units, count, updates int) int {
	if updates <= 0 {
		return count
	}
	return (units + updates - 1) / updates
}
