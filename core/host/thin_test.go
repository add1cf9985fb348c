package host

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
)

func testEpisode(id string, tokens int) episode.Episode {
	return episode.Episode{
		ID: id, QuestionID: "q", Origin: episode.OriginPolicy, Stop: episode.StopAnswered,
		Sequences: []episode.Sequence{{
			Prompt: "Question?", PromptLength: 20, Length: 20 + tokens,
			Segments: []episode.Segment{{Kind: episode.Policy, Start: 20, End: 20 + tokens, Text: strings.Repeat("word ", tokens)}},
		}},
		Turns: []episode.Turn{{Action: episode.ActionAnswer, Text: "answer", Span: episode.Span{Start: 20, End: 20 + tokens}}},
	}
}

// rolloutHost answers with n episodes per request.
func rolloutHost(tokens int) *scripted {
	return &scripted{rollout: func(_ context.Context, requests []sdk.RolloutRequest) ([]sdk.RolloutResponse, error) {
		var out []sdk.RolloutResponse
		for _, r := range requests {
			response := sdk.RolloutResponse{RequestID: r.RequestID}
			for n := range r.N {
				response.Episodes = append(response.Episodes, testEpisode(fmt.Sprintf("%s-%d", r.RequestID, n), tokens))
			}
			out = append(out, response)
		}
		return out, nil
	}}
}

func TestStepThroughProcess(t *testing.T) {
	c := bundle(t, "forage-good")
	s, _ := supervise(t, c)
	a, err := s.Algorithm(within(t), InstanceSpec{Name: "stage.main.algorithm", Label: "testing"}, rolloutHost(150))
	if err != nil {
		t.Fatal(err)
	}
	plan, err := a.Plan(within(t), sdk.PlanRequest{Stage: "main"})
	if err != nil || len(plan.Objectives) != 1 || plan.Critic.Warmup != 2 {
		t.Fatalf("plan %+v, error %v", plan, err)
	}
	if _, err := plan.Objectives[0].Levels(); err != nil {
		t.Fatal(err)
	}
	var questions []episode.Question
	for i := range 16 {
		questions = append(questions, episode.Question{ID: fmt.Sprint("q", i), Text: "Which?", Metadata: map[string]any{"a": []any{"b", 1.5}}})
	}
	step, err := a.Step(within(t), sdk.StepRequest{Step: 3, Of: 10, Questions: questions})
	if err != nil {
		t.Fatal(err)
	}
	if len(step.Updates) != 1 || len(step.Updates[0].Samples) != 80 || len(step.Updates[0].Samples[79].TokenFields["advantage"]) != 150 {
		t.Fatalf("step %+v", step)
	}
	state, err := a.Save(within(t))
	if err != nil || string(state) != "step 3" {
		t.Fatalf("state %q, error %v", state, err)
	}
	stats := s.Stats()[0]
	if stats.Calls != 3 || stats.HostCalls != 1 || stats.BytesReceived == 0 || stats.BytesSent < 80*150*5 || stats.Transport <= 0 || stats.Unmeasured != 0 {
		t.Errorf("stats %+v", stats)
	}
	t.Logf("%+v", stats)
}

func TestRewardThroughProcess(t *testing.T) {
	c := bundle(t, "forage-good")
	s, _ := supervise(t, c)
	r, err := s.Reward(within(t), InstanceSpec{Name: "reward.a", Label: "testing", Values: map[string]any{"number": 2.0}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	out, err := r.Score(within(t), sdk.ScoreRequest{Items: []sdk.ScoreItem{{Episode: testEpisode("e", 3)}, {}}})
	if err != nil || len(out.Scores) != 2 || out.Scores[0].Value != 2 || out.Scores[1].Value != 0 {
		t.Fatalf("scores %+v, error %v", out, err)
	}
	_, err = s.Reward(within(t), InstanceSpec{Name: "reward.b", Label: "testing", Values: map[string]any{"number": 13}}, nil)
	var refused *ConfigError
	if !errors.As(err, &refused) || refused.Diagnostics[0].Path.String() != "number" {
		t.Fatalf("error %v", err)
	}
}
