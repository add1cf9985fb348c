package stepsearch

import (
	"context"
	"errors"
	"math"
	"regexp"
	"slices"
	"testing"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
	"github.com/forage-rl/forage/core/sdk/objective"
	"github.com/forage-rl/forage/core/sdk/sdktest"
	"github.com/forage-rl/forage/core/sdk/sdktest/vectors"
	"github.com/forage-rl/forage/plugins/algorithms/internal/ppo"
)

// TestVectorPlacement puts given rewards on the tokens of responses with one token per character. The turns are read off
// the text as the release finds its searches: its positions are those of the first closing tag of a match, which for
// episodes whose every search is answered is the tag of the turn.
func TestVectorPlacement(t *testing.T) {
	search := regexp.MustCompile(`(?s)<search>.*?</search>\s*<information>.*?</information>`)
	tag := regexp.MustCompile(`(?s)^<search>.*?</search>`)
	f := vectors.Load(t, "stepsearch", "placement")
	for _, c := range f.Cases {
		response := vectors.Decode[struct{ Response string }](t, c.Input).Response
		want := vectors.Decode[struct {
			Rewards [][2]float64 `json:"nonzero_rewards"`
			Raw     []float64    `json:"step_scores_raw"`
		}](t, c.Want())
		n := len([]rune(response))
		const prompt = 7
		e := episode.Episode{Sequences: []episode.Sequence{{PromptLength: prompt, Length: prompt + n}}}
		for _, m := range search.FindAllStringIndex(response, -1) {
			start := len([]rune(response[:m[0]]))
			end := start + len([]rune(tag.FindString(response[m[0]:])))
			e.Turns = append(e.Turns, episode.Turn{Span: episode.Span{Start: prompt, End: prompt + end + 2}, ActionSpan: episode.Span{Start: prompt + start, End: prompt + end}})
		}
		for _, v := range want.Raw {
			e.Rewards.TurnTotals = append(e.Rewards.TurnTotals, 1.6*v)
		}
		if k := len(want.Rewards); k > 0 && int(want.Rewards[k-1][0]) == n-1 {
			e.Rewards.Total = want.Rewards[k-1][1]
		}
		rewards, err := ppo.Rewards(n, e.Rewards.Total, TurnRewards(e)...)
		if err != nil {
			t.Fatalf("%s: %v", c.ID, err)
		}
		var got [][2]float64
		for i, v := range rewards {
			if v != 0 {
				got = append(got, [2]float64{float64(i), v})
			}
		}
		if !slices.EqualFunc(got, want.Rewards, func(g, w [2]float64) bool { return g[0] == w[0] && f.Tolerance.Close(g[1], w[1]) }) {
			t.Errorf("%s: %v, want %v", c.ID, got, want.Rewards)
		}
	}
}

// threeTurns is two searches and an answer, each of three tokens whose action is the last two, after a prompt of two
// tokens; every search is followed by an observation of two.
func threeTurns(id string, total float64, turns ...float64) episode.Episode {
	e := episode.Episode{ID: id, QuestionID: "q", Rewards: episode.Rewards{Total: total, TurnTotals: turns}}
	at := 2
	seq := episode.Sequence{PromptLength: 2}
	for range 3 {
		e.Turns = append(e.Turns, episode.Turn{Action: episode.ActionCall, Span: episode.Span{Start: at, End: at + 3}, ActionSpan: episode.Span{Start: at + 1, End: at + 3}})
		seq.Segments = append(seq.Segments, episode.Segment{Kind: episode.Policy, Start: at, End: at + 3})
		at += 3
		if len(e.Turns) < 3 {
			seq.Segments = append(seq.Segments, episode.Segment{Kind: episode.Observation, Start: at, End: at + 2})
			at += 2
		}
	}
	seq.Length = at
	e.Sequences = []episode.Sequence{seq}
	return e
}

