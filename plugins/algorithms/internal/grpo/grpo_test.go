package grpo

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
	"github.com/forage-rl/forage/core/sdk/sdktest/vectors"
)

// masked checks advantages of rewards in groups, spread over the tokens of a mask.
func masked[G comparable](t *testing.T, tol vectors.Tolerance, id string, rewards []float64, groups []G, mask [][]int, want [][]float64) {
	t.Helper()
	members := map[G][]int{}
	for i, g := range groups {
		members[g] = append(members[g], i)
	}
	for _, rows := range members {
		var own []float64
		for _, i := range rows {
			own = append(own, rewards[i])
		}
		for k, a := range Advantages(own, true) {
			i := rows[k]
			for tok, m := range mask[i] {
				if got := a * float64(m); !tol.Close(got, want[i][tok]) {
					t.Errorf("%s: advantage[%d][%d] = %v, want %v", id, i, tok, got, want[i][tok])
				}
			}
		}
	}
}

func TestVectorSearchR1Advantage(t *testing.T) {
	f := vectors.Load(t, "search-r1", "grpo_advantage")
	for _, c := range f.Cases {
		in := vectors.Decode[struct {
			Rewards [][]float64 `json:"token_level_rewards"`
			Mask    [][]int
			Group   []any
		}](t, c.Input)
		want := vectors.Decode[struct{ Advantages [][]float64 }](t, c.Want())
		totals := make([]float64, len(in.Rewards))
		for i, row := range in.Rewards {
			for _, r := range row {
				totals[i] += r
			}
		}
		masked(t, f.Tolerance, c.ID, totals, in.Group, in.Mask, want.Advantages)
	}
}

func TestVectorDavidAdvantage(t *testing.T) {
	f := vectors.Load(t, "david-grpo", "advantage")
	for _, c := range f.Cases {
		in := vectors.Decode[struct {
			Rewards []float64
			Group   []string
			Mask    [][]int `json:"loss_mask"`
		}](t, c.Input)
		want := vectors.Decode[struct{ Advantages [][]float64 }](t, c.Want())
		masked(t, f.Tolerance, c.ID, in.Rewards, in.Group, in.Mask, want.Advantages)
	}
}

func TestAdvantageProperties(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		n := 2 + rng.IntN(12)
		rewards := make([]float64, n)
		for i := range rewards {
			rewards[i] = float64(rng.IntN(5)) / 4
		}
		for _, normalize := range []bool{true, false} {
			a := Advantages(rewards, normalize)
			sum := 0.
			for _, v := range a {
				sum += v
			}
			if math.Abs(sum) > 1e-9 {
				t.Fatalf("advantages of %v sum to %v", rewards, sum)
			}
			order := rng.Perm(n)
			moved, shifted, scaled := make([]float64, n), make([]float64, n), make([]float64, n)
			for i, j := range order {
				moved[i], shifted[i], scaled[i] = rewards[j], rewards[i]+3, rewards[i]*8
			}
			for i, v := range Advantages(moved, normalize) {
				if math.Abs(v-a[order[i]]) > 1e-9 {
					t.Fatalf("order matters: %v", rewards)
				}
			}
			for i, v := range Advantages(shifted, normalize) {
				if math.Abs(v-a[i]) > 1e-9 {
					t.Fatalf("a constant matters: %v", rewards)
				}
			}
			for i, v := range Advantages(scaled, normalize) {
				want, tolerance := a[i]*8, 1e-9
				if normalize {
					want, tolerance = a[i], 1e-4 // up to epsilon
				}
				if math.Abs(v-want) > tolerance {
					t.Fatalf("scale matters: %v gives %v, want %v", rewards, v, want)
				}
			}
		}
	}
	for n := 2; n < 20; n++ {
		for _, r := range []float64{.1, .2, .3, .7, .8, 1. / 3} {
			for _, a := range Advantages(slices.Repeat([]float64{r}, n), true) {
				if a != 0 {
					t.Errorf("%d equal rewards of %v give %v", n, r, a)
				}
			}
		}
	}
	if len(Advantages(nil, true)) != 0 || Advantages([]float64{.5}, false)[0] != .5 {
		t.Error("groups of none and one")
	}
}

func TestArgMaxAndMinAreFirst(t *testing.T) {
	if ArgMax([]float64{1, 3, 3}) != 1 || ArgMin([]float64{2, 1, 1}) != 1 || ArgMax(nil) != -1 || ArgMin(nil) != -1 {
		t.Error("ties go to the first")
	}
}

