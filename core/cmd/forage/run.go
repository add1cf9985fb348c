package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/forage-rl/forage/core/host"
	"github.com/forage-rl/forage/core/plan"
	"github.com/forage-rl/forage/core/policy"
	"github.com/forage-rl/forage/core/record"
	"github.com/forage-rl/forage/core/run"
	"github.com/forage-rl/forage/core/study"
)

// runFlags say how a plan is executed.
type runFlags struct {
	study    studyFlags
	only     []string
	retry    string
	resume   bool
	fresh    bool
	accept   bool
	parallel int
	dryRun   bool
	backend  string
}

func (f *runFlags) check(p *plan.Plan) error {
	if f.retry != "" && f.retry != "failed" {
		return misuse("--retry %q: it takes only \"failed\"", f.retry)
	}
	if f.fresh && (f.accept || f.resume) {
		return misuse("--fresh starts from the beginning; it does not go with --resume or --accept")
	}
	if f.parallel < 1 {
		return misuse("--parallel %d: it must be at least 1", f.parallel)
	}
	arms := map[string]bool{}
	for _, c := range p.Cells {
		arms[c.Arm] = true
	}
	for _, arm := range f.only {
		if !arms[arm] {
			return misuse("--only %q: there is no such arm; there are %s", arm, strings.Join(sortedKeys(arms), ", "))
		}
	}
	return nil
}

func (a *app) runCommand() *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use:   "run PATH",
		Short: "Plan and execute a study, then report",
		Long: `Execute what the plan of a study says is not done yet, then write its report as
text, and as HTML, Markdown and CSV into the folder of its records.

Runs that an earlier call left unfinished go on from their last checkpoint. Runs
that failed are passed over unless --retry failed is given. A run whose data,
plugins or program changed since it began is stale: it is kept with --accept, or
done again with --fresh. Interrupt (Ctrl-C) to stop: the same command goes on.`,
		Example: `  forage run experiments/minihop --ablation demo
  forage run experiments/minihop --ablation demo --only david_grpo --parallel 2
  forage run experiments/hotpotqa -var data=DIR -var model=DIR --dry-run`,
		Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.runStudy(cmd.Context(), args[0], &f) },
	}
	f.study.add(c)
	flags := c.Flags()
	flags.StringSliceVar(&f.only, "only", nil, "execute runs of these `arms` only")
	flags.StringVar(&f.retry, "retry", "", "\"failed\" executes again what failed before")
	flags.BoolVar(&f.resume, "resume", false, "go on from checkpoints (this is the default)")
	flags.BoolVar(&f.fresh, "fresh", false, "start every run from the beginning")
	flags.BoolVar(&f.accept, "accept", false, "keep and go on with runs whose preconditions changed")
	flags.IntVar(&f.parallel, "parallel", 1, "`number` of runs at the same time")
	flags.BoolVar(&f.dryRun, "dry-run", false, "print the plan and what would be executed, and stop")
	flags.StringVar(&f.backend, "backend", "", "what to compute on: go, or xla:/path/of/plugin.so")
	return c
}

func (a *app) runStudy(ctx context.Context, path string, f *runFlags) (err error) {
	s, p, err := a.openPlan(ctx, path, &f.study)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := f.check(p); err != nil {
		return err
	}
	backend, err := openBackend(p, f.backend)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, backend.Close()) }()
	conditions := run.NewPreconditions(s.catalogue, a.cacheDir, backend)
	if err := a.survey(ctx, p, conditions); err != nil {
		return err
	}
	if f.dryRun {
		return a.dryRun(p, f)
	}
	if err := present(p); err != nil {
		return err
	}
	for _, w := range backend.Describe().Warnings {
		a.warn("%s", w)
	}
	x := &executor{app: a, flags: f, plan: p, dir: a.studyDir(p), catalogue: s.catalogue, backend: backend}
	return x.execute(ctx)
}

func (a *app) dryRun(p *plan.Plan, f *runFlags) error {
	if err := p.Print(a.out); err != nil {
		return err
	}
	options := study.Options{RetryFailed: f.retry != "", Fresh: f.fresh, Accept: f.accept}
	due := 0
	for _, r := range p.Runs {
		kept := len(f.only) == 0 || slices.Contains(f.only, r.Cell.Arm)
		if kept && options.Due(r.Status) && (len(r.Reasons) == 0 || f.fresh || f.accept) {
			due++
		}
	}
	fmt.Fprintf(a.out, "\n%d of %d runs would be executed; records go to %s\n", due, len(p.Runs), a.studyDir(p).Dir)
	return nil
}

// executor carries a plan out and tells how it goes.
type executor struct {
	*app
	flags     *runFlags
	plan      *plan.Plan
	dir       record.Study
	catalogue *host.Catalogue
	backend   *policy.Backend
}

