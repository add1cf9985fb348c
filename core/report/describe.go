package report

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/forage-rl/forage/core/record"
	"github.com/forage-rl/forage/core/report/stats"
)

// Spread is a mean over seeds.
type Spread struct {
	Mean float64
	SD   float64 // sample standard deviation over seeds, NaN for one
	N    int     // seeds
}

func spread(values []float64) Spread {
	s := Spread{Mean: mean(values), SD: math.NaN(), N: len(values)}
	if len(values) > 1 {
		s.SD = stat.StdDev(values, nil)
	}
	return s
}

// EvaluationSummary describes the cells on one evaluation.
type EvaluationSummary struct {
	Name      string
	Questions int
	PerSeed   bool     // the seeds have different questions
	Metrics   []string // in the order of the table
	Hops      []int    // numbers of hops that occur, if more than one does
	HopSizes  map[int]Sizes
	Rows      []EvaluationRow
}

// size tells how many questions there are.
func (e EvaluationSummary) size() string {
	if e.PerSeed {
		return count(e.Questions) + " questions per seed, different ones"
	}
	return count(e.Questions) + " questions"
}

// Sizes are the smallest and the largest number of questions over the runs.
type Sizes struct{ Least, Most int }

func (s Sizes) with(n int) Sizes {
	if s.Most == 0 {
		return Sizes{n, n}
	}
	return Sizes{min(s.Least, n), max(s.Most, n)}
}

// String is the number, or the range of numbers.
func (s Sizes) String() string {
	if s.Least == s.Most {
		return count(s.Most)
	}
	return count(s.Least) + "–" + count(s.Most)
}

// EvaluationRow describes one cell.
type EvaluationRow struct {
	Cell   string
	Values map[string]Spread
	ByHops map[int]Spread // of the primary metric
}

// knownMetrics is the order in which metrics are shown; others follow by name.
func knownMetrics() []string {
	return []string{record.MetricEM, record.MetricF1, record.MetricEvidenceAny, record.MetricEvidenceAll,
		record.MetricEvidenceRecall, record.MetricSearches, record.MetricUnnecessarySearches, record.MetricPolicyTokens}
}

func (r *Report) describe(s *Study) {
	names := map[string]bool{}
	for _, c := range s.Cells {
		for _, run := range c.Runs {
			for name := range run.Questions {
				names[name] = names[name] || run.scored()
			}
		}
	}
	order := slices.SortedFunc(maps.Keys(names), func(a, b string) int {
		// The primary evaluations come first, as declared.
		return cmp.Or(cmp.Compare(position(s.Primary.Evaluations, a), position(s.Primary.Evaluations, b)), cmp.Compare(a, b))
	})
	for _, name := range order {
		if names[name] {
			r.Evaluations = append(r.Evaluations, r.describeOne(s, name))
		}
	}
}

func (r *Report) describeOne(s *Study, evaluation string) EvaluationSummary {
	out := EvaluationSummary{Name: evaluation, HopSizes: map[int]Sizes{}}
	metrics := map[string]bool{}
	var ids []string
	for i := range s.Cells {
		c := &s.Cells[i]
		perMetric, perHops := map[string][]float64{}, map[int][]float64{}
		bad := 0
		seeds := c.scoredSeeds([]string{evaluation})
		if len(seeds) == 0 && len(c.scoredSeeds(nil)) > 0 {
			continue // it is not one of the cell's evaluations
		}
		for _, seed := range seeds {
			questions := c.run(seed).Questions[evaluation]
			out.Questions = max(out.Questions, len(questions))
			own := questionIDs(questions)
			out.PerSeed = out.PerSeed || ids != nil && !slices.Equal(ids, own)
			ids = own
			values, byHops := map[string][]float64{}, map[int][]float64{}
			for _, q := range questions {
				for name, v := range q.Values {
					if math.IsNaN(v) || math.IsInf(v, 0) {
						bad++
						continue
					}
					values[name] = append(values[name], v)
				}
				if v, ok := q.Values[s.Primary.Metric]; ok && q.Hops > 0 {
					byHops[q.Hops] = append(byHops[q.Hops], v)
				}
			}
			for name, vs := range values {
				perMetric[name] = append(perMetric[name], mean(vs))
				metrics[name] = true
			}
			for h, vs := range byHops {
				perHops[h] = append(perHops[h], mean(vs))
				out.HopSizes[h] = out.HopSizes[h].with(len(vs))
			}
		}
		if bad > 0 {
			r.Warnings = append(r.Warnings, fmt.Sprintf("%s, %q: %d values per question are not finite and left out of the means", c.Key, evaluation, bad))
		}
		row := EvaluationRow{Cell: c.Key, Values: map[string]Spread{}, ByHops: map[int]Spread{}}
		for name, vs := range perMetric {
			row.Values[name] = spread(vs)
		}
		for h, vs := range perHops {
			row.ByHops[h] = spread(vs)
		}
		out.Rows = append(out.Rows, row)
	}
	out.Metrics = slices.SortedFunc(maps.Keys(metrics), func(a, b string) int {
		return cmp.Or(cmp.Compare(position(knownMetrics(), a), position(knownMetrics(), b)), cmp.Compare(a, b))
	})
	if len(out.HopSizes) > 1 {
		out.Hops = slices.Sorted(maps.Keys(out.HopSizes))
	}
	return out
}

