package hybrid

import (
	"cmp"
	"slices"

	"github.com/forage-rl/forage/core/sdk/episode"
)

// Fuse merges ranked lists by reciprocal rank (Cormack et al. 2009): a hit is worth the sum of weight/(k0 + rank) over
// the lists that hold it, ranks from 1. It gives the best k with that sum as their score. Ties go to the hit that
// stands higher in the earlier list. A list of weight 0 is left out.
func Fuse(lists [][]episode.Hit, weights []float64, k0 float64, k int) []episode.Hit {
	var merged []episode.Hit
	index := map[string]int{}
	for i, list := range lists {
		if weights[i] == 0 {
			continue
		}
		inList := map[string]bool{}
		for rank, h := range list {
			id := h.Unit()
			if inList[id] {
				continue
			}
			inList[id] = true
			at, known := index[id]
			if !known {
				at = len(merged)
				index[id] = at
				h.Score = 0
				merged = append(merged, h)
			}
			merged[at].Score += weights[i] / (k0 + float64(rank+1))
		}
	}
	slices.SortStableFunc(merged, func(a, b episode.Hit) int { return cmp.Compare(b.Score, a.Score) })
	return merged[:min(k, len(merged))]
}
