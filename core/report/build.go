package report

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/forage-rl/forage/core/record"
	"github.com/forage-rl/forage/core/report/stats"
)

const (
	confidence = 0.95
	alpha      = 1 - confidence
	replicates = 2000 // of the bootstrap
)

// Options choose what a report shows.
type Options struct {
	// Times includes wall times and dates. Without them two reports of runs that computed the same are equal byte for
	// byte.
	Times bool
}

// Report holds the computed report; its methods render it.
type Report struct {
	Title       string
	Description string
	Metric      string   // of the primary figure
	On          []string // evaluations of the primary figure
	Baseline    string
	Options     Options
	Newest      time.Time // when the newest result was written

	Cells       []CellSummary
	Warnings    []string // what makes a comparison doubtful
	Notes       []string // what a reader must know to read the figures
	Primary     []PrimaryRow
	Checkpoints []CheckpointRow
	Evaluations []EvaluationSummary
	Aggregates  []AggregateRow
	Sensitivity []SensitivityRow
	Curves      []Curve
}

// CellSummary is what a cell is and spent.
type CellSummary struct {
	Key      string
	Arm      string
	Axes     map[string]string
	Label    string
	Baseline bool
	Planned  int
	Statuses map[record.Status]int
	Scores   []SeedScore     // primary figure per scored seed
	Interval *stats.Interval // crossed bootstrap of the primary figure, nil where it does not exist
	Budgets  record.Budgets  // sum over the runs with a result
	Results  int             // runs with a result
}

// SeedScore is the primary figure of one run.
type SeedScore struct {
	Seed  int64
	Score float64
}

// PrimaryRow tests one cell against the baseline over seeds.
type PrimaryRow struct {
	Cell     string
	Label    string
	Seeds    []int64 // that both have
	CellMean float64 // over those seeds
	BaseMean float64
	Test     stats.TTest
	Adjusted float64 // Holm; meaningful where Test.HasP
	Crossed  *stats.Interval
	Verdict  string
}

// Verdicts of the primary table.
const (
	Significant    = "significant"
	NotSignificant = "not significant"
	NotTestable    = "not testable across seeds"
	NoSpread       = "no spread over seeds, no p-value"
	SameRuns       = "same runs as the baseline"
	NoPairs        = "no seed finished in both"
)

// Build computes the report of a study. It fails with a [*QuestionsDifferError] where a cell and the baseline were
// evaluated on different questions or golds.
func Build(ctx context.Context, s Study, opt Options) (*Report, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	r := &Report{Title: s.Name, Description: s.Description, Metric: s.Primary.Metric, On: s.Primary.Evaluations,
		Baseline: s.Baseline, Options: opt}
	base := s.cell(s.Baseline)
	if err := checkQuestions(&s); err != nil {
		return nil, err
	}
	for i := range s.Cells {
		c := &s.Cells[i]
		r.Warnings = append(r.Warnings, undeclared(c, base)...)
		summary, err := r.summarize(c, s.Primary)
		if err != nil {
			return nil, err
		}
		r.Cells = append(r.Cells, summary)
	}
	r.Notes = append(r.Notes, unfinished(&s)...)
	crossed, err := r.crossed(ctx, &s)
	if err != nil {
		return nil, err
	}
	if err := r.primary(&s, base, crossed); err != nil {
		return nil, err
	}
	if err := r.checkpoints(ctx, &s, base); err != nil {
		return nil, err
	}
	r.describe(&s)
	if err := r.aggregate(&s, base); err != nil {
		return nil, err
	}
	if err := r.sensitivity(&s, base); err != nil {
		return nil, err
	}
	r.Curves = curves(&s, opt)
	r.Warnings = unique(r.Warnings)
	return r, nil
}

// unfinished says how much of the study the figures do not know yet.
func unfinished(s *Study) []string {
	has := map[string]bool{} // by run: cells that resolve alike share theirs
	for _, c := range s.Cells {
		for i := range c.Runs {
			has[c.Runs[i].ID] = c.Runs[i].scored()
		}
	}
	n := 0
	for _, scored := range has {
		n += boolInt(scored)
	}
	if n == len(has) {
		return nil
	}
	return []string{fmt.Sprintf("%d of %d runs have a result; the others are left out of the tables", n, len(has))}
}

