package plan

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/forage-rl/forage/core/record"
)

// RecommendedSeeds is how many seeds a comparison should have.
const RecommendedSeeds = 5

// state is a run's status in a word: what the records say, else what is missing.
func (r Run) state() string {
	switch {
	case r.Status == record.Stale:
		return "STALE"
	case r.Status != "" && r.Status != record.Planned:
		return r.Status.Text()
	case len(r.Absent) > 0:
		return "absent"
	}
	return "to do"
}

// Print writes the plan for people.
func (p *Plan) Print(w io.Writer) error {
	b := &strings.Builder{}
	title := p.Study
	if p.Ablation != "" && p.Ablation != p.Study {
		title += " / " + p.Ablation
	}
	fmt.Fprintln(b, title)
	if p.Description != "" {
		fmt.Fprintln(b, p.Description)
	}
	fmt.Fprintf(b, "\n%s, %s, %s\n\n", counted(len(p.Cells), "cell"), counted(len(p.Seeds), "seed"), counted(len(p.Runs), "run"))
	p.printCells(b)
	p.printRuns(b)
	p.printNotes(b)
	_, err := io.WriteString(w, b.String())
	return err
}

func (p *Plan) printCells(b *strings.Builder) {
	rows := [][]string{{"cell", "method", ""}}
	var long []Cell
	for _, c := range p.Cells {
		what := "whole method " + c.Experiment
		switch {
		case len(c.Parts) > partsInTable:
			what = fmt.Sprintf("%s, %d parts changed", c.Experiment, len(c.Parts))
			if !slices.ContainsFunc(long, func(o Cell) bool { return o.Arm == c.Arm }) {
				long = append(long, c)
			}
		case !c.Whole:
			what = c.Experiment + ", changed: " + strings.Join(c.Parts, ", ")
		}
		var marks []string
		if c.Key == p.Baseline {
			marks = append(marks, "baseline")
		}
		if same := p.alike(c); same != "" {
			marks = append(marks, "same runs as "+same)
		}
		rows = append(rows, []string{c.Key, what, strings.Join(marks, "; ")})
	}
	table(b, rows)
	for _, c := range long {
		fmt.Fprintf(b, "\n%s changes in %s:\n", c.Arm, c.Experiment)
		for _, part := range c.Parts {
			fmt.Fprintf(b, "  %s\n", part)
		}
	}
}

// partsInTable is how many changed parts are named beside the cell; more are listed below.
const partsInTable = 3

// alike is the key of an earlier cell with the same runs, or "".
func (p *Plan) alike(c Cell) string {
	for _, other := range p.Cells {
		if other.Key == c.Key {
			return ""
		}
		if len(c.Runs) > 0 && slices.Equal(other.Runs, c.Runs) {
			return other.Key
		}
	}
	return ""
}

func (p *Plan) printRuns(b *strings.Builder) {
	b.WriteByte('\n')
	rows := [][]string{{"run", "cell", "seed", "state", ""}}
	for _, r := range p.Runs {
		note := ""
		switch {
		case r.Status == record.Stale:
			note = strings.Join(r.Reasons, "; ")
			if note == "" {
				note = r.Message
			}
		case r.Status == record.Failed || r.Status == record.Lost || r.Status == record.Done || r.Status == record.StoppedByGuard:
			note = firstLine(r.Message)
		case r.Status == record.Started:
			note = fmt.Sprintf("step %d", r.Step)
		case len(r.Absent) > 0:
			var roles []string
			for _, in := range r.Absent {
				roles = append(roles, in.Role)
			}
			note = strings.Join(roles, ", ")
		}
		rows = append(rows, []string{r.ID, r.Cell.Key, strconv.FormatInt(r.Seed, 10), r.state(), note})
	}
	table(b, rows)
}

// counted is a number of things in words.
func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

