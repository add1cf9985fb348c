package stats

import (
	"errors"
	"math"
	"math/bits"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/forage-rl/forage/core/internal/rng"
)

// Permutation is the outcome of a permutation test.
type Permutation struct {
	P     float64 // two-sided
	Exact bool    // all sign patterns were counted
	Draws int     // how many patterns were looked at
}

// maxExact is the number of non-zero differences up to which all sign patterns (2^20) are counted.
const maxExact = 20

// DefaultDraws is a usual number of random sign patterns; the smallest p-value is then 1e-4.
const DefaultDraws = 9999

// SignFlip tests whether the mean of the differences (one per question) differs from 0: under the null hypothesis each
// difference might as well have the other sign. Up to 20 non-zero differences all patterns are counted, beyond that
// draws random ones, with p = (1 + #as extreme)/(1 + draws) (Phipson and Smyth 2010).
func SignFlip(diffs []float64, draws int, key rng.Key) (Permutation, error) {
	if err := checkFinite(diffs); err != nil {
		return Permutation{}, err
	}
	if draws < 1 {
		return Permutation{}, errors.New("sign-flip test: draws must be at least 1")
	}
	d := slices.DeleteFunc(slices.Clone(diffs), func(x float64) bool { return x == 0 })
	var sum, size float64
	for _, x := range d {
		sum += x
		size += math.Abs(x)
	}
	// Patterns with the same sum in exact arithmetic must count as equal.
	bound := math.Abs(sum) - 1e-9*size
	if len(d) <= maxExact {
		extreme, total := countPatterns(d, sum, bound)
		return Permutation{P: float64(extreme) / float64(total), Exact: true, Draws: total}, nil
	}
	extreme := 0
	words := (len(d) + 63) / 64
	for i := range draws {
		s := 0.0
		for w := range words {
			flips := key.Uint64(uint64(i*words + w))
			for _, x := range d[w*64 : min(len(d), (w+1)*64)] {
				// The lowest bit becomes the sign bit of x.
				s += math.Float64frombits(math.Float64bits(x) ^ flips<<63)
				flips >>= 1
			}
		}
		if math.Abs(s) >= bound {
			extreme++
		}
	}
	return Permutation{P: float64(extreme+1) / float64(draws+1), Draws: draws}, nil
}

// countPatterns walks all sign patterns in Gray-code order, one flip at a time.
func countPatterns(d []float64, sum, bound float64) (extreme, total int) {
	total = 1 << len(d)
	sign := make([]float64, len(d))
	for i := range sign {
		sign[i] = 1
	}
	s := sum
	for i := 1; ; i++ {
		if math.Abs(s) >= bound {
			extreme++
		}
		if i == total {
			return extreme, total
		}
		k := bits.TrailingZeros(uint(i))
		s -= 2 * sign[k] * d[k]
		sign[k] = -sign[k]
	}
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
