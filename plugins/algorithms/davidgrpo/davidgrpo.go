// Package davidgrpo is David-GRPO: group-relative training of small search agents on a small budget, with expert
// episodes put into the groups first (phase seed) and promising prefixes continued later (phase main).
//
// Where paper and released code differ, the code's later generation ("C2") is the default and the alternative is a
// setting. Two faults of the release are not reproduced: continued episodes get exactly the searches that remain, and
// evidence is what the tools returned, not what a pattern finds in the text.
package davidgrpo

import (
	"context"
	"fmt"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
	"github.com/forage-rl/forage/core/sdk/evidence"
	"github.com/forage-rl/forage/core/sdk/objective"
	"github.com/forage-rl/forage/plugins/algorithms/internal/grpo"
)

const objectiveName = "david-grpo"

// Plugin describes the algorithm.
func Plugin() sdk.AlgorithmPlugin {
	return sdk.NewAlgorithm("david-grpo", "GRPO with expert seeding and evidence-guided prefix continuation, for small policies and budgets.",
		"David-GRPO", func(_ context.Context, c Config, host sdk.Host) (sdk.Algorithm, error) {
			return algorithm{c, host}, nil
		})
}

type algorithm struct {
	config Config
	host   sdk.Host
}

func (a algorithm) Plan(_ context.Context, req sdk.PlanRequest) (sdk.PlanResponse, error) {
	c := a.config
	if req.Produce {
		return sdk.PlanResponse{}, grpo.NotSupported("david-grpo only trains: stage %q makes no updates; use a training stage", req.Stage)
	}
	if c.Phase == seedPhase && c.Expert.Insert != "never" && !req.HasExperts {
		return sdk.PlanResponse{}, fmt.Errorf("the seed phase learns from experts and stage %q has none: set experts = dataset.NAME on it", req.Stage)
	}
	o, err := Objective(c)
	if err != nil {
		return sdk.PlanResponse{}, err
	}
	plan := sdk.PlanResponse{
		Objectives: []objective.Objective{o}, TrainsObservations: o.TrainsObservations(), DefaultsNotInPaper: grpo.DefaultsInForce(c),
	}
	if c.kl() != "none" {
		plan.Reference = sdk.ReferenceStageStart
	}
	return plan, nil
}

func (a algorithm) Step(ctx context.Context, req sdk.StepRequest) (sdk.StepResponse, error) {
	c := a.config
	sample := grpo.Sample
	if c.Phase != seedPhase && c.Continuation.Enabled {
		sample = grpo.SampleToBranch
	}
	groups, err := sample(ctx, a.host, req.Questions, c.GroupSize)
	if err != nil {
		return sdk.StepResponse{}, err
	}
	metrics := grpo.Metrics(groups)
	metrics["groups/all_miss"] = share(groups, allMiss)
	out := sdk.StepResponse{UsedRewards: map[string]sdk.UsedReward{}}
	if c.Phase == seedPhase {
		metrics["groups/inserted"] = c.insert(groups, req.Experts, req.Step, out.UsedRewards)
	} else if c.Continuation.Enabled {
		continued, err := a.continueGroups(ctx, groups)
		if err != nil {
			return sdk.StepResponse{}, err
		}
		metrics = grpo.Merge(metrics, continued)
	}
	if c.ScoreFloor > 0 {
		metrics["groups/floored"] = c.floor(groups, out.UsedRewards)
	}
	metrics["reward/used_mean"] = grpo.Metrics(groups)["reward/mean"]
	out.Metrics = metrics
	take := grpo.Samples
	if c.loss() == lossC1 {
		take = grpo.TokenSamples
	}
	samples := take(groups, c.NormalizeStd)
	if len(samples) == 0 || c.kl() == "none" && c.EntropyCoefficient == 0 && !grpo.Learnable(samples) {
		out.Metrics["groups/no_update"] = 1
		return out, nil
	}
	out.Updates = []sdk.Update{{
		Objective: objectiveName, Samples: samples, Epochs: c.Epochs, Temperature: c.Temperature, Order: sdk.OrderGiven,
		MiniBatch: sdk.MiniBatch{Count: grpo.MiniBatch(grpo.Groups(samples), c.MiniBatch, c.Updates), Unit: sdk.UnitQuestion},
	}}
	return out, nil
}

