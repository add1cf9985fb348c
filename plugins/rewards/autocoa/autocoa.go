// Package autocoa grades an episode's answer as AutoCoA's release trains with (Zhang et al., arXiv:2503.06580): 0
// without an end of the thought or with a search after it; else 1 for an answer that equals a gold one or holds most of
// its words, and 0 for one that only contains it or is contained in it. The paper describes exact match and a penalty
// for the form.
//
// The release also looks for an answer behind certain concluding phrases before it falls back to a sentence; those are
// not looked for here.
package autocoa

import (
	"context"
	"regexp"
	"strings"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/diag"
	"github.com/forage-rl/forage/plugins/rewards/internal/davidtext"
	"github.com/forage-rl/forage/plugins/rewards/internal/tags"
)

// Config is the configuration of the reward.
type Config struct {
	AnswerFrom  string `forage:"answer_from" default:"text" enum:"text,episode" doc:"text: the last answer pair after the last thought, or without one the last sentence but one; episode: the answer that the agent's protocol parsed, without a look at the form." source:"AutoCoA release"`
	ThinkClose  string `forage:"think_close" default:"</think>" doc:"Tag that closes the thought." source:"AutoCoA release"`
	SearchOpen  string `forage:"search_open" default:"<begin_search>" doc:"Tag that opens a search." source:"AutoCoA release"`
	AnswerOpen  string `forage:"answer_open" default:"\\boxed{" doc:"Tag that opens the answer." source:"AutoCoA release"`
	AnswerClose string `forage:"answer_close" default:"}" doc:"Tag that closes the answer." source:"AutoCoA release"`
}

// Validate refuses empty tags.
func (c Config) Validate() diag.Diagnostics {
	var ds diag.Diagnostics
	tags.Pair{Open: c.AnswerOpen, Close: c.AnswerClose}.Check("answer", &ds)
	for attribute, tag := range map[string]string{"think_close": c.ThinkClose, "search_open": c.SearchOpen} {
		if tag == "" {
			ds.Errorf(diag.Attr(attribute), "Empty tag", "The tag %s must not be empty: every text would match it.", attribute)
		}
	}
	return ds
}

// Plugin describes the reward.
func Plugin() sdk.RewardPlugin {
	return sdk.NewReward("autocoa-outcome", "AutoCoA's grade of the answer: 1 when equal or with 0.7 of the gold's words, 0 when one contains the other, 0 for a broken form.",
		"AutoCoA (arXiv:2503.06580)",
		func(_ context.Context, c Config, _ sdk.Host) (sdk.Reward, error) { return reward{c}, nil })
}

type reward struct{ config Config }

func (r reward) Score(_ context.Context, req sdk.ScoreRequest) (sdk.ScoreResponse, error) {
	var out sdk.ScoreResponse
	for _, item := range req.Items {
		answer, ok := "", false
		if r.config.AnswerFrom == "episode" {
			if item.Episode.Answer != nil {
				answer, ok = *item.Episode.Answer, true
			}
		} else {
			answer, ok = r.config.Extract(tags.Response(item.Episode))
		}
		value := 0.
		if ok {
			value = davidtext.Best(Grade, answer, item.Question.Answers)
		}
		out.Scores = append(out.Scores, sdk.Score{Value: value})
	}
	return out, nil
}

// sentenceEnd is where one sentence ends and the next begins.
var sentenceEnd = regexp.MustCompile(`[.!?](?:\s+|$)|\n+`)

// Extract reads the answer of a response; false where its form is broken or nothing is left.
func (c Config) Extract(response string) (string, bool) {
	_, after, thought := strings.CutLast(response, c.ThinkClose)
	if !thought || strings.Contains(response[strings.Index(response, c.ThinkClose):], c.SearchOpen) {
		return "", false
	}
	if answer, ok := (tags.Pair{Open: c.AnswerOpen, Close: c.AnswerClose}).Last(after); ok {
		return answer, true
	}
	var sentences []string
	for _, s := range sentenceEnd.Split(after, -1) {
		if s = strings.TrimSpace(s); s != "" {
			sentences = append(sentences, s)
		}
	}
	switch n := len(sentences); n {
	case 0:
		return "", false
	case 1:
		return sentences[0], true
	default:
		return sentences[n-2], true
	}
}

// Grade is [davidtext.Grade] without its half credit: what merely contains the other is worth nothing.
func Grade(answer, gold string) float64 {
	if value := davidtext.Grade(answer, gold); value == 1 {
		return 1
	}
	return 0
}
