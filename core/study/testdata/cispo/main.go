// Command forage-cispo is an algorithm of a third party: CISPO (MiniMax-M1, arXiv:2506.13585, section 3.1). It lives in
// a module of its own, imports core/sdk and nothing else of Forage, and brings an objective that Forage does not have.
//
// Where PPO and GRPO clip what a token may contribute, so that a token whose ratio has moved far teaches nothing, CISPO
// clips the importance weight alone and keeps every token's gradient: weight times advantage times the gradient of its
// log-probability.
package main

import (
	"context"
	"fmt"
	"math"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
	"github.com/forage-rl/forage/core/sdk/objective"
)

func main() {
	sdk.Serve(sdk.Pack{Name: "forage-cispo", Version: "0.1.0", Algorithms: []sdk.AlgorithmPlugin{plugin()}})
}

// Config is what an experiment may say between algorithm "cispo/cispo" { and }.
type Config struct {
	GroupSize int     `forage:"group_size" default:"16" min:"2" doc:"Episodes sampled per question." source:"default (not in the paper)"`
	ClipHigh  float64 `forage:"clip_high" default:"4" min:"0" doc:"The importance weight is clipped above at 1 + clip_high; below it is free." source:"default (not in the paper)"`
	Updates   int     `forage:"updates" default:"16" min:"1" doc:"Optimizer steps per training step." source:"CISPO (arXiv:2506.13585), section 3.1"`
}

func plugin() sdk.AlgorithmPlugin {
	return sdk.NewAlgorithm("cispo", "Clips importance weights and keeps the gradient of every token.", "CISPO (arXiv:2506.13585)",
		func(_ context.Context, c Config, host sdk.Host) (sdk.Algorithm, error) { return cispo{c, host}, nil })
}

type cispo struct {
	Config
	host sdk.Host
}

// loss is -weight · advantage · logp, averaged over all tokens of the policy (eq. 4). No gradient flows through the
// weight.
func (c cispo) loss() (objective.Objective, error) {
	weight := objective.StopGradient(objective.Clip(objective.Ratio(), 0, 1+c.ClipHigh))
	gain := objective.Mul(objective.Mul(weight, objective.Field("advantage", objective.Sequence)), objective.LogP())
	return objective.New("cispo", objective.TrainsPolicy, objective.TokenMean(objective.Neg(gain), objective.MaskPolicy), map[string]objective.Expr{
		"weight":  objective.TokenMean(weight, objective.MaskPolicy),
		"entropy": objective.TokenMean(objective.Entropy(), objective.MaskPolicy),
	})
}

// Plan implements sdk.Algorithm.
func (c cispo) Plan(_ context.Context, req sdk.PlanRequest) (sdk.PlanResponse, error) {
	if req.Produce {
		return sdk.PlanResponse{}, fmt.Errorf("cispo only trains, stage %q makes no updates: %w", req.Stage, sdk.ErrNotSupported)
	}
	o, err := c.loss()
	return sdk.PlanResponse{Objectives: []objective.Objective{o}}, err
}

// Step implements sdk.Algorithm: a group of episodes per question, and one update on all whose rewards differ.
func (c cispo) Step(ctx context.Context, req sdk.StepRequest) (sdk.StepResponse, error) {
	var requests []sdk.RolloutRequest
	for i, q := range req.Questions {
		requests = append(requests, sdk.RolloutRequest{RequestID: fmt.Sprint("group-", i), QuestionID: q.ID, N: c.GroupSize})
	}
	groups, err := c.host.Rollout(ctx, requests)
	if err != nil {
		return sdk.StepResponse{}, fmt.Errorf("sample %d groups: %w", len(requests), err)
	}
	var samples []sdk.Sample
	episodes, equal := 0, 0
	for _, g := range groups {
		advantages := compare(g.Episodes)
		if advantages == nil {
			equal++
			continue
		}
		for i, e := range g.Episodes {
			episodes++
			for k, s := range e.Sequences {
				if s.ResponseLength() > 0 {
					samples = append(samples, sdk.Sample{
						EpisodeID: e.ID, Sequence: k, Group: g.RequestID, SequenceFields: map[string]float64{"advantage": advantages[i]},
					})
				}
			}
		}
	}
	out := sdk.StepResponse{Metrics: map[string]float64{"cispo/equal_groups": float64(equal)}}
	if len(samples) > 0 {
		out.Updates = []sdk.Update{{
			Objective: "cispo", Samples: samples,
			MiniBatch: sdk.MiniBatch{Count: (episodes + c.Updates - 1) / c.Updates, Unit: sdk.UnitEpisode},
		}}
	}
	return out, nil
}

// compare gives reward less mean, divided by the standard deviation, or nothing where all rewards are the same.
func compare(episodes []episode.Episode) []float64 {
	var mean, squares float64
	differ := false
	for _, e := range episodes {
		mean += e.Rewards.Total / float64(len(episodes))
		differ = differ || e.Rewards.Total != episodes[0].Rewards.Total
	}
	if !differ {
		return nil
	}
	for _, e := range episodes {
		squares += (e.Rewards.Total - mean) * (e.Rewards.Total - mean)
	}
	var out []float64
	for _, e := range episodes {
		out = append(out, (e.Rewards.Total-mean)/math.Sqrt(squares/float64(len(episodes))))
	}
	return out
}
