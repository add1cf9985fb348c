package report

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/forage-rl/forage/core/record"
	"github.com/forage-rl/forage/core/report/stats"
)

// document is what the renderers draw: the same parts for a study's report and for a comparison of two runs.
type document struct {
	title    string
	lead     []string // paragraphs under the title
	warnings []string
	notes    []string
	tables   []table
	curves   []Curve
	cells    []string // order of the colours
	forests  []forest
	data     []datum
}

type table struct {
	title   string
	caption string
	columns []column
	rows    [][]string
}

type column struct {
	name   string
	number bool // aligned right
}

// datum is one number of the report for the CSV.
type datum struct {
	table, evaluation, cell, seed, quantity string
	value                                   float64
}

func (r *Report) document() document {
	d := document{title: r.Title, warnings: r.Warnings, notes: r.Notes, curves: r.Curves}
	if r.Description != "" {
		d.lead = append(d.lead, r.Description)
	}
	d.lead = append(d.lead, fmt.Sprintf("Primary figure: %s. Baseline: %s.", r.figureName(), r.Baseline))
	if r.Options.Times && !r.Newest.IsZero() {
		d.lead = append(d.lead, "Newest result: "+r.Newest.UTC().Format("2006-01-02 15:04:05 UTC")+".")
	}
	for _, c := range r.Cells {
		d.cells = append(d.cells, c.Key)
	}
	d.tables = append(d.tables, r.primaryTable(), r.checkpointTable(), r.scoreTable())
	for i, e := range r.Evaluations {
		t := evaluationTable(e)
		if i == 0 {
			t.caption += meanings
		}
		d.tables = append(d.tables, t)
		if len(e.Hops) > 0 {
			d.tables = append(d.tables, r.hopTable(e))
		}
	}
	d.tables = append(d.tables, r.budgetTable())
	if len(r.Aggregates) > 0 {
		d.tables = append(d.tables, r.aggregateTable())
	}
	if len(r.Sensitivity) > 0 {
		d.tables = append(d.tables, r.sensitivityTable())
	}
	d.tables = append(d.tables, r.runTable())
	d.tables = slices.DeleteFunc(d.tables, func(t table) bool { return len(t.rows) == 0 })
	d.forests = r.forests()
	d.data = r.data()
	return d
}

func (r *Report) figureName() string {
	if len(r.On) == 1 {
		return r.Metric + " on " + r.On[0]
	}
	return r.Metric + ", mean over " + strings.Join(r.On, ", ")
}

func (r *Report) primaryTable() table {
	adjusted := fmt.Sprintf("p (Holm) is adjusted over all %d cells but the baseline, whether finished or not", len(r.Primary))
	if len(r.Primary) == 1 {
		adjusted = "With one comparison there is nothing to adjust for: p (Holm) is p"
	}
	few := ""
	if slices.ContainsFunc(r.Primary, func(p PrimaryRow) bool { return p.Verdict == NotTestable }) {
		few = fmt.Sprintf(" A test takes at least %d seeds that finished in both cells.", stats.MinSeeds)
	}
	t := table{title: "Primary comparison: " + r.figureName() + ", against " + r.Baseline,
		caption: fmt.Sprintf("Per seed, the difference of the two cells on the same questions; mean ± critical t · sd/√seeds and its t-test over seeds. "+
			"%s; significant means p (Holm) ≤ %.2g.%s", adjusted, alpha, few),
		columns: []column{{"cell", false}, {"verdict", false}, {"difference", true}, {"95 % interval", true}, {"p (Holm)", true}, {"p", true},
			{"t", true}, {"critical t", true}, {"seeds", true}, {"mean", true}, {"baseline", true}, {"kind", false}}}
	for _, p := range r.Primary {
		difference, span, adjusted, pv, tv, critical := dash, dash, dash, dash, dash, dash
		if len(p.Seeds) > 0 {
			difference = signed(p.Test.Mean)
		}
		if len(p.Seeds) >= stats.MinSeeds {
			span, critical = signedInterval(p.Test.Interval), fmt.Sprintf("%.2f", p.Test.Critical)
		}
		if p.Test.HasP {
			adjusted, pv, tv = pValue(p.Adjusted), pValue(p.Test.P), minus(fmt.Sprintf("%.2f", p.Test.T))
		}
		row := []string{p.Cell, p.Verdict, difference, span, adjusted, pv, tv, critical, strconv.Itoa(len(p.Seeds)), figure(p.CellMean),
			figure(p.BaseMean), orDash(p.Label)}
		t.rows = append(t.rows, row)
	}
	return t
}

