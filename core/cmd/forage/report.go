package main

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/forage-rl/forage/core/plan"
	"github.com/forage-rl/forage/core/record"
	"github.com/forage-rl/forage/core/report"
	"github.com/forage-rl/forage/core/study"
)

// document is what can be rendered in all forms.
type document interface {
	Text(w io.Writer, width int) error
	HTML(w io.Writer) error
	Markdown(w io.Writer) error
	CSV(w io.Writer) error
}

// reportFiles are where a document is written to; "" means nowhere.
type reportFiles struct{ html, markdown, csv string }

func (f *reportFiles) add(c *cobra.Command) {
	c.Flags().StringVar(&f.html, "html", "", "also write a page of its own to this `file`")
	c.Flags().StringVar(&f.markdown, "markdown", "", "also write Markdown to this `file`")
	c.Flags().StringVar(&f.csv, "csv", "", "also write the numbers to this `file`")
}

func (f *reportFiles) write(d document) error {
	for _, part := range []struct {
		path   string
		render func(io.Writer) error
	}{{f.html, d.HTML}, {f.markdown, d.Markdown}, {f.csv, d.CSV}} {
		if part.path == "" {
			continue
		}
		var b bytes.Buffer
		if err := part.render(&b); err != nil {
			return err
		}
		if err := record.WriteFile(part.path, b.Bytes()); err != nil {
			return fmt.Errorf("write the report: %w", err)
		}
	}
	return nil
}

func (a *app) reportCommand() *cobra.Command {
	var f studyFlags
	var files reportFiles
	var noTimes bool
	c := &cobra.Command{
		Use:   "report PATH",
		Short: "Report the results of a study",
		Long: `Print the tables and tests of a study's finished runs. Runs that are not finished
are left out and said to be.`,
		Example: "  forage report experiments/minihop --ablation demo --html report.html",
		Args:    arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if dir, ok := a.recordedStudy(args[0]); ok {
				return fmt.Errorf("%s holds records; name the study that they are of, such as: %s", dir.Dir, cmd.Root().Name()+" report experiments/minihop --ablation demo")
			}
			s, p, err := a.openPlan(cmd.Context(), args[0], &f)
			if err != nil {
				return err
			}
			defer s.Close()
			built, err := buildReport(cmd.Context(), p, a.studyDir(p), func(o *report.Options) { o.Times = !noTimes })
			if err != nil {
				return err
			}
			if err := built.Text(a.out, a.width); err != nil {
				return err
			}
			if n, err := otherResults(p, a.studyDir(p)); err != nil {
				return err
			} else if n > 0 {
				a.warn("%d finished runs in %s are not of the study as it is now and are left out: they were made with other variables (-var) or before it was changed", n, a.studyDir(p).Dir)
			}
			return files.write(built)
		},
	}
	f.add(c)
	files.add(c)
	c.Flags().BoolVar(&noTimes, "no-times", false, "leave wall times out, so that equal results give equal reports")
	return c
}

// otherResults counts the finished runs among the records that the plan does not hold.
func otherResults(p *plan.Plan, dir record.Study) (int, error) {
	states, err := dir.States()
	if err != nil {
		return 0, err
	}
	for _, r := range p.Runs {
		delete(states, r.ID)
	}
	n := 0
	for _, s := range states {
		if s.Status == record.Done || s.Status == record.StoppedByGuard {
			n++
		}
	}
	return n, nil
}

// buildReport makes the report of a plan from the records: the comparison where the study names a primary metric and a
// baseline, else the means of each run.
func buildReport(ctx context.Context, p *plan.Plan, dir record.Study, change ...func(*report.Options)) (document, error) {
	options := report.Options{Times: true}
	for _, f := range change {
		f(&options)
	}
	s, err := study.Results(p, dir)
	if err != nil {
		return nil, err
	}
	if len(s.Cells) == 1 && len(p.Runs[0].Config.Evaluations) > 0 {
		// Nothing is compared, so whatever is measured first may head the report.
		first := p.Runs[0].Config.Evaluations[0]
		if s.Primary.Metric == "" {
			s.Primary = report.Primary{Evaluations: []string{first.Name}, Metric: first.Metrics[0]}
		}
		s.Baseline = s.Cells[0].Key
	}
	if s.Primary.Metric == "" || s.Baseline == "" {
		return means{s}, nil
	}
	return report.Build(ctx, s, options)
}
