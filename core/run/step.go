package run

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/forage-rl/forage/core/internal/rng"
	"github.com/forage-rl/forage/core/policy"
	"github.com/forage-rl/forage/core/policy/checkpoint"
	"github.com/forage-rl/forage/core/retrieval/corpus"
	"github.com/forage-rl/forage/core/rollout"
	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
)

// step is one training step as the plugins see it: its questions, its episodes, and the answers already given.
type step struct {
	stage  *stage
	number int // within the stage, from 0
	key    rng.Key

	mu        sync.Mutex
	questions map[string]drawn
	episodes  map[string]*rollout.Episode
	order     []string        // ids of sampled episodes, in order
	made      map[string]made // by episode
	answered  map[string]sdk.RolloutResponse
	draws     map[string]uint64 // per question
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
		questions: map[string]drawn{}, episodes: map[string]*rollout.Episode{}, answered: map[string]sdk.RolloutResponse{},
		made: map[string]made{}, draws: map[string]uint64{}, metrics: map[string]float64{},
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

// Rollout implements [sdk.Host].
func (st *step) Rollout(ctx context.Context, requests []sdk.RolloutRequest) ([]sdk.RolloutResponse, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	began := time.Now()
	read, wrote := st.stage.run.models.computed()
	defer func() {
		st.sampling += time.Since(began)
		r, w := st.stage.run.models.computed()
		st.read, st.wrote = st.read+r-read, st.wrote+w-wrote
	}()

	responses := make([]sdk.RolloutResponse, len(requests))
	var jobs []job
	var owner []int // request of each job
	for i, r := range requests {
		if done, ok := st.answered[r.RequestID]; ok {
			responses[i] = done
			continue
		}
		asked, err := st.jobs(ctx, r)
		if err != nil {
			return nil, fmt.Errorf("rollout request %q: %w", r.RequestID, err)
		}
		for range asked {
			owner = append(owner, i)
		}
		jobs = append(jobs, asked...)
		responses[i].RequestID = r.RequestID
	}
	episodes, err := st.play(ctx, jobs)
	if err != nil {
		return nil, err
	}
	scoring := time.Now()
	questions := map[string]episode.Question{}
	for id, q := range st.questions {
		questions[id] = q.Question
	}
	if err := st.stage.scorer.score(ctx, episodes, questions, false); err != nil {
		return nil, err
	}
	st.scoring += time.Since(scoring)
	for i, ep := range episodes {
		st.episodes[ep.ID] = ep
		st.order = append(st.order, ep.ID)
		st.made[ep.ID] = jobs[i].made
		responses[owner[i]].Episodes = append(responses[owner[i]].Episodes, lean(ep.Episode))
	}
	for _, r := range responses {
		st.answered[r.RequestID] = r
	}
	return responses, nil
}

// lean is an episode without its texts, which are most of its bytes and of no use to an algorithm: it decides by
// spans, hits and rewards.
func lean(ep episode.Episode) episode.Episode {
	ep.Sequences = slices.Clone(ep.Sequences)
	for i := range ep.Sequences {
		seq := &ep.Sequences[i]
		seq.Prompt = ""
		seq.Segments = slices.Clone(seq.Segments)
		for j := range seq.Segments {
			seq.Segments[j].Text = ""
		}
	}
	ep.Turns = slices.Clone(ep.Turns)
	for i := range ep.Turns {
		turn := &ep.Turns[i]
		turn.Text, turn.Thought, turn.Observation = "", "", ""
	}
	return ep
}

// job is an episode to sample, with what it will have come from.
type job struct {
	rollout.Job
	made
}

// play runs jobs, those of one policy together.
func (st *step) play(ctx context.Context, jobs []job) ([]*rollout.Episode, error) {
	episodes := make([]*rollout.Episode, len(jobs))
	done := map[*model]bool{}
	for _, first := range jobs {
		if done[first.model] {
			continue
		}
		done[first.model] = true
		var own []rollout.Job
		var at []int
		for i, j := range jobs {
			if j.model == first.model {
				own, at = append(own, j.Job), append(at, i)
			}
		}
		sampled, err := st.stage.run.roll(ctx, first.model, st.stage.run.tools, own)
		if err != nil {
			return nil, err
		}
		for i, ep := range sampled {
			episodes[at[i]] = ep
		}
	}
	return episodes, nil
}

// jobs lays one request out as jobs.
func (st *step) jobs(ctx context.Context, r sdk.RolloutRequest) ([]job, error) {
	invalid := func(format string, args ...any) error {
		return fmt.Errorf(format+": %w", append(args, sdk.ErrInvalidRequest)...)
	}
	if r.N <= 0 {
		return nil, invalid("asks for %d episodes", r.N)
	}
	if r.RequestID == "" {
		return nil, invalid("has no request id")
	}
	policy := r.Policy
	if policy == "" {
		policy = st.stage.role()
	}
	m, err := st.stage.run.models.get(ctx, policy)
	if err != nil {
		return nil, err
	}
	by, err := st.stage.ask(r.Agent, r.Tools)
	if err != nil {
		return nil, err
	}
	next := job{
		rollout.Job{Agent: by.agent, Sampling: sampling(st.stage.config.Sampling), MaxNewTurns: r.MaxNewTurns, NoTools: r.Tools != nil && len(r.Tools) == 0, Keep: r.Keep},
		made{m, policy, r.Agent, by.key},
	}
	if r.Sampling != nil {
		next.Sampling = *r.Sampling
	}
	question, parent, after := r.QuestionID, uint64(0), uint64(0)
	if r.From != nil {
		from, ok := st.episodes[r.From.EpisodeID]
		if !ok {
			return nil, fmt.Errorf("episode %q: %w", r.From.EpisodeID, sdk.ErrUnknownEpisode)
		}
		if question != "" && question != from.QuestionID {
			return nil, invalid("continues episode %q of question %q for question %q", from.ID, from.QuestionID, question)
		}
		before := st.made[from.ID]
		if before.model != nil && before.model.tokens != m.tokens {
			return nil, invalid("continues episode %q of policy %q with policy %q, whose tokenizer is another", from.ID, before.policy, policy)
		}
		if before.key != by.key && r.From.AfterTurn >= 0 {
			next.key = ""
		}
		question, next.From, next.AfterTurn = from.QuestionID, from, r.From.AfterTurn
		parent, after = hash(from.ID), uint64(r.From.AfterTurn+1)
	}
	q, ok := st.questions[question]
	if !ok {
		return nil, invalid("names question %q, which is not one of the step's", question)
	}
	next.Question = q.Question
	var jobs []job
	for range r.N {
		draw := st.draws[question]
		st.draws[question]++
		next.ID = fmt.Sprintf("%s.%d.%s.%d", st.stage.config.Name, st.number, question, draw)
		next.Key = st.key.WithString(question).With(parent, after, draw)
		jobs = append(jobs, next)
	}
	return jobs, nil
}

func hash(s string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(s))
	return h.Sum64()
}

