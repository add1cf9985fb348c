package report

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/forage-rl/forage/core/record"
)

// Comparison sets two runs side by side. Two runs are two checkpoints, so it tests over questions only.
type Comparison struct {
	A, B     string // names for people: cell, seed and id
	Options  Options
	Warnings []string
	Rows     []CheckpointRow // A less B, per shared evaluation and metric
	Changes  []record.Change // between the manifests, B's to A's
	Settings []record.Change // between the configurations, B's to A's; whoever has read them fills it in
	Means    []ComparedMean
	Budgets  [2]record.Budgets
	Curves   []Curve
}

// ComparedMean is a mean over questions in both runs.
type ComparedMean struct {
	Evaluation, Metric string
	A, B               float64
}

// Compare compares two finished runs on the evaluations that they share. declared names the digests that are meant to
// differ, as in [Cell]; others that differ are warnings. It fails with a [*QuestionsDifferError] where questions or golds
// differ.
func Compare(a, b RunResult, declared []string, opt Options) (*Comparison, error) {
	for _, r := range []RunResult{a, b} {
		if !r.HasResult {
			return nil, fmt.Errorf("run %s has no result yet: wait until it is done, or resume it with `forage run --resume`", r.ID)
		}
	}
	if err := sameQuestions(&a, &b); err != nil {
		return nil, err
	}
	c := &Comparison{A: runName(a), B: runName(b), Options: opt, Budgets: [2]record.Budgets{a.Result.Budgets, b.Result.Budgets}}
	if c.A == c.B {
		c.A, c.B = c.A+" (first)", c.B+" (second)"
	}
	for _, ch := range record.Diff(b.Manifest, a.Manifest) {
		c.Changes = append(c.Changes, ch)
		if ch.Old != "" && ch.New != "" && !declares(declared, ch.Name) {
			c.Warnings = append(c.Warnings, "undeclared difference: "+ch.Name)
		}
	}
	for _, r := range []RunResult{a, b} {
		for _, w := range r.Result.Warnings {
			c.Warnings = append(c.Warnings, runName(r)+": "+w)
		}
	}
	for _, evaluation := range slices.Sorted(maps.Keys(a.Questions)) {
		if _, shared := b.Questions[evaluation]; !shared {
			c.Warnings = append(c.Warnings, fmt.Sprintf("%s was not evaluated on %q", c.B, evaluation))
			continue
		}
		for _, metric := range sharedMetrics(a.Questions[evaluation], b.Questions[evaluation]) {
			row, err := overQuestions([][2]*RunResult{{&a, &b}}, evaluation, metric)
			if err != nil {
				return nil, err
			}
			row.Cell = c.A
			c.Rows = append(c.Rows, row)
			x, err := a.questionValues(evaluation, metric)
			if err != nil {
				return nil, err
			}
			y, err := b.questionValues(evaluation, metric)
			if err != nil {
				return nil, err
			}
			c.Means = append(c.Means, ComparedMean{evaluation, metric, meanOf(x), meanOf(y)})
		}
	}
	for _, evaluation := range slices.Sorted(maps.Keys(b.Questions)) {
		if _, shared := a.Questions[evaluation]; !shared {
			c.Warnings = append(c.Warnings, fmt.Sprintf("%s was not evaluated on %q", c.A, evaluation))
		}
	}
	if len(c.Rows) == 0 {
		return nil, fmt.Errorf("runs %s and %s share no evaluation: evaluate both on one dataset with `forage eval`", a.ID, b.ID)
	}
	c.Curves = curves(&Study{Cells: []Cell{{Key: c.A, Runs: []RunResult{a}}, {Key: c.B, Runs: []RunResult{b}}}}, opt)
	return c, nil
}

func runName(r RunResult) string {
	if r.Result.Cell == "" {
		return r.ID
	}
	return fmt.Sprintf("%s, seed %d (%s)", r.Result.Cell, r.Result.Seed, r.ID)
}