func TestTurnRewards(t *testing.T) {
	e := threeTurns("a", 1, .5, -.25, 0)
	if got := TurnRewards(e); !slices.Equal(got, []ppo.Placed{{At: 2, Value: .5}, {At: 7, Value: -.25}}) {
		t.Errorf("placed %v", got)
	}
	// Without an action a turn's reward goes to its last token; without any token it is left out.
	e.Turns[0].ActionSpan = episode.Span{}
	e.Turns[0].Span.End--
	e.Turns[1].Span = episode.Span{}
	if got := TurnRewards(e); !slices.Equal(got, []ppo.Placed{{At: 1, Value: .5}}) {
		t.Errorf("placed %v", got)
	}
	// Tokens are counted over sequences.
	two := threeTurns("b", 1, .5, 0, 2)
	second := two.Sequences[0]
	two.Sequences = append(two.Sequences, second)
	two.Turns[2].Sequence = 1
	if got := TurnRewards(two); !slices.Equal(got, []ppo.Placed{{At: 2, Value: .5}, {At: second.ResponseLength() + 12, Value: 2}}) {
		t.Errorf("placed %v", got)
	}
}

// given answers every request with the same episodes, and values and log-probabilities with constants.
type given struct {
	sdk.Host
	episodes     []episode.Episode
	value, ratio float32
}

func (g *given) Rollout(_ context.Context, requests []sdk.RolloutRequest) ([]sdk.RolloutResponse, error) {
	var out []sdk.RolloutResponse
	for _, r := range requests {
		out = append(out, sdk.RolloutResponse{RequestID: r.RequestID, Episodes: g.episodes})
	}
	return out, nil
}

func (g *given) constant(ids []string, v float32) []sdk.SequenceValues {
	var out []sdk.SequenceValues
	for _, id := range ids {
		i := slices.IndexFunc(g.episodes, func(e episode.Episode) bool { return e.ID == id })
		out = append(out, sdk.SequenceValues{EpisodeID: id, Values: slices.Repeat([]float32{v}, g.episodes[i].Sequences[0].ResponseLength())})
	}
	return out
}

func (g *given) Values(_ context.Context, ids []string) ([]sdk.SequenceValues, error) {
	return g.constant(ids, g.value), nil
}

func (g *given) LogProbs(_ context.Context, req sdk.LogProbsRequest) ([]sdk.SequenceValues, error) {
	if req.Reference {
		return g.constant(req.EpisodeIDs, -1-g.ratio), nil
	}
	return g.constant(req.EpisodeIDs, -1), nil
}

func step(t *testing.T, host sdk.Host, values map[string]any) sdk.StepResponse {
	t.Helper()
	a, err := Plugin().New(t.Context(), values, host)
	if err != nil {
		t.Fatal(err)
	}
	out, err := a.Step(t.Context(), sdk.StepRequest{Questions: []episode.Question{{ID: "q"}}})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-5 }

// TestStep: with γ = λ = 1 the return of a token is the sum of the rewards from it on, so that a search's reward counts
// for all tokens before its closing tag and for none after.
func TestStep(t *testing.T) {
	host := &given{episodes: []episode.Episode{threeTurns("a", 1, .5, -.25, 0), threeTurns("b", -1, 0, 0, 0)}, value: .1}
	out := step(t, host, map[string]any{"group_size": 2, "kl_coefficient": 0, "mini_batch": 1})
	if len(out.Updates) != 2 || out.Updates[0].Objective != "stepsearch-critic" || out.Updates[1].Objective != "stepsearch" || out.Updates[1].MiniBatch.Count != 1 {
		t.Fatalf("updates %+v", out.Updates)
	}
	samples := out.Updates[0].Samples
	want := []float64{1.25, 1.25, 1.25, .75, .75, .75, .75, .75, 1, 1, 1, 1, 1}
	var all []float64
	for i, v := range samples[0].TokenFields["return"] {
		if !near(float64(v), want[i]) {
			t.Errorf("return %d is %v, want %v", i, v, want[i])
		}
	}
	for _, s := range out.Updates[1].Samples {
		for _, v := range s.TokenFields["advantage"] {
			all = append(all, float64(v))
		}
	}
	sum, squares := 0., 0.
	for _, v := range all {
		sum += v
		squares += v * v
	}
	if !near(sum, 0) || !near(squares, float64(len(all)-1)) {
		t.Errorf("advantages sum to %v, their squares to %v of %d", sum, squares, len(all))
	}
	if used := out.UsedRewards["a"]; !near(used.Value, 1.25) || !slices.Equal(used.Turns, []float64{.5, -.25, 0}) || !near(out.Metrics["reward/mean"], .125) {
		t.Errorf("used %+v, metrics %v", used, out.Metrics)
	}
	// A divergence of .3 on each of the 9 tokens of the policy.
	host.ratio = .3
	out = step(t, host, map[string]any{"group_size": 2, "kl_coefficient": .1})
	if used := out.UsedRewards["a"].Value; !near(used, 1.25-.1*.3*9) || !near(out.Metrics["reward/kl"], .3) {
		t.Errorf("used %v, metrics %v", used, out.Metrics)
	}
	if got := float64(out.Updates[0].Samples[0].TokenFields["return"][12]); !near(got, 1-.03) {
		t.Errorf("return of the last token %v", got)
	}
	// Without documents the arrays keep their length, and nothing stands on documents.
	out = step(t, host, map[string]any{"group_size": 2, "kl_coefficient": 0, "gae_tokens": "policy"})
	s := out.Updates[0].Samples[0]
	if r := s.TokenFields["return"]; len(r) != 13 || !near(float64(r[0]), 1.25) || !near(float64(r[3]), .1) || !near(float64(r[5]), .75) {
		t.Errorf("returns %v", r)
	}
}

