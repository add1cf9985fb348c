package grasp

import (
	"context"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/diag"
)

// Config is the configuration of the reward.
type Config struct {
	ReadWeight       float64 `forage:"read_weight" default:"0.70" min:"0" doc:"α, the weight of what was read." source:"GRASP (arXiv:2607.10463), reward"`
	SearchWeight     float64 `forage:"search_weight" default:"0.15" min:"0" doc:"β, the weight of both searches having found a gold document." source:"GRASP, reward"`
	EfficiencyWeight float64 `forage:"efficiency_weight" default:"0.15" min:"0" doc:"γ, the weight of having used few turns." source:"GRASP, reward"`
	Theta            float64 `forage:"theta" default:"0.5" min:"0" max:"1" doc:"θ: efficiency counts only where the answer's F1 is greater." source:"default (not in the paper)"`
	Efficiency       string  `forage:"efficiency" default:"linear" enum:"linear,from_one" doc:"linear: 1 - T / t_max; from_one: (t_max - T) / (t_max - 1), which is 1 for one turn. T is the number of turns." source:"default (not in the paper)"`
	Turns            int     `forage:"t_max" default:"10" min:"1" doc:"The horizon T_max: the agent's turns, the one that answers included." source:"default (not in the paper)"`
	UnfinishedZero   bool    `forage:"unfinished_zero" default:"false" doc:"An episode without an answer is worth nothing; else what it has read and found counts." source:"default (not in the paper)"`
	Semantic         string  `forage:"semantic" default:"semantic_search" doc:"Name of the tool that searches by meaning." source:"default (not in the paper)"`
	Keyword          string  `forage:"keyword" default:"keyword_search" doc:"Name of the tool that searches by words." source:"default (not in the paper)"`
	Read             string  `forage:"read" default:"read_paragraph" doc:"Name of the tool that reads paragraphs." source:"default (not in the paper)"`
}

// Validate refuses a horizon that leaves nothing to measure.
func (c Config) Validate() diag.Diagnostics {
	var ds diag.Diagnostics
	if c.Efficiency == "from_one" && c.Turns < 2 {
		ds.Errorf(diag.Attr("t_max"), "No horizon", "(t_max - T) / (t_max - 1) needs a t_max of at least 2.")
	}
	return ds
}

// Plugin describes the reward.
func Plugin() sdk.RewardPlugin {
	return sdk.NewReward("grasp", "GRASP's reward: token F1 of the answer + α F1 of the documents read + β both searches found a gold + γ efficiency. Components: answer, read, search, efficiency. A question without gold documents has only the answer and the efficiency.",
		"GRASP (arXiv:2607.10463)", func(_ context.Context, c Config, _ sdk.Host) (sdk.Reward, error) { return reward{c}, nil })
}

type reward struct{ config Config }

func (r reward) Score(_ context.Context, req sdk.ScoreRequest) (sdk.ScoreResponse, error) {
	c := r.config
	tools := Tools{Semantic: c.Semantic, Keyword: c.Keyword, Read: c.Read}
	horizon := Horizon{Turns: c.Turns, FromOne: c.Efficiency == "from_one", Theta: c.Theta}
	weights := Weights{Read: c.ReadWeight, Search: c.SearchWeight, Efficiency: c.EfficiencyWeight}
	var out sdk.ScoreResponse
	for _, item := range req.Items {
		var t Terms
		if item.Episode.Answer != nil || !c.UnfinishedZero {
			t = Score(item.Episode, item.Question, tools, horizon)
		}
		out.Scores = append(out.Scores, sdk.Score{Value: weights.Total(t), Components: map[string]float64{
			"answer": t.Answer, "read": t.Read, "search": t.Search, "efficiency": t.Efficiency,
		}})
	}
	return out, nil
}
