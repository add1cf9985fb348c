// Command pipeline is a pack for tests of stages that hand artefacts on: an algorithm that explores with several agents
// and policies and writes artefacts, wrongly where its configuration says so, and a reward that reads an annotation.
package main

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/objective"
	"github.com/forage-rl/forage/core/sdk/schema"
)

type config struct {
	Agents  []schema.Ref `forage:"agents" type:"agent" doc:"Agents to ask by, in turn, beside the stage's own."`
	Teacher string       `forage:"teacher" default:"teacher" doc:"Role of the policy to sample from."`
	Judge   schema.Ref   `forage:"judge" type:"policy" doc:"A policy whose log-probabilities are asked for."`
	Wrong   string       `forage:"wrong" default:"nothing" enum:"nothing,undeclared,unwritten,update,question,twice,mixed,train" doc:"What is wrong."`
}

type explore struct {
	config
	host sdk.Host
}

func (e *explore) Plan(_ context.Context, req sdk.PlanRequest) (sdk.PlanResponse, error) {
	if req.Produce == (e.Wrong == "train") {
		return sdk.PlanResponse{}, fmt.Errorf("stage %q: produce is %v", req.Stage, req.Produce)
	}
	o, err := objective.New("copy", objective.TrainsPolicy, objective.TokenMean(objective.Sub(objective.NLL(), objective.OldLogP()), objective.MaskPolicy), nil)
	return sdk.PlanResponse{Objectives: []objective.Objective{o}}, err
}

func (e *explore) Step(ctx context.Context, req sdk.StepRequest) (sdk.StepResponse, error) {
	var ask []sdk.RolloutRequest
	for i, q := range req.Questions {
		ask = append(ask, sdk.RolloutRequest{RequestID: "own" + q.ID, QuestionID: q.ID, N: 1},
			sdk.RolloutRequest{RequestID: "teacher" + q.ID, QuestionID: q.ID, N: 2, Policy: e.Teacher, Sampling: &sdk.Sampling{Temperature: 0.5, TopP: 1}},
			sdk.RolloutRequest{RequestID: "agent" + q.ID, QuestionID: q.ID, N: 1, Policy: e.Teacher, Agent: e.Agents[i%len(e.Agents)].Handle},
			sdk.RolloutRequest{RequestID: "named" + q.ID, QuestionID: q.ID, N: 1, Agent: "hasty", Tools: []string{"search"}})
	}
	responses, err := e.host.Rollout(ctx, ask)
	if err != nil {
		return sdk.StepResponse{}, err
	}
	if err := e.check(ctx, req, responses); err != nil {
		return sdk.StepResponse{}, err
	}
	var out sdk.StepResponse
	episodes, table := sdk.Artefact{Name: "episodes"}, sdk.Artefact{Name: "tau", ByQuestion: map[string]map[string]any{}}
	for i, r := range responses {
		question := req.Questions[i/4].ID
		for _, ep := range r.Episodes {
			if i%4 == 0 || i%4 == 3 || ep.Answer == nil {
				continue
			}
			episodes.EpisodeIDs = append(episodes.EpisodeIDs, ep.ID)
			best, _ := table.ByQuestion[question]["tau"].(float64)
			table.ByQuestion[question] = map[string]any{"tau": max(best, ep.Rewards.Total), "step": req.Step}
		}
		if table.ByQuestion[question] == nil {
			table.ByQuestion[question] = map[string]any{"tau": 0., "step": req.Step}
		}
	}
	first := responses[0].Episodes[0]
	switch e.Wrong {
	case "undeclared":
		episodes.Name = "others"
	case "unwritten":
		table.ByQuestion = nil
	case "update":
		out.Updates = []sdk.Update{{Objective: "copy", Samples: []sdk.Sample{{EpisodeID: first.ID}}}}
	case "question":
		table.ByQuestion["nobody"] = map[string]any{"tau": 1.}
	case "twice":
		episodes.EpisodeIDs = append(episodes.EpisodeIDs, episodes.EpisodeIDs[0])
	case "mixed":
		episodes.ByQuestion = table.ByQuestion
	}
	out.Artefacts = []sdk.Artefact{episodes, table}
	return out, nil
}

