package run

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/forage-rl/forage/core/experiment"
	"github.com/forage-rl/forage/core/internal/rng"
	"github.com/forage-rl/forage/core/policy"
	"github.com/forage-rl/forage/core/sdk"
)

// stage is a stage in progress.
type stage struct {
	run    *runner
	config *experiment.Stage
	key    rng.Key

	model       *model           // the policy that is trained, or that a produce stage samples from
	self        asked            // the stage's own agent
	agents      map[string]asked // by name and tools
	scorer      *scorer
	cursor      *cursor
	experts     *questions // nil for none
	annotations annotations
	algorithm   sdk.Algorithm
	host        *algorithmHost
	plugins     []io.Closer // its processes
	plan        sdk.PlanResponse
	reference   bool // the plan asks for a reference policy
	trainer     *policy.Trainer
}

// train carries out what is left of the stages.
func (r *runner) train(ctx context.Context) error {
	if r.state.Global == 0 {
		if err := r.evaluateDue(ctx); err != nil {
			return err
		}
	}
	for r.state.Stage < len(r.config.Stages) && r.stopped == "" && r.state.StoppedBy == "" {
		s, err := r.openStage(ctx)
		if err != nil {
			return fmt.Errorf("stage %q: %w", r.config.Stages[r.state.Stage].Name, err)
		}
		if err := s.train(ctx); err != nil {
			r.crash = s.crashed(err)
			return fmt.Errorf("stage %q: %w", s.config.Name, err)
		}
		for _, plugin := range s.plugins {
			if err := plugin.Close(); err != nil {
				return fmt.Errorf("stage %q: %w", s.config.Name, err)
			}
		}
	}
	return nil
}

// openStage starts the stage's plugins and asks the algorithm for its plan.
func (r *runner) openStage(ctx context.Context) (*stage, error) {
	index := r.state.Stage
	s := &stage{run: r, config: r.config.Stages[index], agents: map[string]asked{}, key: rng.New(uint64(r.config.Seed), uint64(index))}
	var err error
	if s.model, err = r.models.get(ctx, s.role()); err != nil {
		return nil, err
	}
	if s.self, err = s.ask("", nil); err != nil {
		return nil, err
	}
	data, err := r.resources.questions(ctx, s.config.Train, r.config.Tools)
	if err != nil {
		return nil, err
	}
	if s.cursor, err = newCursor(data, s.config.Train.Hops, s.config.Train.Order == "shuffled", s.key.WithString("order")); err != nil {
		return nil, fmt.Errorf("%s: %w", at(s.config.Train.Handle, s.config.Train.Range), err)
	}
	if n := len(s.cursor.order); n > 0 && n < s.config.Questions {
		text := fmt.Sprintf("stage %q: %s has only %d of the %d questions that a step takes, so each step asks some more than once", s.config.Name, s.config.Train.Handle, n, s.config.Questions)
		r.warnings = append(r.warnings, text)
		r.log.Warn(text)
	}
	if s.config.Experts != nil {
		if s.experts, err = r.resources.questions(ctx, s.config.Experts, r.config.Tools); err != nil {
			return nil, err
		}
		if usesArtefact(s.config.Experts) {
			if err := s.checkExperts(ctx); err != nil {
				return nil, err
			}
		}
	}
	if s.annotations, err = r.annotations(s.config.Annotations); err != nil {
		return nil, err
	}
	if err := s.startPlugins(ctx); err != nil {
		return nil, err
	}
	if s.plan, err = askPlan(ctx, s.algorithm, s.config); err != nil {
		return nil, err
	}
	s.reference = s.plan.Reference != ""
	if s.plan.TrainsObservations {
		r.warnings = append(r.warnings, fmt.Sprintf("stage %q: the objective of %q also reaches tokens of observations", s.config.Name, s.config.Algorithm.Label))
	}
	return s, s.begin(ctx)
}

// role is that of the policy that the stage trains.
func (s *stage) role() string { return roleOf(s.config.Policy) }

