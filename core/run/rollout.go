package run

import (
	"context"
	"fmt"
	"hash/fnv"
	"reflect"
	"slices"
	"time"

	"github.com/forage-rl/forage/core/internal/rng"
	"github.com/forage-rl/forage/core/policy/checkpoint"
	"github.com/forage-rl/forage/core/rollout"
	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
)

// Rollout implements [sdk.Host].
func (st *step) Rollout(ctx context.Context, requests []sdk.RolloutRequest) ([]sdk.RolloutResponse, error) {
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
	ids := map[string]bool{}
	for i, r := range requests {
		done, repeated := st.answered[r.RequestID]
		if ids[r.RequestID] || repeated && !reflect.DeepEqual(done.request, r) {
			return nil, fmt.Errorf("rollout request %q: another request of the step has this id; give each its own: %w", r.RequestID, sdk.ErrInvalidRequest)
		}
		ids[r.RequestID] = true
		if repeated {
			responses[i] = done.response
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
	for i, r := range requests {
		st.answered[r.RequestID] = answered{r, responses[i]}
	}
	return responses, nil
}

// answered is a request with what came of it, for when it is repeated.
type answered struct {
	request  sdk.RolloutRequest
	response sdk.RolloutResponse
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

// maxEpisodes of one request are far more than anyone samples: a slip is best told before memory runs out.
const maxEpisodes = 1_000_000

// jobs lays one request out as jobs.
func (st *step) jobs(ctx context.Context, r sdk.RolloutRequest) ([]job, error) {
	invalid := func(format string, args ...any) error {
		return fmt.Errorf(format+": %w", append(args, sdk.ErrInvalidRequest)...)
	}
	if r.N <= 0 {
		return nil, invalid("asks for %d episodes", r.N)
	}
	if r.N > maxEpisodes {
		return nil, invalid("asks for %d episodes, at most %d can be asked for at once", r.N, maxEpisodes)
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
	question := r.QuestionID
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
	}
	q, ok := st.questions[question]
	if !ok {
		return nil, invalid("names question %q, which is not one of the step's", question)
	}
	next.Question = q.Question
	var jobs []job
	for range r.N {
		next.ID, next.Key = st.identify(question, r.From)
		jobs = append(jobs, next)
	}
	return jobs, nil
}

// identify gives the next episode of a question its id and the key of its random numbers. Draws are counted over all
// requests of the step, so that no two episodes have the same numbers, those that branch from one point included.
func (st *step) identify(question string, from *episode.Branch) (string, rng.Key) {
	parent, after := uint64(0), uint64(0)
	if from != nil {
		parent, after = hash(from.EpisodeID), uint64(from.AfterTurn+1)
	}
	draw := st.draws[question]
	st.draws[question]++
	return fmt.Sprintf("%s.%d.%s.%d", st.stage.config.Name, st.number, question, draw), st.key.WithString(question).With(parent, after, draw)
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