func TestMiniBatch(t *testing.T) {
	for _, c := range []struct{ units, count, updates, want int }{{120, 60, 0, 60}, {80, 256, 2, 40}, {81, 0, 2, 41}, {16, 0, 0, 0}, {0, 7, 3, 0}} {
		if got := MiniBatch(c.units, c.count, c.updates); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

func testEpisode(id string, reward float64, stop episode.Stop) episode.Episode {
	return episode.Episode{ID: id, Stop: stop, Rewards: episode.Rewards{Total: reward}, Sequences: []episode.Sequence{{
		PromptLength: 2, Length: 7, Segments: []episode.Segment{
			{Kind: episode.Policy, Start: 2, End: 4}, {Kind: episode.Observation, Start: 4, End: 6}, {Kind: episode.Policy, Start: 6, End: 7},
		},
	}}}
}

type fakeHost struct {
	sdk.Host
	rollout func([]sdk.RolloutRequest) ([]sdk.RolloutResponse, error)
}

func (h fakeHost) Rollout(_ context.Context, r []sdk.RolloutRequest) ([]sdk.RolloutResponse, error) {
	return h.rollout(r)
}

func TestSample(t *testing.T) {
	host := fakeHost{rollout: func(requests []sdk.RolloutRequest) ([]sdk.RolloutResponse, error) {
		var out []sdk.RolloutResponse
		for _, r := range slices.Backward(requests) { // any order
			out = append(out, sdk.RolloutResponse{RequestID: r.RequestID, Episodes: []episode.Episode{
				testEpisode(r.QuestionID+"/0", 1, episode.StopAnswered), testEpisode(r.QuestionID+"/1", 9, episode.StopLength),
			}})
		}
		return out, nil
	}}
	groups, err := Sample(t.Context(), host, []episode.Question{{ID: "a"}, {ID: "b"}, {ID: "a"}}, 2)
	if err != nil {
		t.Fatal(err)
	}
	if groups[1].Episodes[0].ID != "b/0" || !slices.Equal(groups[1].Rewards, []float64{1, 9}) {
		t.Errorf("group %+v", groups[1])
	}
	if groups[0].Name == groups[2].Name {
		t.Error("a question that occurs twice makes two groups")
	}
	if m := Metrics(groups); m["reward/mean"] != 5 || m["reward/best"] != 9 {
		t.Errorf("metrics %v", m)
	}
	host.rollout = func([]sdk.RolloutRequest) ([]sdk.RolloutResponse, error) { return nil, errors.New("down") }
	if _, err := Sample(t.Context(), host, []episode.Question{{ID: "a"}}, 2); err == nil || !strings.Contains(err.Error(), "down") {
		t.Errorf("error %v", err)
	}
	host.rollout = func([]sdk.RolloutRequest) ([]sdk.RolloutResponse, error) { return nil, nil }
	if _, err := Sample(t.Context(), host, []episode.Question{{ID: "a"}}, 2); err == nil || !strings.Contains(err.Error(), "asks for 2") {
		t.Errorf("error %v", err)
	}
}

func TestTokenSamplesPutNothingOnObservations(t *testing.T) {
	g := Group{Name: "g", Episodes: []episode.Episode{testEpisode("a", 1, episode.StopAnswered), testEpisode("b", 0, episode.StopAnswered)}, Rewards: []float64{1, 0}}
	for i, s := range TokenSamples([]Group{g}, false) {
		want := []float32{.5, .5, 0, 0, .5}
		if i == 1 {
			want = []float32{-.5, -.5, 0, 0, -.5}
		}
		if !slices.Equal(s.TokenFields[Field], want) {
			t.Errorf("sample %d: %v", i, s.TokenFields)
		}
	}
	if s := Samples([]Group{g}, false); s[0].SequenceFields[Field] != .5 || s[1].SequenceFields[Field] != -.5 || Episodes(s) != 2 || Groups(s) != 1 {
		t.Errorf("samples %+v", s)
	}
}

func TestDefaultsInForce(t *testing.T) {
	type inner struct {
		Rate float64 `forage:"rate" default:"0.001" source:"default (not in the paper)"`
	}
	type config struct {
		Size  int    `forage:"size" default:"5" source:"default (not in the paper)"`
		Paper int    `forage:"paper" default:"5" source:"Table 1"`
		Flag  bool   `forage:"flag" default:"true" source:"default (not in the paper)"`
		Kind  string `forage:"kind" default:"x" source:"default (not in the paper)"`
		Inner inner  `forage:"inner"`
	}
	if got := DefaultsInForce(config{5, 5, true, "x", inner{.001}}); !slices.Equal(got, []string{"size", "flag", "kind", "inner.rate"}) {
		t.Errorf("%v", got)
	}
	if got := DefaultsInForce(config{6, 5, false, "y", inner{.002}}); len(got) != 0 {
		t.Errorf("%v", got)
	}
}

func TestLeaveOneOut(t *testing.T) {
	for i, want := range []float64{2. / 3, -2. / 3, -2. / 3, 2. / 3} {
		if got := LeaveOneOut([]float64{1, 0, 0, 1})[i]; math.Abs(got-want) > 1e-12 {
			t.Errorf("advantage %d is %v, want %v", i, got, want)
		}
	}
	if got := LeaveOneOut([]float64{.7}); got[0] != 0 {
		t.Errorf("one alone: %v", got)
	}
	rng := rand.New(rand.NewPCG(7, 8))
	for range 300 {
		n := 2 + rng.IntN(9)
		rewards, order := make([]float64, n), rng.Perm(n)
		for i := range rewards {
			rewards[i] = float64(rng.IntN(4)) / 3
		}
		a, plain := LeaveOneOut(rewards), Advantages(rewards, false)
		moved, changed := make([]float64, n), make([]float64, n)
		for i, j := range order {
			moved[i], changed[i] = rewards[j], 8*rewards[i]+3
		}
		b, c, sum := LeaveOneOut(moved), LeaveOneOut(changed), 0.
		for i, v := range a {
			sum += v
			// The baseline of the others is the group's mean stretched by n/(n-1).
			if want := plain[i] * float64(n) / float64(n-1); math.Abs(v-want) > 1e-9 {
				t.Fatalf("%v: %v, want %v", rewards, v, want)
			}
			if math.Abs(b[i]-a[order[i]]) > 1e-9 || math.Abs(c[i]-8*v) > 1e-9 {
				t.Fatalf("%v: order, scale or shift: %v, %v, %v", rewards, a, b, c)
			}
		}
		if math.Abs(sum) > 1e-9 {
			t.Fatalf("advantages of %v sum to %v", rewards, sum)
		}
	}
	for _, r := range []float64{.1, .3, 1. / 3} {
		for _, v := range LeaveOneOut(slices.Repeat([]float64{r}, 7)) {
			if v != 0 {
				t.Errorf("equal rewards of %v give %v", r, v)
			}
		}
	}
}
