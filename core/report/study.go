package report

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/forage-rl/forage/core/record"
)

// Study is what a report is made from: the plan's cells with the records of their runs.
type Study struct {
	Name        string
	Description string
	Primary     Primary
	Baseline    string // key of the baseline cell
	Cells       []Cell
	Assume      Assume
}

// Primary is the study's one figure to be tested: the mean of a metric over the questions of an evaluation, or the mean
// of those means where several evaluations are named.
type Primary struct {
	Evaluations []string
	Metric      string // such as "em"
}

// Assume holds spreads that the study expects, for the smallest detectable difference before runs have finished. Zero
// means not assumed.
type Assume struct {
	SeedSD      float64 // standard deviation over seeds of one cell's primary figure
	Discordance float64 // share of questions that exactly one of two cells has right
}

// Labels of cells.
const (
	WholeMethod = "whole method"     // the arm runs a method as its paper has it
	OnePart     = "one part changed" // the arm overrides one part of an experiment; of more, their number is said
)

// Cell is an arm with axis values, run once per seed.
type Cell struct {
	Key      string // unique in the study, such as "search_r1" or "search_r1 group=3"
	Arm      string
	Axes     map[string]string
	Label    string   // such as WholeMethod or OnePart
	Declared []string // names of digests that may differ from the baseline's because the cell declares it ("index.dense", or "index" for all indexes)
	Runs     []RunResult
}

// RunResult is one run of a cell. The plan gives ID and Seed; [Load] fills the rest.
type RunResult struct {
	ID    string
	Seed  int64
	State record.State // zero where the journal does not know the run

	HasResult bool // Result and Questions are there
	Result    record.Result
	Questions map[string][]record.QuestionResult // by evaluation
	Manifest  record.Manifest
	History   []record.MetricsLine
}

// scored says whether the run counts in the figures: it has a result, and nobody found its preconditions changed.
func (r *RunResult) scored() bool { return r.HasResult && r.State.Status != record.Stale }

func (s *Study) check() error {
	var errs []error
	fail := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("study %s: "+format, append([]any{s.Name}, args...)...))
	}
	if s.Primary.Metric == "" || len(s.Primary.Evaluations) == 0 {
		fail("no primary metric: declare one, such as primary = metric(\"test\", \"em\")")
	}
	keys := map[string]bool{}
	for _, c := range s.Cells {
		if keys[c.Key] {
			fail("cell %q is there twice", c.Key)
		}
		keys[c.Key] = true
		seeds := map[int64]bool{}
		for _, r := range c.Runs {
			if seeds[r.Seed] {
				fail("cell %q has two runs with seed %d", c.Key, r.Seed)
			}
			seeds[r.Seed] = true
		}
	}
	if len(s.Cells) == 0 {
		fail("no cells")
	} else if !keys[s.Baseline] {
		fail("the baseline %q is not among the cells: %s", s.Baseline, strings.Join(slices.Sorted(maps.Keys(keys)), ", "))
	}
	return errors.Join(errs...)
}

func (s *Study) cell(key string) *Cell {
	for i := range s.Cells {
		if s.Cells[i].Key == key {
			return &s.Cells[i]
		}
	}
	return nil
}

func (c *Cell) run(seed int64) *RunResult {
	for i := range c.Runs {
		if c.Runs[i].Seed == seed {
			return &c.Runs[i]
		}
	}
	return nil
}

// scoredSeeds lists, ascending, the seeds whose runs can be scored on all the evaluations.
func (c *Cell) scoredSeeds(evaluations []string) []int64 {
	var seeds []int64
	for i := range c.Runs {
		r := &c.Runs[i]
		has := r.scored()
		for _, e := range evaluations {
			has = has && len(r.Questions[e]) > 0
		}
		if has {
			seeds = append(seeds, r.Seed)
		}
	}
	slices.Sort(seeds)
	return seeds
}

// QuestionsDifferError refuses a comparison: the two runs were not asked the same.
type QuestionsDifferError struct {
	Evaluation string
	A, B       string   // runs
	Missing    []string // some questions that only one of them has
	Golds      []string // some questions with different golds
}

func (e *QuestionsDifferError) Error() string {
	what := "golds differ"
	examples := e.Golds
	if len(e.Missing) > 0 {
		what, examples = "questions differ", e.Missing
	}
	return fmt.Sprintf("cannot compare %s and %s on %q: the evaluated %s (such as %s); evaluate both on the same dataset",
		e.A, e.B, e.Evaluation, what, strings.Join(examples, ", "))
}

// sameQuestions gives a *QuestionsDifferError where the evaluations that two runs share differ.
func sameQuestions(a, b *RunResult) error {
	for _, name := range slices.Sorted(maps.Keys(a.Questions)) {
		qb, ok := b.Questions[name]
		if !ok {
			continue
		}
		golds := map[string]string{}
		for _, q := range qb {
			golds[q.ID] = q.Gold
		}
		e := &QuestionsDifferError{Evaluation: name, A: "run " + a.ID, B: "run " + b.ID}
		for _, q := range a.Questions[name] {
			gold, found := golds[q.ID]
			delete(golds, q.ID)
			switch {
			case !found:
				e.Missing = append(e.Missing, q.ID)
			case gold != q.Gold:
				e.Golds = append(e.Golds, q.ID)
			}
		}
		e.Missing = append(e.Missing, slices.Sorted(maps.Keys(golds))...)
		if len(e.Missing)+len(e.Golds) > 0 {
			e.Missing, e.Golds = e.Missing[:min(3, len(e.Missing))], e.Golds[:min(3, len(e.Golds))]
			return e
		}
	}
	return nil
}

// questionValues gives a metric per question id, checked to be there and finite on every question.
func (r *RunResult) questionValues(evaluation, metric string) (map[string]float64, error) {
	values := make(map[string]float64, len(r.Questions[evaluation]))
	for _, q := range r.Questions[evaluation] {
		v, ok := q.Values[metric]
		if !ok {
			return nil, fmt.Errorf("run %s, evaluation %q: question %q has no value %q; it has %s",
				r.ID, evaluation, q.ID, metric, strings.Join(slices.Sorted(maps.Keys(q.Values)), ", "))
		}
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("run %s, evaluation %q: question %q has %s = %v, expected a finite number", r.ID, evaluation, q.ID, metric, v)
		}
		values[q.ID] = v
	}
	return values, nil
}

// score is the primary figure of the run: the mean over questions, averaged over the evaluations.
func (r *RunResult) score(p Primary) (float64, error) {
	total := 0.0
	for _, e := range p.Evaluations {
		values, err := r.questionValues(e, p.Metric)
		if err != nil {
			return 0, err
		}
		total += meanOf(values)
	}
	return total / float64(len(p.Evaluations)), nil
}

// meanOf sums in the order of ids, so that the result does not depend on the order of a map.
func meanOf(values map[string]float64) float64 {
	sum := 0.0
	for _, id := range slices.Sorted(maps.Keys(values)) {
		sum += values[id]
	}
	return sum / float64(len(values))
}
