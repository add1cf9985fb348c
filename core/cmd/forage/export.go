package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/forage-rl/forage/core/experiment"
	"github.com/forage-rl/forage/core/run"
)

func (a *app) exportCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "export",
		Short:   "Write what forage has made for other programs",
		Example: "  forage export hnsw experiments/minihop index.dense dense.graph",
	}
	var f studyFlags
	hnsw := &cobra.Command{
		Use:   "hnsw PATH INDEX FILE",
		Short: "Write the graph of an index in the format of github.com/coder/hnsw",
		Long: `Write FILE as Graph[int].Export of github.com/coder/hnsw does, with the vectors of
an index of the study; keys are the numbers of its units in the order of the corpus.
Where runs of the study have different indexes of that name (a world per seed), it is
that of the first run.`,
		Example: "  forage export hnsw experiments/minihop index.dense dense.graph",
		Args:    arguments(3, 3),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, p, err := a.openPlan(cmd.Context(), args[0], &f)
			if err != nil {
				return err
			}
			defer s.Close()
			if len(p.Runs) == 0 {
				return fmt.Errorf("%s has no run, so it has no index", args[0])
			}
			built, err := a.exportHNSW(cmd.Context(), p.Runs[0].Config, args[1], args[2])
			if err != nil {
				return fmt.Errorf("export %s: %w", args[1], err)
			}
			fmt.Fprintf(a.out, "%s: %d %ss of %d dimensions\n", args[2], built.Units, built.Unit, built.Dimensions)
			return nil
		},
	}
	f.add(hnsw)
	return group(c, hnsw)
}

// exportHNSW writes a file that appears when everything is in it.
func (a *app) exportHNSW(ctx context.Context, config *experiment.Run, handle, path string) (built run.BuiltIndex, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return built, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	painter := newPainter(a)
	built, err = run.ExportHNSW(ctx, config, a.cacheDir, handle, f, func(what string, done, total int) { painter.task("index", what, done, total) })
	painter.close()
	if err := errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return built, err
	}
	return built, os.Rename(f.Name(), path)
}