// TestGroups: relative to the group, an episode's reward is the sum of all of its rewards.
func TestGroups(t *testing.T) {
	host := &given{episodes: []episode.Episode{threeTurns("a", 1, .5, 0, 0), threeTurns("b", 2, -.5, 0, 0), threeTurns("c", 3, 0, 0, 0)}}
	out := step(t, host, map[string]any{"estimator": "grpo", "group_size": 3})
	if len(out.Updates) != 1 {
		t.Fatalf("updates %+v", out.Updates)
	}
	s := out.Updates[0].Samples
	if a, b, c := s[0].SequenceFields["advantage"], s[1].SequenceFields["advantage"], s[2].SequenceFields["advantage"]; a != b || a >= 0 || !near(a+b+c, 0) {
		t.Errorf("advantages %v %v %v", a, b, c)
	}
	if used := out.UsedRewards["b"]; used.Value != 1.5 || !slices.Equal(used.Turns, []float64{-.5, 0, 0}) {
		t.Errorf("used %+v", used)
	}
	if host.episodes[0].Rewards.Total != 1 {
		t.Error("the episodes of the host were changed")
	}
}

func TestPlan(t *testing.T) {
	for _, c := range []struct {
		values    map[string]any
		critic    bool
		reference string
		names     []string
	}{
		{nil, true, sdk.ReferenceStageStart, []string{"stepsearch-critic", "stepsearch"}},
		{map[string]any{"kl_coefficient": 0, "critic_warmup": 3}, true, "", []string{"stepsearch-critic", "stepsearch"}},
		{map[string]any{"estimator": "grpo", "group_size": 5}, false, sdk.ReferenceStageStart, []string{"stepsearch"}},
	} {
		a, err := Plugin().New(t.Context(), c.values, &sdktest.Host{})
		if err != nil {
			t.Fatal(err)
		}
		plan, err := a.Plan(t.Context(), sdk.PlanRequest{Stage: "main", Steps: 2, Questions: 1})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, o := range plan.Objectives {
			names = append(names, o.Name)
			if o.Trains == objective.TrainsPolicy && o.TrainsObservations() {
				t.Errorf("%v: the policy is trained on observations", c.values)
			}
		}
		if (plan.Critic != nil) != c.critic || plan.Reference != c.reference || !slices.Equal(names, c.names) {
			t.Errorf("%v: plan %+v", c.values, plan)
		}
		if warmup, ok := c.values["critic_warmup"]; ok && plan.Critic.Warmup != warmup {
			t.Errorf("warm-up %d", plan.Critic.Warmup)
		}
		if _, err := a.Plan(t.Context(), sdk.PlanRequest{Produce: true}); !errors.Is(err, sdk.ErrNotSupported) {
			t.Errorf("produce: %v", err)
		}
	}
	if ds := Plugin().Validate(map[string]any{"estimator": "grpo"}); ds.HasErrors() || len(ds) != 1 {
		t.Errorf("a group of one: %v", ds)
	}
}