// Episodes run side by side, in groups of at most mostRows and of what the cache of keys and values has room for.
const (
	mostRows   = 128
	cacheBytes = 4 << 30
)

// rowsFor is how many sequences of a policy fit into a cache of so many bytes at once.
func rowsFor(c checkpoint.Config, context, bytes int) int {
	perToken := 2 * c.Layers * c.KVHeads * c.HeadDim * 4 // keys and values in float32
	return max(1, min(mostRows, bytes/(perToken*context)))
}

// roll runs jobs, in groups of equal sampling parameters.
func (r *runner) roll(ctx context.Context, m *model, tools dispatcher, jobs []rollout.Job) ([]*rollout.Episode, error) {
	engine := m.engine(tools)
	episodes := make([]*rollout.Episode, 0, len(jobs))
	for len(jobs) > 0 {
		n := 1
		for n < len(jobs) && n < m.rows && jobs[n].Sampling == jobs[0].Sampling {
			n++
		}
		group, err := engine.Run(ctx, jobs[:n])
		if err != nil {
			return nil, err
		}
		for _, ep := range group {
			ep.TextOnly = m.Policy == nil
			if err := rollout.Check(ep, engine.Tokenizer); err != nil {
				return nil, fmt.Errorf("an episode contradicts itself (this is a fault of forage): %w", err)
			}
		}
		episodes = append(episodes, group...)
		jobs = jobs[n:]
	}
	return episodes, nil
}

