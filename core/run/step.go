package run

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/forage-rl/forage/core/internal/rng"
	"github.com/forage-rl/forage/core/rollout"
	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
)

// step is one training step as the plugins see it: its questions, its episodes, and the answers already given. It is for
// one caller at a time.
type step struct {
	stage  *stage
	number int // within the stage, from 0
	key    rng.Key

	questions map[string]drawn
	episodes  map[string]*rollout.Episode
	order     []string            // ids of sampled episodes, in order
	made      map[string]made     // by episode
	answered  map[string]answered // by request id
	draws     map[string]uint64   // per question
	computed  map[computedKey][]float32
	metrics   map[string]float64
	sampling  time.Duration // spent in rollouts, scoring included
	scoring   time.Duration
	read      int64 // tokens that the policy ran through to go on from, and wrote
	wrote     int64
}

// newStep draws the step's questions and parses their experts.
func (s *stage) newStep(number int) (*step, sdk.StepRequest, error) {
	req := sdk.StepRequest{Step: number, Of: s.config.Steps}
	// What an evaluation computed with the same weights is not taken over: a run that is resumed here does not have it.
	if err := s.run.models.forget(); err != nil {
		return nil, req, err
	}
	st := &step{
		stage: s, number: number, key: s.key.With(uint64(number)),
		questions: map[string]drawn{}, episodes: map[string]*rollout.Episode{}, answered: map[string]answered{},
		made: map[string]made{}, computed: map[computedKey][]float32{}, draws: map[string]uint64{}, metrics: map[string]float64{},
	}
	req.Seed = st.key.WithString("algorithm").Uint64(0)
	questions, err := st.draw(s.config.Questions)
	if err != nil {
		return nil, req, err
	}
	for _, q := range questions {
		req.Questions = append(req.Questions, q.Question)
		experts, err := s.expertsOf(q)
		if err != nil {
			return nil, req, err
		}
		for _, expert := range experts {
			st.episodes[expert.ID] = expert
			st.made[expert.ID] = s.own()
			req.Experts = append(req.Experts, lean(expert.Episode))
		}
	}
	return st, req, nil
}

// draw takes questions from the stage's cursor. A question that comes twice in one step is one question.
func (st *step) draw(n int) ([]drawn, error) {
	list, err := st.stage.cursor.draw(n)
	if err != nil {
		return nil, fmt.Errorf("drawing questions: %w", err)
	}
	var fresh []drawn
	for _, q := range list {
		if _, known := st.questions[q.ID]; !known {
			q.plain, q.Question = q.Question, st.stage.annotations.add(q.Question)
			st.questions[q.ID] = q
			fresh = append(fresh, q)
		}
	}
	return fresh, nil
}

// Questions is that of [sdk.Host].
func (st *step) Questions(n int) ([]episode.Question, error) {
	if n <= 0 {
		return nil, fmt.Errorf("asks for %d questions: %w", n, sdk.ErrInvalidRequest)
	}
	fresh, err := st.draw(n)
	if err != nil {
		return nil, err
	}
	list := make([]episode.Question, len(fresh))
	for i, q := range fresh {
		list[i] = q.Question
	}
	return list, nil
}

// sampled lists the sampled episodes of the step in order.
func (st *step) sampled() []*rollout.Episode {
	list := make([]*rollout.Episode, len(st.order))
	for i, id := range st.order {
		list[i] = st.episodes[id]
	}
	return list
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// step carries one training step out and everything that is due after it.
func (s *stage) step(ctx context.Context) error {
	r := s.run
	began := time.Now()
	before := r.sup.Stats()
	st, req, err := s.newStep(r.state.Step)
	if err != nil {
		return err
	}
	s.host.enter(st)
	resp, err := s.algorithm.Step(ctx, req)
	s.host.enter(nil)
	if err != nil {
		return err
	}
	if s.produces() && len(resp.Updates) > 0 {
		return fmt.Errorf("algorithm %q sends updates in a stage that produces artefacts, which trains nothing: %w", s.config.Algorithm.Label, sdk.ErrInvalidRequest)
	}
	if err := s.takeArtefacts(st, resp.Artefacts); err != nil {
		return err
	}
	if err := st.checkUsed(resp.UsedRewards); err != nil {
		return fmt.Errorf("algorithm %q reports %w", s.config.Algorithm.Label, err)
	}
	values := map[string]float64{}
	training := time.Now()
	for i, u := range resp.Updates {
		if st.skips(u) {
			continue
		}
		m, err := st.update(ctx, i, u)
		if err != nil {
			return fmt.Errorf("algorithm %q: %w", s.config.Algorithm.Label, err)
		}
		s.logUpdate(values, u, m)
	}
	values["time/training"] = time.Since(training).Seconds()
	values["time/sampling"] = (st.sampling - st.scoring).Seconds()
	values["sampling/read_tokens"] = float64(st.read)
	values["sampling/written_tokens"] = float64(st.wrote)
	values["time/scoring"] = st.scoring.Seconds()
	maps.Copy(values, st.metrics)
	maps.Copy(values, resp.Metrics)
	if err := s.account(st, resp, values); err != nil {
		return err
	}
	values["time/transport"] = transport(before, r.sup.Stats()).Seconds()
	values["time/step"] = time.Since(began).Seconds()

	r.state.Step++
	r.state.Global++
	r.state.Cursor = s.cursor.position
	r.state.Budgets.DecodedTokens = r.decoded.Load()
	if err := r.sink.Log(r.state.Global, values); err != nil {
		return err
	}
	if r.Progress != nil {
		r.Progress(Progress{Phase: "training", Stage: s.config.Name, Step: r.state.Global, Of: r.steps(), Metrics: values})
	}
	return s.after(ctx, values)
}

// mostUnsaved is how much work a run without a cadence of its own may lose.
const mostUnsaved = 10 * time.Minute

// after does what is due after a step: guards, evaluations, a checkpoint.
func (s *stage) after(ctx context.Context, values map[string]float64) error {
	r := s.run
	due, err := r.guards(s.config.Name, values)
	if err != nil {
		return err
	}
	if !s.produces() { // else the weights are those of the stage's start
		if err := r.evaluateDue(ctx); err != nil {
			return err
		}
	}
	if r.stopped != "" {
		return nil // the stage ends here, with a checkpoint that says so
	}
	every := r.config.Checkpoint.Every
	if every > 0 && r.state.Global%every == 0 || every == 0 && time.Since(r.saved) > mostUnsaved {
		due = due || r.state.Step < s.config.Steps
	}
	if due || r.state.BestStep == r.state.Global && r.state.BestStep > 0 {
		return s.checkpoint(ctx)
	}
	return nil
}
