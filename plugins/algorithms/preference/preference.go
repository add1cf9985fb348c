// Package preference learns when to act from pairs of episodes to the same question (the first stage of AutoCoA, Zhang
// et al., arXiv:2503.06580): a loss on the difference of their mean log-probabilities, with a term that keeps the chosen
// one likely. There is no reference model.
//
// The paper's pairs share a prefix and part where one searches and the other reasons on, and come from a larger model.
// Here both sides are the policy's own: an episode with tools and one without, of which exactly one scores better, or an
// expert episode against a sampled one that scores worse. They share the prompt, not a longer prefix: an algorithm sees
// no text that it could part at.
package preference

import (
	"context"
	"fmt"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
	"github.com/forage-rl/forage/core/sdk/objective"
	"github.com/forage-rl/forage/plugins/algorithms/internal/grpo"
)

// Config is the configuration of the algorithm.
type Config struct {
	Pairs         string  `forage:"pairs" default:"tools" enum:"tools,expert" doc:"tools: an episode with tools against one without; expert: the expert's episode against one that scores less than expert_reward." source:"AutoCoA (arXiv:2503.06580), preference data"`
	Candidates    int     `forage:"candidates" default:"4" min:"1" doc:"Episodes sampled per question and side: the most pairs of a question." source:"default (not in the paper)"`
	Alpha         float64 `forage:"alpha" default:"0.2" min:"0" doc:"Weight of the chosen episode's own mean log-probability, which keeps both from becoming unlikely." source:"AutoCoA (arXiv:2503.06580), stage SFT-1"`
	ExpertReward  float64 `forage:"expert_reward" default:"1" doc:"Reward of an expert episode, which no reward plugin scores." source:"default (not in the paper)"`
	MissingExpert string  `forage:"missing_expert" default:"error" enum:"error,skip" doc:"With pairs = \"expert\", what to do with a question that has no expert episode: stop with an error that names it, or leave it out." source:"default (not in the paper)"`
	MiniBatch     int     `forage:"mini_batch" default:"16" min:"0" doc:"Pairs per optimizer step; 0 takes all of a training step at once." source:"AutoCoA (arXiv:2503.06580), stage SFT-1"`
	Epochs        int     `forage:"epochs" default:"1" min:"1" doc:"Passes over the pairs of a training step." source:"default (not in the paper)"`
	Temperature   float64 `forage:"temperature" default:"1" min:"0.01" doc:"Temperature that the log-probabilities are taken at." source:"default (not in the paper)"`
}

// chosen is the field that is 1 for the better episode of a pair.
const chosen = "chosen"

// Objective is the loss of a configuration: over pairs, the mean of -log sigmoid(P(chosen) - P(rejected)) - alpha ·
// P(chosen), where P is the mean log-probability of an episode's own tokens. A pair is a group of two, the chosen one
// first.
func Objective(c Config) (objective.Objective, error) {
	p := objective.Reduce(objective.LogP(), objective.Token, objective.Sequence, objective.Mean, objective.MaskPolicy)
	overPairs := func(x objective.Expr) objective.Expr {
		return objective.Reduce(x, objective.Group, objective.Scalar, objective.Mean, "")
	}
	margin := objective.GroupDifference(p)
	loss := overPairs(objective.Neg(objective.LogSigmoid(margin)))
	own := overPairs(objective.Reduce(objective.Mul(objective.Field(chosen, objective.Sequence), objective.Neg(p)),
		objective.Sequence, objective.Group, objective.Sum, ""))
	metrics := map[string]objective.Expr{
		"preference_loss": loss, "margin": overPairs(margin), "chosen_nll": own,
		"accuracy": overPairs(objective.Less(objective.Const(0), margin)),
	}
	return objective.New("preference", objective.TrainsPolicy, objective.Add(loss, objective.Mul(objective.Const(c.Alpha), own)), metrics)
}

// Plugin describes the algorithm.
func Plugin() sdk.AlgorithmPlugin {
	return sdk.NewAlgorithm("preference", "Pairs of a better and a worse episode: when to search and when to reason on.", "AutoCoA (arXiv:2503.06580)",
		func(_ context.Context, c Config, host sdk.Host) (sdk.Algorithm, error) {
			return algorithm{c, host}, nil
		})
}

type algorithm struct {
	config Config
	host   sdk.Host
}

func (a algorithm) Plan(_ context.Context, req sdk.PlanRequest) (sdk.PlanResponse, error) {
	if req.Produce {
		return sdk.PlanResponse{}, grpo.NotSupported("preference only trains: stage %q makes no updates; use a training stage", req.Stage)
	}
	if a.config.Pairs == "expert" && !req.HasExperts {
		return sdk.PlanResponse{}, grpo.NoExperts("preference with pairs = \"expert\"", req.Stage)
	}
	o, err := Objective(a.config)
	if err != nil {
		return sdk.PlanResponse{}, err
	}
	return sdk.PlanResponse{Objectives: []objective.Objective{o}, DefaultsNotInPaper: grpo.DefaultsInForce(a.config)}, nil
}

