// Package davidoutcome grades an episode's answer as David-GRPO's release does: in training neither exact match nor F1,
// see [davidtext.Grade]; or as its evaluation script does, see [davidtext.GradeInEvaluation].
package davidoutcome

import (
	"context"
	"regexp"
	"strings"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/diag"
	"github.com/forage-rl/forage/core/sdk/text"
	"github.com/forage-rl/forage/plugins/rewards/internal/davidtext"
	"github.com/forage-rl/forage/plugins/rewards/internal/tags"
)

// Config is the configuration of the reward.
type Config struct {
	AnswerFrom  string `forage:"answer_from" default:"text" enum:"text,episode,evaluator" doc:"text: the last answer pair after the last thought, as released; episode: the answer that the agent's protocol parsed; evaluator: an <answer> pair, else the last answer pair, read and graded as the release's evaluation script does, without credit for shared words." source:"default (not in the paper)"`
	ThinkClose  string `forage:"think_close" default:"</think>" doc:"Tag that closes a thought." source:"default (not in the paper)"`
	AnswerOpen  string `forage:"answer_open" default:"\\boxed{" doc:"Tag that opens the answer." source:"default (not in the paper)"`
	AnswerClose string `forage:"answer_close" default:"}" doc:"Tag that closes the answer." source:"default (not in the paper)"`
}

// Validate refuses empty tags.
func (c Config) Validate() diag.Diagnostics {
	var ds diag.Diagnostics
	tags.Pair{Open: c.AnswerOpen, Close: c.AnswerClose}.Check("answer", &ds)
	if c.ThinkClose == "" {
		ds.Errorf(diag.Attr("think_close"), "Empty tag", "The tag think_close must not be empty: every text would match it.")
	}
	return ds
}

// Plugin describes the reward.
func Plugin() sdk.RewardPlugin {
	return sdk.NewReward("david-outcome", "David-GRPO's grade of the answer: 1 when equal or with 0.7 of the gold's words, 0.5 when one contains the other, else 0.",
		"David-GRPO release",
		func(_ context.Context, c Config, _ sdk.Host) (sdk.Reward, error) { return reward{c}, nil })
}

type reward struct{ config Config }

func (r reward) Score(_ context.Context, req sdk.ScoreRequest) (sdk.ScoreResponse, error) {
	var out sdk.ScoreResponse
	for _, item := range req.Items {
		answer, found := r.answer(item)
		value := 0.
		if found {
			value = davidtext.Best(r.grade(), answer, item.Question.Answers)
		}
		out.Scores = append(out.Scores, sdk.Score{Value: value})
	}
	return out, nil
}

func (r reward) grade() func(answer, gold string) float64 {
	if r.config.AnswerFrom == "evaluator" {
		return davidtext.GradeInEvaluation
	}
	return davidtext.Grade
}

func (r reward) answer(item sdk.ScoreItem) (string, bool) {
	pair := tags.Pair{Open: r.config.AnswerOpen, Close: r.config.AnswerClose}
	switch r.config.AnswerFrom {
	case "episode":
		if item.Episode.Answer == nil {
			return "", false
		}
		return *item.Episode.Answer, true
	case "evaluator":
		return ExtractInEvaluation(tags.Response(item.Episode), r.config.ThinkClose, pair)
	}
	return Extract(tags.Response(item.Episode), r.config.ThinkClose, pair)
}

// Extract is what the last answer pair after the last thought encloses.
func Extract(response, thinkClose string, answer tags.Pair) (string, bool) {
	return answer.Last(afterThought(response, thinkClose))
}

// answerTag is what the release's evaluation script looks for first.
var answerTag = regexp.MustCompile(`(?is)<answer>(.*?)</answer>`)

// ExtractInEvaluation is what the last <answer> pair after the last thought encloses, or, where there is none or nothing
// is left of it after [text.Normalize], what [Extract] finds.
func ExtractInEvaluation(response, thinkClose string, answer tags.Pair) (string, bool) {
	found := answerTag.FindAllStringSubmatch(afterThought(response, thinkClose), -1)
	if n := len(found); n > 0 && text.Normalize(found[n-1][1]) != "" {
		return found[n-1][1], true
	}
	return Extract(response, thinkClose, answer)
}

func afterThought(response, thinkClose string) string {
	if _, after, ok := strings.CutLast(response, thinkClose); ok {
		return after
	}
	return response
}
