package run

import (
	"errors"
	"fmt"

	"github.com/forage-rl/forage/core/experiment"
	"github.com/forage-rl/forage/core/policy"
	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/objective"
)

// critic is the value network of the stage in progress with its optimizer.
type critic struct {
	*policy.Critic
	trainer *policy.Trainer
}

func (c *critic) Close() error { return errors.Join(c.trainer.Close(), c.Critic.Close()) }

// takeCritic gives the stage its critic where its plan asks for one: that of the stage before with the state of its
// optimizer, where the stage keeps that and there is one, else a new one made from the policy that the stage starts from.
// A stage without a critic ends the one before it.
func (s *stage) takeCritic() error {
	r := s.run
	if s.plan.Critic == nil && s.config.Critic != nil {
		r.warnings = append(r.warnings, fmt.Sprintf("stage %q: algorithm %q asks for no critic, so the settings of one are not used", s.config.Name, s.config.Algorithm.Label))
	}
	config := criticOptimizer(s.config)
	if r.critic != nil && s.plan.Critic != nil && s.config.OptimizerState == "keep" && r.criticOf == s.role() {
		return r.critic.trainer.Reconfigure(config)
	}
	if r.critic != nil {
		old := r.critic
		r.critic = nil
		if err := old.Close(); err != nil {
			return err
		}
	}
	if s.plan.Critic == nil {
		return nil
	}
	network, err := policy.NewCritic(s.model.Policy)
	if err != nil {
		return err
	}
	trainer, err := network.NewTrainer(config)
	if err != nil {
		return errors.Join(err, network.Close())
	}
	r.critic, r.criticOf = &critic{network, trainer}, s.role()
	return nil
}

// criticOptimizer is the optimizer of a stage's critic: that of its block critic, else the policy's.
func criticOptimizer(c *experiment.Stage) policy.OptimizerConfig {
	if c.Critic == nil {
		return optimizer(c)
	}
	return optimizerConfig(c.Critic.Optimizer, c.Critic.Schedule, c.Steps)
}

// checkCritic refuses a plan that trains or reads a critic in a way that cannot be carried out.
func checkCritic(plan sdk.PlanResponse, c *experiment.Stage) error {
	if plan.Critic == nil {
		for _, o := range plan.Objectives {
			if o.Trains == objective.TrainsCritic || o.Uses(objective.OpOldValue) {
				return fmt.Errorf("objective %q needs a critic, and the plan asks for none", o.Name)
			}
		}
		return nil
	}
	if w := plan.Critic.Warmup; w < 0 || w >= c.Steps {
		return fmt.Errorf("its critic warms up for %d of the stage's %d steps: it must leave at least one for the policy", w, c.Steps)
	}
	return nil
}

// warming says whether the step is one of those in which only the critic is updated.
func (st *step) warming() bool {
	c := st.stage.plan.Critic
	return c != nil && st.number < c.Warmup
}

// skips says whether an update is left out because the critic is still warming up.
func (st *step) skips(u sdk.Update) bool {
	o, ok := st.stage.objective(u.Objective)
	return ok && o.Trains == objective.TrainsPolicy && st.warming()
}
