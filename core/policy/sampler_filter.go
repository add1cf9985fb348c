package policy

import (
	"cmp"
	"math"
	"slices"
)

// chooseFrom draws a token from logits already divided by the temperature, keeping the TopK most likely tokens and of
// those the smallest set whose mass reaches TopP (nucleus sampling, Holtzman et al. 2020, section 3.1); of equally
// likely tokens the lower id counts as more likely. The log-probability is under the full distribution.
func chooseFrom(logits []float32, params SampleParams, uniform float32) (int32, float32) {
	top := slices.Max(logits)
	p := make([]float64, len(logits))
	var total float64
	for i, z := range logits {
		p[i] = math.Exp(float64(z) - float64(top))
		total += p[i]
	}
	order := make([]int32, len(logits))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int { return cmp.Or(cmp.Compare(p[b], p[a]), cmp.Compare(a, b)) })
	if params.TopK > 0 && params.TopK < len(order) {
		order = order[:params.TopK]
	}
	var kept float64
	for _, t := range order {
		kept += p[t]
	}
	if params.TopP > 0 && params.TopP < 1 {
		var mass float64
		for i, t := range order {
			mass += p[t]
			if mass >= params.TopP*kept {
				order, kept = order[:i+1], mass
				break
			}
		}
	}
	// Inverse CDF in the order of ids, as the graph does it without filters.
	slices.Sort(order)
	token := order[len(order)-1]
	var mass float64
	for _, t := range order {
		mass += p[t]
		if mass > float64(uniform)*kept {
			token = t
			break
		}
	}
	return token, float32(float64(logits[token]) - float64(top) - math.Log(total))
}
