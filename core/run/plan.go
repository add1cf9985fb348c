package run

import (
	"context"
	"errors"
	"fmt"

	"github.com/forage-rl/forage/core/experiment"
	"github.com/forage-rl/forage/core/host"
	"github.com/forage-rl/forage/core/policy"
	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/objective"
)

// trainsObservations asks for the plans of all stages, so that one that cannot be carried out is refused before
// anything is trained, and says whether any declares a loss on text that the policy did not write.
func (r *runner) trainsObservations(plan func(*experiment.Stage) (sdk.PlanResponse, error)) (bool, error) {
	trains := false
	for _, st := range r.config.Stages {
		p, err := plan(st)
		if err != nil {
			return false, fmt.Errorf("stage %q: %w", st.Name, err)
		}
		trains = trains || p.TrainsObservations
	}
	return trains, nil
}

// planStage starts the algorithm of a stage for as long as it takes to ask for its plan.
func (r *runner) planStage(ctx context.Context, st *experiment.Stage) (plan sdk.PlanResponse, err error) {
	sup, err := host.NewSupervisor(r.Catalogue, host.RunOptions{Logger: r.log})
	if err != nil {
		return plan, err
	}
	defer func() { err = errors.Join(err, sup.Close()) }()
	spec, err := r.resources.instance(ctx, algorithmInstance(st.Name), st.Algorithm)
	if err != nil {
		return plan, err
	}
	algorithm, err := sup.Algorithm(ctx, spec, services{tools{r.resources}})
	if err != nil {
		return plan, err
	}
	return askPlan(ctx, algorithm, st)
}

// askPlan asks an algorithm what it will do in a stage and refuses what cannot be done.
func askPlan(ctx context.Context, algorithm sdk.Algorithm, st *experiment.Stage) (sdk.PlanResponse, error) {
	plan, err := algorithm.Plan(ctx, sdk.PlanRequest{
		Stage: st.Name, Steps: st.Steps, Questions: st.Questions, HasExperts: st.Experts != nil, Produce: len(st.Produce) > 0,
	})
	if err != nil {
		return plan, err
	}
	label := st.Algorithm.Label
	if err := checkCritic(plan, st); err != nil {
		return plan, fmt.Errorf("algorithm %q: %w", label, err)
	}
	needsReference := false
	for _, o := range plan.Objectives {
		if err := policy.CheckObjective(o); err != nil {
			return plan, fmt.Errorf("algorithm %q: %w", label, err)
		}
		if o.Trains == objective.TrainsPolicy && o.TrainsObservations() && !plan.TrainsObservations {
			return plan, fmt.Errorf("algorithm %q, objective %q reaches text that the policy did not write, and the plan does not declare that it trains observations", label, o.Name)
		}
		needsReference = needsReference || o.Uses(objective.OpRefLogP)
	}
	switch plan.Reference {
	case sdk.ReferenceStageStart, sdk.ReferenceBase:
	case "":
		if needsReference {
			return plan, fmt.Errorf("algorithm %q reads reference log-probabilities but its plan names no reference policy", label)
		}
	default:
		return plan, fmt.Errorf("algorithm %q asks for reference policy %q; there are %q and %q", label, plan.Reference, sdk.ReferenceStageStart, sdk.ReferenceBase)
	}
	return plan, nil
}