// Questions implements [sdk.Host].
func (st *step) Questions(_ context.Context, n int) ([]episode.Question, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
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

// LogProbs implements [sdk.Host].
func (st *step) LogProbs(ctx context.Context, req sdk.LogProbsRequest) ([]sdk.SequenceValues, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if req.Policy == "" {
		req.Policy = st.stage.role()
	}
	m, err := st.stage.run.models.get(ctx, req.Policy)
	if err != nil {
		return nil, err
	}
	if m.Policy == nil {
		return nil, fmt.Errorf("policy %q is behind an endpoint, which tells no log-probabilities: %w", req.Policy, sdk.ErrNotSupported)
	}
	if req.Reference && m != st.stage.model {
		return nil, fmt.Errorf("policy %q has no reference, only the one that the stage trains has: %w", req.Policy, sdk.ErrInvalidRequest)
	}
	if req.Reference && !st.stage.reference {
		return nil, fmt.Errorf("the stage's plan asks for no reference policy: %w", sdk.ErrInvalidRequest)
	}
	if req.Temperature == 0 {
		req.Temperature = st.stage.config.Sampling.Temperature
	}
	for _, id := range req.EpisodeIDs {
		if by := st.made[id]; by.model != nil && by.model.tokens != m.tokens {
			return nil, fmt.Errorf("episode %q is of policy %q, whose tokenizer is not that of %q: %w", id, by.policy, req.Policy, sdk.ErrInvalidRequest)
		}
	}
	var values []sdk.SequenceValues
	sequences, err := st.sequences(req.EpisodeIDs, &values)
	if err != nil {
		return nil, err
	}
	logps, _, err := m.LogProbs(ctx, sequences, req.Temperature, req.Reference, false)
	if err != nil {
		return nil, err
	}
	for i := range values {
		values[i].Values = logps[i]
	}
	return values, nil
}

// sequences lays the sequences of episodes out, and beside them which they are.
func (st *step) sequences(ids []string, values *[]sdk.SequenceValues) ([]policy.Sequence, error) {
	var list []policy.Sequence
	for _, id := range ids {
		ep, ok := st.episodes[id]
		if !ok {
			return nil, fmt.Errorf("episode %q: %w", id, sdk.ErrUnknownEpisode)
		}
		for i, seq := range ep.Sequences {
			list = append(list, policy.Sequence{Tokens: ep.Tokens[i], PromptLength: seq.PromptLength})
			*values = append(*values, sdk.SequenceValues{EpisodeID: id, Sequence: i})
		}
	}
	return list, nil
}

// Rerender implements [sdk.Host]: an episode of one sequence for each request.
func (st *step) Rerender(_ context.Context, requests []sdk.RerenderRequest) ([]episode.Episode, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	out := make([]episode.Episode, len(requests))
	for i, r := range requests {
		ep, ok := st.episodes[r.EpisodeID]
		if !ok {
			return nil, fmt.Errorf("episode %q: %w", r.EpisodeID, sdk.ErrUnknownEpisode)
		}
		if r.Turn < 0 || r.Turn >= len(ep.Turns) {
			return nil, fmt.Errorf("episode %q has %d turns, not one of number %d: %w", r.EpisodeID, len(ep.Turns), r.Turn, sdk.ErrInvalidRequest)
		}
		by, err := st.stage.ask(r.Agent, nil)
		if err != nil {
			return nil, err
		}
		made, err := st.rerender(ep, st.questions[ep.QuestionID].Question, []int{r.Turn}, by)
		if err != nil {
			return nil, err
		}
		made.ID = fmt.Sprintf("r-%s.%d", ep.ID, r.Turn)
		if r.Agent != "" {
			made.ID += "." + r.Agent
		}
		st.episodes[made.ID] = made
		own := st.stage.own()
		own.agent, own.key = r.Agent, by.key
		st.made[made.ID] = own
		out[i] = lean(made.Episode)
	}
	return out, nil
}

// rerender lays turns of an episode out under an agent's prompt, for the policy that the stage trains.
func (st *step) rerender(ep *rollout.Episode, q episode.Question, turns []int, by asked) (*rollout.Episode, error) {
	s := st.stage
	if from := st.made[ep.ID].model; from != nil && from.tokens != s.model.tokens {
		text := *ep // its tokens are of another tokenizer: only the texts are taken over
		text.Tokens, text.LogProbs = nil, nil
		ep = &text
	}
	made, err := s.model.engine(s.run.tools).Rerender(ep, q, turns, by.agent)
	if err != nil {
		return nil, err
	}
	return made, s.fits(made)
}

// fits refuses an episode that is longer than what the policy was made for.
func (s *stage) fits(ep *rollout.Episode) error {
	for _, tokens := range ep.Tokens {
		if n, most := len(tokens), s.model.positions(); n > most {
			return fmt.Errorf("episode %s of question %s has %d tokens with its prompt, the model was made for %d: remove it", ep.ID, ep.QuestionID, n, most)
		}
	}
	return nil
}

// Metrics implements [sdk.Host].
func (st *step) Metrics(_ context.Context, values map[string]float64) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	maps.Copy(st.metrics, values)
	return nil
}

