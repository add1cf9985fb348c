package evidence

import (
	"slices"
	"testing"

	"github.com/forage-rl/forage/core/sdk/episode"
)

func TestMatch(t *testing.T) {
	hit := episode.Hit{DocumentID: "d", ParagraphID: "d#p1", Title: "Mitchells &amp; Butlers"}
	for _, c := range []struct {
		gold episode.Gold
		want bool
	}{
		{episode.Gold{Title: "other", ParagraphID: "d#p1"}, true},
		{episode.Gold{Title: "mitchells & butlers", DocumentID: "d", ParagraphID: "d#p2"}, false},
		{episode.Gold{Title: "other", DocumentID: "d"}, true},
		{episode.Gold{Title: "mitchells & butlers", DocumentID: "e"}, false},
		{episode.Gold{Title: "mitchells  & butlers"}, true},
		{episode.Gold{}, false},
	} {
		if got := Match(c.gold, hit); got != c.want {
			t.Errorf("%+v: %v", c.gold, got)
		}
	}
	if Match(episode.Gold{}, episode.Hit{}) {
		t.Error("a gold without a name matches nothing")
	}
}

func TestTurns(t *testing.T) {
	golds := []episode.Gold{{DocumentID: "a"}, {DocumentID: "b"}, {DocumentID: "c"}}
	hits := func(ids ...string) (h []episode.Hit) {
		for _, id := range ids {
			h = append(h, episode.Hit{DocumentID: id})
		}
		return h
	}
	turns := []episode.Turn{{Hits: hits("x", "b")}, {}, {Hits: hits("b", "a")}}
	if got := FirstTurns(golds, turns); !slices.Equal(got, []int{2, 0, -1}) {
		t.Errorf("first turns %v", got)
	}
	if Found(golds, turns) != 2 || Complete(golds, turns) != -1 || Complete(golds[:2], turns) != 2 || Complete(nil, turns) != -1 {
		t.Error("found or complete")
	}
}
