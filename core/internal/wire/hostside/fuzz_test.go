package hostside

import (
	"testing"

	"google.golang.org/protobuf/proto"

	pb "github.com/forage-rl/forage/core/internal/wire/foragev1"
)

// FuzzFromPlugin takes bytes for each answer of a plugin: whatever it sends is converted, item by item, or refused.
func FuzzFromPlugin(f *testing.F) {
	for _, m := range []proto.Message{
		&pb.PlanResponse{Objectives: []*pb.Objective{{Name: "o", Loss: -1}}, Critic: &pb.Critic{Warmup: -1}},
		&pb.StepResponse{
			Updates:   []*pb.Update{{Objective: "o", Samples: []*pb.Sample{{EpisodeId: "e", Sequence: -1, TokenFields: map[string]*pb.FloatArray{"a": nil}}}}},
			Artefacts: []*pb.Artefact{{Name: "a", ByQuestionMsgpack: map[string][]byte{"q": {0x81}}}}, UsedRewards: map[string]*pb.UsedReward{"e": nil},
		},
		&pb.ScoreResponse{Scores: []*pb.Score{{}, {Turns: []float64{1}}}},
		&pb.ToolResponse{Arguments: []*pb.Argument{{}}},
		&pb.CallResponse{Results: []*pb.CallResult{{Hits: []*pb.Hit{{}}}}},
	} {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var plan pb.PlanResponse
		if proto.Unmarshal(b, &plan) == nil {
			for _, o := range fromPlanResponse(&plan).Objectives {
				if _, err := o.Levels(); err == nil {
					o.Fields()
					o.TrainsObservations()
				}
			}
		}
		var step pb.StepResponse
		if proto.Unmarshal(b, &step) == nil {
			got, err := fromStepResponse(&step)
			if err == nil && (len(got.Updates) != len(step.Updates) || len(got.Artefacts) != len(step.Artefacts) || len(got.UsedRewards) != len(step.UsedRewards)) {
				t.Errorf("%v became %+v", &step, got)
			}
		}
		var score pb.ScoreResponse
		if proto.Unmarshal(b, &score) == nil && len(fromScoreResponse(&score).Scores) != len(score.Scores) {
			t.Error("scores are lost")
		}
		var tool pb.ToolResponse
		if proto.Unmarshal(b, &tool) == nil && len(fromTool(&tool).Arguments) != len(tool.Arguments) {
			t.Error("arguments are lost")
		}
		var call pb.CallResponse
		if proto.Unmarshal(b, &call) == nil {
			got := fromCallResponse(&call)
			for i, r := range got.Results {
				if len(r.Hits) != len(call.Results[i].Hits) {
					t.Error("hits are lost")
				}
			}
		}
	})
}
