package run

import (
	"context"
	"fmt"

	"github.com/forage-rl/forage/core/dataset"
	"github.com/forage-rl/forage/core/experiment"
	"github.com/forage-rl/forage/core/rollout"
)

// expert parses the expert episode of a question, if the stage has one.
func (s *stage) expert(q drawn) (*rollout.Episode, bool, error) {
	if s.experts == nil {
		return nil, false, nil
	}
	index := q.index
	if s.experts != s.cursor.data {
		var ok bool
		if index, ok = s.experts.Find(q.ID); !ok {
			return nil, false, nil
		}
	}
	expert, ok, err := s.experts.Expert(index)
	if err != nil || !ok {
		return nil, false, err
	}
	ep, err := s.model.engine(s.run.tools).Expert("x-"+q.ID, q.Question, s.self.agent, expert.Text)
	if err != nil {
		return nil, false, fmt.Errorf("%s: %w", expert.Place, err)
	}
	if n, most := len(ep.Tokens[0]), s.model.positions(); n > most {
		return nil, false, fmt.Errorf("%s: the expert of question %s has %d tokens with its prompt, the model was made for %d: remove it", expert.Place, q.ID, n, most)
	}
	return ep, true, nil
}

// checkExperts parses the experts of the stages to come, so that a transcript that cannot be used is found before the
// first step and not in the middle of a stage.
func (r *runner) checkExperts(ctx context.Context) error {
	for _, c := range r.config.Stages[r.state.Stage:] {
		if c.Experts == nil || usesArtefact(c.Experts) {
			continue
		}
		data, err := r.resources.questions(ctx, c.Experts, r.config.Tools)
		if err != nil {
			return err
		}
		s := &stage{run: r, config: c, agents: map[string]asked{}, experts: data, cursor: &cursor{data: data}}
		if s.self, err = s.ask("", nil); err == nil {
			s.model, err = r.models.get(ctx, s.role())
		}
		if err == nil {
			err = s.checkExperts(ctx)
		}
		if err != nil {
			return fmt.Errorf("stage %q: %w", c.Name, err)
		}
		if err := r.knownExperts(ctx, c, data); err != nil {
			return err
		}
	}
	return nil
}

// checkExperts parses all experts of the stage.
func (s *stage) checkExperts(ctx context.Context) error {
	if s.experts.Endless() {
		return nil // made by a script
	}
	for i := range s.experts.Len() {
		if err := ctx.Err(); err != nil {
			return err
		}
		q, err := s.experts.At(i)
		if err != nil {
			return err
		}
		if _, err := s.expertsOf(drawn{Question: q, index: i}); err != nil {
			return err
		}
	}
	return nil
}

// knownExperts warns of experts of questions that a stage does not train on, and refuses a dataset of nothing else.
func (r *runner) knownExperts(ctx context.Context, c *experiment.Stage, data *questions) error {
	if data.Endless() || usesArtefact(c.Train) {
		return nil
	}
	train, err := r.resources.questions(ctx, c.Train, r.config.Tools)
	if err != nil {
		return err
	}
	u, err := unknownExperts(data.Dataset, train.Dataset)
	if err != nil {
		return fmt.Errorf("stage %q: %w", c.Name, err)
	}
	if u.count == 0 {
		return nil
	}
	text := fmt.Sprintf("stage %q: %d of %d experts of %s are of questions that %s does not hold, the first of question %q (%s)",
		c.Name, u.count, u.of, c.Experts.Handle, c.Train.Handle, u.first, u.place)
	if u.count == u.of {
		return fmt.Errorf("%s: no question has an expert; the ids of both must be the same", text)
	}
	r.warnings = append(r.warnings, text+"; they are not used")
	r.log.Warn(text)
	return r.sink.Log(r.state.Global, map[string]float64{"experts/unknown_questions": float64(u.count)})
}

// unknown counts experts of questions that are not trained on.
type unknown struct {
	count, of    int
	first, place string // the question of the first one, and where it stands
}

func unknownExperts(experts, train *dataset.Dataset) (unknown, error) {
	var u unknown
	if experts == train || train.Endless() {
		return u, nil
	}
	for i := range experts.Len() {
		expert, ok, err := experts.Expert(i)
		if err != nil {
			return u, err
		}
		if !ok {
			continue
		}
		q, err := experts.At(i)
		if err != nil {
			return u, err
		}
		u.of++
		if _, known := train.Find(q.ID); known {
			continue
		}
		if u.count++; u.count == 1 {
			u.first, u.place = q.ID, expert.Place
		}
	}
	return u, nil
}