// tools serves the retrieval services, which are the same for all plugins of a run.
type tools struct{ *resources }

// Search implements [sdk.Host].
func (t tools) Search(ctx context.Context, req sdk.SearchRequest) ([][]episode.Hit, error) {
	index, ok := t.indexes[req.Index]
	if !ok {
		return nil, fmt.Errorf("index %q: %w", req.Index, sdk.ErrUnknownHandle)
	}
	if len(req.Queries) > 0 && len(req.Vectors) > 0 {
		return nil, fmt.Errorf("a search takes queries or vectors, not both: %w", sdk.ErrInvalidRequest)
	}
	if len(req.Vectors) > 0 {
		return index.SearchVectors(ctx, req.Vectors, req.K, req.Exclude)
	}
	return index.Search(ctx, req.Queries, req.K, req.Exclude)
}

// Documents implements [sdk.Host].
func (t tools) Documents(_ context.Context, handle string, ids []string) ([]episode.Hit, error) {
	c, ok := t.corpora[handle]
	if !ok {
		return nil, fmt.Errorf("corpus %q: %w", handle, sdk.ErrUnknownHandle)
	}
	hits := make([]episode.Hit, len(ids))
	for i, id := range ids {
		unit, ok := findUnit(c, id)
		if !ok {
			return nil, fmt.Errorf("corpus %q has no unit %q: %w", handle, id, sdk.ErrInvalidRequest)
		}
		hits[i] = episode.Hit{
			DocumentID: unit.DocumentID, ParagraphID: unit.ParagraphID, SentenceID: unit.SentenceID, Title: unit.Title, Text: unit.Text,
		}
	}
	return hits, nil
}

// findUnit finds the document, paragraph or sentence of an id.
func findUnit(c *corpus.Corpus, id string) (corpus.Unit, bool) {
	for _, level := range []corpus.Level{corpus.DocumentLevel, corpus.ParagraphLevel, corpus.SentenceLevel} {
		units, err := c.Unit(level)
		if err != nil {
			continue // the levels above are those that there are
		}
		if start, end, ok := units.Resolve(id); ok && end == start+1 {
			if unit := units.At(start); unit.ID == id {
				return unit, true
			}
		}
	}
	return corpus.Unit{}, false
}

