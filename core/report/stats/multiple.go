package stats

import (
	"cmp"
	"slices"
)

// Holm adjusts the p-values of one family so that rejecting those up to α keeps the chance of any false rejection at
// α (Holm 1979): sorted, p(i) times the number of hypotheses left, made monotone, at most 1. A hypothesis that could
// not be tested belongs to the family with p = 1.
func Holm(p []float64) []float64 {
	order := ascending(p)
	adjusted := make([]float64, len(p))
	running := 0.0
	for rank, i := range order {
		running = max(running, min(1, float64(len(p)-rank)*p[i]))
		adjusted[i] = running
	}
	return adjusted
}

func ascending(p []float64) []int {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p[a], p[b]) })
	return order
}
