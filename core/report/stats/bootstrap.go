package stats

import (
	"fmt"
	"math"
	"slices"

	"github.com/forage-rl/forage/core/internal/rng"
)

func quantileSorted(sorted []float64, q float64) float64 {
	pos := q * float64(len(sorted)-1)
	i := int(math.Floor(pos))
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (pos-float64(i))*(sorted[i+1]-sorted[i])
}

// Resample draws n of n indices with replacement, the draw-th set of the key.
func Resample(n int, key rng.Key, draw int) []int {
	k := key.With(uint64(draw))
	idx := make([]int, n)
	for i := range idx {
		idx[i] = int(k.Float64(uint64(i)) * float64(n))
	}
	return idx
}

// Percentile is the percentile interval of bootstrap replicates (Efron 1979).
func Percentile(replicates []float64, confidence float64) Interval {
	s := slices.Sorted(slices.Values(replicates))
	half := (1 - confidence) / 2
	if len(s) == 0 {
		return Interval{math.NaN(), math.NaN()}
	}
	return Interval{quantileSorted(s, half), quantileSorted(s, 1-half)}
}

// CrossedBootstrap gives bootstrap replicates of the mean of each arm, where arms[a][s][q] is the value of arm a, seed s,
// question q. One replicate draws one resample of questions, used for all seeds and arms, and one of seeds, used for all
// arms with that many: so the difference of two arms' replicates keeps what they share. The result is [arm][replicate].
// Two data sets of one study take the same seeds key and different questions keys.
func CrossedBootstrap(arms [][][]float64, seeds, questions rng.Key, replicates int) ([][]float64, error) {
	nq := -1
	for a, arm := range arms {
		if len(arm) == 0 {
			return nil, fmt.Errorf("crossed bootstrap: arm %d has no seeds", a)
		}
		for s, row := range arm {
			if nq < 0 {
				nq = len(row)
			}
			if len(row) != nq || nq == 0 {
				return nil, fmt.Errorf("crossed bootstrap: arm %d, seed %d has %d questions, expected %d (at least 1)", a, s, len(row), nq)
			}
		}
	}
	out := make([][]float64, len(arms))
	for a := range out {
		out[a] = make([]float64, replicates)
	}
	if len(arms) == 0 {
		return out, nil
	}
	weight := make([]float64, nq)
	for b := range replicates {
		clear(weight)
		for _, q := range Resample(nq, questions, b) {
			weight[q]++
		}
		k := seeds.With(uint64(b))
		for a, arm := range arms {
			times := make([]float64, len(arm))
			for i := range arm {
				times[int(k.Float64(uint64(i))*float64(len(arm)))]++
			}
			sum := 0.0
			for s, row := range arm {
				if times[s] == 0 {
					continue
				}
				one := 0.0
				for q, w := range weight {
					one += w * row[q]
				}
				sum += times[s] * one
			}
			out[a][b] = sum / float64(nq*len(arm))
		}
	}
	return out, nil
}

func mean(xs []float64) float64 {
	sum := 0.0
	for _, x := range xs {
		sum += x
	}
	return sum / float64(len(xs))
}
