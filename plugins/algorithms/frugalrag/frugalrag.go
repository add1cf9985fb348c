package frugalrag

import (
	"context"
	"fmt"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/objective"
	"github.com/forage-rl/forage/plugins/algorithms/internal/grpo"
)

// Uses implements [sdk.User].
func (c Config) Uses() []sdk.Use { return []sdk.Use{sdk.UseHops} }

// Plugin describes the algorithm.
func Plugin() sdk.AlgorithmPlugin {
	return sdk.NewAlgorithm("frugalrag", "Exploring with several prompts for supervised learning, then GRPO over hops that teaches when to stop.",
		"FrugalRAG (arXiv:2507.07634)",
		func(_ context.Context, c Config, host sdk.Host) (sdk.Algorithm, error) {
			return algorithm{c, host}, nil
		})
}

type algorithm struct {
	config Config
	host   sdk.Host
}

func (a algorithm) Plan(_ context.Context, req sdk.PlanRequest) (sdk.PlanResponse, error) {
	c := a.config
	if trains := c.Phase == phaseStop; trains == req.Produce {
		if trains {
			return sdk.PlanResponse{}, fmt.Errorf("phase %q trains, and stage %q makes no updates: use phase = \"explore\" or \"tau\", or remove produce", c.Phase, req.Stage)
		}
		return sdk.PlanResponse{}, fmt.Errorf("phase %q makes no updates: set produce = %q on stage %q", c.Phase, c.artefact(), req.Stage)
	}
	plan := sdk.PlanResponse{DefaultsNotInPaper: grpo.DefaultsInForce(c)}
	if c.Phase != phaseStop {
		return plan, nil
	}
	o, err := Objective(c)
	if err != nil {
		return sdk.PlanResponse{}, err
	}
	plan.Objectives = []objective.Objective{o}
	if c.usesReference() {
		plan.Reference = sdk.ReferenceStageStart
	}
	return plan, nil
}

func (a algorithm) Step(ctx context.Context, req sdk.StepRequest) (sdk.StepResponse, error) {
	switch a.config.Phase {
	case phaseExplore:
		return a.explore(ctx, req)
	case phaseTau:
		return a.tau(ctx, req)
	}
	return a.stop(ctx, req)
}

// stop is a step of GRPO.
func (a algorithm) stop(ctx context.Context, req sdk.StepRequest) (sdk.StepResponse, error) {
	c := a.config
	groups, err := grpo.Sample(ctx, a.host, req.Questions, c.GroupSize)
	if err != nil {
		return sdk.StepResponse{}, err
	}
	out := sdk.StepResponse{Metrics: grpo.Metrics(groups)}
	hops := c.hops(groups)
	if len(hops) == 0 {
		return out, nil
	}
	samples := make([]sdk.Sample, len(hops))
	for i, h := range hops {
		samples[i] = h.sample
	}
	perBatch := grpo.MiniBatch(grpo.Episodes(samples), c.MiniBatch, c.Updates)
	out.Updates = []sdk.Update{{
		Objective: objectiveName, Samples: weigh(hops, perBatch), Epochs: c.Epochs, Temperature: c.Temperature, Order: sdk.OrderGiven,
		MiniBatch: sdk.MiniBatch{Count: perBatch, Unit: sdk.UnitEpisode},
	}}
	return out, nil
}
