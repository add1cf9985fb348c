package main

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/forage-rl/forage/core/record"
)

// runStatus is a line of the status of a study.
type runStatus struct {
	ID      string        `json:"id"`
	Cell    string        `json:"cell,omitempty"`
	Seed    *int64        `json:"seed,omitempty"`
	Status  record.Status `json:"status"`
	Attempt int           `json:"attempt,omitempty"`
	Step    int           `json:"step,omitempty"`
	Message string        `json:"message,omitempty"`
	Holder  string        `json:"holder,omitempty"` // process that executes it
}

func (a *app) statusCommand() *cobra.Command {
	var f studyFlags
	var asJSON bool
	c := &cobra.Command{
		Use:     "status [PATH]",
		Short:   "Show how runs stand",
		Long:    "Show how the runs of a study stand. PATH is a study, a folder of records, or its name; without it all studies with\nrecords are listed.",
		Example: "  forage status\n  forage status minihop-demo\n  forage status experiments/minihop --ablation demo",
		Args:    arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.listStudies(asJSON)
			}
			names := map[string]runStatus{}
			dir, recorded := a.recordedStudy(args[0])
			if !recorded {
				s, p, err := a.openPlan(cmd.Context(), args[0], &f)
				if err != nil {
					return err
				}
				defer s.Close()
				dir = a.studyDir(p)
				for _, r := range p.Runs {
					seed := r.Seed
					names[r.ID] = runStatus{ID: r.ID, Cell: r.Cell.Key, Seed: &seed, Status: record.Planned}
				}
			}
			rows, err := statuses(dir, names, !recorded)
			if err != nil {
				return err
			}
			if asJSON {
				return a.writeJSON(rows)
			}
			return a.printStatus(dir, rows)
		},
	}
	f.add(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// statuses joins what the journal says with the runs known by name; with planned these are all runs of the study as it
// is now.
func statuses(dir record.Study, known map[string]runStatus, planned bool) ([]runStatus, error) {
	states, err := dir.States()
	if err != nil {
		return nil, err
	}
	for id, state := range states {
		row, ok := known[id]
		if !ok {
			row.ID, row.Cell, row.Seed = id, state.Cell, state.Seed
			if planned {
				row.Cell = strings.TrimSpace(row.Cell + " (not of the study as it is now)")
			}
		}
		row.Status, row.Attempt, row.Step, row.Message = state.Status, state.Attempt, state.Step, state.Message
		if state.Status == record.Started {
			holder, held, err := record.Locked(dir.Run(id).LockPath())
			if err != nil {
				return nil, err
			}
			if held {
				row.Holder = fmt.Sprintf("process %d on %s", holder.PID, holder.Host)
			}
			if lines, err := record.ReadMetrics(dir.Run(id)); err == nil && len(lines) > 0 {
				row.Step = max(row.Step, lines[len(lines)-1].Step)
			}
		}
		known[id] = row
	}
	return slices.SortedFunc(maps.Values(known), func(x, y runStatus) int {
		return cmp.Or(strings.Compare(x.Cell, y.Cell), cmp.Compare(seedOf(x), seedOf(y)), strings.Compare(x.ID, y.ID))
	}), nil
}

func seedOf(r runStatus) int64 {
	if r.Seed == nil {
		return -1
	}
	return *r.Seed
}

func (a *app) printStatus(dir record.Study, rows []runStatus) error {
	fmt.Fprintf(a.out, "%s\n\n", dir.Dir)
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "RUN\tCELL\tSEED\tSTATUS\tSTEP\tATTEMPT\t")
	for _, r := range rows {
		seed := ""
		if r.Seed != nil {
			seed = fmt.Sprint(*r.Seed)
		}
		message, _, _ := strings.Cut(r.Message, "\n")
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%d\t%s\n", r.ID, r.Cell, seed, r.Status.Text(), r.Step, r.Attempt, strings.TrimSpace(r.Holder+" "+message))
	}
	return w.Flush()
}

// listStudies shows all studies with records.
func (a *app) listStudies(asJSON bool) error {
	studies, err := a.studies()
	if err != nil {
		return err
	}
	type line struct {
		Study  string                `json:"study"`
		Counts map[record.Status]int `json:"runs"`
	}
	list := []line{}
	for _, s := range studies {
		states, err := s.States()
		if err != nil {
			return err
		}
		l := line{filepath.Base(s.Dir), map[record.Status]int{}}
		for _, state := range states {
			l.Counts[state.Status]++
		}
		list = append(list, l)
	}
	if asJSON {
		return a.writeJSON(list)
	}
	if len(list) == 0 {
		fmt.Fprintf(a.out, "There are no records in %s.\n", a.runsDir)
		return nil
	}
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "STUDY\tRUNS")
	for _, l := range list {
		var counts []string
		for _, status := range sortedKeys(l.Counts) {
			counts = append(counts, fmt.Sprintf("%d %s", l.Counts[status], status.Text()))
		}
		fmt.Fprintf(w, "%s\t%s\n", l.Study, strings.Join(counts, ", "))
	}
	return w.Flush()
}
