package sdktest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/objective"
	"github.com/forage-rl/forage/core/sdk/schema"
)

type rewardConfig struct {
	Scale float64 `forage:"scale" default:"1" min:"0" max:"10" doc:"Scale of the score."`
	Mode  string  `forage:"mode" default:"turns" enum:"turns,answer" doc:"What is counted."`
}

type countReward struct{ rewardConfig }

func (r countReward) Score(_ context.Context, req sdk.ScoreRequest) (sdk.ScoreResponse, error) {
	var out sdk.ScoreResponse
	for _, item := range req.Items {
		s := sdk.Score{Value: r.Scale * float64(len(item.Episode.Turns))}
		for range item.Episode.Turns {
			s.Turns = append(s.Turns, r.Scale)
		}
		out.Scores = append(out.Scores, s)
	}
	return out, nil
}

func rewardPlugin() sdk.RewardPlugin {
	return sdk.NewReward("count", "Counts turns.", "", func(_ context.Context, c rewardConfig, _ sdk.Host) (sdk.Reward, error) {
		return countReward{c}, nil
	})
}

func TestRewardSuite(t *testing.T) {
	TestReward(t, rewardPlugin(), RewardCase{Name: "defaults"}, RewardCase{
		Name: "scaled", Values: map[string]any{"scale": 2.0}, Items: ScoreItems()[:2], Want: []float64{4, 6},
	})
}

type searchConfig struct {
	Index schema.Ref `forage:"index" type:"index" doc:"The index."`
	K     int        `forage:"k" default:"3" min:"1" doc:"Hits per query."`
}

type searchRetriever struct {
	searchConfig
	host sdk.Host
}

func (searchRetriever) Tool(context.Context) (sdk.Tool, error) {
	return sdk.Tool{Name: "search", Description: "Searches.", Arguments: []sdk.Argument{{Name: "query", Type: "string", Required: true}}}, nil
}

func (r searchRetriever) Call(ctx context.Context, req sdk.CallRequest) (sdk.CallResponse, error) {
	out := sdk.CallResponse{Results: make([]sdk.CallResult, len(req.Calls))}
	for i, c := range req.Calls {
		query, ok := c.Arguments["query"].(string)
		if !ok {
			out.Results[i].Error = "query is missing"
			continue
		}
		hits, err := r.host.Search(ctx, sdk.SearchRequest{Index: r.Index.Handle, Queries: []string{query}, K: r.K})
		if err != nil {
			return sdk.CallResponse{}, err
		}
		out.Results[i].Hits = hits[0]
	}
	return out, nil
}

func TestRetrieverSuite(t *testing.T) {
	TestRetriever(t, sdk.NewRetriever("search", "Searches.", "", func(_ context.Context, c searchConfig, host sdk.Host) (sdk.Retriever, error) {
		return searchRetriever{c, host}, nil
	}))
}

type grpoConfig struct {
	Group int `forage:"group" default:"4" min:"2" doc:"Episodes per question."`
}

type grpo struct {
	grpoConfig
	host  sdk.Host
	steps int
}

func (*grpo) Plan(context.Context, sdk.PlanRequest) (sdk.PlanResponse, error) {
	o, err := objective.New("actor", objective.TrainsPolicy,
		objective.TokenMean(objective.ClippedSurrogate(objective.Field("advantage", objective.Token), .2, .2, 0), ""), nil)
	return sdk.PlanResponse{Objectives: []objective.Objective{o}}, err
}

func (g *grpo) Step(ctx context.Context, req sdk.StepRequest) (sdk.StepResponse, error) {
	var requests []sdk.RolloutRequest
	for i, q := range req.Questions {
		requests = append(requests, sdk.RolloutRequest{RequestID: fmt.Sprint("group-", i), QuestionID: q.ID, N: g.Group})
	}
	responses, err := g.host.Rollout(ctx, requests)
	if err != nil {
		return sdk.StepResponse{}, err
	}
	u := sdk.Update{Objective: "actor", MiniBatch: sdk.MiniBatch{Count: 2, Unit: sdk.UnitQuestion}}
	for _, r := range responses {
		for _, e := range r.Episodes {
			advantages := make([]float32, e.Sequences[0].ResponseLength())
			for i := range advantages {
				advantages[i] = float32(e.Rewards.Total)
			}
			u.Samples = append(u.Samples, sdk.Sample{EpisodeID: e.ID, TokenFields: map[string][]float32{"advantage": advantages}})
		}
	}
	g.steps++
	return sdk.StepResponse{Updates: []sdk.Update{u}, Metrics: map[string]float64{"steps": float64(g.steps)}}, nil
}

