// Package sft is supervised fine-tuning on expert episodes: the negative log-likelihood of what the expert wrote.
// Nothing is sampled. Tool results and notices are read but not trained, unless the configuration says so: a model that
// also learns to write them can stand in for its own tool, as a stage of AutoCoA has it (arXiv:2503.06580).
package sft

import (
	"context"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
	"github.com/forage-rl/forage/core/sdk/objective"
	"github.com/forage-rl/forage/plugins/algorithms/internal/grpo"
)

// Config is the configuration of the algorithm.
type Config struct {
	Aggregation   string  `forage:"aggregation" default:"token_mean" enum:"token_mean,sequence_mean" doc:"token_mean: mean over all expert tokens of a mini-batch; sequence_mean: mean over expert episodes of the mean over each one's tokens." source:"default (not in the paper)"`
	MiniBatch     int     `forage:"mini_batch" default:"0" min:"0" doc:"Expert episodes per optimizer step; 0 takes all episodes of a training step at once." source:"default (not in the paper)"`
	Epochs        int     `forage:"epochs" default:"1" min:"1" doc:"Passes over the expert episodes of a training step." source:"default (not in the paper)"`
	Temperature   float64 `forage:"temperature" default:"1" min:"0.01" doc:"Temperature that the log-probabilities are taken at." source:"default (not in the paper)"`
	Observations  string  `forage:"observations" default:"masked" enum:"masked,trained" doc:"masked: tool results are read but not trained; trained: the loss covers the whole response, tool results included." source:"AutoCoA (arXiv:2503.06580), stages SFT-2 (masked) and SFT-3 (trained)"`
	MissingExpert string  `forage:"missing_expert" default:"error" enum:"error,skip" doc:"What to do with a question that has no expert episode: stop with an error that names it, or leave it out." source:"default (not in the paper)"`
}

const objectiveName = "nll"

// Plugin describes the algorithm.
func Plugin() sdk.AlgorithmPlugin {
	return sdk.NewAlgorithm("sft", "Supervised fine-tuning on the expert episodes of a step's questions.", "",
		func(_ context.Context, c Config, _ sdk.Host) (sdk.Algorithm, error) { return algorithm{c}, nil })
}

type algorithm struct{ config Config }

// Objective is the loss of a configuration.
func Objective(c Config) (objective.Objective, error) {
	mask := objective.MaskPolicy
	if c.Observations == "trained" {
		mask = objective.MaskResponse
	}
	loss := objective.TokenMean(objective.NLL(), mask)
	if c.Aggregation == "sequence_mean" {
		loss = objective.SequenceMean(objective.NLL(), mask)
	}
	return objective.New(objectiveName, objective.TrainsPolicy, loss, map[string]objective.Expr{
		"nll":     objective.TokenMean(objective.NLL(), objective.MaskPolicy),
		"entropy": objective.TokenMean(objective.Entropy(), objective.MaskPolicy),
	})
}

func (a algorithm) Plan(_ context.Context, req sdk.PlanRequest) (sdk.PlanResponse, error) {
	if req.Produce {
		return sdk.PlanResponse{}, grpo.NotSupported("sft only trains: stage %q makes no updates; use a training stage", req.Stage)
	}
	if !req.HasExperts {
		return sdk.PlanResponse{}, grpo.NoExperts("sft", req.Stage)
	}
	o, err := Objective(a.config)
	if err != nil {
		return sdk.PlanResponse{}, err
	}
	return sdk.PlanResponse{
		Objectives: []objective.Objective{o}, TrainsObservations: o.TrainsObservations(), DefaultsNotInPaper: grpo.DefaultsInForce(a.config),
	}, nil
}

func (a algorithm) Step(_ context.Context, req sdk.StepRequest) (sdk.StepResponse, error) {
	chosen, missing := Choose(req.Questions, req.Experts)
	if len(missing) > 0 && a.config.MissingExpert == "error" {
		return sdk.StepResponse{}, grpo.MissingExperts(missing[0], len(missing), len(req.Questions))
	}
	out := sdk.StepResponse{Metrics: map[string]float64{"experts/episodes": float64(len(chosen)), "experts/missing": float64(len(missing))}}
	var samples []sdk.Sample
	empty := 0.
	for _, e := range chosen {
		before := len(samples)
		for k, seq := range e.Sequences {
			if !grpo.Trainable(seq) && (a.config.Observations != "trained" || seq.ResponseLength() == 0) {
				continue // nothing in it is the expert's
			}
			samples = append(samples, sdk.Sample{EpisodeID: e.ID, Sequence: k})
		}
		if len(samples) == before {
			empty++
		}
	}
	if empty > 0 {
		out.Metrics["experts/empty"] = empty
	}
	if len(samples) > 0 {
		out.Updates = []sdk.Update{{
			Objective: objectiveName, Samples: samples, Epochs: a.config.Epochs, Temperature: a.config.Temperature,
			MiniBatch: sdk.MiniBatch{Count: a.config.MiniBatch, Unit: sdk.UnitEpisode}, Order: sdk.OrderGiven,
		}}
	}
	return out, nil
}

// Choose picks the experts of the questions, in the order of the questions, each once, and lists the questions without
// any.
func Choose(questions []episode.Question, experts []episode.Episode) (chosen []episode.Episode, missing []string) {
	byQuestion := map[string][]episode.Episode{}
	for _, e := range experts {
		byQuestion[e.QuestionID] = append(byQuestion[e.QuestionID], e)
	}
	asked := map[string]bool{}
	for _, q := range questions {
		if asked[q.ID] {
			continue
		}
		asked[q.ID] = true
		if len(byQuestion[q.ID]) == 0 {
			missing = append(missing, q.ID)
		}
		chosen = append(chosen, byQuestion[q.ID]...)
	}
	return chosen, missing
}
