package stepsearch

import (
	"context"
	"strconv"
	"strings"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/diag"
	"github.com/forage-rl/forage/core/sdk/episode"
	"github.com/forage-rl/forage/core/sdk/text"
	"github.com/forage-rl/forage/plugins/rewards/internal/tags"
)

// Where an answer is read from.
const (
	FromEpisode   = "episode"
	FromText      = "text"
	FromEvaluator = "evaluator"
)

// AnswerConfig is the configuration of the reward for the answer.
type AnswerConfig struct {
	AnswerFrom  string `forage:"answer_from" default:"episode" enum:"episode,text,evaluator" doc:"episode: the answer that the agent's protocol parsed. text: the last answer pair anywhere in the response, as in the release's training. evaluator: as its offline scorer reads outputs of other methods: the last pair, of it what a brace encloses, and an empty answer where there is no pair." source:"default (not in the paper)"`
	AnswerOpen  string `forage:"answer_open" default:"<answer>" doc:"Tag that opens the answer." source:"StepSearch release"`
	AnswerClose string `forage:"answer_close" default:"</answer>" doc:"Tag that closes the answer." source:"StepSearch release"`
}

// Validate refuses empty tags.
func (c AnswerConfig) Validate() diag.Diagnostics {
	var ds diag.Diagnostics
	c.pair().Check("answer", &ds)
	return ds
}

func (c AnswerConfig) pair() tags.Pair { return tags.Pair{Open: c.AnswerOpen, Close: c.AnswerClose} }

// AnswerPlugin describes the reward for the answer.
func AnswerPlugin() sdk.RewardPlugin {
	return sdk.NewReward("stepsearch-answer", "Token F1 of the answer with the best gold answer. The component closed is 1 when an answer was given and nothing but white space follows it: the gate of StepSearch, which gives other episodes -1 and no rewards for their searches.",
		"StepSearch (arXiv:2505.15107)",
		func(_ context.Context, c AnswerConfig, _ sdk.Host) (sdk.Reward, error) { return answerReward{c}, nil })
}

type answerReward struct{ config AnswerConfig }

func (r answerReward) Score(_ context.Context, req sdk.ScoreRequest) (sdk.ScoreResponse, error) {
	var out sdk.ScoreResponse
	for _, item := range req.Items {
		answer, closed := r.config.answer(item.Episode)
		s := sdk.Score{Components: map[string]float64{"em": 0, "answered": number(answer != nil), "closed": number(closed)}}
		if answer != nil {
			s.Value = BestF1(*answer, item.Question.Answers)
			if r.config.AnswerFrom != FromEvaluator {
				s.Value = Round4(s.Value)
			}
			s.Components["em"] = number(text.ExactMatchAny(*answer, item.Question.Answers))
		}
		out.Scores = append(out.Scores, s)
	}
	return out, nil
}

// answer gives an episode's answer, nil for none, and whether the response ends with it.
func (c AnswerConfig) answer(e episode.Episode) (*string, bool) {
	if c.AnswerFrom == FromEpisode {
		if e.Answer == nil {
			return nil, false
		}
		if len(e.Turns) == 0 {
			return e.Answer, true
		}
		// A token may hold the end of the tag and more; what it brings was not a decision to go on.
		last := e.Turns[len(e.Turns)-1]
		return e.Answer, last.ActionSpan.End >= last.Span.End || ends(last.Text, c.AnswerClose)
	}
	response := tags.Response(e)
	answer, found := c.pair().Last(response)
	switch {
	case c.AnswerFrom == FromEvaluator:
		answer = text.Trim(inBraces(answer))
		return &answer, found && ends(response, c.AnswerClose)
	case !found:
		return nil, false
	}
	answer = text.Trim(answer)
	return &answer, ends(response, c.AnswerClose)
}

// ends says whether only white space follows the last closing tag of a response.
func ends(response, closing string) bool {
	i := strings.LastIndex(response, closing)
	return i >= 0 && text.Trim(response[i+len(closing):]) == ""
}

// inBraces gives what follows the last opening brace up to the next closing one; the text itself where there is none.
func inBraces(s string) string {
	i := strings.LastIndexByte(s, '{')
	if i < 0 {
		return s
	}
	inside, _, _ := strings.Cut(s[i+1:], "}")
	return inside
}

// BestF1 is the token F1 (SQuAD normalisation, yes and no are ordinary words) with the best of the golds, 0 for none.
func BestF1(s string, golds []string) float64 {
	best := 0.
	for _, g := range golds {
		best = max(best, text.F1(s, g))
	}
	return best
}

// Round4 rounds to four decimals, ties of the binary value to the even digit, as the release does with every F1.
func Round4(x float64) float64 {
	y, err := strconv.ParseFloat(strconv.FormatFloat(x, 'f', 4, 64), 64)
	if err != nil {
		return x // not finite
	}
	return y
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
