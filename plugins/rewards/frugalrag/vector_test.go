package frugalrag

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
	"github.com/forage-rl/forage/core/sdk/sdktest/vectors"
)

func TestVectorEfficiency(t *testing.T) {
	f := vectors.Load(t, "frugalrag", "efficiency_reward")
	for _, c := range f.Cases {
		in := vectors.Decode[struct {
			Searches int
			HStar    int `json:"h_star"`
			Budget   int
			RMax     float64 `json:"r_max"`
			Zeta     float64
		}](t, c.Input)
		want := vectors.Decode[struct{ Reward float64 }](t, c.Want())
		if got := Efficiency(in.Searches, in.HStar, in.Budget, Shape{in.RMax, in.Zeta, .1}); !f.Tolerance.Close(got, want.Reward) {
			t.Errorf("%s: %v, want %v", c.ID, got, want.Reward)
		}
	}
}

func TestVectorSentences(t *testing.T) {
	s := NewSplitter()
	for _, c := range vectors.Load(t, "frugalrag", "sentences").Cases {
		in := vectors.Decode[struct{ Text string }](t, c.Input)
		want := vectors.Decode[struct{ Sentences []string }](t, c.Want())
		if got := s.Sentences(in.Text); !slices.Equal(got, want.Sentences) {
			t.Errorf("%s: %q, want %q", c.ID, got, want.Sentences)
		}
	}
}

func TestVectorRetrievalMetrics(t *testing.T) {
	f := vectors.Load(t, "frugalrag", "retrieval_metrics")
	for _, c := range f.Cases {
		in := vectors.Decode[struct{ Predicted, Gold []string }](t, c.Input)
		want := vectors.Decode[struct {
			TitleRecall    json.RawMessage `json:"title_recall"`
			MultisetRecall float64         `json:"multiset_recall"`
			Hit            int             `json:"passage_hit"`
			Precision      float64         `json:"passage_precision"`
		}](t, c.Want())
		var recall float64
		if json.Unmarshal(want.TitleRecall, &recall) != nil {
			recall = 0 // upstream divides by the number of golds, of which there are none
		}
		hit, precision := AnswerHits(in.Predicted, in.Gold)
		if got := TitleRecall(in.Predicted, in.Gold); !f.Tolerance.Close(got, recall) {
			t.Errorf("%s: title recall %v, want %v", c.ID, got, recall)
		}
		if got := MultisetRecall(in.Predicted, in.Gold); !f.Tolerance.Close(got, want.MultisetRecall) {
			t.Errorf("%s: recall %v, want %v", c.ID, got, want.MultisetRecall)
		}
		if hit != (want.Hit == 1) || !f.Tolerance.Close(precision, want.Precision) {
			t.Errorf("%s: hit %v, precision %v, want %v, %v", c.ID, hit, precision, want.Hit, want.Precision)
		}
	}
}

// trajectory reads an upstream record in the order of its keys, of which there are four per hop.
func trajectory(t *testing.T, data json.RawMessage, retriever string) (e episode.Episode) {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(string(data)))
	if _, err := dec.Token(); err != nil {
		t.Fatal(err)
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			t.Fatal(err)
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			t.Fatal(err)
		}
		name := key.(string)
		switch {
		case strings.HasPrefix(name, "tool_name_"):
			var tool string
			if err := json.Unmarshal(value, &tool); err != nil {
				t.Fatal(err)
			}
			turn := episode.Turn{Action: episode.ActionCall, Executed: true, Tool: tool}
			switch {
			case tool == "finish":
				turn.Action = episode.ActionAnswer
			case strings.HasPrefix(tool, "Failed to execute"):
				turn.Action, turn.Executed = episode.ActionInvalid, false
			}
			if name != "tool_name_init" {
				turn.Text = "written"
			}
			e.Turns = append(e.Turns, turn)
		case strings.HasPrefix(name, "observation_"):
			var found struct {
				Passages []struct {
					Text string `json:"long_text"`
				} `json:"passages_this_hop"`
			}
			turn := &e.Turns[len(e.Turns)-1]
			if json.Unmarshal(value, &found) != nil {
				if turn.Action == episode.ActionCall {
					turn.Error = string(value)
				}
				continue
			}
			for _, p := range found.Passages {
				turn.Hits = append(turn.Hits, passage(p.Text, retriever))
			}
		}
	}
	return e
}

