package dapo

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
	"github.com/forage-rl/forage/core/sdk/sdktest"
)

func TestOverlong(t *testing.T) {
	o := Overlong{MaxTokens: 100, Buffer: 20, Penalty: 1}
	for tokens, want := range map[int]float64{0: 0, 80: 0, 85: -.25, 90: -.5, 100: -1, 101: -1, 9999: -1} {
		if got := o.Of(tokens); math.Abs(got-want) > 1e-12 {
			t.Errorf("%d tokens: %v, want %v", tokens, got, want)
		}
	}
	if got := (Overlong{Buffer: 20, Penalty: 1}).Of(9999); got != 0 {
		t.Errorf("turned off: %v", got)
	}
	if got := (Overlong{MaxTokens: 100, Penalty: 2}).Of(101); got != -2 {
		t.Errorf("without a buffer: %v", got)
	}
	last := 0.
	for tokens := range 200 {
		got := o.Of(tokens)
		if got > last {
			t.Fatalf("%d tokens are worth more than %d", tokens, tokens-1)
		}
		last = got
	}
	if ds := (Config{Overlong: Overlong{MaxTokens: 10, Buffer: 11}}).Validate(); !ds.HasErrors() {
		t.Error("a buffer above the limit must be refused")
	}
}

// pool makes n questions; those whose number is in mixed have episodes of different rewards.
func pool(n int, mixed ...int) *sdktest.Host {
	var questions []episode.Question
	for i := range n {
		q := sdktest.Questions()[0]
		q.ID = "n" + string(rune('a'+i))
		questions = append(questions, q)
	}
	return &sdktest.Host{Pool: questions, Sample: func(h *sdktest.Host, r sdk.RolloutRequest, q episode.Question, n int) episode.Episode {
		e := sdktest.NewEpisode(q.ID+"-"+string(rune('0'+n)), q).Answer("x").Reward("outcome", 0).Episode()
		if slices.Contains(mixed, int(q.ID[1]-'a')) && n == 0 {
			e.Rewards.Total = 1
		}
		return e
	}}
}

func run(t *testing.T, host *sdktest.Host, values map[string]any, questions int) sdk.StepResponse {
	t.Helper()
	a := sdktest.Algorithm(t, Plugin(), values, host)
	if _, err := a.Plan(t.Context(), sdk.PlanRequest{Stage: "main", Steps: 1, Questions: questions}); err != nil {
		t.Fatal(err)
	}
	first, err := host.Questions(t.Context(), questions)
	if err != nil {
		t.Fatal(err)
	}
	out, err := a.Step(t.Context(), sdk.StepRequest{Of: 1, Questions: first})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func trained(out sdk.StepResponse) []string {
	var names []string
	for _, u := range out.Updates {
		for _, s := range u.Samples {
			if id, _, _ := strings.Cut(s.EpisodeID, "-"); !slices.Contains(names, id) {
				names = append(names, id)
			}
		}
	}
	return names
}

// TestDynamicSampling: questions are drawn until the step has as many with different rewards as it began with, never
// more often than max_draws, and exactly those are trained, in the order they were found.
func TestDynamicSampling(t *testing.T) {
	out := run(t, pool(8, 1, 5, 6), map[string]any{"group_size": 2}, 2)
	if got := trained(out); !slices.Equal(got, []string{"nb", "nf"}) {
		t.Errorf("trained %v", got)
	}
	if m := out.Metrics; m["dapo/draws"] != 3 || m["dapo/questions"] != 6 || m["dapo/kept"] != 2 {
		t.Errorf("got %v", m)
	}
	out = run(t, pool(8, 1, 5, 6), map[string]any{"group_size": 2, "max_draws": 2}, 2)
	if got := trained(out); !slices.Equal(got, []string{"nb"}) || out.Metrics["dapo/draws"] != 2 {
		t.Errorf("a bound of 2 draws: trained %v, %v", got, out.Metrics)
	}
	out = run(t, pool(4), map[string]any{"group_size": 2, "max_draws": 3}, 2)
	if len(out.Updates) != 0 || out.Metrics["dapo/draws"] != 3 || out.Metrics["groups/no_update"] != 1 {
		t.Errorf("nothing to find: %d updates, %v", len(out.Updates), out.Metrics)
	}
	out = run(t, pool(4, 1), map[string]any{"group_size": 2, "dynamic_sampling": false}, 2)
	if got := trained(out); !slices.Equal(got, []string{"na", "nb"}) || out.Metrics["dapo/draws"] != 1 {
		t.Errorf("without dynamic sampling: trained %v, %v", got, out.Metrics)
	}
}

// TestOverlongRewardsAreReported: the reward that a penalty changed is the one that is logged, and the choice of
// questions does not look at it.
func TestOverlongRewardsAreReported(t *testing.T) {
	host := pool(2, 0, 1)
	out := run(t, host, map[string]any{"group_size": 2, "overlong": map[string]any{"max_tokens": 2, "buffer": 1}}, 2)
	if len(out.UsedRewards) != 4 || out.UsedRewards["na-0"].Value != 0 || out.UsedRewards["na-1"].Value != -1 {
		t.Errorf("got %v", out.UsedRewards)
	}
	if out.Metrics["dapo/overlong"] != 4 {
		t.Errorf("got %v", out.Metrics)
	}
}
