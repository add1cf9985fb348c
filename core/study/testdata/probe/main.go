// Command probe is a pack of one algorithm that asks for every service of the host and checks the answers, and sends
// updates that are wrong where its configuration says so, for tests.
package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
	"github.com/forage-rl/forage/core/sdk/objective"
	"github.com/forage-rl/forage/core/sdk/schema"
)

type config struct {
	Index  schema.Ref `forage:"index" type:"index" doc:"An index with an encoder."`
	Corpus schema.Ref `forage:"corpus" type:"corpus" doc:"Its corpus."`
	Wrong  string     `forage:"wrong" default:"nothing" enum:"nothing,objective,episode,field,nan,length,used,mask" doc:"What is wrong with the update."`
}

type probe struct {
	config
	host  sdk.Host
	state byte
}

func (p *probe) Plan(context.Context, sdk.PlanRequest) (sdk.PlanResponse, error) {
	mask := objective.MaskPolicy
	if p.Wrong == "mask" {
		mask = objective.MaskResponse
	}
	loss := objective.TokenMean(objective.Mul(objective.Field("weight", objective.Token), objective.Sub(objective.NLL(), objective.RefLogP())), mask)
	o, err := objective.New("weighted", objective.TrainsPolicy, loss, nil)
	return sdk.PlanResponse{Objectives: []objective.Objective{o}, Reference: sdk.ReferenceStageStart}, err
}

func (p *probe) Save(context.Context) ([]byte, error) { return []byte{p.state}, nil }

func (p *probe) Load(_ context.Context, state []byte) error {
	if len(state) != 1 || state[0] == 0 {
		return fmt.Errorf("got state %v", state)
	}
	p.state = state[0]
	return nil
}

func (p *probe) Step(ctx context.Context, req sdk.StepRequest) (sdk.StepResponse, error) {
	if int(p.state) != req.Step {
		return sdk.StepResponse{}, fmt.Errorf("step %d comes with the state of step %d", req.Step, p.state)
	}
	p.state++
	q := req.Questions[0].ID
	ask := []sdk.RolloutRequest{{RequestID: "a", QuestionID: q, N: 2}, {RequestID: "b", QuestionID: q, N: 1, Tools: []string{}}}
	first, err := p.host.Rollout(ctx, ask)
	if err != nil {
		return sdk.StepResponse{}, err
	}
	again, err := p.host.Rollout(ctx, ask)
	if err != nil {
		return sdk.StepResponse{}, err
	}
	episodes := append(first[0].Episodes, first[1].Episodes...)
	checks := []error{
		check(reflect.DeepEqual(first, again), "a repeated request must give the same answer"),
		check(len(first[0].Episodes) == 2 && len(first[1].Episodes) == 1, "wrong number of episodes"),
		check(first[1].Episodes[0].Counters.Searches == 0, "an episode without tools searched"),
		check(first[0].Episodes[0].Rewards.Leaves["outcome"].Value == first[0].Episodes[0].Rewards.Total, "rewards are missing"),
	}
	branched, err := p.host.Rollout(ctx, []sdk.RolloutRequest{{RequestID: "c", From: &episode.Branch{EpisodeID: episodes[0].ID, AfterTurn: -1}, N: 2, MaxNewTurns: 1}})
	if err != nil {
		return sdk.StepResponse{}, err
	}
	for _, ep := range branched[0].Episodes {
		checks = append(checks, check(ep.Parent != nil && len(ep.Turns) == 1, "a branch of one turn has %d", len(ep.Turns)))
	}
	more, err := p.host.Questions(ctx, 2)
	checks = append(checks, err, check(len(more) == 2 && more[0].ID != q, "two further questions"))
	checks = append(checks, p.logProbs(ctx, req.Step, episodes)...)
	checks = append(checks, p.retrieval(ctx)...)
	checks = append(checks, p.refused(ctx, q)...)
	checks = append(checks, p.host.Metrics(ctx, map[string]float64{"probe/seen": 1}))
	if err := errors.Join(checks...); err != nil {
		return sdk.StepResponse{}, err
	}
	return p.answer(episodes), nil
}

func check(ok bool, format string, args ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf(format, args...)
}

func (p *probe) logProbs(ctx context.Context, step int, episodes []episode.Episode) []error {
	ids := []string{episodes[0].ID, episodes[1].ID}
	now, err := p.host.LogProbs(ctx, sdk.LogProbsRequest{EpisodeIDs: ids})
	if err != nil {
		return []error{err}
	}
	before, err := p.host.LogProbs(ctx, sdk.LogProbsRequest{EpisodeIDs: ids, Reference: true})
	if err != nil {
		return []error{err}
	}
	checks := []error{check(len(now) == 2 && len(before) == 2, "a sequence each")}
	for i := range now {
		n := episodes[i].Sequences[0].ResponseLength()
		checks = append(checks, check(len(now[i].Values) == n && len(before[i].Values) == n, "a number per token"))
		same := reflect.DeepEqual(now[i].Values, before[i].Values)
		checks = append(checks, check(same == (step == 0), "step %d: the reference is the policy: %v", step, same))
	}
	return checks
}