// passage cuts a passage as the retrievers upstream lay it out.
func passage(text, retriever string) episode.Hit {
	if strings.HasPrefix(retriever, "wiki") {
		parts := strings.Split(text, "|")
		h := episode.Hit{Title: strings.TrimSpace(parts[0])}
		if len(parts) > 1 {
			h.Text = strings.TrimSpace(parts[1])
		}
		return h
	}
	title, rest, _ := strings.Cut(text, "\n")
	return episode.Hit{Title: title, Text: rest}
}

func TestVectorReward(t *testing.T) {
	f := vectors.Load(t, "frugalrag", "reward")
	for _, c := range f.Cases {
		in := vectors.Decode[struct {
			Trajectory    json.RawMessage
			Dataset       string
			Retriever     string
			MaxIters      int      `json:"max_iters"`
			Format        float64  `json:"format_coeff"`
			GoldTitles    []string `json:"gold_titles"`
			GoldSentences []any    `json:"gold_sentences"`
			TauRecall     float64  `json:"tau_recall"`
			TauF1         float64  `json:"tau_support_f1"`
		}](t, c.Input)
		want := vectors.Decode[struct {
			Searches  int
			Kept      []string `json:"kept_keys"`
			Recall    float64  `json:"title_recall"`
			SupportF1 *float64 `json:"support_f1"`
			HStar     int      `json:"h_star_if_met"`
			Reward    float64
			Format    float64 `json:"format_reward"`
			Total     float64
		}](t, c.Want())
		q := episode.Question{ID: "q", Metadata: map[string]any{"gold_sentences": in.GoldSentences, "tau_recall": in.TauRecall, "tau_support_f1": in.TauF1}}
		for _, title := range in.GoldTitles {
			q.Gold = append(q.Gold, episode.Gold{Title: title})
		}
		values := map[string]any{"max_iters": float64(in.MaxIters), "format_coefficient": in.Format}
		if in.Retriever != "wiki5M" {
			values["support"] = "sentences"
			if in.Dataset == "musique" {
				values["support"] = "passages"
			}
		}
		r, err := Plugin().New(t.Context(), values, nil)
		if err != nil {
			t.Fatal(err)
		}
		e := trajectory(t, in.Trajectory, in.Retriever)
		out, err := r.Score(t.Context(), sdk.ScoreRequest{Items: []sdk.ScoreItem{{Question: q, Episode: e}}})
		if err != nil {
			t.Fatal(err)
		}
		got := out.Scores[0]
		check := func(what string, got, want float64) {
			if !f.Tolerance.Close(got, want) {
				t.Errorf("%s: %s %v, want %v", c.ID, what, got, want)
			}
		}
		check("searches", got.Components["searches"], float64(want.Searches))
		check("recall", got.Components["recall"], want.Recall)
		check("efficiency", got.Components["efficiency"], want.Reward)
		check("format", got.Components["format"], want.Format)
		check("total", got.Value, want.Total)
		if want.SupportF1 != nil {
			check("support F1", got.Components["support_f1"], *want.SupportF1)
		}
		if got.Components["met"] == 1 {
			check("h*", got.Components["h_star"], float64(want.HStar))
		}
		// What is kept: the turns before the finish, and the finish.
		kept := len(Read(e, in.MaxIters).Hits)
		if kept < len(e.Turns) && e.Turns[kept].Action == episode.ActionAnswer && kept <= in.MaxIters {
			kept++
		}
		if kept*4 != len(want.Kept) {
			t.Errorf("%s: kept %d turns of %d, want %d keys", c.ID, kept, len(e.Turns), len(want.Kept))
		}
	}
}
