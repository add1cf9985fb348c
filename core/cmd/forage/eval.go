package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/forage-rl/forage/core/experiment"
	"github.com/forage-rl/forage/core/policy"
	"github.com/forage-rl/forage/core/record"
	"github.com/forage-rl/forage/core/run"
)

func (a *app) evalCommand() *cobra.Command {
	var f studyFlags
	var only []string
	var accept bool
	var backend string
	c := &cobra.Command{
		Use:   "eval PATH|RUN...",
		Short: "Carry out evaluations that were added after training",
		Long: `Evaluate finished runs on what their study asks for and their results lack: new
test sets, or evaluations that were changed. Nothing is trained. PATH is a study;
RUN is a finished run, which is then evaluated as its own config.hcl says.`,
		Example: "  forage eval experiments/minihop --ablation demo\n  forage eval experiments/minihop --ablation demo --run 48553646d9e8",
		Args:    arguments(1, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, arg := range args {
				jobs, s, err := a.evaluationJobs(cmd.Context(), arg, &f, only)
				if err != nil {
					return err
				}
				err = a.evaluateAll(cmd.Context(), s, jobs, backend, accept)
				s.Close()
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
	f.add(c)
	c.Flags().StringSliceVar(&only, "run", nil, "only these `runs` of the study, by id")
	c.Flags().BoolVar(&accept, "accept", false, "evaluate although corpora or indexes changed since the training")
	c.Flags().StringVar(&backend, "backend", "", "what to compute on: go, or xla:/path/of/plugin.so")
	return c
}

// evaluationJob is a finished run with the configuration that says how it is to be evaluated.
type evaluationJob struct {
	name   string
	config *experiment.Run
	dir    record.Run
}

// evaluationJobs lists the finished runs that an argument means.
func (a *app) evaluationJobs(ctx context.Context, arg string, f *studyFlags, only []string) ([]evaluationJob, *opened, error) {
	if dir, err := a.findRun(arg); err == nil {
		s, config, err := a.configOf(ctx, dir)
		if err != nil {
			return nil, nil, err
		}
		return []evaluationJob{{dir.ID, config, dir}}, s, nil
	}
	s, p, err := a.openPlan(ctx, arg, f)
	if err != nil {
		return nil, nil, err
	}
	var jobs []evaluationJob
	for _, r := range p.Runs {
		if len(only) > 0 && !matchesAny(r.ID, only) {
			continue
		}
		jobs = append(jobs, evaluationJob{r.Name(), r.Config, a.studyDir(p).Run(r.ID)})
	}
	if len(jobs) == 0 {
		s.Close()
		return nil, nil, fmt.Errorf("the study has no run %s; \"forage plan\" lists them", strings.Join(only, ", "))
	}
	return jobs, s, nil
}

func matchesAny(id string, prefixes []string) bool {
	for _, p := range prefixes {
		if p != "" && strings.HasPrefix(id, p) {
			return true
		}
	}
	return false
}

func (a *app) evaluateAll(ctx context.Context, s *opened, jobs []evaluationJob, asked string, accept bool) error {
	if asked == "" {
		asked = jobs[0].config.Runtime.Backend
	}
	backend, err := policy.OpenBackend(asked)
	if err != nil {
		return err
	}
	defer backend.Close()
	p := newPainter(a)
	defer p.close()
	finished := 0
	for _, job := range jobs {
		_, ok, err := job.dir.ReadResult()
		if err != nil {
			return err
		}
		if !ok {
			p.say("%s: not finished, passed over", job.name)
			continue
		}
		finished++
		added, err := evaluateMissing(ctx, a, p, job, run.Options{Catalogue: s.catalogue, Backend: backend, Accept: accept})
		if err != nil {
			return err
		}
		if len(added) == 0 {
			p.say("%s: nothing is missing", job.name)
		}
	}
	if finished == 0 {
		return fmt.Errorf("none of the runs is finished; run the study first")
	}
	return nil
}

// evaluateMissing carries out the evaluations that the result of a finished run lacks, and names them. A run without a
// result is left alone.
func evaluateMissing(ctx context.Context, a *app, p *painter, job evaluationJob, o run.Options) ([]string, error) {
	have, ok, err := job.dir.ReadResult()
	if err != nil || !ok {
		return nil, err
	}
	missing, err := run.MissingEvaluations(job.config, have)
	if err != nil || len(missing) == 0 {
		return nil, err
	}
	id := job.dir.ID
	p.name(id, job.name)
	o.ID, o.Dir, o.Config, o.CacheDir, o.Logger = id, job.dir, job.config, a.cacheDir, a.logger(p)
	o.Progress = func(pr run.Progress) { p.progress(id, pr) }
	_, added, err := run.Reevaluate(ctx, o)
	p.end(id)
	return added, err
}