// sharedMetrics lists the metrics that every question of both sets has as finite numbers.
func sharedMetrics(a, b []record.QuestionResult) []string {
	counts := map[string]int{}
	for _, q := range slices.Concat(a, b) {
		for name, v := range q.Values {
			if !math.IsNaN(v) && !math.IsInf(v, 0) {
				counts[name]++
			}
		}
	}
	var out []string
	for name, n := range counts {
		if n == len(a)+len(b) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	slices.SortStableFunc(out, func(x, y string) int { return position(knownMetrics(), x) - position(knownMetrics(), y) })
	return out
}

// Text writes the comparison for a terminal of the given width in columns; 0 means unlimited.
func (c *Comparison) Text(w io.Writer, width int) error { return c.document().text(w, width) }

// Markdown writes the comparison as GitHub-flavoured Markdown.
func (c *Comparison) Markdown(w io.Writer) error { return c.document().markdown(w) }

// CSV writes the numbers to 12 digits; see [Report.CSV].
func (c *Comparison) CSV(w io.Writer) error { return c.document().csv(w) }

// HTML writes the comparison as a page of its own.
func (c *Comparison) HTML(w io.Writer) error { return c.document().html(w) }

// mostSettings bounds the table of settings: methods as a whole differ in more than anybody reads.
const mostSettings = 40

// shortened cuts a long setting, such as a prompt.
func shortened(text string) string {
	const most = 60
	if r := []rune(text); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return text
}

func (c *Comparison) document() document {
	d := document{title: c.A + " against " + c.B, warnings: c.Warnings, curves: c.Curves, cells: []string{c.A, c.B}, data: checkpointData(c.Rows)}
	means := table{title: "Means over questions",
		columns: []column{{"figure", false}, {"A", true}, {"B", true}, {"A − B", true}}}
	d.lead = []string{"A: " + c.A + ".", "B: " + c.B + "."}
	for _, m := range c.Means {
		means.rows = append(means.rows, []string{metricName(m.Metric) + " on " + m.Evaluation, figure(m.A), figure(m.B), signed(m.A - m.B)})
		for i, v := range []float64{m.A, m.B} {
			d.data = append(d.data, datum{table: "means", evaluation: m.Evaluation, cell: []string{c.A, c.B}[i], quantity: m.Metric, value: v})
		}
	}
	tests := table{title: "These checkpoints only: A − B over questions", caption: checkpointCaption,
		columns: append([]column{{"figure", false}}, checkpointColumns("A", "B")...)}
	for _, r := range c.Rows {
		tests.rows = append(tests.rows, append([]string{metricName(r.Metric) + " on " + r.Evaluation}, r.cells()...))
	}
	tests = tests.withoutEmpty()
	spent := table{title: "What the runs spent", columns: []column{{"budget", false}, {"A", true}, {"B", true}, {"A ÷ B", true}}}
	a, b := budgetMeans(CellSummary{Budgets: c.Budgets[0], Results: 1}), budgetMeans(CellSummary{Budgets: c.Budgets[1], Results: 1})
	for i, name := range budgetNames() {
		format := func(v float64) string { return count(int(math.Round(v))) }
		if name == "wall_seconds" {
			if !c.Options.Times {
				continue
			}
			format = duration
		}
		ratio := dash
		if b[i] > 0 {
			ratio = strconv.FormatFloat(a[i]/b[i], 'f', 2, 64)
		}
		spent.rows = append(spent.rows, []string{strings.ReplaceAll(name, "_", " "), format(a[i]), format(b[i]), ratio})
		for j, v := range []float64{a[i], b[i]} {
			d.data = append(d.data, datum{table: "budget", cell: []string{c.A, c.B}[j], quantity: name, value: v})
		}
	}
	d.tables = []table{means, tests, spent}
	if len(c.Settings) > 0 {
		t := table{title: "Settings of the training that differ", columns: []column{{"setting", false}, {"A", false}, {"B", false}}}
		for _, ch := range c.Settings[:min(len(c.Settings), mostSettings)] {
			t.rows = append(t.rows, []string{ch.Name, orDash(shortened(ch.New)), orDash(shortened(ch.Old))})
		}
		if more := len(c.Settings) - mostSettings; more > 0 {
			t.caption = fmt.Sprintf("And %d more: see config.hcl in the folders of the runs.", more)
		}
		d.tables = append(d.tables, t)
	}
	if len(c.Changes) > 0 {
		t := table{title: "Differences of what the runs read and ran on", columns: []column{{"what", false}, {"A", false}, {"B", false}}}
		for _, ch := range c.Changes {
			t.rows = append(t.rows, []string{ch.Name, orDash(ch.New), orDash(ch.Old)})
		}
		d.tables = append(d.tables, t)
	}
	return d
}