func (x *executor) execute(ctx context.Context) error {
	names := map[string]string{}
	for _, r := range x.plan.Runs {
		names[r.ID] = r.Name()
	}
	p := newPainter(x.app)
	defer p.close()
	x.graceful.Store(true)
	summary, err := study.Execute(ctx, study.Options{
		Pause: x.pause,
		Plan:  x.plan, Dir: x.dir, Catalogue: x.catalogue, CacheDir: x.cacheDir, Backend: x.backend,
		Only: x.flags.only, RetryFailed: x.flags.retry != "", Fresh: x.flags.fresh, Accept: x.flags.accept, Parallel: x.flags.parallel,
		Progress: func(id string, pr run.Progress) {
			p.name(id, names[id])
			p.progress(id, pr)
		},
		Event:  func(e record.Event) { x.event(p, names[e.Run], e) },
		Logger: x.logger(p),
	})
	if err == nil {
		err = x.evaluate(ctx, p, names)
	}
	p.close()
	if err != nil {
		if ctx.Err() != nil || errors.Is(err, run.ErrPaused) {
			fmt.Fprintf(x.err, "Stopped. The same command goes on from the last checkpoints in %s.\n", x.dir.Dir)
		}
		return err
	}
	if err := x.report(ctx, summary); err != nil {
		return err
	}
	return x.failures(summary, names)
}

// event prints what the journal was told.
func (x *executor) event(p *painter, name string, e record.Event) {
	switch e.Event {
	case record.Planned:
	case record.Started:
		p.name(e.Run, name)
		from := ""
		if e.Step > 0 {
			from = fmt.Sprintf(", from step %d", e.Step)
		}
		p.say("%s: started (run %s, attempt %d%s)", name, e.Run, e.Attempt, from)
	case record.Done, record.StoppedByGuard:
		p.end(e.Run)
		p.say("%s: %s at step %d", name, strings.ReplaceAll(string(e.Event), "_", " "), e.Step)
	case record.Lost:
		// Stopped on purpose or not: it goes on in either case.
		p.end(e.Run)
		p.say("%s: %s", name, e.Message)
	default:
		p.end(e.Run)
		p.say("%s: %s: %s", name, e.Event, strings.TrimPrefix(e.Message, "run "+e.Run+": "))
	}
}

// evaluate carries out evaluations that were added or changed since their runs finished.
func (x *executor) evaluate(ctx context.Context, p *painter, names map[string]string) error {
	for _, r := range x.plan.Runs {
		if len(x.flags.only) > 0 && !slices.Contains(x.flags.only, r.Cell.Arm) || len(r.Reasons) > 0 && !x.flags.accept {
			continue
		}
		job := evaluationJob{names[r.ID], r.Config, x.dir.Run(r.ID)}
		if _, err := evaluateMissing(ctx, x.app, p, job, run.Options{Catalogue: x.catalogue, Backend: x.backend, Accept: x.flags.accept}); err != nil {
			return err
		}
	}
	return nil
}

// report prints the report and writes it beside the records.
func (x *executor) report(ctx context.Context, summary study.Summary) error {
	if summary.Done == 0 {
		return nil
	}
	built, err := buildReport(ctx, x.plan, x.dir)
	if err != nil {
		return err
	}
	fmt.Fprintln(x.out)
	if err := built.Text(x.out, x.width); err != nil {
		return err
	}
	files := reportFiles{
		html: filepath.Join(x.dir.Dir, "report.html"), markdown: filepath.Join(x.dir.Dir, "report.md"), csv: filepath.Join(x.dir.Dir, "report.csv"),
	}
	if err := files.write(built); err != nil {
		return err
	}
	fmt.Fprintf(x.out, "\nReport: %s, and .md and .csv beside it\n", files.html)
	return nil
}

// failures prints why runs failed, and fails if any did. Runs that failed for one reason share a line.
func (x *executor) failures(summary study.Summary, names map[string]string) error {
	if len(summary.Errors) == 0 {
		return nil
	}
	var causes []string
	first := map[string]plan.Run{}
	others := map[string][]string{}
	broken := false // not only stale
	for _, r := range x.plan.Runs {
		err, failed := summary.Errors[r.ID]
		if !failed {
			continue
		}
		broken = broken || len(r.Reasons) == 0 || x.flags.accept || x.flags.fresh
		cause := strings.TrimPrefix(err.Error(), "run "+r.ID+": ")
		if _, known := first[cause]; known {
			others[cause] = append(others[cause], names[r.ID])
			continue
		}
		causes = append(causes, cause)
		first[cause] = r
	}
	for _, cause := range causes {
		r := first[cause]
		x.fail(fmt.Errorf("%s (run %s): %s", names[r.ID], r.ID, cause))
		if len(others[cause]) > 0 {
			fmt.Fprintf(x.err, "The same: %s\n", strings.Join(others[cause], ", "))
		}
		x.advise(summary.Errors[r.ID])
	}
	if summary.Skipped > 0 {
		fmt.Fprintf(x.err, "Runs that failed before and were not tried again: %d.\n", summary.Skipped)
	}
	if broken {
		fmt.Fprintf(x.err, "When the cause is mended, run the same command with --retry failed. What plugins said is in %s.\n",
			filepath.Join(x.dir.Dir, "RUN", "attempt-N", "logs"))
	}
	return errReported
}
