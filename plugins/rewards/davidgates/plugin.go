package davidgates

import (
	"context"
	"slices"
	"strings"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/diag"
	"github.com/forage-rl/forage/plugins/rewards/internal/tags"
)

// Config is the configuration of the reward.
type Config struct {
	Gates        []string `forage:"gates" default:"closed_think,searches_inside,searched,balanced,distinct_queries,answered,gold_answer" doc:"Conditions that must all hold. closed_think: the response closes its thinking; searches_inside: no search tag after the last thought; searched: there is a search; balanced: as many result tags as query tags; distinct_queries: no query twice; answered: an answer after the last thought; gold_answer: the question has an answer. The older, looser reward is [\"distinct_queries\"] with strip_queries." source:"default (not in the paper)"`
	Scope        string   `forage:"scope" default:"last_think" enum:"last_think,response" doc:"Where searched, balanced and distinct_queries look. last_think: after the last opening of a thought, as released; response: everywhere, for protocols that open a new thought each turn." source:"default (not in the paper)"`
	StripQueries bool     `forage:"strip_queries" default:"false" doc:"Compare queries without surrounding white space." source:"default (not in the paper)"`

	ThinkOpen   string `forage:"think_open" default:"<think>" doc:"Tag that opens a thought." source:"default (not in the paper)"`
	ThinkClose  string `forage:"think_close" default:"</think>" doc:"Tag that closes a thought." source:"default (not in the paper)"`
	SearchOpen  string `forage:"search_open" default:"<begin_search>" doc:"Tag that opens a query." source:"default (not in the paper)"`
	SearchClose string `forage:"search_close" default:"</end_search>" doc:"Tag that closes a query." source:"default (not in the paper)"`
	ResultOpen  string `forage:"result_open" default:"<search_result>" doc:"Tag that opens what was retrieved." source:"default (not in the paper)"`
	ResultClose string `forage:"result_close" default:"</search_result>" doc:"Tag that closes what was retrieved." source:"default (not in the paper)"`
	AnswerOpen  string `forage:"answer_open" default:"\\boxed{" doc:"Tag that opens the answer." source:"default (not in the paper)"`
	AnswerClose string `forage:"answer_close" default:"}" doc:"Tag that closes the answer." source:"default (not in the paper)"`
}

func (c Config) options(validation bool) Options {
	return Options{
		Protocol: Protocol{
			Think: tags.Pair{Open: c.ThinkOpen, Close: c.ThinkClose}, Search: tags.Pair{Open: c.SearchOpen, Close: c.SearchClose},
			Result: tags.Pair{Open: c.ResultOpen, Close: c.ResultClose}, Answer: tags.Pair{Open: c.AnswerOpen, Close: c.AnswerClose},
		},
		Gates: c.Gates, LastThink: c.Scope == "last_think", StripQueries: c.StripQueries, Validation: validation,
	}
}

// Validate refuses unknown gates and empty tags.
func (c Config) Validate() diag.Diagnostics {
	var ds diag.Diagnostics
	for i, gate := range c.Gates {
		if !slices.Contains(All(), gate) {
			ds.Errorf(diag.Attr("gates").Index(i), "Unknown gate", "There is no gate %q; use one of %s.", gate, strings.Join(All(), ", "))
		}
	}
	p := c.options(false).Protocol
	p.Think.Check("think", &ds)
	p.Search.Check("search", &ds)
	p.Result.Check("result", &ds)
	p.Answer.Check("answer", &ds)
	return ds
}

// Plugin describes the reward.
func Plugin() sdk.RewardPlugin {
	return sdk.NewReward("david-gates", "1 when an episode meets all conditions that David-GRPO's released reward sets before any credit, else 0. Each condition is a component.",
		"David-GRPO release",
		func(_ context.Context, c Config, _ sdk.Host) (sdk.Reward, error) { return reward{c}, nil })
}

type reward struct{ config Config }

func (r reward) Score(_ context.Context, req sdk.ScoreRequest) (sdk.ScoreResponse, error) {
	var out sdk.ScoreResponse
	o := r.config.options(req.Validation)
	for _, item := range req.Items {
		score := sdk.Score{Value: 1, Components: map[string]float64{}}
		for gate, met := range Check(tags.Response(item.Episode), item.Question.Answers, o) {
			score.Components[gate] = 1
			if !met {
				score.Components[gate], score.Value = 0, 0
			}
		}
		out.Scores = append(out.Scores, score)
	}
	return out, nil
}
