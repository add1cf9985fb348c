// Package frugalrag is the reward of FrugalRAG's second stage (arXiv:2507.07634): how many searches an episode made
// against how many its evidence needed, plus a reward for well-formed calls.
//
// The arithmetic is plain functions: [Efficiency] on counts, [Evidence] on what was retrieved, [Splitter.Sentences] on text.
package frugalrag

import "math"

// Shape holds the constants of the efficiency reward.
type Shape struct {
	RMax       float64 // bound of the log-odds, in (0, ∞)
	Zeta       float64 // bonus for evidence that took many searches, per share of the budget
	LateMargin float64 // searching too long is worth at most RMax less this
}

// insufficient is h* of an episode whose evidence fell short.
const insufficient = -1

// edge keeps shares away from 0 and 1, where the log-odds are infinite.
const edge = 1e-6

// Efficiency is the reward of an episode that made searches searches, of a budget of as many as the agent may make,
// where hStar is the search at which its evidence was complete (counted from 1), or -1 when it fell short
// (arXiv:2507.07634, eq. 1, with the bounds of the released code):
//
//   - fell short: the log-odds of the share of the budget that is left, at most 0: it stopped too early;
//   - more searches than hStar: the log-odds of the surplus, at most RMax - LateMargin;
//   - exactly hStar: RMax + Zeta·hStar/budget.
//
// All are at least -RMax. budget must be positive.
func Efficiency(searches, hStar, budget int, s Shape) float64 {
	b := float64(budget)
	switch {
	case hStar == insufficient:
		return max(-s.RMax, min(logOdds(math.Abs(float64(searches-budget))/b), 0))
	case searches > hStar:
		return max(-s.RMax, min(logOdds(float64(searches-hStar)/b), s.RMax-s.LateMargin))
	case searches == hStar:
		return s.RMax + s.Zeta*float64(hStar)/b
	}
	return 0 // fewer searches than the evidence took: cannot be
}

// logOdds is ln((1-x)/x) of a share.
func logOdds(x float64) float64 {
	x = min(max(x, edge), 1-edge)
	return math.Log((1 - x) / x)
}
