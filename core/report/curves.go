package report

import (
	"cmp"
	"maps"
	"math"
	"path"
	"slices"
	"strings"
)

// Curve is the history of one metric.
type Curve struct {
	Metric string
	Cells  []CellCurve
}

// CellCurve holds a cell's lines: one per seed, and their mean at the steps that all of them have.
type CellCurve struct {
	Cell string
	Mean []Point
	Runs []RunCurve
}

// RunCurve is the line of one run.
type RunCurve struct {
	Seed   int64
	Points []Point // by step; values may be NaN or infinite
}

// Point is a value after a number of training steps.
type Point struct {
	Step  int
	Value float64
}

// timeMetrics begins the names of measured times.
const timeMetrics = "time/"

// curves collects the histories of all runs, also unfinished ones, by metric.
func curves(s *Study, opt Options) []Curve {
	names := map[string]bool{}
	for _, c := range s.Cells {
		for _, run := range c.Runs {
			for _, line := range run.History {
				for name := range line.Values {
					if opt.Times || !strings.HasPrefix(name, timeMetrics) {
						names[name] = true
					}
				}
			}
		}
	}
	var out []Curve
	for _, name := range slices.Sorted(maps.Keys(names)) {
		curve := Curve{Metric: name}
		for _, c := range s.Cells {
			cell := CellCurve{Cell: c.Key}
			for _, run := range c.Runs {
				if points := runPoints(&run, name); len(points) > 0 {
					cell.Runs = append(cell.Runs, RunCurve{Seed: run.Seed, Points: points})
				}
			}
			if len(cell.Runs) > 0 {
				cell.Mean = meanCurve(cell.Runs)
				curve.Cells = append(curve.Cells, cell)
			}
		}
		out = append(out, curve)
	}
	slices.SortStableFunc(out, func(a, b Curve) int {
		return cmp.Or(cmp.Compare(boolInt(a.oneStep()), boolInt(b.oneStep())), cmp.Compare(rank(s, a.Metric), rank(s, b.Metric)),
			cmp.Compare(position(knownMetrics(), path.Base(a.Metric)), position(knownMetrics(), path.Base(b.Metric))))
	})
	return out
}

// oneStep says that no run has the metric at two steps: there is nothing to follow.
func (c Curve) oneStep() bool {
	for _, cell := range c.Cells {
		for _, run := range cell.Runs {
			if len(run.Points) > 1 {
				return false
			}
		}
	}
	return true
}

// rank puts the primary figure first, then what agents are compared by, then the other numbers of evaluations and
// episodes, and those of the optimizer last.
func rank(s *Study, name string) int {
	for _, e := range s.Primary.Evaluations {
		if name == "eval/"+e+"/"+s.Primary.Metric {
			return 0
		}
	}
	order := []string{"episode/reward", "episode/searches", "eval/", "episode/", "reward/", "train/"}
	for i, prefix := range order {
		if name == prefix || strings.HasSuffix(prefix, "/") && strings.HasPrefix(name, prefix) {
			return 1 + i
		}
	}
	return 1 + len(order)
}

func runPoints(run *RunResult, name string) []Point {
	at := map[int]float64{}
	for _, line := range run.History {
		if v, ok := line.Values[name]; ok {
			at[line.Step] = v // the last word on a step counts
		}
	}
	points := make([]Point, 0, len(at))
	for _, step := range slices.Sorted(maps.Keys(at)) {
		points = append(points, Point{step, at[step]})
	}
	return points
}

func meanCurve(runs []RunCurve) []Point {
	sum, n := map[int]float64{}, map[int]int{}
	for _, r := range runs {
		for _, p := range r.Points {
			if !math.IsNaN(p.Value) && !math.IsInf(p.Value, 0) {
				sum[p.Step] += p.Value
				n[p.Step]++
			}
		}
	}
	var points []Point
	for _, step := range slices.Sorted(maps.Keys(sum)) {
		// A mean over fewer runs would jump where one ends.
		if n[step] == len(runs) {
			points = append(points, Point{step, sum[step] / float64(n[step])})
		}
	}
	return points
}
