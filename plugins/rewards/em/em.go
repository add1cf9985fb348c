// Package em is the exact-match reward of Search-R1 v0.1 and v0.2: 1 for an answer that equals a gold answer after
// normalisation, else 0.
//
// It reads the episode's answer, not its text, so it fits every protocol; an answer pair that stands in the prompt or
// in a warning counts for nothing.
package em

import (
	"context"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/text"
)

// Config is the configuration of the reward.
type Config struct {
	Match       string  `forage:"match" default:"exact" enum:"exact,contains" doc:"exact: the answer equals a gold answer; contains: a gold answer occurs in it. Both are compared lower case, without punctuation and articles." source:"Search-R1 (arXiv:2503.09516), reward"`
	WrongAnswer float64 `forage:"wrong_answer" default:"0" doc:"Value of an episode that gave an answer which is wrong. One that gave none is worth 0." source:"Search-R1 (arXiv:2503.09516), reward"`
}

// Plugin describes the reward.
func Plugin() sdk.RewardPlugin {
	return sdk.NewReward("em", "Exact match of the episode's answer with the gold answers.", "Search-R1 (arXiv:2503.09516)",
		func(_ context.Context, c Config, _ sdk.Host) (sdk.Reward, error) { return reward{c}, nil })
}

type reward struct{ config Config }

func (r reward) Score(_ context.Context, req sdk.ScoreRequest) (sdk.ScoreResponse, error) {
	var out sdk.ScoreResponse
	for _, item := range req.Items {
		out.Scores = append(out.Scores, sdk.Score{Value: Value(item.Episode.Answer, item.Question.Answers, r.config)})
	}
	return out, nil
}

// Value is the reward of an answer, nil for none.
func Value(answer *string, golds []string, c Config) float64 {
	if answer == nil {
		return 0
	}
	right := text.ExactMatchAny
	if c.Match == "contains" {
		right = text.ContainsAny
	}
	if right(*answer, golds) {
		return 1
	}
	return c.WrongAnswer
}