// insert puts experts into the groups and gives the share of groups that got one. With several experts of a question
// they take turns from step to step.
func (c Config) insert(groups []grpo.Group, experts []episode.Episode, step int, used map[string]sdk.UsedReward) float64 {
	byQuestion := map[string][]episode.Episode{}
	for _, e := range experts {
		byQuestion[e.QuestionID] = append(byQuestion[e.QuestionID], e)
	}
	inserted := 0
	for _, g := range groups {
		own := byQuestion[g.Question.ID]
		at := InsertAt(g.Rewards, c.Expert.Insert, c.FullReward)
		if at < 0 || len(own) == 0 {
			continue
		}
		expert := own[step%len(own)]
		g.Episodes[at], g.Rewards[at] = expert, c.Expert.Reward
		used[expert.ID] = sdk.UsedReward{Value: c.Expert.Reward}
		inserted++
	}
	return of(inserted, groups)
}

// continueGroups continues the best episode of each group that needs it, all in one batch, and puts the best
// candidates into the groups.
func (a algorithm) continueGroups(ctx context.Context, groups []grpo.Group) (map[string]float64, error) {
	c := a.config
	var requests []sdk.RolloutRequest
	var branches []Branch
	var indices []int
	restarted := 0
	for i, g := range groups {
		if len(g.Question.Gold) == 0 {
			continue // nothing says where evidence grew; the release would continue after the end
		}
		turns := make([][]episode.Turn, len(g.Episodes))
		for k, e := range g.Episodes {
			turns[k] = e.Turns
		}
		b, needed := ChooseBranch(g.Rewards, turns, g.Question.Gold, c.FullReward)
		if !needed || b.AfterTurn < 0 && !c.Continuation.Restart {
			continue
		}
		if b.AfterTurn < 0 {
			restarted++
		}
		requests = append(requests, sdk.RolloutRequest{
			RequestID: fmt.Sprintf("continue-%d", i), QuestionID: g.Question.ID, N: c.candidates(),
			From: &episode.Branch{EpisodeID: g.Episodes[b.Best].ID, AfterTurn: b.AfterTurn},
		})
		branches, indices = append(branches, b), append(indices, i)
	}
	metrics := map[string]float64{
		"groups/continued": of(len(requests), groups), "groups/restarted": of(restarted, groups), "groups/replaced": 0,
		"episodes/continued": float64(len(requests) * c.candidates()),
	}
	if len(requests) == 0 {
		return metrics, nil
	}
	answers, err := grpo.Rollout(ctx, a.host, requests)
	if err != nil {
		return nil, fmt.Errorf("continue %d groups: %w", len(requests), err)
	}
	replaced := 0
	for k, b := range branches {
		g := groups[indices[k]]
		candidates := answers[k]
		var rewards []float64
		for _, e := range candidates {
			rewards = append(rewards, e.Rewards.Total)
		}
		if by := ReplaceBy(g.Rewards[b.Best], rewards); by >= 0 {
			g.Episodes[b.Worst], g.Rewards[b.Worst] = candidates[by], rewards[by]
			replaced++
		}
	}
	metrics["groups/replaced"] = of(replaced, groups)
	return metrics, nil
}

// floor sets the rewards of groups to 0 whose best is not above the floor, and gives their share.
func (c Config) floor(groups []grpo.Group, used map[string]sdk.UsedReward) float64 {
	floored := 0
	for _, g := range groups {
		best := grpo.ArgMax(g.Rewards)
		if best < 0 || g.Rewards[best] > c.ScoreFloor {
			continue
		}
		for i := range g.Rewards {
			g.Rewards[i] = 0
			used[g.Episodes[i].ID] = sdk.UsedReward{}
		}
		floored++
	}
	return of(floored, groups)
}

// allMiss says whether the question has gold documents and no episode of the group returned any.
func allMiss(g grpo.Group) bool {
	for _, e := range g.Episodes {
		if evidence.Found(g.Question.Gold, e.Turns) > 0 {
			return false
		}
	}
	return len(g.Question.Gold) > 0 && len(g.Episodes) > 0
}

func share(groups []grpo.Group, is func(grpo.Group) bool) float64 {
	n := 0
	for _, g := range groups {
		if is(g) {
			n++
		}
	}
	return of(n, groups)
}

func of(n int, groups []grpo.Group) float64 {
	if len(groups) == 0 {
		return 0
	}
	return float64(n) / float64(len(groups))
}