func (p *Plan) printNotes(b *strings.Builder) {
	if absent := p.Absent(); len(absent) > 0 {
		fmt.Fprintf(b, "\nabsent:\n")
		for _, in := range absent {
			fmt.Fprintf(b, "  %s: %s\n", in.Role, in.Place())
		}
	}
	if p.Primary != nil {
		fmt.Fprintf(b, "\nprimary metric: %s\n", p.Primary)
	}
	if len(p.Cells) > 1 {
		switch n := len(p.Seeds); {
		case n < 3:
			fmt.Fprintf(b, "not testable across seeds: %s, at least 3 are needed and %d recommended\n", counted(n, "seed"), RecommendedSeeds)
		case n < RecommendedSeeds:
			fmt.Fprintf(b, "%d seeds: %d are recommended\n", n, RecommendedSeeds)
		}
	}
	for _, s := range p.Sensitivity {
		fmt.Fprintf(b, "smallest difference told from noise: %.3f observed, %.3f to find it in 80 of 100 studies (%s)\n", s.Observed, s.Power80, s.Basis)
	}
}

// table writes rows with aligned columns and no trailing blanks.
func table(b *strings.Builder, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			line.WriteString(cell + strings.Repeat(" ", widths[i]-len([]rune(cell))+2))
		}
		fmt.Fprintln(b, strings.TrimRight(line.String(), " "))
	}
}

type jsonCell struct {
	Key        string    `json:"key"`
	Arm        string    `json:"arm"`
	Axes       []Setting `json:"axes"`
	Experiment string    `json:"experiment"`
	Whole      bool      `json:"whole_method"`
	Parts      []string  `json:"parts_changed"`
	Baseline   bool      `json:"baseline"`
	Runs       []string  `json:"runs"`
}

type jsonRun struct {
	ID      string      `json:"id"`
	Cell    string      `json:"cell"`
	Arm     string      `json:"arm"`
	Seed    int64       `json:"seed"`
	Status  string      `json:"status"` // "" for a run that is not recorded
	Step    int         `json:"step,omitempty"`
	Message string      `json:"message,omitempty"`
	Reasons []string    `json:"reasons,omitempty"`
	Absent  []jsonInput `json:"absent,omitempty"`
}

type jsonInput struct {
	Role string `json:"role"`
	Path string `json:"path,omitempty"`
	Env  string `json:"env,omitempty"` // an environment variable, in place of a path
}

// PrintJSON writes the plan for programs.
func (p *Plan) PrintJSON(w io.Writer) error {
	out := struct {
		Study       string        `json:"study"`
		Ablation    string        `json:"ablation"`
		Description string        `json:"description"`
		Seeds       []int64       `json:"seeds"`
		Primary     string        `json:"primary"`
		Baseline    string        `json:"baseline"`
		Cells       []jsonCell    `json:"cells"`
		Runs        []jsonRun     `json:"runs"`
		Sensitivity []Sensitivity `json:"sensitivity"`
	}{Study: p.Study, Ablation: p.Ablation, Description: p.Description, Seeds: p.Seeds, Baseline: p.Baseline, Cells: []jsonCell{}, Runs: []jsonRun{}, Sensitivity: p.Sensitivity}
	if p.Primary != nil {
		out.Primary = p.Primary.String()
	}
	for _, c := range p.Cells {
		out.Cells = append(out.Cells, jsonCell{c.Key, c.Arm, c.Axes, c.Experiment, c.Whole, c.Parts, c.Key == p.Baseline, c.Runs})
	}
	for _, r := range p.Runs {
		j := jsonRun{ID: r.ID, Cell: r.Cell.Key, Arm: r.Cell.Arm, Seed: r.Seed, Status: string(r.Status), Step: r.Step, Message: r.Message, Reasons: r.Reasons}
		for _, in := range r.Absent {
			j.Absent = append(j.Absent, jsonInput{in.Role, in.Path, in.Env})
		}
		out.Runs = append(out.Runs, j)
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(out)
}
