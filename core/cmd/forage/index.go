package main

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/forage-rl/forage/core/plan"
	"github.com/forage-rl/forage/core/run"
)

func (a *app) indexCommand() *cobra.Command {
	var f studyFlags
	var asJSON bool
	c := &cobra.Command{
		Use:   "index PATH",
		Short: "Build the indexes of a study now",
		Long: `Build every index that the runs of a study search, into the cache that all studies
share, and print what they are. Runs build what is missing by themselves; this does
it beforehand.`,
		Example: "  forage index experiments/hotpotqa -var data=DIR -var model=DIR",
		Args:    arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, p, err := a.openPlan(cmd.Context(), args[0], &f)
			if err != nil {
				return err
			}
			defer s.Close()
			built, err := a.buildIndexes(cmd.Context(), p.Runs)
			if err != nil {
				return err
			}
			if asJSON {
				return a.writeJSON(built)
			}
			if len(built) == 0 {
				fmt.Fprintln(a.out, "The study has no index.")
				return nil
			}
			w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "INDEX\tKIND\tDOCUMENTS\tUNITS\tSIZE\tTIME\tDIGEST\tCORPUS")
			for _, x := range built {
				fmt.Fprintf(w, "%s\t%s\t%d\t%d %ss\t%s\t%s\t%.12s\t%.12s\n",
					x.Handle, x.Kind, x.Documents, x.Units, x.Unit, bytesText(x.Bytes), x.Took.Round(time.Millisecond), x.Digest, x.Corpus)
			}
			return w.Flush()
		},
	}
	f.add(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// buildIndexes opens the indexes of all runs, each once.
func (a *app) buildIndexes(ctx context.Context, runs []plan.Run) ([]run.BuiltIndex, error) {
	p := newPainter(a)
	defer p.close()
	seen := map[string]bool{}
	var list []run.BuiltIndex
	for _, r := range runs {
		built, err := run.OpenIndexes(ctx, r.Config, a.cacheDir, func(what string, done, total int) { p.task("index", what, done, total) })
		if err != nil {
			return nil, err
		}
		for _, x := range built {
			if !seen[x.Digest] {
				seen[x.Digest] = true
				list = append(list, x)
			}
		}
	}
	return list, nil
}

// bytesText is a size for people.
func bytesText(n int64) string {
	const units = "KMGT"
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	v, i := float64(n)/1024, 0
	for v >= 1024 && i < len(units)-1 {
		v, i = v/1024, i+1
	}
	return fmt.Sprintf("%.1f %ciB", v, units[i])
}