// check compares what the host gave with what was asked for.
func (e *explore) check(ctx context.Context, req sdk.StepRequest, responses []sdk.RolloutResponse) error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	own, teacher := responses[0].Episodes[0], responses[1].Episodes
	check(len(teacher) == 2 && len(responses[2].Episodes) == 1, "wrong number of episodes")
	for i, r := range responses {
		if i%4 == 3 {
			check(r.Episodes[0].Counters.Searches <= 1, "the agent hasty searches once at most, not %d times", r.Episodes[0].Counters.Searches)
		}
	}
	for _, ref := range append(e.Agents, e.Judge) {
		check(ref.Digest != "", "%s has no digest", ref.Handle)
	}
	logps := map[string][]sdk.SequenceValues{}
	for _, policy := range []string{"", "main", e.Teacher, e.Judge.Handle} {
		values, err := e.host.LogProbs(ctx, sdk.LogProbsRequest{EpisodeIDs: []string{own.ID}, Policy: policy})
		if err != nil {
			return err
		}
		check(len(values[0].Values) == own.Sequences[0].ResponseLength(), "a number per token")
		logps[policy] = values
	}
	check(reflect.DeepEqual(logps[""], logps["main"]), "the stage's policy is main")
	check(!reflect.DeepEqual(logps["main"], logps[e.Teacher]), "main and the teacher are two")
	check(reflect.DeepEqual(logps[e.Teacher], logps[e.Judge.Handle]), "the judge is the teacher under another name")
	_, unknownPolicy := e.host.Rollout(ctx, []sdk.RolloutRequest{{RequestID: "p", QuestionID: req.Questions[0].ID, N: 1, Policy: "nobody"}})
	_, unknownAgent := e.host.Rollout(ctx, []sdk.RolloutRequest{{RequestID: "a", QuestionID: req.Questions[0].ID, N: 1, Agent: "agent.nobody"}})
	_, unknownTool := e.host.Rollout(ctx, []sdk.RolloutRequest{{RequestID: "t", QuestionID: req.Questions[0].ID, N: 1, Tools: []string{"nothing"}}})
	_, reference := e.host.LogProbs(ctx, sdk.LogProbsRequest{EpisodeIDs: []string{own.ID}, Policy: e.Teacher, Reference: true})
	check(errors.Is(unknownPolicy, sdk.ErrUnknownHandle) && errors.Is(unknownAgent, sdk.ErrUnknownHandle), "unknown handle: %v, %v", unknownPolicy, unknownAgent)
	check(errors.Is(unknownTool, sdk.ErrInvalidRequest) && errors.Is(reference, sdk.ErrInvalidRequest), "invalid request: %v, %v", unknownTool, reference)
	return errors.Join(errs...)
}

type annotated struct{}

// Score gives an episode its searches and what the annotation of its question says, which must be there.
func (annotated) Score(_ context.Context, req sdk.ScoreRequest) (sdk.ScoreResponse, error) {
	var out sdk.ScoreResponse
	for _, item := range req.Items {
		tau, ok := item.Question.Metadata["tau"].(float64)
		if !ok {
			return out, fmt.Errorf("question %s has no number tau: %v", item.Question.ID, item.Question.Metadata)
		}
		out.Scores = append(out.Scores, sdk.Score{Value: tau + float64(item.Episode.Counters.Searches)})
	}
	return out, nil
}

func main() {
	sdk.Serve(sdk.Pack{
		Name: "forage-pipeline", Version: "0.1.0",
		Algorithms: []sdk.AlgorithmPlugin{sdk.NewAlgorithm("explore", "Samples and writes artefacts.", "", func(_ context.Context, c config, host sdk.Host) (sdk.Algorithm, error) {
			return &explore{c, host}, nil
		})},
		Rewards: []sdk.RewardPlugin{sdk.NewReward("annotated", "Reads an annotation.", "", func(context.Context, struct{}, sdk.Host) (sdk.Reward, error) {
			return annotated{}, nil
		})},
	})
}
