package searchr1format

import (
	"context"
	"strings"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/diag"
	"github.com/forage-rl/forage/core/sdk/text"
	"github.com/forage-rl/forage/plugins/rewards/internal/tags"
)

// Config is the configuration of the reward.
type Config struct {
	Structure float64 `forage:"structure_score" default:"0.2" min:"0" max:"1" doc:"Value of a wrong answer in valid form, and what a right answer in invalid form loses." source:"Search-R1 v0.3 scripts"`
	Final     float64 `forage:"final_score" default:"0.1" min:"0" max:"1" doc:"Value of a wrong answer in invalid form." source:"Search-R1 v0.3 scripts"`
	Retrieval float64 `forage:"retrieval_score" default:"0" min:"0" max:"1" doc:"Added to structure_score when a gold answer occurs in what was retrieved. The retrieval study uses 0.1." source:"Search-R1 v0.3 scripts"`

	AnswerScore string `forage:"answer_score" default:"em" enum:"em,f1" doc:"em: an answer is right or wrong. f1: it counts for the words that it shares with the best gold answer (yes and no as a whole), less structure_score in invalid form; a wrong answer in invalid form is worth 0 then. Tree-GRPO has em for questions over a corpus and f1 for the web." source:"Search-R1 v0.3 scripts; Tree-GRPO release"`

	AnswerFrom string   `forage:"answer_from" default:"episode" enum:"episode,text" doc:"episode: the answer that the agent's protocol parsed. text: the last answer pair anywhere in the response, as released, where the pair in a warning of an invalid action counts too." source:"default (not in the paper)"`
	EndTokens  []string `forage:"end_tokens" default:"" doc:"Texts to drop from the end of the response before its form is checked, such as the end-of-sequence token. Without, a written end token makes the form invalid." source:"default (not in the paper)"`

	ThinkOpen        string `forage:"think_open" default:"<think>" doc:"Tag that opens a thought." source:"Search-R1 (arXiv:2503.09516), Table 1"`
	ThinkClose       string `forage:"think_close" default:"</think>" doc:"Tag that closes a thought." source:"Search-R1 (arXiv:2503.09516), Table 1"`
	SearchOpen       string `forage:"search_open" default:"<search>" doc:"Tag that opens a query." source:"Search-R1 (arXiv:2503.09516), Table 1"`
	SearchClose      string `forage:"search_close" default:"</search>" doc:"Tag that closes a query." source:"Search-R1 (arXiv:2503.09516), Table 1"`
	InformationOpen  string `forage:"information_open" default:"<information>" doc:"Tag that opens what was retrieved." source:"Search-R1 (arXiv:2503.09516), Table 1"`
	InformationClose string `forage:"information_close" default:"</information>" doc:"Tag that closes what was retrieved." source:"Search-R1 (arXiv:2503.09516), Table 1"`
	AnswerOpen       string `forage:"answer_open" default:"<answer>" doc:"Tag that opens the answer." source:"Search-R1 (arXiv:2503.09516), Table 1"`
	AnswerClose      string `forage:"answer_close" default:"</answer>" doc:"Tag that closes the answer." source:"Search-R1 (arXiv:2503.09516), Table 1"`
}

func (c Config) protocol() Protocol {
	return Protocol{
		Think: tags.Pair{Open: c.ThinkOpen, Close: c.ThinkClose}, Search: tags.Pair{Open: c.SearchOpen, Close: c.SearchClose},
		Information: tags.Pair{Open: c.InformationOpen, Close: c.InformationClose}, Answer: tags.Pair{Open: c.AnswerOpen, Close: c.AnswerClose},
	}
}

// Validate refuses tags that cannot be told apart.
func (c Config) Validate() diag.Diagnostics {
	var ds diag.Diagnostics
	p := c.protocol()
	seen := map[string]bool{}
	for _, part := range []struct {
		name string
		pair tags.Pair
	}{{"think", p.Think}, {"search", p.Search}, {"information", p.Information}, {"answer", p.Answer}} {
		part.pair.Check(part.name, &ds)
		for _, tag := range []string{part.pair.Open, part.pair.Close} {
			if seen[tag] && tag != "" {
				ds.Errorf(diag.Attr(part.name+"_open"), "Tag used twice", "The tag %q has two meanings; the form of a response needs eight different tags.", tag)
			}
			seen[tag] = true
		}
	}
	return ds
}

// Plugin describes the reward.
func Plugin() sdk.RewardPlugin {
	return sdk.NewReward("searchr1-format", "Search-R1 v0.3: right answer, valid form and retrieved evidence in a decision tree. In evaluations it is the answer alone.",
		"Search-R1 v0.3 (arXiv:2505.15117)",
		func(_ context.Context, c Config, _ sdk.Host) (sdk.Reward, error) { return reward{c}, nil })
}

type reward struct{ config Config }

func (r reward) Score(_ context.Context, req sdk.ScoreRequest) (sdk.ScoreResponse, error) {
	c, p := r.config, r.config.protocol()
	weights := Weights{Structure: c.Structure, Final: c.Final, Retrieval: c.Retrieval}
	if req.Validation {
		weights = Weights{}
	}
	var out sdk.ScoreResponse
	for _, item := range req.Items {
		response := tags.Response(item.Episode)
		for _, token := range c.EndTokens {
			response = strings.TrimSuffix(text.Trim(response), token)
		}
		answer := item.Episode.Answer
		if c.AnswerFrom == "text" {
			answer = nil
			if last, found := p.Answer.Last(response); found {
				answer = &last
			}
		}
		o := Outcome{Answered: answer != nil, Valid: Valid(response, p)}
		o.Correct = o.Answered && text.ExactMatchAny(*answer, item.Question.Answers)
		o.Retrieved = o.Valid && Retrieved(response, p, item.Question.Answers)
		score := sdk.Score{Value: Value(o, weights), Components: map[string]float64{
			"em": number(o.Correct), "valid": number(o.Valid), "retrieved": number(o.Retrieved), "answered": number(o.Answered),
		}}
		if c.AnswerScore == "f1" {
			f1 := 0.
			if o.Answered {
				f1 = text.HotpotBest(*answer, item.Question.Answers).F1
			}
			score.Value, score.Components["f1"] = PartialValue(f1, o, weights), f1
		}
		out.Scores = append(out.Scores, score)
	}
	return out, nil
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
