package sdk

import (
	"fmt"

	"github.com/forage-rl/forage/core/internal/wire"
	pb "github.com/forage-rl/forage/core/internal/wire/foragev1"
	"github.com/forage-rl/forage/core/sdk/episode"
)

func fromPlanRequest(r *pb.PlanRequest) PlanRequest {
	return PlanRequest{
		Stage: r.GetStage(), Steps: int(r.GetSteps()), Questions: int(r.GetQuestions()), HasExperts: r.GetHasExperts(), Produce: r.GetProduce(),
	}
}

func toPlanResponse(p PlanResponse) *pb.PlanResponse {
	out := &pb.PlanResponse{
		Reference: p.Reference, TrainsObservations: p.TrainsObservations, DefaultsNotInPaper: wire.ToTexts(p.DefaultsNotInPaper),
	}
	for _, o := range p.Objectives {
		out.Objectives = append(out.Objectives, wire.ToObjective(o))
	}
	if p.Critic != nil {
		out.Critic = &pb.Critic{Warmup: int64(p.Critic.Warmup)}
	}
	return out
}

func fromStepRequest(r *pb.StepRequest) (StepRequest, error) {
	out := StepRequest{Step: int(r.GetStep()), Of: int(r.GetOf()), Seed: r.GetSeed()}
	for _, q := range r.GetQuestions() {
		question, err := wire.FromQuestion(q)
		if err != nil {
			return out, err
		}
		out.Questions = append(out.Questions, question)
	}
	for _, e := range r.GetExperts() {
		expert, err := wire.FromEpisode(e)
		if err != nil {
			return out, err
		}
		out.Experts = append(out.Experts, expert)
	}
	return out, nil
}

func toStepResponse(r StepResponse) (*pb.StepResponse, error) {
	out := &pb.StepResponse{Metrics: r.Metrics}
	for _, u := range r.Updates {
		update := &pb.Update{
			Objective: u.Objective, MiniBatch: &pb.MiniBatch{Count: int64(u.MiniBatch.Count), Unit: u.MiniBatch.Unit},
			Epochs: int64(u.Epochs), Temperature: u.Temperature, Order: u.Order, Samples: make([]*pb.Sample, len(u.Samples)),
		}
		for i, s := range u.Samples {
			sample := &pb.Sample{EpisodeId: s.EpisodeID, Sequence: int64(s.Sequence), SequenceFields: s.SequenceFields, Group: s.Group}
			if len(s.TokenFields) > 0 {
				sample.TokenFields = make(map[string]*pb.FloatArray, len(s.TokenFields))
				for name, values := range s.TokenFields {
					sample.TokenFields[name] = &pb.FloatArray{Values: values}
				}
			}
			update.Samples[i] = sample
		}
		out.Updates = append(out.Updates, update)
	}
	if len(r.UsedRewards) > 0 {
		out.UsedRewards = make(map[string]*pb.UsedReward, len(r.UsedRewards))
		for id, u := range r.UsedRewards {
			out.UsedRewards[id] = &pb.UsedReward{Value: u.Value, Turns: u.Turns}
		}
	}
	for _, a := range r.Artefacts {
		artefact := &pb.Artefact{Name: a.Name, EpisodeIds: a.EpisodeIDs}
		if len(a.ByQuestion) > 0 {
			artefact.ByQuestionMsgpack = make(map[string][]byte, len(a.ByQuestion))
			for id, values := range a.ByQuestion {
				b, err := wire.EncodeValues(values)
				if err != nil {
					return nil, fmt.Errorf("artefact %q, question %q: %w", a.Name, id, err)
				}
				artefact.ByQuestionMsgpack[id] = b
			}
		}
		out.Artefacts = append(out.Artefacts, artefact)
	}
	return out, nil
}

func fromScoreRequest(r *pb.ScoreRequest) (ScoreRequest, error) {
	out := ScoreRequest{Validation: r.GetValidation()}
	questions := make([]episode.Question, len(r.GetQuestions()))
	for i, q := range r.GetQuestions() {
		var err error
		if questions[i], err = wire.FromQuestion(q); err != nil {
			return out, err
		}
	}
	for _, item := range r.GetItems() {
		at := item.GetQuestion()
		if at < 0 || at >= int64(len(questions)) {
			return out, fmt.Errorf("a score item refers to question %d of %d", at, len(questions))
		}
		e, err := wire.FromEpisode(item.GetEpisode())
		if err != nil {
			return out, err
		}
		out.Items = append(out.Items, ScoreItem{Question: questions[at], Episode: e})
	}
	return out, nil
}

func toScoreResponse(r ScoreResponse) *pb.ScoreResponse {
	out := &pb.ScoreResponse{Scores: make([]*pb.Score, len(r.Scores))}
	for i, s := range r.Scores {
		out.Scores[i] = &pb.Score{Value: s.Value, Components: s.Components, Turns: s.Turns}
	}
	return out
}

func toTool(t Tool) *pb.ToolResponse {
	out := &pb.ToolResponse{Name: t.Name, Description: wire.ToText(t.Description)}
	for _, a := range t.Arguments {
		out.Arguments = append(out.Arguments, &pb.Argument{
			Name: a.Name, Type: a.Type, Description: wire.ToText(a.Description), Required: a.Required,
		})
	}
	return out
}

func fromCallRequest(r *pb.CallRequest) (CallRequest, error) {
	var out CallRequest
	for _, c := range r.GetCalls() {
		arguments, err := wire.DecodeValues(c.GetArgumentsMsgpack())
		if err != nil {
			return out, fmt.Errorf("call of episode %q: %w", c.GetEpisodeId(), err)
		}
		call := Call{EpisodeID: c.GetEpisodeId(), Turn: int(c.GetTurn()), Arguments: arguments}
		for _, s := range c.GetSeen() {
			call.Seen = append(call.Seen, Seen{
				Turn: int(s.GetTurn()), Tool: s.GetTool(), DocumentID: s.GetDocumentId(), ParagraphID: s.GetParagraphId(), SentenceID: s.GetSentenceId(),
			})
		}
		out.Calls = append(out.Calls, call)
	}
	return out, nil
}

func toCallResponse(r CallResponse) *pb.CallResponse {
	out := &pb.CallResponse{Results: make([]*pb.CallResult, len(r.Results))}
	for i, result := range r.Results {
		out.Results[i] = &pb.CallResult{Hits: wire.ToHits(result.Hits), Error: wire.ToText(result.Error)}
	}
	return out
}