func (g *grpo) Save(context.Context) ([]byte, error) { return fmt.Append(nil, g.steps), nil }

func (g *grpo) Load(_ context.Context, state []byte) error {
	_, err := fmt.Sscan(string(state), &g.steps)
	return err
}

func algorithmPlugin() sdk.AlgorithmPlugin {
	return sdk.NewAlgorithm("grpo", "Group advantages.", "", func(_ context.Context, c grpoConfig, host sdk.Host) (sdk.Algorithm, error) {
		return &grpo{grpoConfig: c, host: host}, nil
	})
}

func TestAlgorithmSuite(t *testing.T) { TestAlgorithm(t, algorithmPlugin()) }

// TestRequestIDs: a repeated request has the same answer, and an id that another request has is refused, as by the real host.
func TestRequestIDs(t *testing.T) {
	h := &Host{}
	ask := func(requests ...sdk.RolloutRequest) ([]sdk.RolloutResponse, error) {
		return h.Rollout(t.Context(), requests)
	}
	a, b := sdk.RolloutRequest{RequestID: "a", QuestionID: "q0", N: 2}, sdk.RolloutRequest{RequestID: "b", QuestionID: "q0", N: 2}
	first, err := ask(a, b)
	if err != nil || first[0].Episodes[0].ID == first[1].Episodes[0].ID {
		t.Fatalf("%v, error %v", first, err)
	}
	if again, err := ask(b, a); err != nil || again[1].Episodes[0].ID != first[0].Episodes[0].ID {
		t.Errorf("a repeated request: %v, error %v", again, err)
	}
	other := a
	other.N = 1
	for name, requests := range map[string][]sdk.RolloutRequest{
		"an id of another request": {other}, "an id twice in a call": {{RequestID: "c", QuestionID: "q0", N: 1}, {RequestID: "c", QuestionID: "q1", N: 1}}, "no id": {{QuestionID: "q0", N: 1}},
	} {
		if _, err := ask(requests...); !errors.Is(err, sdk.ErrInvalidRequest) {
			t.Errorf("%s: %v", name, err)
		}
	}
	h.nextStep()
	if next, err := ask(a); err != nil || next[0].Episodes[0].ID == first[0].Episodes[0].ID {
		t.Errorf("the next step: %v, error %v", next, err)
	}
}

func TestSearches(t *testing.T) {
	h := &Host{}
	search := func(req sdk.SearchRequest) error {
		_, err := h.Search(t.Context(), req)
		return err
	}
	if err := search(sdk.SearchRequest{K: 1}); err != nil {
		t.Errorf("a search for nothing: %v", err)
	}
	for name, req := range map[string]sdk.SearchRequest{
		"both": {Queries: []string{"a"}, Vectors: [][]float32{{1}}, K: 1}, "k": {Queries: []string{"a"}},
		"exclude": {Queries: []string{"a", "b"}, K: 1, Exclude: [][]string{{"d0"}}},
	} {
		if err := search(req); !errors.Is(err, sdk.ErrInvalidRequest) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestHostErrorsKeepTheirIdentity(t *testing.T) {
	plugin := sdk.NewAlgorithm("asks", "Asks for what is not there.", "", func(_ context.Context, _ grpoConfig, host sdk.Host) (sdk.Algorithm, error) {
		return &asks{host: host, t: t}, nil
	})
	_, err := Algorithm(t, plugin, nil, &Host{}).Step(t.Context(), sdk.StepRequest{})
	if !errors.Is(err, sdk.ErrUnknownEpisode) {
		t.Errorf("got %v", err)
	}
	_, err = Algorithm(t, plugin, nil, nil).Step(t.Context(), sdk.StepRequest{})
	if !errors.Is(err, sdk.ErrNotSupported) {
		t.Errorf("without a host: got %v", err)
	}
}

type asks struct {
	host sdk.Host
	t    *testing.T
}

func (*asks) Plan(context.Context, sdk.PlanRequest) (sdk.PlanResponse, error) {
	return sdk.PlanResponse{}, nil
}

func (a *asks) Step(ctx context.Context, _ sdk.StepRequest) (sdk.StepResponse, error) {
	_, err := a.host.Values(ctx, []string{"nobody"})
	if !errors.Is(err, sdk.ErrUnknownEpisode) && !errors.Is(err, sdk.ErrNotSupported) {
		a.t.Errorf("the plugin got %v", err)
	}
	return sdk.StepResponse{}, err
}
