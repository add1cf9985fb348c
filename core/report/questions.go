package report

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/forage-rl/forage/core/internal/rng"
	"github.com/forage-rl/forage/core/record"
	"github.com/forage-rl/forage/core/report/stats"
)

// CheckpointRow tests one cell against the baseline over questions: it speaks of the checkpoints that were evaluated,
// not of the method.
type CheckpointRow struct {
	Cell       string
	Evaluation string
	Metric     string
	Questions  int
	Seeds      int // over which each question's difference is averaged
	Difference float64
	Test       stats.Permutation
	McNemar    *McNemar // with one seed, where every value is 0 or 1
}

// McNemar holds the questions that exactly one of two checkpoints has right.
type McNemar struct {
	OnlyCell, OnlyBaseline int
	P                      float64
}

func reportKey(parts ...string) rng.Key {
	k := rng.New().WithString("report")
	for _, p := range parts {
		k = k.WithString(p)
	}
	return k
}

// checkpoints fills the table of tests over questions.
func (r *Report) checkpoints(ctx context.Context, s *Study, base *Cell) error {
	for i := range s.Cells {
		c := &s.Cells[i]
		if c.Key == base.Key {
			continue
		}
		for _, evaluation := range s.Primary.Evaluations {
			if err := ctx.Err(); err != nil {
				return err
			}
			var pairs [][2]*RunResult
			baseSeeds := base.scoredSeeds([]string{evaluation})
			for _, seed := range c.scoredSeeds([]string{evaluation}) {
				if slices.Contains(baseSeeds, seed) {
					pairs = append(pairs, [2]*RunResult{c.run(seed), base.run(seed)})
				}
			}
			if len(pairs) == 0 {
				continue
			}
			row, err := overQuestions(pairs, evaluation, s.Primary.Metric)
			if err != nil {
				return err
			}
			row.Cell = c.Key
			r.Checkpoints = append(r.Checkpoints, row)
		}
	}
	return nil
}

// overQuestions compares pairs of runs (one per seed) question by question.
func overQuestions(pairs [][2]*RunResult, evaluation, metric string) (CheckpointRow, error) {
	// Worlds may differ by seed, so a question is known by its id and gold.
	type question struct{ id, gold string }
	type sums struct {
		x, y float64
		n    int
	}
	all := map[question]*sums{}
	// A count that happens to be 0 or 1 everywhere is not a right or wrong answer.
	binary := !slices.Contains([]string{record.MetricSearches, record.MetricUnnecessarySearches, record.MetricPolicyTokens}, metric)
	for _, pair := range pairs {
		golds := map[string]string{}
		for _, q := range pair[0].Questions[evaluation] {
			golds[q.ID] = q.Gold
		}
		x, err := pair[0].questionValues(evaluation, metric)
		if err != nil {
			return CheckpointRow{}, err
		}
		y, err := pair[1].questionValues(evaluation, metric)
		if err != nil {
			return CheckpointRow{}, err
		}
		for id, v := range x {
			q := question{id, golds[id]}
			if all[q] == nil {
				all[q] = &sums{}
			}
			all[q].x += v
			all[q].y += y[id]
			all[q].n++
			binary = binary && (v == 0 || v == 1) && (y[id] == 0 || y[id] == 1)
		}
	}
	order := slices.SortedFunc(maps.Keys(all), func(a, b question) int {
		if a.id != b.id {
			return compareStrings(a.id, b.id)
		}
		return compareStrings(a.gold, b.gold)
	})
	var x, y []float64
	for _, q := range order {
		n := float64(all[q].n)
		x, y = append(x, all[q].x/n), append(y, all[q].y/n)
	}
	diffs, err := stats.Differences(x, y)
	if err != nil {
		return CheckpointRow{}, err
	}
	row := CheckpointRow{Evaluation: evaluation, Metric: metric, Questions: len(diffs), Seeds: len(pairs), Difference: mean(diffs)}
	if row.Test, err = stats.SignFlip(diffs, stats.DefaultDraws, reportKey("sign flip", evaluation, metric)); err != nil {
		return CheckpointRow{}, err
	}
	if binary && len(pairs) == 1 {
		m := &McNemar{}
		for _, d := range diffs {
			switch {
			case d > 0:
				m.OnlyCell++
			case d < 0:
				m.OnlyBaseline++
			}
		}
		m.P = stats.McNemar(m.OnlyCell, m.OnlyBaseline)
		row.McNemar = m
	}
	return row, nil
}

func compareStrings(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// crossedCell holds the bootstrap replicates of a cell's primary figure.
type crossedCell struct {
	seeds      []int64
	replicates []float64
}

// crossed computes the crossed bootstrap of all cells and stores the interval of each. Where the seeds do not share
// their questions there is no such interval.
func (r *Report) crossed(ctx context.Context, s *Study) (map[string]*crossedCell, error) {
	out := map[string]*crossedCell{}
	for _, evaluation := range s.Primary.Evaluations {
		var ids []string
		var keys []string
		var arms [][][]float64
		for i := range s.Cells {
			c := &s.Cells[i]
			seeds := c.scoredSeeds(s.Primary.Evaluations)
			if len(seeds) == 0 {
				continue
			}
			var rows [][]float64
			for _, seed := range seeds {
				if err := ctx.Err(); err != nil {
					return nil, err
				}
				run := c.run(seed)
				values, err := run.questionValues(evaluation, s.Primary.Metric)
				if err != nil {
					return nil, err
				}
				own := questionIDs(run.Questions[evaluation])
				if ids == nil {
					ids = own
				}
				if !slices.Equal(ids, own) {
					r.Notes = append(r.Notes, fmt.Sprintf("no bootstrap intervals: the seeds have different questions in %q", evaluation))
					return nil, nil
				}
				row := make([]float64, len(ids))
				for q, id := range slices.Sorted(maps.Keys(values)) {
					row[q] = values[id]
				}
				rows = append(rows, row)
			}
			keys, arms = append(keys, c.Key), append(arms, rows)
			if out[c.Key] == nil {
				out[c.Key] = &crossedCell{seeds: seeds, replicates: make([]float64, replicates)}
			}
		}
		reps, err := stats.CrossedBootstrap(arms, reportKey("seeds"), reportKey("questions", evaluation), replicates)
		if err != nil {
			return nil, err
		}
		for a, key := range keys {
			for b, v := range reps[a] {
				out[key].replicates[b] += v / float64(len(s.Primary.Evaluations))
			}
		}
	}
	for i := range r.Cells {
		if c := out[r.Cells[i].Key]; c != nil {
			interval := stats.Percentile(c.replicates, confidence)
			r.Cells[i].Interval = &interval
		}
	}
	return out, nil
}

// questionIDs gives id and gold of each question, sorted by id.
func questionIDs(questions []record.QuestionResult) []string {
	ids := make([]string, len(questions))
	for i, q := range questions {
		ids[i] = q.ID + "\x00" + q.Gold
	}
	slices.Sort(ids)
	return ids
}

func intervalOfDifference(a, b []float64) stats.Interval {
	d := make([]float64, len(a))
	for i := range d {
		d[i] = a[i] - b[i]
	}
	return stats.Percentile(d, confidence)
}
