package hostside

import (
	"fmt"
	"reflect"

	"github.com/forage-rl/forage/core/internal/wire"
	pb "github.com/forage-rl/forage/core/internal/wire/foragev1"
	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
)

func toPlanRequest(r sdk.PlanRequest) *pb.PlanRequest {
	return &pb.PlanRequest{Stage: r.Stage, Steps: int64(r.Steps), Questions: int64(r.Questions), HasExperts: r.HasExperts, Produce: r.Produce}
}

func fromPlanResponse(p *pb.PlanResponse) sdk.PlanResponse {
	out := sdk.PlanResponse{
		Reference: p.GetReference(), TrainsObservations: p.GetTrainsObservations(), DefaultsNotInPaper: p.GetDefaultsNotInPaper(),
	}
	for _, o := range p.GetObjectives() {
		out.Objectives = append(out.Objectives, wire.FromObjective(o))
	}
	if p.GetCritic() != nil {
		out.Critic = &sdk.Critic{Warmup: int(p.GetCritic().GetWarmup())}
	}
	return out
}

func toEpisodes(list []episode.Episode) ([]*pb.Episode, error) {
	out := make([]*pb.Episode, len(list))
	for i, e := range list {
		var err error
		if out[i], err = wire.ToEpisode(e); err != nil {
			return nil, fmt.Errorf("episode %q: %w", e.ID, err)
		}
	}
	return out, nil
}

func toQuestions(list []episode.Question) ([]*pb.Question, error) {
	out := make([]*pb.Question, len(list))
	for i, q := range list {
		var err error
		if out[i], err = wire.ToQuestion(q); err != nil {
			return nil, fmt.Errorf("question %q: %w", q.ID, err)
		}
	}
	return out, nil
}

func toStepRequest(requestID string, r sdk.StepRequest) (*pb.StepRequest, error) {
	out := &pb.StepRequest{RequestId: requestID, Step: int64(r.Step), Of: int64(r.Of), Seed: r.Seed}
	var err error
	if out.Questions, err = toQuestions(r.Questions); err != nil {
		return nil, err
	}
	out.Experts, err = toEpisodes(r.Experts)
	return out, err
}

func fromStepResponse(r *pb.StepResponse) (sdk.StepResponse, error) {
	out := sdk.StepResponse{Metrics: r.GetMetrics()}
	for _, u := range r.GetUpdates() {
		update := sdk.Update{
			Objective: u.GetObjective(), MiniBatch: sdk.MiniBatch{Count: int(u.GetMiniBatch().GetCount()), Unit: u.GetMiniBatch().GetUnit()},
			Epochs: int(u.GetEpochs()), Temperature: u.GetTemperature(), Order: u.GetOrder(),
		}
		for _, s := range u.GetSamples() {
			sample := sdk.Sample{EpisodeID: s.GetEpisodeId(), Sequence: int(s.GetSequence()), SequenceFields: s.GetSequenceFields(), Group: s.GetGroup()}
			if len(s.GetTokenFields()) > 0 {
				sample.TokenFields = make(map[string][]float32, len(s.GetTokenFields()))
				for name, values := range s.GetTokenFields() {
					sample.TokenFields[name] = values.GetValues()
				}
			}
			update.Samples = append(update.Samples, sample)
		}
		out.Updates = append(out.Updates, update)
	}
	if len(r.GetUsedRewards()) > 0 {
		out.UsedRewards = make(map[string]sdk.UsedReward, len(r.GetUsedRewards()))
		for id, u := range r.GetUsedRewards() {
			out.UsedRewards[id] = sdk.UsedReward{Value: u.GetValue(), Turns: u.GetTurns()}
		}
	}
	for _, a := range r.GetArtefacts() {
		artefact := sdk.Artefact{Name: a.GetName(), EpisodeIDs: a.GetEpisodeIds()}
		if len(a.GetByQuestionMsgpack()) > 0 {
			artefact.ByQuestion = make(map[string]map[string]any, len(a.GetByQuestionMsgpack()))
			for id, b := range a.GetByQuestionMsgpack() {
				values, err := wire.DecodeValues(b)
				if err != nil {
					return out, fmt.Errorf("artefact %q, question %q: %w", a.GetName(), id, err)
				}
				artefact.ByQuestion[id] = values
			}
		}
		out.Artefacts = append(out.Artefacts, artefact)
	}
	return out, nil
}

func toScoreRequest(requestID string, r sdk.ScoreRequest) (*pb.ScoreRequest, error) {
	out := &pb.ScoreRequest{RequestId: requestID, Validation: r.Validation, Items: make([]*pb.ScoreItem, len(r.Items))}
	sent := map[string]int{} // by question id: index into r.Items of the item that brought it
	place := map[string]int{}
	for i, item := range r.Items {
		first, known := sent[item.Question.ID]
		at := place[item.Question.ID]
		if !known || !reflect.DeepEqual(r.Items[first].Question, item.Question) {
			q, err := wire.ToQuestion(item.Question)
			if err != nil {
				return nil, fmt.Errorf("question %q: %w", item.Question.ID, err)
			}
			at = len(out.Questions)
			out.Questions = append(out.Questions, q)
			sent[item.Question.ID], place[item.Question.ID] = i, at
		}
		e, err := wire.ToEpisode(item.Episode)
		if err != nil {
			return nil, fmt.Errorf("episode %q: %w", item.Episode.ID, err)
		}
		out.Items[i] = &pb.ScoreItem{Question: int64(at), Episode: e}
	}
	return out, nil
}

func fromScoreResponse(r *pb.ScoreResponse) sdk.ScoreResponse {
	out := sdk.ScoreResponse{Scores: make([]sdk.Score, len(r.GetScores()))}
	for i, s := range r.GetScores() {
		out.Scores[i] = sdk.Score{Value: s.GetValue(), Components: s.GetComponents(), Turns: s.GetTurns()}
	}
	return out
}

func fromTool(t *pb.ToolResponse) sdk.Tool {
	out := sdk.Tool{Name: t.GetName(), Description: t.GetDescription()}
	for _, a := range t.GetArguments() {
		out.Arguments = append(out.Arguments, sdk.Argument{
			Name: a.GetName(), Type: a.GetType(), Description: a.GetDescription(), Required: a.GetRequired(),
		})
	}
	return out
}

func toCallRequest(requestID string, r sdk.CallRequest) (*pb.CallRequest, error) {
	out := &pb.CallRequest{RequestId: requestID, Calls: make([]*pb.ToolCall, len(r.Calls))}
	for i, c := range r.Calls {
		arguments, err := wire.EncodeValues(c.Arguments)
		if err != nil {
			return nil, fmt.Errorf("call of episode %q: %w", c.EpisodeID, err)
		}
		call := &pb.ToolCall{EpisodeId: c.EpisodeID, Turn: int64(c.Turn), ArgumentsMsgpack: arguments}
		for _, s := range c.Seen {
			call.Seen = append(call.Seen, &pb.Seen{
				Turn: int64(s.Turn), Tool: s.Tool, DocumentId: s.DocumentID, ParagraphId: s.ParagraphID, SentenceId: s.SentenceID,
			})
		}
		out.Calls[i] = call
	}
	return out, nil
}

func fromCallResponse(r *pb.CallResponse) sdk.CallResponse {
	out := sdk.CallResponse{Results: make([]sdk.CallResult, len(r.GetResults()))}
	for i, result := range r.GetResults() {
		out.Results[i] = sdk.CallResult{Hits: wire.FromHits(result.GetHits()), Error: result.GetError()}
	}
	return out
}
