package hostside

import (
	"bytes"
	"context"
	"testing"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
)

// TestShare: the items that several rewards score are serialised once, and others anew.
func TestShare(t *testing.T) {
	ctx := Share(t.Context())
	items := func(id string) []sdk.ScoreItem {
		return []sdk.ScoreItem{{Question: episode.Question{ID: "q"}, Episode: episode.Episode{ID: id, QuestionID: "q"}}}
	}
	same, other := items("a"), items("b")
	bytesOf := func(ctx context.Context, list []sdk.ScoreItem) []byte {
		r, err := toScoreRequest(ctx, "r", sdk.ScoreRequest{Items: list})
		if err != nil {
			t.Fatal(err)
		}
		return r.ProtoReflect().GetUnknown()
	}
	first := bytesOf(ctx, same)
	if again := bytesOf(ctx, same); &again[0] != &first[0] {
		t.Error("the same items were serialised twice")
	}
	if b := bytesOf(ctx, other); bytes.Equal(b, first) || !bytes.Contains(b, []byte("b")) {
		t.Error("other items were taken for the same")
	}
	if b := bytesOf(t.Context(), same); &b[0] == &first[0] || !bytes.Equal(b, first) {
		t.Error("without sharing a request must have bytes of its own, and the same")
	}
}