func (p *probe) retrieval(ctx context.Context) []error {
	hits, err := p.host.Search(ctx, sdk.SearchRequest{Index: p.Index.Handle, Queries: []string{"Dravville mayor"}, K: 2})
	if err != nil {
		return []error{err}
	}
	vectors, err := p.host.Encode(ctx, p.Index.Handle, []string{"Dravville mayor"})
	if err != nil {
		return []error{err}
	}
	byVector, err := p.host.Search(ctx, sdk.SearchRequest{Index: p.Index.Handle, Vectors: vectors, K: 2})
	if err != nil {
		return []error{err}
	}
	docs, err := p.host.Documents(ctx, p.Corpus.Handle, []string{hits[0][0].DocumentID})
	return []error{
		err, check(reflect.DeepEqual(hits, byVector), "queries and their vectors must find the same"),
		check(len(docs) == 1 && docs[0].Text == hits[0][0].Text, "a document is its hit's text"),
		check(p.Index.Digest != "" && p.Corpus.Digest != "", "references have digests"),
	}
}

func (p *probe) refused(ctx context.Context, question string) []error {
	_, values := p.host.Values(ctx, []string{"x"})
	_, rerender := p.host.Rerender(ctx, []sdk.RerenderRequest{{EpisodeID: "x"}})
	_, unknown := p.host.LogProbs(ctx, sdk.LogProbsRequest{EpisodeIDs: []string{"nobody"}})
	_, none := p.host.Rollout(ctx, []sdk.RolloutRequest{{RequestID: "none", QuestionID: question}})
	_, other := p.host.Rollout(ctx, []sdk.RolloutRequest{{RequestID: "other", QuestionID: "nowhere", N: 1}})
	_, reused := p.host.Rollout(ctx, []sdk.RolloutRequest{{RequestID: "a", QuestionID: question, N: 3}})
	_, twice := p.host.Rollout(ctx, []sdk.RolloutRequest{{RequestID: "d", QuestionID: question, N: 1}, {RequestID: "d", QuestionID: question, N: 1}})
	_, index := p.host.Search(ctx, sdk.SearchRequest{Index: "index.nowhere", Queries: []string{"x"}, K: 1})
	return []error{
		check(errors.Is(values, sdk.ErrInvalidRequest), "values without a critic: %v", values),
		check(errors.Is(rerender, sdk.ErrUnknownEpisode), "unknown episode: %v", rerender),
		check(errors.Is(unknown, sdk.ErrUnknownEpisode), "unknown episode: %v", unknown),
		check(errors.Is(none, sdk.ErrInvalidRequest) && errors.Is(other, sdk.ErrInvalidRequest), "invalid request: %v, %v", none, other),
		check(errors.Is(reused, sdk.ErrInvalidRequest) && errors.Is(twice, sdk.ErrInvalidRequest), "an id for two requests: %v, %v", reused, twice),
		check(errors.Is(index, sdk.ErrUnknownHandle), "unknown handle: %v", index),
	}
}

func (p *probe) answer(episodes []episode.Episode) sdk.StepResponse {
	var resp sdk.StepResponse
	u := sdk.Update{Objective: "weighted", MiniBatch: sdk.MiniBatch{Count: 2, Unit: sdk.UnitEpisode}, Epochs: 2, Order: sdk.OrderShuffled}
	for _, ep := range episodes {
		weights := make([]float32, ep.Sequences[0].ResponseLength())
		for i := range weights {
			weights[i] = 1
		}
		u.Samples = append(u.Samples, sdk.Sample{EpisodeID: ep.ID, TokenFields: map[string][]float32{"weight": weights}})
	}
	switch last := &u.Samples[len(u.Samples)-1]; p.Wrong {
	case "objective":
		u.Objective = "nothing"
	case "episode":
		last.EpisodeID = "nobody"
	case "field":
		last.TokenFields = nil
	case "nan":
		last.TokenFields["weight"][0] = float32(math.NaN())
	case "length":
		last.TokenFields["weight"] = last.TokenFields["weight"][1:]
	case "used":
		resp.UsedRewards = map[string]sdk.UsedReward{"nobody": {Value: 1}}
	}
	resp.Updates = []sdk.Update{u}
	resp.Metrics = map[string]float64{"probe/state": float64(p.state)}
	return resp
}

func main() {
	sdk.Serve(sdk.Pack{Name: "forage-probe", Version: "0.1.0", Algorithms: []sdk.AlgorithmPlugin{
		sdk.NewAlgorithm("probe", "Asks for every service.", "", func(_ context.Context, c config, host sdk.Host) (sdk.Algorithm, error) {
			return &probe{config: c, host: host}, nil
		}),
	}})
}