// Encode implements [sdk.Host].
func (t tools) Encode(ctx context.Context, handle string, texts []string) ([][]float32, error) {
	index, ok := t.indexes[handle]
	if !ok {
		return nil, fmt.Errorf("index %q: %w", handle, sdk.ErrUnknownHandle)
	}
	return index.Encode(ctx, texts)
}

// services is what plugins that sample nothing can ask for.
type services struct{ tools }

func onlyAlgorithms(what string) error {
	return fmt.Errorf("%s is a service for algorithms: %w", what, sdk.ErrNotSupported)
}

func (services) Rollout(context.Context, []sdk.RolloutRequest) ([]sdk.RolloutResponse, error) {
	return nil, onlyAlgorithms("Rollout")
}
func (services) Rerender(context.Context, []sdk.RerenderRequest) ([]episode.Episode, error) {
	return nil, onlyAlgorithms("Rerender")
}
func (services) LogProbs(context.Context, sdk.LogProbsRequest) ([]sdk.SequenceValues, error) {
	return nil, onlyAlgorithms("LogProbs")
}
func (services) Values(context.Context, []string) ([]sdk.SequenceValues, error) {
	return nil, onlyAlgorithms("Values")
}
func (services) Questions(context.Context, int) ([]episode.Question, error) {
	return nil, onlyAlgorithms("Questions")
}
func (services) Metrics(context.Context, map[string]float64) error { return onlyAlgorithms("Metrics") }

// algorithmHost is what the algorithm of a stage can ask for: the services of the step that is running.
type algorithmHost struct {
	tools
	mu      sync.Mutex
	current *step
}

func (h *algorithmHost) enter(st *step) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.current = st
}

func (h *algorithmHost) step() (*step, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.current == nil {
		return nil, fmt.Errorf("this service exists only within a training step: %w", sdk.ErrInvalidRequest)
	}
	return h.current, nil
}

func (h *algorithmHost) Rollout(ctx context.Context, requests []sdk.RolloutRequest) ([]sdk.RolloutResponse, error) {
	st, err := h.step()
	if err != nil {
		return nil, err
	}
	return st.Rollout(ctx, requests)
}

func (h *algorithmHost) Rerender(ctx context.Context, requests []sdk.RerenderRequest) ([]episode.Episode, error) {
	st, err := h.step()
	if err != nil {
		return nil, err
	}
	return st.Rerender(ctx, requests)
}

func (h *algorithmHost) LogProbs(ctx context.Context, req sdk.LogProbsRequest) ([]sdk.SequenceValues, error) {
	st, err := h.step()
	if err != nil {
		return nil, err
	}
	return st.LogProbs(ctx, req)
}

func (h *algorithmHost) Values(ctx context.Context, ids []string) ([]sdk.SequenceValues, error) {
	st, err := h.step()
	if err != nil {
		return nil, err
	}
	return st.Values(ctx, ids)
}

func (h *algorithmHost) Questions(ctx context.Context, n int) ([]episode.Question, error) {
	st, err := h.step()
	if err != nil {
		return nil, err
	}
	return st.Questions(ctx, n)
}

func (h *algorithmHost) Metrics(ctx context.Context, values map[string]float64) error {
	st, err := h.step()
	if err != nil {
		return err
	}
	return st.Metrics(ctx, values)
}

var (
	_ sdk.Host = services{}
	_ sdk.Host = (*algorithmHost)(nil)
)

// sampled lists the sampled episodes of the step in order.
func (st *step) sampled() []*rollout.Episode {
	list := make([]*rollout.Episode, len(st.order))
	for i, id := range st.order {
		list[i] = st.episodes[id]
	}
	return list
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
