package main

import (
	"encoding/csv"
	"fmt"
	"html"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/forage-rl/forage/core/report"
)

// means is the report of a study that names nothing to test: what was measured, run by run.
type means struct{ study report.Study }

const meansNote = "The study names no primary metric or no baseline, so nothing is tested."

// rows gives a header, then one line per run, evaluation and metric.
func (m means) rows() [][]string {
	rows := [][]string{{"cell", "seed", "run", "evaluation", "metric", "mean"}}
	for _, c := range m.study.Cells {
		for _, r := range c.Runs {
			if !r.HasResult {
				continue
			}
			for _, e := range r.Result.Evaluations {
				for _, name := range sortedKeys(e.Metrics) {
					rows = append(rows, []string{c.Key, fmt.Sprint(r.Seed), r.ID, e.Name, name, fmt.Sprintf("%.4f", e.Metrics[name])})
				}
			}
		}
	}
	return rows
}

// Text writes a table for a terminal.
func (m means) Text(w io.Writer, _ int) error {
	fmt.Fprintf(w, "%s\n%s\n\n", m.study.Name, meansNote)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range m.rows() {
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	return t.Flush()
}

// Markdown writes a table.
func (m means) Markdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s\n\n", m.study.Name, meansNote)
	for i, row := range m.rows() {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			fmt.Fprintf(&b, "| %s |\n", strings.Join(slices.Repeat([]string{"---"}, len(row)), " | "))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// HTML writes a page of its own.
func (m means) HTML(w io.Writer) error {
	var b strings.Builder
	name := html.EscapeString(m.study.Name)
	fmt.Fprintf(&b, "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>%s</title>\n<h1>%s</h1>\n<p>%s</p>\n<table>\n", name, name, meansNote)
	for _, row := range m.rows() {
		b.WriteString("<tr>")
		for _, cell := range row {
			fmt.Fprintf(&b, "<td>%s</td>", html.EscapeString(cell))
		}
		b.WriteString("</tr>\n")
	}
	b.WriteString("</table>\n</html>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// CSV writes the table.
func (m means) CSV(w io.Writer) error { return csv.NewWriter(w).WriteAll(m.rows()) }
