// Command misbehave is a pack of an algorithm and a reward that do the one thing wrong which their configuration names,
// for tests.
package main

import (
	"context"
	"math"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
	"github.com/forage-rl/forage/core/sdk/objective"
)

type algorithmConfig struct {
	Wrong string `forage:"wrong" doc:"What is wrong with the step."`
}

type algorithm struct {
	algorithmConfig
	host sdk.Host
}

func (a algorithm) Plan(context.Context, sdk.PlanRequest) (sdk.PlanResponse, error) {
	weight := objective.Field("weight", objective.Sequence)
	weighted, err := objective.New("weighted", objective.TrainsPolicy, objective.TokenMean(objective.Mul(weight, objective.NLL()), objective.MaskPolicy), nil)
	if err != nil {
		return sdk.PlanResponse{}, err
	}
	// Its ratio to a constant overflows for large weights, in the value or in the gradient alone.
	exploding, err := objective.New("exploding", objective.TrainsPolicy,
		objective.TokenMean(objective.Exp(objective.Mul(weight, objective.Neg(objective.LogP()))), objective.MaskPolicy), nil)
	if err != nil {
		return sdk.PlanResponse{}, err
	}
	mean := objective.Reduce(objective.LogP(), objective.Token, objective.Sequence, objective.Mean, "")
	pairs, err := objective.New("pairs", objective.TrainsPolicy,
		objective.Reduce(objective.Neg(objective.LogSigmoid(objective.GroupDifference(mean))), objective.Group, objective.Scalar, objective.Mean, ""), nil)
	return sdk.PlanResponse{Objectives: []objective.Objective{weighted, exploding, pairs}}, err
}

func (a algorithm) Step(ctx context.Context, req sdk.StepRequest) (sdk.StepResponse, error) {
	answers, err := a.host.Rollout(ctx, []sdk.RolloutRequest{{RequestID: "a", QuestionID: req.Questions[0].ID, N: 3}})
	if err != nil {
		return sdk.StepResponse{}, err
	}
	u := sdk.Update{Objective: "weighted"}
	for _, e := range answers[0].Episodes {
		u.Samples = append(u.Samples, sdk.Sample{EpisodeID: e.ID, SequenceFields: map[string]float64{"weight": 1}})
	}
	out := sdk.StepResponse{}
	first := &u.Samples[0]
	switch a.Wrong {
	case "sequence":
		first.Sequence = 1
	case "samples":
		u.Samples = nil
	case "field_name":
		first.SequenceFields = map[string]float64{"wait": 1}
	case "infinite":
		first.SequenceFields["weight"] = math.Inf(-1)
	case "overflow":
		first.SequenceFields["weight"] = 1e300
	case "unit":
		u.MiniBatch = sdk.MiniBatch{Count: 1, Unit: "batch"}
	case "count":
		u.MiniBatch = sdk.MiniBatch{Count: -1, Unit: sdk.UnitEpisode}
	case "order":
		u.Order = "sorted"
	case "epochs":
		u.Epochs = -1
	case "temperature":
		u.Temperature = -1
	case "not_a_temperature":
		u.Temperature = math.NaN()
	case "loss":
		u.Objective = "exploding"
		first.SequenceFields["weight"] = 1e30
	case "pairs":
		u.Objective = "pairs"
	case "used_nan":
		out.UsedRewards = map[string]sdk.UsedReward{first.EpisodeID: {Value: math.NaN()}}
	case "used_turns":
		out.UsedRewards = map[string]sdk.UsedReward{first.EpisodeID: {Turns: make([]float64, 99)}}
	case "artefact":
		out.Artefacts = []sdk.Artefact{{Name: "found"}}
	case "metric":
		out.Metrics = map[string]float64{"misbehave/nan": math.NaN()}
	}
	out.Updates = []sdk.Update{u}
	return out, nil
}

type rewardConfig struct {
	Wrong string `forage:"wrong" doc:"What is wrong with the scores."`
}

type reward struct{ rewardConfig }

func (r reward) Score(_ context.Context, req sdk.ScoreRequest) (sdk.ScoreResponse, error) {
	var out sdk.ScoreResponse
	for i, item := range req.Items {
		out.Scores = append(out.Scores, r.score(i, item.Episode))
	}
	switch {
	case r.Wrong == "few":
		out.Scores = out.Scores[1:]
	case r.Wrong == "many":
		out.Scores = append(out.Scores, sdk.Score{})
	}
	return out, nil
}

func (r reward) score(i int, e episode.Episode) sdk.Score {
	if i != 1 {
		return sdk.Score{}
	}
	switch r.Wrong {
	case "nan":
		return sdk.Score{Value: math.NaN()}
	case "infinite":
		return sdk.Score{Value: math.Inf(1)}
	case "component":
		return sdk.Score{Components: map[string]float64{"form": math.NaN()}}
	case "turns":
		return sdk.Score{Turns: make([]float64, len(e.Turns)+1)}
	case "turn_nan":
		turns := make([]float64, len(e.Turns))
		turns[len(turns)-1] = math.NaN()
		return sdk.Score{Turns: turns}
	}
	return sdk.Score{}
}

func main() {
	sdk.Serve(sdk.Pack{
		Name: "forage-misbehave", Version: "0.1.0",
		Algorithms: []sdk.AlgorithmPlugin{
			sdk.NewAlgorithm("misbehave", "Does one thing wrong.", "", func(_ context.Context, c algorithmConfig, host sdk.Host) (sdk.Algorithm, error) {
				return algorithm{c, host}, nil
			}),
		},
		Rewards: []sdk.RewardPlugin{
			sdk.NewReward("misbehave", "Does one thing wrong.", "", func(_ context.Context, c rewardConfig, _ sdk.Host) (sdk.Reward, error) {
				return reward{c}, nil
			}),
		},
	})
}