func (s *stage) startPlugins(ctx context.Context) error {
	r := s.run
	if s.config.Reward != nil {
		s.scorer = &scorer{config: s.config.Reward}
		for _, source := range s.config.Reward.Sources {
			spec, err := r.resources.instance(ctx, fmt.Sprintf("stage.%s.reward.%s", s.config.Name, source.Name), source.Plugin)
			if err != nil {
				return err
			}
			reward, err := r.sup.Reward(ctx, spec, services{tools{r.resources}})
			if err != nil {
				return err
			}
			s.scorer.sources, s.plugins = append(s.scorer.sources, reward), append(s.plugins, reward)
		}
	}
	spec, err := r.resources.instance(ctx, algorithmInstance(s.config.Name), s.config.Algorithm)
	if err != nil {
		return err
	}
	s.host = &algorithmHost{tools: tools{r.resources}}
	algorithm, err := r.sup.Algorithm(ctx, spec, s.host)
	if err != nil {
		return err
	}
	s.algorithm, s.plugins = algorithm, append(s.plugins, algorithm)
	return nil
}

// begin puts policy, reference and optimizer into the state that the stage has at its present step.
func (s *stage) begin(ctx context.Context) error {
	r := s.run
	s.cursor.position = r.state.Cursor
	if r.state.Step == 0 {
		r.state.StageStart = r.state.Global
	}
	if s.reference {
		if err := s.takeReference(ctx, s.plan.Reference); err != nil {
			return fmt.Errorf("reference policy: %w", err)
		}
	}
	if s.produces() {
		if err := r.closeTrainers(); err != nil {
			return err
		}
		return s.resumeOrCheckpoint(ctx)
	}
	keep := s.config.OptimizerState == "keep" && r.trainer != nil && r.trainedBy == s.role()
	if !keep {
		if r.trainer != nil {
			if err := r.trainer.Close(); err != nil {
				return err
			}
		}
		var err error
		if r.trainer, err = policy.NewTrainer(s.model.Policy, optimizer(s.config)); err != nil {
			return err
		}
	} else if err := r.trainer.Reconfigure(optimizer(s.config)); err != nil {
		return err
	}
	s.trainer, r.trainedBy = r.trainer, s.role()
	if err := s.takeCritic(); err != nil {
		return fmt.Errorf("critic: %w", err)
	}
	return s.resumeOrCheckpoint(ctx)
}

// produces says whether the stage writes artefacts in place of training.
func (s *stage) produces() bool { return len(s.config.Produce) > 0 }

// closeTrainers frees what a stage without updates has no use for.
func (r *runner) closeTrainers() error {
	var err error
	if r.trainer != nil {
		err = r.trainer.Close()
	}
	if r.critic != nil {
		err = errors.Join(err, r.critic.Close())
	}
	r.trainer, r.critic = nil, nil
	return err
}

func (s *stage) resumeOrCheckpoint(ctx context.Context) error {
	if s.run.resume != nil {
		return s.restore(ctx)
	}
	// The start of a stage is a checkpoint: the reference of the stage, and where a run goes on that dies in its
	// first steps.
	return s.checkpoint(ctx)
}

// train runs the stage's steps that are left, and moves on to the next stage.
func (s *stage) train(ctx context.Context) error {
	r := s.run
	for r.state.Step < s.config.Steps && r.stopped == "" {
		if err := ctx.Err(); err != nil {
			return err
		}
		select {
		case <-r.Pause:
			if err := s.checkpoint(ctx); err != nil {
				return fmt.Errorf("stopping on request: %w", err) // without a checkpoint the run cannot go on: it failed
			}
			return ErrPaused
		default:
		}
		if err := s.step(ctx); err != nil {
			return fmt.Errorf("step %d: %w", r.state.Step, err)
		}
	}
	if s.produces() {
		if err := s.finishArtefacts(); err != nil {
			return err
		}
	}
	s.warnOfSilence()
	r.state.Stage++
	r.state.Step, r.state.Cursor, r.state.Scored = 0, 0, nil
	if r.stopped != "" {
		r.state.StoppedBy = r.stopped
	}
	return s.checkpointFinal(ctx)
}

// checkpointFinal closes a stage with a checkpoint of the state after it.
func (s *stage) checkpointFinal(ctx context.Context) error {
	if s.run.state.Stage < len(s.run.config.Stages) && s.run.state.StoppedBy == "" {
		return nil // the next stage begins with one
	}
	return s.checkpoint(ctx)
}
