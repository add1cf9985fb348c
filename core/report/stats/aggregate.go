package stats

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// From how many runs and data sets on the aggregates below are worth printing.
const (
	MinRunsForAggregates     = 5
	MinDatasetsForAggregates = 3
)

// InterquartileMean is the mean of the middle half of all scores, [run][data set] taken together: a quarter of them,
// rounded down, is cut at each end (Agarwal et al. 2021, section 4.3).
func InterquartileMean(scores [][]float64) (float64, error) {
	var all []float64
	for _, run := range scores {
		all = append(all, run...)
	}
	if len(all) == 0 {
		return 0, errors.New("interquartile mean: no scores")
	}
	if err := checkFinite(all); err != nil {
		return 0, fmt.Errorf("interquartile mean: %w", err)
	}
	slices.Sort(all)
	cut := len(all) / 4
	return mean(all[cut : len(all)-cut]), nil
}

// ProbabilityOfImprovement is the chance that a random run of x scores higher than a random run of y on a random data
// set, ties counting half: the Mann-Whitney statistic per data set, averaged (Agarwal et al. 2021, section 4.3).
// x and y are [run][data set].
func ProbabilityOfImprovement(x, y [][]float64) (float64, error) {
	if len(x) == 0 || len(y) == 0 || len(x[0]) == 0 {
		return 0, errors.New("probability of improvement: no scores")
	}
	datasets := len(x[0])
	for _, run := range slices.Concat(x, y) {
		if len(run) != datasets {
			return 0, fmt.Errorf("probability of improvement: a run has %d data sets, expected %d", len(run), datasets)
		}
		if err := checkFinite(run); err != nil {
			return 0, fmt.Errorf("probability of improvement: %w", err)
		}
	}
	wins := 0.0
	for d := range datasets {
		for _, a := range x {
			for _, b := range y {
				switch {
				case a[d] > b[d]:
					wins++
				case a[d] == b[d]:
					wins += 0.5
				}
			}
		}
	}
	return wins / float64(datasets*len(x)*len(y)), nil
}

// Detectable says how large a difference must be to be told from noise.
type Detectable struct {
	Observed float64 // the smallest observed difference that the test would call significant
	Power80  float64 // the smallest true difference that the test finds in 80 of 100 studies
}

// DetectableOverSeeds is for the t-test over S seeds, from the standard deviation over seeds of one arm's figure.
// Two arms' runs are taken as independent, so the difference spreads √2 times as much: shared questions make the true
// value smaller. alpha is two-sided; divide it by the number of comparisons for the strictest step of Holm. The power is
// by the usual sum of t quantiles, an approximation of the noncentral t distribution.
func DetectableOverSeeds(seedSD float64, seeds int, alpha float64) (Detectable, error) {
	return DetectableOverDifferences(seedSD*math.Sqrt2, seeds, alpha)
}

// DetectableOverDifferences is [DetectableOverSeeds] from the standard deviation of the per-seed differences themselves.
func DetectableOverDifferences(sd float64, seeds int, alpha float64) (Detectable, error) {
	if seeds < MinSeeds {
		return Detectable{}, &NotTestableError{seeds}
	}
	if err := checkConfidence(1 - alpha); err != nil {
		return Detectable{}, err
	}
	if !(sd >= 0) || math.IsInf(sd, 1) {
		return Detectable{}, fmt.Errorf("detectable difference: standard deviation is %v, expected a number >= 0", sd)
	}
	critical := CriticalT(seeds, 1-alpha)
	power := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(seeds - 1)}.Quantile(0.8)
	se := sd / math.Sqrt(float64(seeds))
	return Detectable{Observed: critical * se, Power80: (critical + power) * se}, nil
}

// DetectableOverQuestions is for McNemar's test on one seed, from the discordance: the share of questions that exactly
// one of the two systems has right. The difference is of accuracies. By the normal approximation (Connor 1987); a
// difference cannot exceed the discordance, which caps both figures.
func DetectableOverQuestions(discordance float64, questions int, alpha float64) (Detectable, error) {
	if err := checkConfidence(1 - alpha); err != nil {
		return Detectable{}, err
	}
	if !(discordance > 0 && discordance <= 1) || questions < 1 {
		return Detectable{}, fmt.Errorf("detectable difference: discordance %v over %d questions, expected 0 < discordance <= 1 and at least 1 question",
			discordance, questions)
	}
	zAlpha := distuv.UnitNormal.Quantile(1 - alpha/2)
	zBeta := distuv.UnitNormal.Quantile(0.8)
	n := float64(questions)
	observed := zAlpha * math.Sqrt(discordance/n)
	// Solve δ·√n = zα·√d + zβ·√(d-δ²) for δ; both sides are monotone, so bisection finds it.
	low, high := 0.0, math.Sqrt(discordance)
	for range 100 {
		d := (low + high) / 2
		if d*math.Sqrt(n) < zAlpha*math.Sqrt(discordance)+zBeta*math.Sqrt(max(0, discordance-d*d)) {
			low = d
		} else {
			high = d
		}
	}
	return Detectable{Observed: min(observed, discordance), Power80: min(high, discordance)}, nil
}
