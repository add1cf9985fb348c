package hostside_test

import (
	"context"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/forage-rl/forage/core/internal/wire/wiretest"
	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
	"github.com/forage-rl/forage/core/sdk/objective"
	"github.com/forage-rl/forage/core/sdk/sdktest"
)

// source makes random requests and responses and keeps them, to compare with what arrives.
type source struct {
	t *testing.T
	r *rand.Rand
}

func (s source) fill(v any) {
	wiretest.Fill(s.r, reflect.ValueOf(v).Elem())
	s.fix(reflect.ValueOf(v).Elem())
}

// fix makes episodes and levels inside a random value valid.
func (s source) fix(v reflect.Value) {
	switch x := v.Addr().Interface().(type) {
	case *episode.Episode:
		wiretest.Episode(s.r, x)
		return
	case *objective.Level:
		*x = objective.Level(s.r.IntN(6))
		return
	case *[]float32:
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for _, field := range v.Fields() {
			s.fix(field)
		}
	case reflect.Slice:
		for i := range v.Len() {
			s.fix(v.Index(i))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			s.fix(v.Elem())
		}
	}
}

func (s source) same(what string, want, got any) {
	s.t.Helper()
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
		s.t.Errorf("%s changed on the way:\n%s", what, d)
	}
}

const rounds = 50

// echo is a plugin of all kinds: it compares what it gets with what was sent and answers with what it is told.
type echo struct {
	source
	host sdk.Host

	plan    sdk.PlanRequest
	planned sdk.PlanResponse
	step    sdk.StepRequest
	stepped sdk.StepResponse
	score   sdk.ScoreRequest
	scored  sdk.ScoreResponse
	tool    sdk.Tool
	call    sdk.CallRequest
	called  sdk.CallResponse
	state   []byte
	inStep  func(context.Context, sdk.Host)
}

func (e *echo) Plan(_ context.Context, req sdk.PlanRequest) (sdk.PlanResponse, error) {
	e.same("plan request", e.plan, req)
	return e.planned, nil
}

func (e *echo) Step(ctx context.Context, req sdk.StepRequest) (sdk.StepResponse, error) {
	e.same("step request", e.step, req)
	if e.inStep != nil {
		e.inStep(ctx, e.host)
	}
	return e.stepped, nil
}

func (e *echo) Save(context.Context) ([]byte, error) { return e.state, nil }

func (e *echo) Load(_ context.Context, state []byte) error {
	e.same("state", e.state, state)
	return nil
}

func (e *echo) Score(_ context.Context, req sdk.ScoreRequest) (sdk.ScoreResponse, error) {
	e.same("score request", e.score, req)
	return e.scored, nil
}

func (e *echo) Tool(context.Context) (sdk.Tool, error) { return e.tool, nil }

func (e *echo) Call(_ context.Context, req sdk.CallRequest) (sdk.CallResponse, error) {
	e.same("call request", e.call, req)
	return e.called, nil
}

type none struct{}

func TestAlgorithmRoundTrips(t *testing.T) {
	e := &echo{source: source{t, rand.New(rand.NewPCG(1, 1))}, state: []byte{0, 255}}
	a := sdktest.Algorithm(t, sdk.NewAlgorithm("echo", "Echoes.", "", func(context.Context, none, sdk.Host) (sdk.Algorithm, error) { return e, nil }), nil, nil)
	for range rounds {
		e.plan, e.planned, e.step, e.stepped = sdk.PlanRequest{}, sdk.PlanResponse{}, sdk.StepRequest{}, sdk.StepResponse{}
		e.fill(&e.plan)
		e.fill(&e.planned)
		e.fill(&e.step)
		e.fill(&e.stepped)
		planned, err := a.Plan(t.Context(), e.plan)
		if err != nil {
			t.Fatal(err)
		}
		e.same("plan response", e.planned, planned)
		stepped, err := a.Step(t.Context(), e.step)
		if err != nil {
			t.Fatal(err)
		}
		e.same("step response", e.stepped, stepped)
	}
	if err := a.Load(t.Context(), e.state); err != nil {
		t.Error(err)
	}
	state, err := a.Save(t.Context())
	if err != nil {
		t.Error(err)
	}
	e.same("state", e.state, state)
}

