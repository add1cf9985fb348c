package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/forage-rl/forage/core/experiment"
	"github.com/forage-rl/forage/core/plan"
	"github.com/forage-rl/forage/core/policy"
	"github.com/forage-rl/forage/core/record"
	"github.com/forage-rl/forage/core/report"
	"github.com/forage-rl/forage/core/run"
	"github.com/forage-rl/forage/core/study"
)

func (a *app) planCommand() *cobra.Command {
	var f studyFlags
	var check, asJSON bool
	c := &cobra.Command{
		Use:   "plan PATH",
		Short: "Show what would be run, and what is done, absent or stale",
		Long: `Show every run of a study with its id, arm, axis values and seed, how it stands in
the records, which inputs are absent, what the algorithm of each stage is going to
do, and the smallest difference that the study can tell from noise.`,
		Example: "  forage plan experiments/minihop --ablation demo\n  forage plan experiments/hotpotqa -var data=DIR -var model=DIR -check",
		Args:    arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			ctx := cmd.Context()
			s, p, err := a.openPlan(ctx, args[0], &f)
			if err != nil {
				return err
			}
			defer s.Close()
			backend, err := openBackend(p, "")
			if err != nil {
				return err
			}
			defer backend.Close()
			conditions := run.NewPreconditions(s.catalogue, a.cacheDir, backend)
			if err := a.survey(ctx, p, conditions); err != nil {
				return err
			}
			if err := a.sensitivity(p); err != nil {
				return err
			}
			if asJSON {
				err = p.PrintJSON(a.out)
			} else if err = p.Print(a.out); err == nil {
				err = a.printStages(ctx, p, conditions)
			}
			if err != nil {
				return err
			}
			if check {
				return present(p)
			}
			return nil
		},
	}
	f.add(c)
	c.Flags().BoolVar(&check, "check", false, "fail when inputs are absent")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// openBackend opens what the runs of a plan compute on: what is asked for on the command line, else in the study.
func openBackend(p *plan.Plan, asked string) (*policy.Backend, error) {
	if asked == "" {
		for i, r := range p.Runs {
			if i > 0 && r.Config.Runtime.Backend != asked {
				return nil, fmt.Errorf("the runs ask for different backends (%q and %q); choose one with --backend", asked, r.Config.Runtime.Backend)
			}
			asked = r.Config.Runtime.Backend
		}
	}
	return policy.OpenBackend(asked)
}

// survey marks the runs of a plan by the records and by what is on the disk.
func (a *app) survey(ctx context.Context, p *plan.Plan, conditions *run.Preconditions) error {
	if err := p.CheckInputs(); err != nil {
		return err
	}
	return p.Mark(ctx, &records{Study: a.studyDir(p), conditions: conditions})
}

// records tell how runs stand: what the journal says, and what has changed since under those that have begun.
type records struct {
	plan.Journal
	conditions *run.Preconditions
}

func (s *records) State(ctx context.Context, r plan.Run) (record.State, []string, bool, error) {
	state, _, ok, err := s.Journal.State(ctx, r)
	if err != nil || !ok || len(r.Absent) > 0 {
		return state, nil, ok, err
	}
	var reasons []string
	changes, err := s.conditions.Changes(ctx, r.Config, s.Study.Run(r.ID))
	for _, c := range changes {
		reasons = append(reasons, c.String())
	}
	return state, reasons, ok, err
}

// present fails if inputs are absent.
func present(p *plan.Plan) error {
	absent := p.Absent()
	if len(absent) == 0 {
		return nil
	}
	var b strings.Builder
	files := false
	b.WriteString("inputs are absent:")
	for _, in := range absent {
		if in.Env != "" {
			fmt.Fprintf(&b, "\n  %s: the environment variable %s, which is to hold its key, is not set", in.Role, in.Env)
			continue
		}
		files = true
		fmt.Fprintf(&b, "\n  %s: %s does not exist", in.Role, in.Path)
		if in.As != in.Path {
			fmt.Fprintf(&b, " (written %q)", in.As)
		}
	}
	if !files {
		return errors.New(b.String())
	}
	b.WriteString("\nRelative paths start at the study's folder. Put the files there, or give other places with -var or in the study's files.")
	return errors.New(b.String())
}

// sensitivity fills in which differences the study can tell from noise.
func (a *app) sensitivity(p *plan.Plan) error {
	if p.Primary == nil || p.Baseline == "" {
		return nil
	}
	s, err := study.Results(p, a.studyDir(p))
	if err != nil {
		return err
	}
	rows, err := report.Sensitivity(s, len(p.Seeds), questions(p, s))
	if err != nil {
		return err
	}
	for _, row := range rows {
		p.Sensitivity = append(p.Sensitivity, plan.Sensitivity{Basis: row.Basis, Observed: row.Detectable.Observed, Power80: row.Detectable.Power80})
	}
	return nil
}

// questions is the size of the first primary evaluation, as far as records or limits tell it without reading data.
func questions(p *plan.Plan, s report.Study) int {
	for _, c := range s.Cells {
		for _, r := range c.Runs {
			if n := len(r.Questions[p.Primary.Evaluations[0]]); n > 0 {
				return n
			}
		}
	}
	for _, e := range p.Runs[0].Config.Evaluations {
		if e.Name == p.Primary.Evaluations[0] {
			return e.Dataset.Limit
		}
	}
	return 0
}

// printStages says what the algorithms of each arm are going to do.
func (a *app) printStages(ctx context.Context, p *plan.Plan, conditions *run.Preconditions) error {
	fmt.Fprintln(a.out, "\nstages:")
	seen := map[string]bool{}
	for _, r := range p.Runs {
		if seen[r.Cell.Key] {
			continue
		}
		seen[r.Cell.Key] = true
		for _, st := range r.Config.Stages {
			text, err := describeStage(ctx, r.Config, st, conditions)
			if err != nil {
				return fmt.Errorf("%s, stage %q: %w", r.Cell.Key, st.Name, err)
			}
			fmt.Fprintf(a.out, "  %s, %s: %s\n", r.Cell.Key, st.Name, text)
		}
	}
	return nil
}

func describeStage(ctx context.Context, config *experiment.Run, st *experiment.Stage, conditions *run.Preconditions) (string, error) {
	parts := []string{fmt.Sprintf("%s, %d steps of %d questions", st.Algorithm.Label, st.Steps, st.Questions)}
	response, err := conditions.Plan(ctx, config, st)
	if err != nil {
		return "", fmt.Errorf("%w (%s:%d)", err, st.Algorithm.Range.Filename, st.Algorithm.Range.Start.Line)
	}
	if len(st.Produce) > 0 {
		return strings.Join(append(parts, "writes "+strings.Join(st.Produce, ", ")), "; "), nil
	}
	var objectives []string
	for _, o := range response.Objectives {
		objectives = append(objectives, o.Name)
	}
	parts = append(parts, "objective "+strings.Join(objectives, ", "))
	if response.Reference != "" {
		parts = append(parts, "reference "+response.Reference)
	}
	if response.TrainsObservations {
		parts = append(parts, "TRAINS OBSERVATIONS: the loss also reaches text that the policy did not write")
	}
	if len(response.DefaultsNotInPaper) > 0 {
		parts = append(parts, "not in the paper: "+strings.Join(response.DefaultsNotInPaper, ", "))
	}
	return strings.Join(parts, "; "), nil
}
