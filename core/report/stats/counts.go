package stats

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// McNemar is the exact two-sided p-value of McNemar's test (1947) from the numbers of questions that only one of two
// systems has right: a binomial test of the discordant ones against 1/2. Without any, it is 1.
func McNemar(onlyFirst, onlySecond int) float64 {
	return min(1, 2*lowerTail(onlyFirst, onlySecond))
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

func lowerTail(a, b int) float64 {
	n, k := a+b, min(a, b)
	if n == 0 || k == n {
		return 1
	}
	return distuv.Binomial{N: float64(n), P: 0.5}.CDF(float64(k))
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