func (a algorithm) Step(ctx context.Context, req sdk.StepRequest) (sdk.StepResponse, error) {
	pair := a.byTools
	if a.config.Pairs == "expert" {
		pair = a.byExpert
	}
	pairs, metrics, err := pair(ctx, req)
	if err != nil {
		return sdk.StepResponse{}, err
	}
	var samples []sdk.Sample
	for i, p := range pairs {
		for k, e := range []episode.Episode{p.chosen, p.rejected} {
			samples = append(samples, sdk.Sample{
				EpisodeID: e.ID, Group: fmt.Sprintf("pair-%d", i), SequenceFields: map[string]float64{chosen: float64(1 - k)},
			})
		}
	}
	metrics["pairs/count"] = float64(len(pairs))
	out := sdk.StepResponse{Metrics: metrics}
	if len(samples) > 0 {
		out.Updates = []sdk.Update{{
			Objective: "preference", Samples: samples, Epochs: a.config.Epochs, Temperature: a.config.Temperature, Order: sdk.OrderGiven,
			MiniBatch: sdk.MiniBatch{Count: a.config.MiniBatch, Unit: sdk.UnitQuestion},
		}}
	}
	return out, nil
}

type pair struct{ chosen, rejected episode.Episode }

// usable says whether an episode can be one side of a pair: it is one growing text in which the policy wrote something, so
// that its mean log-probability is of one sequence.
func usable(e episode.Episode) bool {
	return len(e.Sequences) == 1 && grpo.Trainable(e.Sequences[0])
}

// byTools samples episodes with and without tools and pairs those of which one scores better.
func (a algorithm) byTools(ctx context.Context, req sdk.StepRequest) ([]pair, map[string]float64, error) {
	var requests []sdk.RolloutRequest
	for i, q := range req.Questions {
		requests = append(requests,
			sdk.RolloutRequest{RequestID: fmt.Sprintf("with-%d", i), QuestionID: q.ID, N: a.config.Candidates},
			sdk.RolloutRequest{RequestID: fmt.Sprintf("without-%d", i), QuestionID: q.ID, N: a.config.Candidates, Tools: []string{}})
	}
	answers, err := a.rollout(ctx, requests)
	if err != nil {
		return nil, nil, err
	}
	var pairs []pair
	searching := 0
	for i := 0; i < len(answers); i += 2 {
		for k, with := range answers[i] {
			without := answers[i+1][k]
			switch {
			case !usable(with) || !usable(without):
			case with.Rewards.Total > without.Rewards.Total:
				pairs = append(pairs, pair{with, without})
				searching++
			case with.Rewards.Total < without.Rewards.Total:
				pairs = append(pairs, pair{without, with})
			}
		}
	}
	return pairs, map[string]float64{"pairs/searching_chosen": float64(searching)}, nil
}

// byExpert pairs the expert of each question with sampled episodes that score less.
func (a algorithm) byExpert(ctx context.Context, req sdk.StepRequest) ([]pair, map[string]float64, error) {
	experts := map[string]episode.Episode{}
	for _, e := range req.Experts {
		experts[e.QuestionID] = e
	}
	var requests []sdk.RolloutRequest
	var missing []string
	for i, q := range req.Questions {
		if _, ok := experts[q.ID]; !ok {
			missing = append(missing, q.ID)
			continue
		}
		requests = append(requests, sdk.RolloutRequest{RequestID: fmt.Sprintf("group-%d", i), QuestionID: q.ID, N: a.config.Candidates})
	}
	if len(missing) > 0 && a.config.MissingExpert == "error" {
		return nil, nil, grpo.MissingExperts(missing[0], len(missing), len(req.Questions))
	}
	answers, err := a.rollout(ctx, requests)
	if err != nil {
		return nil, nil, err
	}
	var pairs []pair
	for i, episodes := range answers {
		for _, e := range episodes {
			if better := experts[requests[i].QuestionID]; usable(e) && usable(better) && e.Rewards.Total < a.config.ExpertReward {
				pairs = append(pairs, pair{better, e})
			}
		}
	}
	return pairs, map[string]float64{"experts/missing": float64(len(missing))}, nil
}

func (a algorithm) rollout(ctx context.Context, requests []sdk.RolloutRequest) ([][]episode.Episode, error) {
	if len(requests) == 0 {
		return nil, nil
	}
	answers, err := grpo.Rollout(ctx, a.host, requests)
	if err != nil {
		return nil, fmt.Errorf("sample candidates: %w", err)
	}
	return answers, nil
}