func (r *Report) checkpointTable() table {
	t := table{title: "These checkpoints only: over questions, against " + r.Baseline, caption: checkpointCaption,
		columns: append([]column{{"cell", false}, {"evaluation", false}, {"seeds", true}}, checkpointColumns("cell", "baseline")...)}
	for _, c := range r.Checkpoints {
		t.rows = append(t.rows, append([]string{c.Cell, c.Evaluation, strconv.Itoa(c.Seeds)}, c.cells()...))
	}
	return t.withoutEmpty()
}

// withoutEmpty leaves out the columns that have nothing in any row.
func (t table) withoutEmpty() table {
	if len(t.rows) == 0 {
		return t
	}
	var used []int
	for i := range t.columns {
		if slices.ContainsFunc(t.rows, func(row []string) bool { return row[i] != dash }) {
			used = append(used, i)
		}
	}
	columns, rows := t.columns, t.rows
	t.columns, t.rows = nil, make([][]string, len(rows))
	for _, i := range used {
		t.columns = append(t.columns, columns[i])
		for j := range rows {
			t.rows[j] = append(t.rows[j], rows[j][i])
		}
	}
	return t
}

const checkpointCaption = "A small p says that these trained checkpoints differ on questions like these. It says nothing of the method trained anew " +
	"with another seed. Not adjusted for several comparisons."

// checkpointColumns are the columns that [CheckpointRow.cells] fills, for the two systems' names.
func checkpointColumns(a, b string) []column {
	return []column{{"questions", true}, {"difference", true}, {"sign-flip p", true}, {"sign flips", false}, {"only " + a + " right", true},
		{"only " + b + " right", true}, {"McNemar p", true}}
}

func (c CheckpointRow) cells() []string {
	patterns := count(c.Test.Draws) + " random"
	if c.Test.Exact {
		patterns = "all " + count(c.Test.Draws)
	}
	out := []string{count(c.Questions), signed(c.Difference), pValue(c.Test.P), patterns, dash, dash, dash}
	if c.McNemar != nil {
		out[4], out[5], out[6] = count(c.McNemar.OnlyCell), count(c.McNemar.OnlyBaseline), pValue(c.McNemar.P)
	}
	return out
}

// maxSeedColumns keeps the table of scores readable; the CSV has all.
const maxSeedColumns = 10

func (r *Report) scoreTable() table {
	seeds := map[int64]bool{}
	for _, c := range r.Cells {
		for _, s := range c.Scores {
			seeds[s.Seed] = true
		}
	}
	order := slices.Sorted(maps.Keys(seeds))
	order = order[:min(len(order), maxSeedColumns)]
	t := table{title: "Scores per seed: " + r.figureName(),
		caption: "The interval is a crossed bootstrap: questions, shared by all seeds and cells, and seeds are drawn anew. It describes; it is not a test.",
		columns: []column{{"cell", false}, {"mean", true}, {"sd over seeds", true}, {"95 % bootstrap", true}}}
	if slices.ContainsFunc(r.Cells, func(c CellSummary) bool { return c.Interval != nil && len(c.Scores) == 1 }) {
		t.caption += " Of a cell with one seed it knows the questions' part only."
	}
	for _, s := range order {
		t.columns = append(t.columns, column{"seed " + strconv.FormatInt(s, 10), true})
	}
	for _, c := range r.Cells {
		var scores []float64
		bySeed := map[int64]string{}
		for _, s := range c.Scores {
			scores = append(scores, s.Score)
			bySeed[s.Seed] = figure(s.Score)
		}
		sp := spread(scores)
		row := []string{c.Key, figure(sp.Mean), figure(sp.SD), dash}
		if c.Interval != nil {
			row[3] = interval(*c.Interval)
		}
		for _, s := range order {
			row = append(row, orDash(bySeed[s]))
		}
		t.rows = append(t.rows, row)
	}
	if !slices.ContainsFunc(r.Cells, func(c CellSummary) bool { return c.Interval != nil }) {
		t.caption = ""
	}
	return t.withoutEmpty()
}

// meanings say what the known metrics count.
const meanings = " EM and F1 are of the answer, from 0 to 1. Evidence recall: share of the questions for which any, or all, of the gold passages " +
	"were retrieved; mean: share of the gold passages that were. Searches and tokens are per question; unnecessary searches are those after all gold passages had been retrieved."

