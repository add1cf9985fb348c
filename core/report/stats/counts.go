package stats

import (
	"gonum.org/v1/gonum/stat/distuv"
)

// McNemar is the exact two-sided p-value of McNemar's test (1947) from the numbers of questions that only one of two
// systems has right: a binomial test of the discordant ones against 1/2. Without any, it is 1.
func McNemar(onlyFirst, onlySecond int) float64 {
	return min(1, 2*lowerTail(onlyFirst, onlySecond))
}

func lowerTail(a, b int) float64 {
	n, k := a+b, min(a, b)
	if n == 0 || k == n {
		return 1
	}
	return distuv.Binomial{N: float64(n), P: 0.5}.CDF(float64(k))
}
