package stats

import (
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Interval is a closed interval.
type Interval struct{ Low, High float64 }

// MinSeeds is the smallest number of seeds over which [AcrossSeeds] tests: with two, the critical value is 12.7 and the
// spread is a guess.
const MinSeeds = 3

// NotTestableError says that there are too few seeds to test across them.
type NotTestableError struct{ Seeds int }

func (e *NotTestableError) Error() string {
	return fmt.Sprintf("not testable across seeds: %d of at least %d", e.Seeds, MinSeeds)
}

// TTest is a paired t-test: the mean of differences, its interval, and whether it differs from 0 (Student 1908).
type TTest struct {
	N    int
	Mean float64
	SD   float64 // sample standard deviation of the differences, NaN for N = 1
	// Critical is t(N-1) at the two-sided confidence: the interval is Mean ± Critical·SD/√N.
	Critical float64
	Interval Interval
	// HasP says whether T and P exist: they do not without spread, where t would be infinite or 0/0.
	HasP bool
	T, P float64
}

// noSpread is the relative size below which a standard deviation is rounding, not spread.
const noSpread = 1e-10

// Paired tests whether the mean of diffs differs from 0, two-sided, with an interval of the given confidence (such as
// 0.95). With one difference only the mean exists.
func Paired(diffs []float64, confidence float64) (TTest, error) {
	if len(diffs) == 0 {
		return TTest{}, errors.New("paired test: no differences")
	}
	if err := checkConfidence(confidence); err != nil {
		return TTest{}, err
	}
	if err := checkFinite(diffs); err != nil {
		return TTest{}, fmt.Errorf("paired test: %w", err)
	}
	n := len(diffs)
	t := TTest{N: n, Mean: stat.Mean(diffs, nil), SD: math.NaN(), Critical: math.NaN(), Interval: Interval{math.NaN(), math.NaN()}}
	if n == 1 {
		return t, nil
	}
	t.SD = stat.StdDev(diffs, nil)
	largest := 0.0
	for _, d := range diffs {
		largest = max(largest, math.Abs(d))
	}
	if t.SD <= noSpread*largest {
		t.SD = 0
	}
	t.Critical = CriticalT(n, confidence)
	half := t.Critical * t.SD / math.Sqrt(float64(n))
	t.Interval = Interval{t.Mean - half, t.Mean + half}
	if t.SD > 0 {
		t.HasP = true
		t.T = t.Mean / (t.SD / math.Sqrt(float64(n)))
		t.P = min(1, 2*distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(n - 1)}.Survival(math.Abs(t.T)))
	}
	return t, nil
}

// AcrossSeeds is [Paired] on one difference per seed. Fewer than [MinSeeds] give a [*NotTestableError] together with
// what can be said: the mean.
func AcrossSeeds(diffs []float64, confidence float64) (TTest, error) {
	if len(diffs) == 0 {
		return TTest{}, &NotTestableError{0}
	}
	t, err := Paired(diffs, confidence)
	if err != nil || len(diffs) >= MinSeeds {
		return t, err
	}
	return TTest{N: t.N, Mean: t.Mean, SD: math.NaN(), Critical: math.NaN(), Interval: Interval{math.NaN(), math.NaN()}},
		&NotTestableError{len(diffs)}
}

// CriticalT is the two-sided critical value of Student's t over n differences: 4.30 for 3 at 0.95.
func CriticalT(n int, confidence float64) float64 {
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(n - 1)}.Quantile(1 - (1-confidence)/2)
}

// Differences gives x[i]-y[i]. A difference that is only rounding of equal numbers is exactly 0, so that it cannot pass
// for a spread or a sign.
func Differences(x, y []float64) ([]float64, error) {
	if len(x) != len(y) {
		return nil, fmt.Errorf("paired differences: %d values against %d", len(x), len(y))
	}
	d := make([]float64, len(x))
	for i := range x {
		if v := x[i] - y[i]; math.Abs(v) > 1e-12*max(math.Abs(x[i]), math.Abs(y[i])) {
			d[i] = v
		}
	}
	return d, nil
}

func checkConfidence(c float64) error {
	if !(c > 0 && c < 1) {
		return fmt.Errorf("confidence is %v, expected a number between 0 and 1", c)
	}
	return nil
}

func checkFinite(xs []float64) error {
	for i, x := range xs {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Errorf("value %d is %v, expected a finite number", i, x)
		}
	}
	return nil
}
