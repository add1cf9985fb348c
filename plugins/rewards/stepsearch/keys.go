package stepsearch

import (
	"context"
	"fmt"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/diag"
	"github.com/forage-rl/forage/core/sdk/episode"
	"github.com/forage-rl/forage/core/sdk/text"
	"github.com/forage-rl/forage/plugins/rewards/internal/tags"
)

// KeysConfig is the configuration of the reward for queries.
type KeysConfig struct {
	QueriesFrom string `forage:"queries_from" default:"episode" enum:"episode,text" doc:"episode: the queries of the episode's calls. text: every search pair anywhere in the response, as released, where the pairs in warnings count too." source:"default (not in the paper)"`
	Repeated    string `forage:"repeated" default:"overwrite" enum:"overwrite,max" doc:"What a second query for the same sub-question does. overwrite: its value replaces the earlier one even when it is lower, as released; max: the better one stays." source:"StepSearch release"`
	SearchOpen  string `forage:"search_open" default:"<search>" doc:"Tag that opens a query; for queries_from = \"text\"." source:"StepSearch release"`
	SearchClose string `forage:"search_close" default:"</search>" doc:"Tag that closes a query; for queries_from = \"text\"." source:"StepSearch release"`
}

// Validate refuses empty tags.
func (c KeysConfig) Validate() diag.Diagnostics {
	var ds diag.Diagnostics
	c.pair().Check("search", &ds)
	return ds
}

func (c KeysConfig) pair() tags.Pair { return tags.Pair{Open: c.SearchOpen, Close: c.SearchClose} }

// KeysPlugin describes the reward for queries.
func KeysPlugin() sdk.RewardPlugin {
	return sdk.NewReward("stepsearch-keys", "How well the queries match the search keywords of the question's sub-questions (metadata search_keys: a list of alternative queries per sub-question). Between 0 and 1; a question without keywords is worth 0.",
		"StepSearch (arXiv:2505.15107)",
		func(_ context.Context, c KeysConfig, _ sdk.Host) (sdk.Reward, error) { return keysReward{c}, nil })
}

type keysReward struct{ config KeysConfig }

func (r keysReward) Score(_ context.Context, req sdk.ScoreRequest) (sdk.ScoreResponse, error) {
	var out sdk.ScoreResponse
	for _, item := range req.Items {
		groups, err := searchKeys(item.Question)
		if err != nil {
			return sdk.ScoreResponse{}, err
		}
		queries := r.queries(item.Episode)
		out.Scores = append(out.Scores, sdk.Score{
			Value:      KeyScore(queries, groups, r.config.Repeated == "max"),
			Components: map[string]float64{"queries": float64(len(queries)), "groups": float64(len(groups))},
		})
	}
	return out, nil
}

func (r keysReward) queries(e episode.Episode) []string {
	var queries []string
	if r.config.QueriesFrom == "text" {
		for _, q := range r.config.pair().Contents(tags.Response(e)) {
			queries = append(queries, text.Trim(q))
		}
		return queries
	}
	for _, t := range e.Turns {
		if t.Action == episode.ActionCall {
			queries = append(queries, text.Trim(t.Query()))
		}
	}
	return queries
}

// KeyScore is the mean over groups of the value of the query that fits each: every query goes to the group with the
// alternative of the highest F1, the first of equals, or to none where all are 0. With best a group keeps its highest
// value, else its last one. 0 without groups.
func KeyScore(queries []string, groups [][]string, best bool) float64 {
	if len(groups) == 0 {
		return 0
	}
	values := make([]float64, len(groups))
	for _, q := range queries {
		fit, value := -1, 0.
		for g, alternatives := range groups {
			if f := Round4(BestF1(q, alternatives)); f > value {
				fit, value = g, f
			}
		}
		if fit >= 0 && (!best || value > values[fit]) {
			values[fit] = value
		}
	}
	sum := 0.
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(groups))
}

// searchKeys reads the groups of alternative queries of a question.
func searchKeys(q episode.Question) ([][]string, error) {
	list, err := listOf(q, "search_keys")
	if err != nil {
		return nil, err
	}
	groups := make([][]string, len(list))
	for i, g := range list {
		switch g := g.(type) {
		case string:
			groups[i] = []string{g}
		case []any:
			for j, k := range g {
				key, ok := k.(string)
				if !ok {
					return nil, fmt.Errorf("question %s: metadata search_keys, group %d, entry %d is %v, want a text", q.ID, i+1, j+1, k)
				}
				groups[i] = append(groups[i], key)
			}
		default:
			return nil, fmt.Errorf("question %s: metadata search_keys, group %d is %v, want a list of alternative queries", q.ID, i+1, g)
		}
	}
	return groups, nil
}

// listOf reads a list of the question's metadata; nil where there is none.
func listOf(q episode.Question, name string) ([]any, error) {
	v := q.Metadata[name]
	if v == nil {
		return nil, nil
	}
	list, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("question %s: metadata %s is %v, want a list", q.ID, name, v)
	}
	return list, nil
}
