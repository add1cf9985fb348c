// Package f1 rewards the words that the episode's answer shares with a gold answer.
package f1

import (
	"context"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/text"
)

// Config is the configuration of the reward.
type Config struct {
	Rule string `forage:"rule" default:"hotpot" enum:"hotpot,squad,musique" doc:"Rule for the comparison. hotpot: yes, no and noanswer must match as a whole; squad: they are ordinary words; musique: as squad, and two answers that normalise to nothing agree." source:"default (not in the paper)"`
}

// Plugin describes the reward.
func Plugin() sdk.RewardPlugin {
	return sdk.NewReward("f1", "Token F1 of the episode's answer with the best gold answer.", "SQuAD, HotpotQA and MuSiQue evaluation scripts",
		func(_ context.Context, c Config, _ sdk.Host) (sdk.Reward, error) { return reward{c}, nil })
}

type reward struct{ config Config }

func (r reward) Score(_ context.Context, req sdk.ScoreRequest) (sdk.ScoreResponse, error) {
	var out sdk.ScoreResponse
	for _, item := range req.Items {
		s := Compare(item.Episode.Answer, item.Question.Answers, r.config.Rule)
		out.Scores = append(out.Scores, sdk.Score{
			Value:      s.F1,
			Components: map[string]float64{"em": s.EM, "f1": s.F1, "precision": s.Precision, "recall": s.Recall},
		})
	}
	return out, nil
}

// Compare is the best agreement of an answer, nil for none, with the golds.
func Compare(answer *string, golds []string, rule string) text.Score {
	if answer == nil {
		return text.Score{}
	}
	switch rule {
	case "hotpot":
		return text.HotpotBest(*answer, golds)
	case "musique":
		return text.MusiqueBest(*answer, golds)
	}
	return text.SquadBest(*answer, golds)
}
