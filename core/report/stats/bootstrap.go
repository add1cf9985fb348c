package stats

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/forage-rl/forage/core/internal/rng"
)

// Quantile is the q-quantile (0 <= q <= 1) of values by linear interpolation between order statistics.
func Quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	return quantileSorted(slices.Sorted(slices.Values(values)), q)
}

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

// ResampleMeans is the mean of values over each set of indices.
func ResampleMeans(values []float64, indices [][]int) ([]float64, error) {
	means := make([]float64, len(indices))
	for b, idx := range indices {
		if len(idx) == 0 {
			return nil, fmt.Errorf("bootstrap: resample %d is empty", b)
		}
		sum := 0.0
		for _, i := range idx {
			if i < 0 || i >= len(values) {
				return nil, fmt.Errorf("bootstrap: resample %d has index %d of %d values", b, i, len(values))
			}
			sum += values[i]
		}
		means[b] = sum / float64(len(idx))
	}
	return means, nil
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

// Basic is the reflected percentile interval around the observed value.
func Basic(observed float64, replicates []float64, confidence float64) Interval {
	p := Percentile(replicates, confidence)
	return Interval{2*observed - p.High, 2*observed - p.Low}
}

// StandardError is the standard deviation of the replicates.
func StandardError(replicates []float64) float64 { return stat.StdDev(replicates, nil) }

// BCa is the bias-corrected and accelerated interval (Efron 1987) of the mean of values from bootstrap replicates of
// that mean. It fails where the replicates lie all on one side of the mean or the values have no spread: the correction
// is then infinite or undefined, and more replicates or another interval are needed.
func BCa(values, replicates []float64, confidence float64) (Interval, error) {
	if len(values) < 2 || len(replicates) == 0 {
		return Interval{}, errors.New("BCa interval: needs at least 2 values and 1 replicate")
	}
	if err := checkConfidence(confidence); err != nil {
		return Interval{}, err
	}
	observed := mean(values)
	below, upTo := 0, 0
	for _, r := range replicates {
		if r < observed {
			below++
		}
		if r <= observed {
			upTo++
		}
	}
	// A replicate equal to the observed value counts as half below.
	share := float64(below+upTo) / float64(2*len(replicates))
	if share == 0 || share == 1 {
		return Interval{}, errors.New("BCa interval: all replicates lie on one side of the observed mean")
	}
	z0 := distuv.UnitNormal.Quantile(share)
	a, err := acceleration(values)
	if err != nil {
		return Interval{}, err
	}
	s := slices.Sorted(slices.Values(replicates))
	end := func(alpha float64) float64 {
		z := z0 + distuv.UnitNormal.Quantile(alpha)
		return quantileSorted(s, distuv.UnitNormal.CDF(z0+z/(1-a*z)))
	}
	half := (1 - confidence) / 2
	return Interval{end(half), end(1 - half)}, nil
}

// acceleration is a sixth of the skewness of the jackknife means.
func acceleration(values []float64) (float64, error) {
	n := float64(len(values))
	sum := mean(values) * n
	jack := make([]float64, len(values))
	for i, v := range values {
		jack[i] = (sum - v) / (n - 1)
	}
	centre := mean(jack)
	var m2, m3 float64
	for _, j := range jack {
		d := centre - j
		m2 += d * d
		m3 += d * d * d
	}
	if m2 == 0 {
		return 0, errors.New("BCa interval: the values have no spread")
	}
	return m3 / (6 * math.Pow(m2, 1.5)), nil
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