// checkQuestions compares every run with the first one of its seed.
func checkQuestions(s *Study) error {
	first := map[int64]*RunResult{}
	var errs []error
	// The baseline first, so that errors name it.
	for _, c := range slices.SortedStableFunc(cellPointers(s), func(a, b *Cell) int {
		return cmp.Compare(boolInt(b.Key == s.Baseline), boolInt(a.Key == s.Baseline))
	}) {
		for i := range c.Runs {
			r := &c.Runs[i]
			if !r.scored() {
				continue
			}
			if f := first[r.Seed]; f != nil {
				errs = append(errs, sameQuestions(f, r))
			} else {
				first[r.Seed] = r
			}
		}
	}
	return errors.Join(errs...)
}

// undeclared lists the digests in which the runs of a cell differ from the baseline's of the same seed without the study
// saying so. A digest that only one side has follows from its configuration, which the study declares.
func undeclared(c, base *Cell) []string {
	seeds := map[string][]string{}
	for i := range c.Runs {
		r := &c.Runs[i]
		b := base.run(r.Seed)
		if c.Key == base.Key || !r.scored() || b == nil || !b.scored() {
			continue
		}
		for _, ch := range record.Diff(b.Manifest, r.Manifest) {
			if ch.Old == "" || ch.New == "" || declares(c.Declared, ch.Name) {
				continue
			}
			seeds[ch.Name] = append(seeds[ch.Name], fmt.Sprint(r.Seed))
		}
	}
	names := map[string][]string{} // that differ in the same seeds
	for _, name := range slices.Sorted(maps.Keys(seeds)) {
		in := plural("seed", seeds[name])
		names[in] = append(names[in], name)
	}
	var out []string
	for _, in := range slices.Sorted(maps.Keys(names)) {
		out = append(out, fmt.Sprintf("undeclared difference: %s (%s against %s, %s); the comparison is not controlled",
			strings.Join(names[in], ", "), c.Key, base.Key, in))
	}
	return out
}

// plural names some things of a kind: "seed 1", "seeds 1, 2".
func plural(kind string, which []string) string {
	if len(which) != 1 {
		kind += "s"
	}
	return kind + " " + strings.Join(which, ", ")
}

func declares(declared []string, name string) bool {
	return slices.ContainsFunc(declared, func(d string) bool { return d == name || strings.HasPrefix(name, d+".") })
}

func (r *Report) summarize(c *Cell, p Primary) (CellSummary, error) {
	out := CellSummary{Key: c.Key, Arm: c.Arm, Axes: c.Axes, Label: c.Label, Baseline: c.Key == r.Baseline,
		Planned: len(c.Runs), Statuses: map[record.Status]int{}}
	var said []string              // warnings of the runs, each once
	seeds := map[string][]string{} // by warning
	for i := range c.Runs {
		run := &c.Runs[i]
		status := run.State.Status
		if status == "" {
			status = record.Planned
			if run.HasResult {
				status = run.Result.Status
			}
		}
		out.Statuses[status]++
		where := fmt.Sprintf("%s, seed %d (run %s)", c.Key, run.Seed, run.ID)
		switch status {
		case record.Stale:
			r.Warnings = append(r.Warnings, fmt.Sprintf("left out as stale: %s: %s", where, run.State.Message))
		case record.Failed, record.Lost:
			r.Warnings = append(r.Warnings, fmt.Sprintf("%s: %s: %s", status.Text(), where, strings.TrimPrefix(run.State.Message, "run "+run.ID+": ")))
		case record.Done:
			if run.State.Message != "" {
				r.Notes = append(r.Notes, where+": "+run.State.Message)
			}
		case record.StoppedByGuard:
			r.Notes = append(r.Notes, fmt.Sprintf("stopped by a guard: %s: %s", where, run.State.Message))
		}
		if !run.scored() {
			continue
		}
		out.Results++
		out.Budgets = out.Budgets.Add(run.Result.Budgets)
		if run.Result.Finished.After(r.Newest) {
			r.Newest = run.Result.Finished
		}
		if run.Result.ResumedInexact {
			r.Notes = append(r.Notes, "resumed inexactly: "+where+" need not equal an uninterrupted run")
		}
		for _, w := range run.Result.Warnings {
			if seeds[w] == nil {
				said = append(said, w)
			}
			seeds[w] = append(seeds[w], fmt.Sprint(run.Seed))
		}
		for _, e := range p.Evaluations {
			if len(run.Questions[e]) == 0 {
				r.Warnings = append(r.Warnings, fmt.Sprintf("%s was not evaluated on %q", where, e))
			}
		}
		if err := checkMeans(run); err != nil {
			return CellSummary{}, err
		}
	}
	for _, w := range said {
		r.Warnings = append(r.Warnings, fmt.Sprintf("%s, %s: %s", c.Key, plural("seed", seeds[w]), w))
	}
	for _, seed := range c.scoredSeeds(p.Evaluations) {
		score, err := c.run(seed).score(p)
		if err != nil {
			return CellSummary{}, err
		}
		out.Scores = append(out.Scores, SeedScore{seed, score})
	}
	return out, nil
}