func evaluationTable(e EvaluationSummary) table {
	t := table{title: fmt.Sprintf("On %s (%s)", e.Name, e.size()),
		caption: "Means over questions, then over seeds, ± standard deviation over seeds. Descriptive.",
		columns: []column{{"cell", false}, {"seeds", true}}}
	for _, m := range e.Metrics {
		t.columns = append(t.columns, column{metricName(m), true})
	}
	for _, row := range e.Rows {
		n := 0
		cells := []string{row.Cell, ""}
		for _, m := range e.Metrics {
			v, ok := row.Values[m]
			if !ok {
				cells = append(cells, dash)
				continue
			}
			n = max(n, v.N)
			cells = append(cells, v.String())
		}
		cells[1] = strconv.Itoa(n)
		t.rows = append(t.rows, cells)
	}
	return t
}

func (r *Report) hopTable(e EvaluationSummary) table {
	t := table{title: fmt.Sprintf("%s on %s by number of hops", metricName(r.Metric), e.Name), columns: []column{{"cell", false}}}
	for _, h := range e.Hops {
		name := strconv.Itoa(h) + " hops"
		if h == 1 {
			name = "1 hop"
		}
		t.columns = append(t.columns, column{fmt.Sprintf("%s (n = %s)", name, e.HopSizes[h]), true})
	}
	for _, row := range e.Rows {
		cells := []string{row.Cell}
		for _, h := range e.Hops {
			if v, ok := row.ByHops[h]; ok {
				cells = append(cells, v.String())
			} else {
				cells = append(cells, dash)
			}
		}
		t.rows = append(t.rows, cells)
	}
	return t
}

func (r *Report) budgetTable() table {
	t := table{title: "What a run spent",
		caption: "Means over the runs with a result. In brackets, the ratio to the baseline: arms are comparable where budgets are. Sampled: written by the " +
			"policy in training episodes. Decoded: computed by the sampler for them, prompts and observations included. Trained: with a loss, times epochs. " +
			"Evaluations are not counted",
		columns: []column{{"cell", false}, {"runs", true}, {"sampled tokens", true}, {"decoded tokens", true}, {"trained tokens", true},
			{"tool calls", true}, {"optimizer steps", true}}}
	if r.Options.Times {
		t.columns = append(t.columns, column{"wall time", true})
		t.caption += ", except in the wall time"
	}
	t.caption += "."
	var base []float64
	for _, c := range r.Cells {
		if c.Baseline {
			base = budgetMeans(c)
		}
	}
	for _, c := range r.Cells {
		row := []string{c.Key, strconv.Itoa(c.Results)}
		means := budgetMeans(c)
		for i, v := range means {
			text := dash
			switch {
			case c.Results == 0:
			case i == len(means)-1:
				if !r.Options.Times {
					continue
				}
				text = duration(v)
			default:
				text = count(int(math.Round(v)))
				if !c.Baseline && base != nil && base[i] > 0 {
					text += fmt.Sprintf(" (×%.2f)", v/base[i])
				}
			}
			if i == len(means)-1 && !r.Options.Times {
				continue
			}
			row = append(row, text)
		}
		t.rows = append(t.rows, row)
	}
	return t
}

// budgetMeans are the means per run in the order of budgetNames; the wall time is last.
func budgetMeans(c CellSummary) []float64 {
	n := float64(c.Results)
	if n == 0 {
		return make([]float64, len(budgetNames()))
	}
	b := c.Budgets
	return []float64{float64(b.SampledTokens) / n, float64(b.DecodedTokens) / n, float64(b.TrainedTokens) / n, float64(b.ToolCalls) / n,
		float64(b.OptimizerSteps) / n, b.WallSeconds / n}
}

func budgetNames() []string {
	return []string{"sampled_tokens", "decoded_tokens", "trained_tokens", "tool_calls", "optimizer_steps", "wall_seconds"}
}

func (r *Report) aggregateTable() table {
	t := table{title: "Over data sets",
		caption: fmt.Sprintf("Interquartile mean over runs and data sets, and the probability that a run beats one of %s. Descriptive.", r.Baseline),
		columns: []column{{"cell", false}, {"interquartile mean", true}, {"probability of improvement", true}}}
	for _, a := range r.Aggregates {
		t.rows = append(t.rows, []string{a.Cell, figure(a.IQM), figure(a.Improvement)})
	}
	return t
}

func (r *Report) sensitivityTable() table { return sensitivityTable(r.Sensitivity) }

func sensitivityTable(rows []SensitivityRow) table {
	t := table{title: "Smallest difference that can be told from noise",
		caption: "At the first and strictest step of Holm. Observed: from there on the test rejects. True: found in 80 of 100 such studies.",
		columns: []column{{"taken from", false}, {"seeds", true}, {"smallest observed", true}, {"smallest true", true}}}
	for _, s := range rows {
		t.rows = append(t.rows, []string{s.Basis, strconv.Itoa(s.Seeds), figure(s.Detectable.Observed), figure(s.Detectable.Power80)})
	}
	return t
}

