package sdktest

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
)

// RewardCase is one configuration of a reward with episodes to score.
type RewardCase struct {
	Name   string
	Values map[string]any
	Host   sdk.Host // nil for none
	// Items to score; nil means [ScoreItems].
	Items []sdk.ScoreItem
	// Want holds the expected value of each item, or nothing.
	Want []float64
	// Tolerance of Want, absolute.
	Tolerance float64
}

// ScoreItems gives episodes of all sorts: right, wrong, without answer, invalid, empty.
func ScoreItems() []sdk.ScoreItem {
	q, hits := Questions(), Documents()
	item := func(q episode.Question, b *Builder) sdk.ScoreItem {
		return sdk.ScoreItem{Question: q, Episode: b.Episode()}
	}
	return []sdk.ScoreItem{
		item(q[0], NewEpisode("right", q[0]).Search("the chapel", "chapel ceiling", hits[0], hits[5]).Answer("Ada Brook")),
		item(q[1], NewEpisode("two-hops", q[1]).Search("the painter", "chapel", hits[0]).Search("her birth", "Ada Brook", hits[1], hits[2]).Answer("the Town of Lowmere.")),
		item(q[2], NewEpisode("wrong", q[2]).Search("nothing", "bridge", hits[5]).Answer("Pell")),
		item(q[2], NewEpisode("no-answer", q[2]).Search("the chapel", "chapel", hits[0])),
		item(q[3], NewEpisode("invalid", q[3]).Invalid("hm").Search("the river", "Ister").Answer("")),
		item(q[3], NewEpisode("straight", q[3]).Answer("yes")),
		{Question: episode.Question{ID: "bare", Text: "?"}, Episode: episode.Episode{ID: "empty", QuestionID: "bare", Stop: episode.StopLength, Origin: episode.OriginPolicy}},
	}
}

// TestReward checks a reward with each case; without cases, with its defaults.
func TestReward(t *testing.T, plugin sdk.RewardPlugin, cases ...RewardCase) {
	t.Helper()
	if len(cases) == 0 {
		cases = []RewardCase{{Name: "defaults"}}
	}
	testPlugin(t, sdk.Pack{Rewards: []sdk.RewardPlugin{plugin}}, sdk.KindReward, plugin.Plugin, cases[0].Values)
	for i, c := range cases {
		if c.Name == "" {
			c.Name = fmt.Sprint("case ", i)
		}
		t.Run(c.Name, func(t *testing.T) { testRewardCase(t, plugin, c) })
	}
}

func testRewardCase(t *testing.T, plugin sdk.RewardPlugin, c RewardCase) {
	if c.Items == nil {
		c.Items = ScoreItems()
	}
	r := Reward(t, plugin, c.Values, c.Host)
	score := func(t *testing.T, items []sdk.ScoreItem) []sdk.Score {
		t.Helper()
		out, err := r.Score(t.Context(), sdk.ScoreRequest{Items: items})
		if err != nil {
			t.Fatal(err)
		}
		return out.Scores
	}
	first := score(t, c.Items)
	t.Run("scores", func(t *testing.T) {
		for i, s := range first {
			what := fmt.Sprintf("the score of %q", c.Items[i].Episode.ID)
			finite(t, what, s.Value)
			for name, v := range s.Components {
				finite(t, what+", component "+name, v)
			}
			finite(t, what+", turns", s.Turns...)
			if n := len(c.Items[i].Episode.Turns); len(s.Turns) != 0 && len(s.Turns) != n {
				t.Errorf("%s has %d turns for an episode of %d", what, len(s.Turns), n)
			}
			if i < len(c.Want) && !(math.Abs(s.Value-c.Want[i]) <= c.Tolerance) {
				t.Errorf("%s is %v, want %v", what, s.Value, c.Want[i])
			}
		}
		if len(c.Want) > 0 && len(c.Want) != len(first) {
			t.Errorf("%d wanted values for %d items", len(c.Want), len(first))
		}
	})
	t.Run("same again", func(t *testing.T) { same(t, "a repeated request scores otherwise", first, score(t, c.Items)) })
	t.Run("order does not matter", func(t *testing.T) {
		items := slices.Clone(c.Items)
		slices.Reverse(items)
		backwards := score(t, items)
		slices.Reverse(backwards)
		same(t, "a batch in reverse scores otherwise", first, backwards)
		for i, item := range c.Items {
			same(t, fmt.Sprintf("episode %q alone scores otherwise", item.Episode.ID), first[i], score(t, []sdk.ScoreItem{item})[0])
		}
	})
	t.Run("empty batch", func(t *testing.T) { score(t, nil) })
	t.Run("cancelled", func(t *testing.T) {
		host := c.Host
		if host == nil {
			host = &Host{}
		}
		direct, err := plugin.New(t.Context(), c.Values, host)
		if err != nil {
			t.Fatal(err)
		}
		returns(t, func(ctx context.Context) error {
			_, err := direct.Score(ctx, sdk.ScoreRequest{Items: c.Items})
			return err
		})
	})
}
