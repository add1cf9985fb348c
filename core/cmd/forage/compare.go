package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/forage-rl/forage/core/record"
	"github.com/forage-rl/forage/core/report"
	"github.com/forage-rl/forage/core/study"
)

func (a *app) compareCommand() *cobra.Command {
	var files reportFiles
	var noTimes bool
	c := &cobra.Command{
		Use:   "compare RUN RUN",
		Short: "Set two finished runs side by side",
		Long: `Compare two finished runs on the evaluations that both have, and say in which settings
and preconditions they differ. Two runs are two checkpoints: the tests are over questions.
RUN is the folder of a run, its id, or the beginning of its id. Runs that were not
asked the same questions cannot be compared.`,
		Example: "  forage compare 48553646d9e8 ffcc151155d4\n  forage compare runs/a/48553646d9e8 runs/b/48553646d9e8 --html diff.html",
		Args:    arguments(2, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			var loaded [2]report.RunResult
			var runs [2]record.Run
			for i, arg := range args {
				r, err := a.findRun(arg)
				if err != nil {
					return err
				}
				runs[i] = r
				if loaded[i], err = loadRun(r); err != nil {
					return err
				}
			}
			declared, settings, err := a.declared(cmd.Context(), runs[0], runs[1])
			if err != nil {
				a.warn("the configurations of the runs cannot be compared, so every difference counts as undeclared: %v", err)
			}
			made, err := report.Compare(loaded[0], loaded[1], declared, report.Options{Times: !noTimes})
			if err != nil {
				return err
			}
			made.Settings = settings
			if err := made.Text(a.out, a.width); err != nil {
				return err
			}
			return files.write(made)
		},
	}
	files.add(c)
	c.Flags().BoolVar(&noTimes, "no-times", false, "leave wall times out")
	return c
}

// loadRun reads the records of a run, with its state from the journal beside it.
func loadRun(r record.Run) (report.RunResult, error) {
	loaded, err := report.LoadRun(r)
	if err != nil {
		return loaded, err
	}
	states, err := record.Study{Dir: filepath.Dir(r.Dir)}.States()
	if err != nil {
		return loaded, err
	}
	loaded.State = states[r.ID]
	return loaded, nil
}

// declared names the digests in which two runs differ because their configurations say so, and the settings that differ.
func (a *app) declared(ctx context.Context, x, y record.Run) ([]string, []record.Change, error) {
	first, left, err := a.configOf(ctx, x)
	if err != nil {
		return nil, nil, fmt.Errorf("run %s: %w", x.ID, err)
	}
	defer first.Close()
	second, right, err := a.configOf(ctx, y)
	if err != nil {
		return nil, nil, fmt.Errorf("run %s: %w", y.ID, err)
	}
	defer second.Close()
	settings, err := study.Settings(left, right)
	return study.Differing(left, right), settings, err
}