func (r *Report) runTable() table {
	statuses := []record.Status{record.Done, record.StoppedByGuard, record.Started, record.Planned, record.Failed, record.Lost, record.Stale}
	seen := map[record.Status]bool{}
	axes := map[string]bool{}
	for _, c := range r.Cells {
		for s := range c.Statuses {
			seen[s] = true
		}
		for a := range c.Axes {
			axes[a] = true
		}
	}
	axisNames := slices.Sorted(maps.Keys(axes))
	statuses = slices.DeleteFunc(statuses, func(s record.Status) bool { return !seen[s] })
	t := table{title: "Cells and runs", columns: []column{{"cell", false}, {"kind", false}, {"arm", false}}}
	for _, a := range axisNames {
		t.columns = append(t.columns, column{a, false})
	}
	t.columns = append(t.columns, column{"runs", true})
	for _, s := range statuses {
		t.columns = append(t.columns, column{s.Text(), true})
	}
	for _, c := range r.Cells {
		label := orDash(c.Label)
		if c.Baseline {
			label += ", baseline"
		}
		row := []string{c.Key, strings.TrimPrefix(label, dash+", "), orDash(c.Arm)}
		for _, a := range axisNames {
			row = append(row, orDash(c.Axes[a]))
		}
		row = append(row, strconv.Itoa(c.Planned))
		for _, s := range statuses {
			row = append(row, strconv.Itoa(c.Statuses[s]))
		}
		t.rows = append(t.rows, row)
	}
	return t
}

const dash = "–"

func orDash(s string) string {
	if s == "" {
		return dash
	}
	return s
}

// String is the mean and, from two seeds on, the spread: 0.412 ± 0.013.
func (s Spread) String() string {
	if s.N < 2 {
		return figure(s.Mean)
	}
	return figure(s.Mean) + " ± " + figureLike(s.SD, s.Mean)
}

// figure formats a metric: three decimals for shares, fewer for large numbers.
func figure(v float64) string { return figureLike(v, v) }

// figureLike formats v with the decimals that suit the size of like.
func figureLike(v, like float64) string {
	switch a := math.Abs(like); {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return dash
	case a < 10:
		return fmt.Sprintf("%.3f", v)
	case a < 1000:
		return fmt.Sprintf("%.1f", v)
	default:
		return count(int(math.Round(v)))
	}
}

func signed(v float64) string {
	s := minus(figure(v))
	if s != dash && !strings.HasPrefix(s, "−") {
		s = "+" + s
	}
	return s
}

// minus writes a minus sign for the hyphen of a formatted number, and none before one that was rounded to 0.
func minus(s string) string {
	digits, negative := strings.CutPrefix(s, "-")
	if negative && strings.Trim(digits, "0.") != "" {
		return "−" + digits
	}
	return digits
}

func interval(i stats.Interval) string { return figure(i.Low) + " … " + figure(i.High) }

func signedInterval(i stats.Interval) string { return signed(i.Low) + " … " + signed(i.High) }

func pValue(p float64) string {
	if p < 0.001 {
		return "<0.001"
	}
	return fmt.Sprintf("%.3f", p)
}

// count groups the digits of n by threes.
func count(n int) string {
	s := strconv.Itoa(n)
	sign := ""
	if n < 0 {
		sign, s = "−", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

func duration(seconds float64) string {
	switch {
	case seconds < 120:
		return fmt.Sprintf("%.1f s", seconds)
	case seconds < 7200:
		return fmt.Sprintf("%.1f min", seconds/60)
	}
	return fmt.Sprintf("%.1f h", seconds/3600)
}

func metricName(m string) string {
	switch m {
	case record.MetricEM:
		return "EM"
	case record.MetricF1:
		return "F1"
	case record.MetricEvidenceAny:
		return "evidence recall (any)"
	case record.MetricEvidenceAll:
		return "evidence recall (all)"
	case record.MetricEvidenceRecall:
		return "evidence recall (mean)"
	case record.MetricSearches:
		return "searches per question"
	case record.MetricUnnecessarySearches:
		return "unnecessary searches"
	case record.MetricPolicyTokens:
		return "policy tokens"
	}
	return m
}

// printable drops control and formatting characters: names and messages come from outside and must not move the cursor
// of a terminal or turn the direction of text.
func printable(s string) string {
	return strings.Map(func(c rune) rune {
		if c == '\n' || c == '\t' {
			return ' '
		}
		if unicode.Is(unicode.C, c) {
			return -1
		}
		return c
	}, s)
}
