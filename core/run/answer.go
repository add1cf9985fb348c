package run

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/forage-rl/forage/core/experiment"
	"github.com/forage-rl/forage/core/rollout"
	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
)

// answerWith lets another policy write the answers of an evaluation's episodes, greedily, each from the distinct hits
// that its episode found, in the order in which they were found; those without room are left out from the end. All
// else of the episodes stays as it is.
func (r *runner) answerWith(ctx context.Context, e *experiment.Evaluation, jobs []rollout.Job, episodes []*rollout.Episode) error {
	name := cmp.Or(e.AnswerWith.Role, e.AnswerWith.Policy.Handle)
	m, err := r.models.get(ctx, name)
	if err != nil {
		return err
	}
	by, err := agent(e.AnswerWith.Agent, nil)
	if err != nil {
		return err
	}
	engine := m.engine(nil)
	asked := make([]rollout.Job, len(episodes))
	for i, ep := range episodes {
		evidence := distinct(ep.Hits())
		fits, err := engine.Fitting(jobs[i].Question, by, evidence)
		if err != nil {
			return fmt.Errorf("the answer to question %s: %w", ep.QuestionID, err)
		}
		ep.AnsweredBy = &rollout.AnsweredBy{Policy: name, Agent: e.AnswerWith.Agent.Name, PolicyAnswer: ep.Answer, Left: len(evidence) - fits}
		for _, h := range evidence[:fits] {
			ep.AnsweredBy.Evidence = append(ep.AnsweredBy.Evidence, h.Unit())
		}
		asked[i] = rollout.Job{
			ID: ep.ID + ".answer", Question: jobs[i].Question, Agent: by, Evidence: evidence[:fits], NoTools: true,
			Sampling: sdk.Sampling{Greedy: true, Temperature: 1}, Key: jobs[i].Key.WithString("answer"),
		}
	}
	done := 0
	for chunk := range slices.Chunk(asked, m.rows) {
		r.report("answering "+e.Name, done, len(asked))
		answers, err := r.roll(ctx, m, nil, chunk)
		if err != nil {
			return fmt.Errorf("answers by %s: %w", name, err)
		}
		for _, a := range answers {
			ep := episodes[done]
			done++
			ep.Answer = a.Answer
			for _, t := range a.Turns {
				ep.AnsweredBy.Text += t.Text
			}
		}
	}
	return nil
}

// distinct drops hits that were found before.
func distinct(hits []episode.Hit) []episode.Hit {
	seen := map[string]bool{}
	return slices.DeleteFunc(slices.Clone(hits), func(h episode.Hit) bool {
		unit := h.Unit()
		if unit == "" {
			unit = h.Title + "\x00" + h.Text
		}
		if seen[unit] {
			return true
		}
		seen[unit] = true
		return false
	})
}
