package stats

// What the vectors hold beside what the report computes: the other published forms of its tests and intervals, built on
// the same parts. No report prints them, so they stand with the tests.

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Quantile is the q-quantile (0 <= q <= 1) of values by linear interpolation between order statistics.
func Quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	return quantileSorted(slices.Sorted(slices.Values(values)), q)
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

// McNemarMidP is McNemar's test by the mid-p-value: the exact one less the probability of the observed table. It is
// closer to the nominal level, which the exact test stays below.
func McNemarMidP(onlyFirst, onlySecond int) float64 {
	n, k := onlyFirst+onlySecond, min(onlyFirst, onlySecond)
	if n == 0 {
		return 1
	}
	return 2*lowerTail(onlyFirst, onlySecond) - distuv.Binomial{N: float64(n), P: 0.5}.Prob(float64(k))
}

// McNemarChi2 is McNemar's test by the χ² distribution, with Edwards' continuity correction if asked for. ok is false
// without discordant questions.
func McNemarChi2(onlyFirst, onlySecond int, continuity bool) (statistic, p float64, ok bool) {
	n := float64(onlyFirst + onlySecond)
	if n == 0 {
		return 0, 0, false
	}
	d := math.Abs(float64(onlyFirst - onlySecond))
	if continuity {
		d-- // as usual also for d = 0, where it makes the statistic 1/n
	}
	statistic = d * d / n
	return statistic, distuv.ChiSquared{K: 1}.Survival(statistic), true
}

// Wilson is Wilson's score interval (1927) of a proportion: right of n.
func Wilson(right, n int, confidence float64) (Interval, error) {
	if err := checkCounts(right, n, confidence); err != nil {
		return Interval{}, err
	}
	z := distuv.UnitNormal.Quantile(1 - (1-confidence)/2)
	N, p := float64(n), float64(right)/float64(n)
	centre := (p + z*z/(2*N)) / (1 + z*z/N)
	half := z / (1 + z*z/N) * math.Sqrt(p*(1-p)/N+z*z/(4*N*N))
	i := Interval{max(0, centre-half), min(1, centre+half)}
	// Exact at the ends, where the formula leaves rounding.
	if right == 0 {
		i.Low = 0
	}
	if right == n {
		i.High = 1
	}
	return i, nil
}

// ClopperPearson is the exact interval (1934) of a proportion: right of n.
func ClopperPearson(right, n int, confidence float64) (Interval, error) {
	if err := checkCounts(right, n, confidence); err != nil {
		return Interval{}, err
	}
	half := (1 - confidence) / 2
	i := Interval{0, 1}
	if right > 0 {
		i.Low = distuv.Beta{Alpha: float64(right), Beta: float64(n - right + 1)}.Quantile(half)
	}
	if right < n {
		i.High = distuv.Beta{Alpha: float64(right + 1), Beta: float64(n - right)}.Quantile(1 - half)
	}
	return i, nil
}

func checkCounts(right, n int, confidence float64) error {
	if n < 1 || right < 0 || right > n {
		return fmt.Errorf("proportion: %d right of %d, expected 0 <= right <= n and n >= 1", right, n)
	}
	return checkConfidence(confidence)
}

// Bonferroni multiplies each p-value by their number, at most 1.
func Bonferroni(p []float64) []float64 {
	adjusted := make([]float64, len(p))
	for i, x := range p {
		adjusted[i] = min(1, x*float64(len(p)))
	}
	return adjusted
}

// BenjaminiHochberg adjusts for the false discovery rate (1995).
func BenjaminiHochberg(p []float64) []float64 {
	order := ascending(p)
	adjusted := make([]float64, len(p))
	running := 1.0
	for rank, i := range slices.Backward(order) {
		running = min(running, p[i]*float64(len(p))/float64(rank+1))
		adjusted[i] = running
	}
	return adjusted
}

// SignTest is the exact two-sided sign test: whether positive and negative differences are equally likely; zeros do not
// count.
func SignTest(diffs []float64) float64 {
	var plus, minus int
	for _, d := range diffs {
		switch {
		case d > 0:
			plus++
		case d < 0:
			minus++
		}
	}
	return McNemar(plus, minus)
}

// Zeros says what a signed-rank test does with differences that are 0.
type Zeros int

// Wilcoxon drops zeros before ranking; Pratt ranks them and drops their ranks.
const (
	DropZeros Zeros = iota
	Pratt
)

// SignedRank is the outcome of Wilcoxon's signed-rank test.
type SignedRank struct {
	Statistic float64 // the smaller of the two rank sums
	P         float64 // two-sided
}

// WilcoxonNormal is Wilcoxon's signed-rank test (1945) by the normal approximation with the correction for ties and, if
// asked for, for continuity. It fails where every difference is 0.
func WilcoxonNormal(diffs []float64, zeros Zeros, continuity bool) (SignedRank, error) {
	d := slices.Clone(diffs)
	if zeros == DropZeros {
		d = slices.DeleteFunc(d, func(x float64) bool { return x == 0 })
	}
	r := signedRanks(d)
	if r.plus+r.minus == 0 {
		return SignedRank{}, errNoDifferences
	}
	n, z := float64(len(d)), float64(r.zeros)
	mean := n*(n+1)/4 - z*(z+1)/4
	variance := (n*(n+1)*(2*n+1) - z*(z+1)*(2*z+1) - r.ties/2) / 24
	delta := min(r.plus, r.minus) - mean // never positive
	if continuity && delta < 0 {
		delta += 0.5
	}
	p := 2 * distuv.UnitNormal.Survival(math.Abs(delta)/math.Sqrt(variance))
	return SignedRank{min(r.plus, r.minus), min(1, p)}, nil
}

// WilcoxonExact is the test by the exact distribution, which holds where no difference is 0 and no two have the same
// size; otherwise it fails.
func WilcoxonExact(diffs []float64) (SignedRank, error) {
	r := signedRanks(diffs)
	if len(diffs) == 0 || r.zeros > 0 || r.ties > 0 {
		return SignedRank{}, errors.New("exact signed-rank test: differences are 0 or tied; use the normal approximation")
	}
	// prob[s] = probability that a random subset of the ranks 1..n has the sum s.
	prob := []float64{1}
	for rank := 1; rank <= len(diffs); rank++ {
		next := make([]float64, len(prob)+rank)
		for s, p := range prob {
			next[s] += p / 2
			next[s+rank] += p / 2
		}
		prob = next
	}
	low := min(r.plus, r.minus)
	tail := 0.0
	for s := range int(low) + 1 {
		tail += prob[s]
	}
	return SignedRank{low, min(1, 2*tail)}, nil
}

var errNoDifferences = errors.New("signed-rank test: every difference is 0")

type rankSums struct {
	plus, minus float64
	zeros       int
	ties        float64 // sum of t³-t over groups of equal sizes, zeros apart
}

func signedRanks(d []float64) rankSums {
	order := slices.Clone(d)
	slices.SortFunc(order, func(a, b float64) int {
		switch x, y := math.Abs(a), math.Abs(b); {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	var r rankSums
	for i := 0; i < len(order); {
		j := i
		for j < len(order) && math.Abs(order[j]) == math.Abs(order[i]) {
			j++
		}
		t := float64(j - i)
		rank := float64(i+j+1) / 2 // mean of i+1 … j
		switch order[i] {
		case 0:
			r.zeros = j - i
		default:
			r.ties += t*t*t - t
			for _, x := range order[i:j] {
				if x > 0 {
					r.plus += rank
				} else {
					r.minus += rank
				}
			}
		}
		i = j
	}
	return r
}