// checkMeans compares the means in result.json with the records per question: a difference means that one of the two
// files was changed.
func checkMeans(run *RunResult) error {
	for _, e := range run.Result.Evaluations {
		for _, name := range slices.Sorted(maps.Keys(e.Metrics)) {
			values := map[string]float64{}
			for _, q := range run.Questions[e.Name] {
				if v, ok := q.Values[name]; ok {
					values[q.ID] = v
				}
			}
			want, got := e.Metrics[name], meanOf(values)
			if len(values) == len(run.Questions[e.Name]) && math.Abs(got-want) > 1e-6*max(1, math.Abs(want)) {
				return fmt.Errorf("run %s, evaluation %q: result.json has %s = %v, the records per question give %v; was one of them changed?",
					run.ID, e.Name, name, want, got)
			}
		}
	}
	return nil
}

// primary fills the table of tests over seeds.
func (r *Report) primary(s *Study, base *Cell, crossed map[string]*crossedCell) error {
	var family []float64
	for i := range s.Cells {
		c := &s.Cells[i]
		if c.Key == base.Key {
			continue
		}
		row := PrimaryRow{Cell: c.Key, Label: c.Label}
		baseSeeds := base.scoredSeeds(s.Primary.Evaluations)
		for _, seed := range c.scoredSeeds(s.Primary.Evaluations) {
			if slices.Contains(baseSeeds, seed) {
				row.Seeds = append(row.Seeds, seed)
			}
		}
		var x, y []float64
		same := len(row.Seeds) > 0
		for _, seed := range row.Seeds {
			a, err := c.run(seed).score(s.Primary)
			if err != nil {
				return err
			}
			b, err := base.run(seed).score(s.Primary)
			if err != nil {
				return err
			}
			x, y = append(x, a), append(y, b)
			same = same && c.run(seed).ID == base.run(seed).ID
		}
		row.CellMean, row.BaseMean = mean(x), mean(y)
		diffs, err := stats.Differences(x, y)
		if err != nil {
			return err
		}
		row.Test, err = stats.AcrossSeeds(diffs, confidence)
		var few *stats.NotTestableError
		switch {
		case len(row.Seeds) == 0:
			row.Verdict = NoPairs
		case same:
			row.Verdict = SameRuns
			row.Test.HasP = false
		case errors.As(err, &few):
			row.Verdict = NotTestable
		case err != nil:
			return err
		case !row.Test.HasP:
			row.Verdict = NoSpread
		}
		if a, b := crossed[c.Key], crossed[base.Key]; a != nil && b != nil && slices.Equal(a.seeds, b.seeds) {
			i := intervalOfDifference(a.replicates, b.replicates)
			row.Crossed = &i
		}
		p := 1.0
		if row.Test.HasP {
			p = row.Test.P
		}
		family = append(family, p)
		r.Primary = append(r.Primary, row)
	}
	for i, p := range stats.Holm(family) {
		row := &r.Primary[i]
		if !row.Test.HasP {
			continue
		}
		row.Adjusted = p
		row.Verdict = NotSignificant
		if p <= alpha {
			row.Verdict = Significant
		}
	}
	return nil
}

func mean(xs []float64) float64 {
	sum := 0.0
	for _, x := range xs {
		sum += x
	}
	return sum / float64(len(xs))
}

func cellPointers(s *Study) func(func(*Cell) bool) {
	return func(yield func(*Cell) bool) {
		for i := range s.Cells {
			if !yield(&s.Cells[i]) {
				return
			}
		}
	}
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// unique drops repeated texts and keeps the order.
func unique(in []string) []string {
	seen := map[string]bool{}
	return slices.DeleteFunc(in, func(s string) bool {
		was := seen[s]
		seen[s] = true
		return was
	})
}
