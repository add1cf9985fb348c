package stats

import (
	"errors"
	"math"
	"math/bits"
	"slices"

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
