package retrieval

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Fuse merges ranked lists by reciprocal rank (Cormack, Clarke, Büttcher 2009): a unit's score is the sum of
// weight / (k0 + rank) over the lists that hold it, ranks from 1. A k0 of 0 means 60; nil weights mean 1 each. The k best
// are given, ties by id; a hit's texts are those of the first list that holds it.
func Fuse(lists [][]Hit, k0 float64, weights []float64, k int) ([]Hit, error) {
	k0 = cmp.Or(k0, 60)
	switch {
	case !(k0 > 0) || math.IsInf(k0, 0):
		return nil, fmt.Errorf("fuse: k0 = %g, expected a number above 0", k0)
	case weights != nil && len(weights) != len(lists):
		return nil, fmt.Errorf("fuse: %d weights for %d lists", len(weights), len(lists))
	case k < 1:
		return nil, fmt.Errorf("fuse: k = %d, expected at least 1", k)
	}
	scores := map[string]float64{}
	var fused []Hit
	for i, list := range lists {
		weight := 1.0
		if weights != nil {
			weight = weights[i]
		}
		if !(weight >= 0) || math.IsInf(weight, 0) {
			return nil, fmt.Errorf("fuse: weight %d is %g, expected at least 0", i, weight)
		}
		ranked := map[string]bool{}
		for rank, hit := range list {
			if ranked[hit.ID] {
				continue
			}
			ranked[hit.ID] = true
			if _, known := scores[hit.ID]; !known {
				fused = append(fused, hit)
			}
			scores[hit.ID] += weight / (k0 + float64(rank) + 1)
		}
	}
	slices.SortFunc(fused, func(a, b Hit) int {
		return cmp.Or(cmp.Compare(scores[b.ID], scores[a.ID]), cmp.Compare(a.ID, b.ID))
	})
	fused = fused[:min(k, len(fused))]
	for i := range fused {
		fused[i].Score = float32(scores[fused[i].ID])
	}
	return fused, nil
}