func TestRewardAndRetrieverRoundTrips(t *testing.T) {
	e := &echo{source: source{t, rand.New(rand.NewPCG(2, 2))}}
	reward := sdktest.Reward(t, sdk.NewReward("echo", "Echoes.", "", func(context.Context, none, sdk.Host) (sdk.Reward, error) { return e, nil }), nil, nil)
	retriever := sdktest.Retriever(t, sdk.NewRetriever("echo", "Echoes.", "", func(context.Context, none, sdk.Host) (sdk.Retriever, error) { return e, nil }), nil, nil)
	for range rounds {
		e.score, e.tool, e.call = sdk.ScoreRequest{}, sdk.Tool{}, sdk.CallRequest{}
		e.fill(&e.score)
		e.fill(&e.tool)
		e.fill(&e.call)
		e.scored.Scores = make([]sdk.Score, len(e.score.Items))
		for i := range e.scored.Scores {
			e.fill(&e.scored.Scores[i])
		}
		e.called.Results = make([]sdk.CallResult, len(e.call.Calls))
		for i := range e.called.Results {
			e.fill(&e.called.Results[i])
		}
		scored, err := reward.Score(t.Context(), e.score)
		if err != nil {
			t.Fatal(err)
		}
		e.same("score response", e.scored, scored)
		tool, err := retriever.Tool(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		e.same("tool", e.tool, tool)
		called, err := retriever.Call(t.Context(), e.call)
		if err != nil {
			t.Fatal(err)
		}
		e.same("call response", e.called, called)
	}
}

// echoHost compares and answers like echo.
type echoHost struct {
	source
	rollout   []sdk.RolloutRequest
	rolledOut []sdk.RolloutResponse
	rerender  []sdk.RerenderRequest
	episodes  []episode.Episode
	logProbs  sdk.LogProbsRequest
	sequences []sdk.SequenceValues
	ids       []string
	questions []episode.Question
	search    sdk.SearchRequest
	results   [][]episode.Hit
	hits      []episode.Hit
	vectors   [][]float32
	metrics   map[string]float64
}

func (h *echoHost) Rollout(_ context.Context, r []sdk.RolloutRequest) ([]sdk.RolloutResponse, error) {
	h.same("rollout request", h.rollout, r)
	for i := range r {
		if (r[i].Tools == nil) != (h.rollout[i].Tools == nil) {
			h.t.Error("no tools and the agent's tools are confused")
		}
	}
	return h.rolledOut, nil
}

func (h *echoHost) Rerender(_ context.Context, r []sdk.RerenderRequest) ([]episode.Episode, error) {
	h.same("rerender request", h.rerender, r)
	return h.episodes, nil
}

func (h *echoHost) LogProbs(_ context.Context, r sdk.LogProbsRequest) ([]sdk.SequenceValues, error) {
	h.same("logprobs request", h.logProbs, r)
	return h.sequences, nil
}

func (h *echoHost) Values(_ context.Context, ids []string) ([]sdk.SequenceValues, error) {
	h.same("values request", h.ids, ids)
	return h.sequences, nil
}

func (h *echoHost) Questions(_ context.Context, n int) ([]episode.Question, error) {
	h.same("questions request", len(h.questions), n)
	return h.questions, nil
}

func (h *echoHost) Search(_ context.Context, r sdk.SearchRequest) ([][]episode.Hit, error) {
	h.same("search request", h.search, r)
	return h.results, nil
}

func (h *echoHost) Documents(_ context.Context, corpus string, ids []string) ([]episode.Hit, error) {
	h.same("documents request", append([]string{"corpus"}, h.ids...), append([]string{corpus}, ids...))
	return h.hits, nil
}

func (h *echoHost) Encode(_ context.Context, index string, texts []string) ([][]float32, error) {
	h.same("encode request", append([]string{"index"}, h.ids...), append([]string{index}, texts...))
	return h.vectors, nil
}

func (h *echoHost) Metrics(_ context.Context, values map[string]float64) error {
	h.same("metrics", h.metrics, values)
	return nil
}

func TestHostRoundTrips(t *testing.T) {
	h := &echoHost{source: source{t, rand.New(rand.NewPCG(3, 3))}}
	e := &echo{source: h.source}
	a := sdktest.Algorithm(t, sdk.NewAlgorithm("echo", "Echoes.", "", func(_ context.Context, _ none, host sdk.Host) (sdk.Algorithm, error) {
		e.host = host
		return e, nil
	}), nil, h)
	for range rounds {
		for _, v := range []any{
			&h.rollout, &h.rolledOut, &h.rerender, &h.episodes, &h.logProbs, &h.sequences, &h.ids, &h.questions, &h.search, &h.results, &h.hits, &h.vectors, &h.metrics,
		} {
			h.fill(v)
		}
		for i := range h.rollout {
			h.rollout[i].Tools = [][]string{nil, {}, {"search"}}[i%3]
		}
		e.inStep = func(ctx context.Context, host sdk.Host) {
			check := func(what string, want, got any, err error) {
				if err != nil {
					t.Errorf("%s: %v", what, err)
				}
				h.same(what, want, got)
			}
			rolledOut, err := host.Rollout(ctx, h.rollout)
			check("rollout response", h.rolledOut, rolledOut, err)
			episodes, err := host.Rerender(ctx, h.rerender)
			check("rerender response", h.episodes, episodes, err)
			logProbs, err := host.LogProbs(ctx, h.logProbs)
			check("logprobs response", h.sequences, logProbs, err)
			values, err := host.Values(ctx, h.ids)
			check("values response", h.sequences, values, err)
			questions, err := host.Questions(ctx, len(h.questions))
			check("questions response", h.questions, questions, err)
			results, err := host.Search(ctx, h.search)
			check("search response", h.results, results, err)
			documents, err := host.Documents(ctx, "corpus", h.ids)
			check("documents response", h.hits, documents, err)
			vectors, err := host.Encode(ctx, "index", h.ids)
			check("encode response", h.vectors, vectors, err)
			check("metrics", nil, nil, host.Metrics(ctx, h.metrics))
		}
		if _, err := a.Step(t.Context(), sdk.StepRequest{}); err != nil {
			t.Fatal(err)
		}
	}
}
