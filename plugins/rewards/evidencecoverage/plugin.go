package evidencecoverage

import (
	"context"
	"strings"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/diag"
	"github.com/forage-rl/forage/plugins/rewards/internal/davidtext"
	"github.com/forage-rl/forage/plugins/rewards/internal/tags"
)

// Config is the configuration of the reward.
type Config struct {
	Measure string `forage:"measure" default:"recall" enum:"recall,f1,answer" doc:"recall: share of the gold documents that were returned; f1: its harmonic mean with the share of returned documents that are gold (an ablation that makes agents search less); answer: 1 when a gold answer occurs in what was returned." source:"David-GRPO, evidence-coverage reward"`
	Match   string `forage:"match" default:"hits" enum:"hits,text" doc:"hits: compare what the tools returned, by the ids or titles that dataset and corpus share. text: read quoted titles from the rendered results after the last opening of a thought, as released; titles with an inner quote are lost." source:"default (not in the paper)"`

	ThinkOpen   string `forage:"think_open" default:"<think>" doc:"Tag that opens a thought; for match = \"text\"." source:"default (not in the paper)"`
	ResultOpen  string `forage:"result_open" default:"<search_result>" doc:"Tag that opens what was retrieved; for match = \"text\"." source:"default (not in the paper)"`
	ResultClose string `forage:"result_close" default:"</search_result>" doc:"Tag that closes what was retrieved; for match = \"text\"." source:"default (not in the paper)"`
}

// Validate refuses empty tags.
func (c Config) Validate() diag.Diagnostics {
	var ds diag.Diagnostics
	tags.Pair{Open: c.ResultOpen, Close: c.ResultClose}.Check("result", &ds)
	if c.ThinkOpen == "" {
		ds.Errorf(diag.Attr("think_open"), "Empty tag", "The tag think_open must not be empty: every text would match it.")
	}
	return ds
}

// Plugin describes the reward.
func Plugin() sdk.RewardPlugin {
	return sdk.NewReward("evidence-coverage", "Share of the question's gold documents that the episode's tools returned. A question without gold documents is worth 0.",
		"David-GRPO", func(_ context.Context, c Config, _ sdk.Host) (sdk.Reward, error) { return reward{c}, nil })
}

type reward struct{ config Config }

func (r reward) Score(_ context.Context, req sdk.ScoreRequest) (sdk.ScoreResponse, error) {
	var out sdk.ScoreResponse
	for _, item := range req.Items {
		out.Scores = append(out.Scores, r.score(item))
	}
	return out, nil
}

func (r reward) score(item sdk.ScoreItem) sdk.Score {
	var coverage Coverage
	var score sdk.Score
	var blocks []string
	if r.config.Match == "text" {
		blocks = r.blocks(tags.Response(item.Episode))
		var titles []string
		for _, b := range blocks {
			titles = append(titles, davidtext.Titles(b)...)
		}
		coverage = FromTitles(item.Question.Gold, titles)
	} else {
		var gains []float64
		coverage, gains = FromHits(item.Question.Gold, item.Episode.Turns)
		if r.config.Measure == "recall" {
			score.Turns = gains
		}
		for _, h := range item.Episode.Hits() {
			blocks = append(blocks, h.Text)
		}
	}
	score.Components = map[string]float64{
		"recall": coverage.Recall(), "precision": coverage.Precision(), "found": float64(coverage.Found), "gold": float64(coverage.Gold),
	}
	switch r.config.Measure {
	case "recall":
		score.Value = coverage.Recall()
	case "f1":
		score.Value = coverage.F1()
	case "answer":
		if Mentions(blocks, item.Question.Answers) {
			score.Value = 1
		}
	}
	return score
}

// blocks lists the result blocks after the last opening of a thought.
func (r reward) blocks(response string) []string {
	if i := strings.LastIndex(response, r.config.ThinkOpen); i >= 0 {
		response = response[i+len(r.config.ThinkOpen):]
	}
	return tags.Pair{Open: r.config.ResultOpen, Close: r.config.ResultClose}.Contents(response)
}
