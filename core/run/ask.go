package run

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/forage-rl/forage/core/experiment"
	"github.com/forage-rl/forage/core/host"
	"github.com/forage-rl/forage/core/internal/rng"
	"github.com/forage-rl/forage/core/policy"
	"github.com/forage-rl/forage/core/record"
	"github.com/forage-rl/forage/core/rollout"
	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
)

// AskOptions says which policy is asked what, and how.
type AskOptions struct {
	Config    *experiment.Run
	Catalogue *host.Catalogue
	CacheDir  string
	Backend   *policy.Backend
	// Checkpoint is the state of a run that answers; nil means the policy that the run starts from.
	Checkpoint *record.Checkpoint
	Question   episode.Question
	// Sampling replaces the configuration's; may be nil.
	Sampling *sdk.Sampling
	Seed     int64 // of the random numbers
	Progress func(Progress)
	Logger   *slog.Logger // may be nil
}

// Ask runs one episode with the agent and the tools of a run. It writes no records.
func Ask(ctx context.Context, o AskOptions) (answer episode.Episode, err error) {
	r := newRunner(Options{
		Config: o.Config, Catalogue: o.Catalogue, CacheDir: o.CacheDir, Backend: o.Backend, Progress: o.Progress, Logger: o.Logger,
	})
	defer func() { err = errors.Join(err, r.close()) }()
	if err := r.openPolicy(ctx, o.Checkpoint); err != nil {
		return answer, err
	}
	if r.tools, err = r.dispatcher(ctx, r.config.Tools); err != nil {
		return answer, err
	}
	m, err := r.models.get(ctx, mainRole)
	if err != nil {
		return answer, err
	}
	if r.config.Agent == nil {
		return answer, fmt.Errorf("experiment %q has no agent; set agent = agent.…", r.config.Experiment)
	}
	agent, err := agent(r.config.Agent, r.tools.descriptions())
	if err != nil {
		return answer, err
	}
	job := rollout.Job{
		ID: "ask." + o.Question.ID, Question: o.Question, Agent: agent, Sampling: sampling(r.config.Sampling),
		Key: rng.New(uint64(o.Seed)).WithString("ask").WithString(o.Question.ID),
	}
	if o.Sampling != nil {
		job.Sampling = *o.Sampling
	}
	r.report("answering", 0, 0)
	episodes, err := r.roll(ctx, m, r.tools, []rollout.Job{job})
	if err != nil {
		return answer, err
	}
	return episodes[0].Episode, nil
}

// openPolicy opens the indexes, the policy at a checkpoint (nil: as the run starts) and a supervisor for processes: what
// it takes to run episodes without an attempt.
func (r *runner) openPolicy(ctx context.Context, from *record.Checkpoint) error {
	if err := supported(r.config); err != nil {
		return err
	}
	r.readFrom(newResources(r.config, r.CacheDir, r.report))
	for _, handle := range sorted(r.config.Indexes) {
		if _, err := r.resources.index(ctx, handle); err != nil {
			return err
		}
	}
	if err := r.loadPolicies(ctx, from); err != nil {
		return err
	}
	var err error
	r.sup, err = host.NewSupervisor(r.Catalogue, host.RunOptions{Logger: r.log})
	return err
}