// position is the index of x, or the length for those that are not in the list.
func position(list []string, x string) int {
	if i := slices.Index(list, x); i >= 0 {
		return i
	}
	return len(list)
}

// AggregateRow holds figures over several data sets, shown from 5 runs and 3 data sets on.
type AggregateRow struct {
	Cell string
	IQM  float64
	// Improvement is the probability that a run of the cell beats one of the baseline; NaN for the baseline.
	Improvement float64
}

func (r *Report) aggregate(s *Study, base *Cell) error {
	if len(s.Primary.Evaluations) < stats.MinDatasetsForAggregates {
		return nil
	}
	scores := func(c *Cell) ([][]float64, error) {
		var out [][]float64
		for _, seed := range c.scoredSeeds(s.Primary.Evaluations) {
			var row []float64
			for _, e := range s.Primary.Evaluations {
				v, err := c.run(seed).score(Primary{Evaluations: []string{e}, Metric: s.Primary.Metric})
				if err != nil {
					return nil, err
				}
				row = append(row, v)
			}
			out = append(out, row)
		}
		return out, nil
	}
	baseScores, err := scores(base)
	if err != nil || len(baseScores) < stats.MinRunsForAggregates {
		return err
	}
	for i := range s.Cells {
		c := &s.Cells[i]
		x, err := scores(c)
		if err != nil {
			return err
		}
		if len(x) < stats.MinRunsForAggregates {
			continue
		}
		row := AggregateRow{Cell: c.Key, Improvement: math.NaN()}
		if row.IQM, err = stats.InterquartileMean(x); err != nil {
			return err
		}
		if c.Key != base.Key {
			if row.Improvement, err = stats.ProbabilityOfImprovement(x, baseScores); err != nil {
				return err
			}
		}
		r.Aggregates = append(r.Aggregates, row)
	}
	return nil
}

// SensitivityRow says which difference of the primary figure can be told from noise.
type SensitivityRow struct {
	Basis      string // what the spread is taken from
	Seeds      int
	Detectable stats.Detectable
}

// Sensitivity gives the smallest detectable differences of a study with the given number of seeds, from the spread of
// the finished runs and from what the study assumes. questions is the size of the primary evaluation, for studies of
// one seed. The first step of Holm over all cells sets the level. plan prints it, reports repeat it.
func Sensitivity(s Study, seeds, questions int) ([]SensitivityRow, error) {
	base := s.cell(s.Baseline)
	if base == nil {
		return nil, fmt.Errorf("study %s: the baseline %q is not among the cells", s.Name, s.Baseline)
	}
	level := alpha / float64(max(1, len(s.Cells)-1))
	var rows []SensitivityRow
	add := func(basis string, d stats.Detectable, err error) error {
		if err == nil {
			rows = append(rows, SensitivityRow{Basis: basis, Seeds: seeds, Detectable: d})
		} else if _, ok := errors.AsType[*stats.NotTestableError](err); !ok {
			return err
		}
		return nil
	}
	sd, cells, err := pooledSD(&s, base)
	if err != nil {
		return nil, err
	}
	if cells > 0 {
		d, err := stats.DetectableOverDifferences(sd, seeds, level)
		if err := add(fmt.Sprintf("finished runs: sd of the differences %.3g", sd), d, err); err != nil {
			return nil, err
		}
	}
	if s.Assume.SeedSD > 0 {
		d, err := stats.DetectableOverSeeds(s.Assume.SeedSD, seeds, level)
		if err := add(fmt.Sprintf("assumed seed_sd = %g", s.Assume.SeedSD), d, err); err != nil {
			return nil, err
		}
	}
	if seeds == 1 && s.Assume.Discordance > 0 && questions > 0 {
		d, err := stats.DetectableOverQuestions(s.Assume.Discordance, questions, level)
		if err := add(fmt.Sprintf("assumed discordance = %g, %d questions (these checkpoints only)", s.Assume.Discordance, questions), d, err); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

func (r *Report) sensitivity(s *Study, base *Cell) error {
	questions := 0
	for _, e := range r.Evaluations {
		if slices.Contains(s.Primary.Evaluations, e.Name) {
			questions = max(questions, e.Questions)
		}
	}
	var err error
	r.Sensitivity, err = Sensitivity(*s, len(base.Runs), questions)
	return err
}

// pooledSD is the standard deviation of per-seed differences from the baseline, pooled over the cells with at least
// three pairs.
func pooledSD(s *Study, base *Cell) (sd float64, cells int, err error) {
	var sum, dof float64
	baseSeeds := base.scoredSeeds(s.Primary.Evaluations)
	for i := range s.Cells {
		c := &s.Cells[i]
		if c.Key == base.Key {
			continue
		}
		var diffs []float64
		for _, seed := range c.scoredSeeds(s.Primary.Evaluations) {
			if !slices.Contains(baseSeeds, seed) || c.run(seed).ID == base.run(seed).ID {
				continue
			}
			a, err := c.run(seed).score(s.Primary)
			if err != nil {
				return 0, 0, err
			}
			b, err := base.run(seed).score(s.Primary)
			if err != nil {
				return 0, 0, err
			}
			diffs = append(diffs, a-b)
		}
		if len(diffs) >= stats.MinSeeds {
			sum += stat.Variance(diffs, nil) * float64(len(diffs)-1)
			dof += float64(len(diffs) - 1)
			cells++
		}
	}
	if cells == 0 {
		return 0, 0, nil
	}
	return math.Sqrt(sum / dof), cells, nil
}
