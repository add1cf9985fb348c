package rollout

import (
	"context"
	"fmt"
	"slices"

	"github.com/forage-rl/forage/core/internal/rng"
	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
)

// Engine runs episodes of one policy. It is safe for use by one caller at a time.
type Engine struct {
	Sampler   Sampler
	Tokenizer Tokenizer
	Tools     Tools
	// Kept is shared by the engines of one sampler. Without, an engine has its own.
	Kept *Kept
}

// Kept remembers which rows of a sampler belong to episodes that are kept for branches (see [Job]). The zero value
// remembers none.
type Kept struct {
	rows      int64            // handed out so far
	byEpisode map[string]int64 // the row of each
}

// Forget drops what was computed of all episodes, those that were kept included. What follows is then the same in every
// bit whatever came before.
func (e *Engine) Forget() error {
	if e.Kept != nil {
		clear(e.Kept.byEpisode)
	}
	return e.Sampler.Forget()
}

// Job asks for one episode.
type Job struct {
	ID       string
	Question episode.Question
	Agent    *Agent
	Sampling sdk.Sampling
	Key      rng.Key
	// From is an episode to go on from, just after its turn AfterTurn (-1: after its prompt). Its prompt, tokens and
	// counters are taken over; Question must be its own.
	From      *Episode
	AfterTurn int
	// MaxNewTurns ends the episode after that many turns of the policy; 0 means no bound.
	MaxNewTurns int
	// NoTools lets the policy only answer: its first turn is the closing one.
	NoTools bool
	// Evidence are hits that the prompt shows as found, for an agent that answers from them.
	Evidence []episode.Hit
	// Keep says that later jobs will go on from this episode, so that what was computed of it should be kept.
	Keep bool
}

// live is an episode in the making.
type live struct {
	job     Job
	ep      *Episode
	text    *segmenter
	row     int64 // of the sampler
	turns   int   // turns that did not end the episode
	fresh   int   // turns sampled by this job
	closing bool
	done    bool
}

// Run carries the jobs out in lock-step: one turn of all, then their tool calls in one batch per tool. Episodes come
// back in the order of jobs. All jobs share their sampling parameters.
func (e *Engine) Run(ctx context.Context, jobs []Job) ([]*Episode, error) {
	if e.Kept == nil {
		e.Kept = &Kept{}
	}
	lives := make([]*live, len(jobs))
	defer func() {
		for _, l := range lives {
			if l != nil {
				e.Sampler.Release(l.row)
			}
		}
	}()
	for i, job := range jobs {
		if job.Sampling != jobs[0].Sampling {
			return nil, fmt.Errorf("rollout: job %s: the jobs of one call must share their sampling parameters", job.ID)
		}
		l, err := e.start(job)
		if err != nil {
			return nil, fmt.Errorf("rollout: episode %s of question %s: %w", job.ID, job.Question.ID, err)
		}
		l.row = e.Kept.row()
		if row, kept := e.Kept.byEpisode[parentID(job)]; kept && !job.Agent.anew() {
			e.Sampler.Fork(row, l.row, l.text.length())
		}
		lives[i] = l
	}
	if err := e.firstSearches(ctx, lives); err != nil {
		return nil, err
	}
	for {
		active := slices.DeleteFunc(slices.Clone(lives), func(l *live) bool { return l.done })
		if len(active) == 0 {
			break
		}
		if err := e.turn(ctx, active); err != nil {
			return nil, err
		}
		for _, l := range active {
			if l.done {
				if err := e.retire(l); err != nil {
					return nil, fmt.Errorf("rollout: episode %s of question %s: %w", l.ep.ID, l.ep.QuestionID, err)
				}
			}
		}
	}
	episodes := make([]*Episode, len(lives))
	for i, l := range lives {
		l.ep.Counters = count(l.ep.Episode)
		episodes[i] = l.ep
	}
	return episodes, nil
}

func (k *Kept) row() int64 {
	k.rows++
	return k.rows
}

func parentID(job Job) string {
	if job.From == nil {
		return ""
	}
	return job.From.ID
}

// retire gives the row of an episode that has ended back, so that it costs the others no time.
func (e *Engine) retire(l *live) error {
	if !l.job.Keep || l.job.Agent.anew() {
		e.Sampler.Release(l.row)
		return nil
	}
	if e.Kept.byEpisode == nil {
		e.Kept.byEpisode = map[string]int64{}
	}
	e.Kept.byEpisode[l.ep.ID] = l.row
	length := l.text.length()
	if last := len(l.ep.Turns) - 1; last >= 0 && l.ep.Stop == episode.StopAnswered {
		length = l.ep.Turns[last].Span.Start // nothing goes on from an answer
	}
	return e.Sampler.Park(l.row, length)
}

// start renders the prompt, or takes over the beginning of another episode.
func (e *Engine) start(job Job) (*live, error) {
	if err := job.Agent.Check(); err != nil {
		return nil, err
	}
	l := &live{job: job}
	if job.From != nil {
		ep, err := branch(job.From, job.AfterTurn, job.Agent.anew())
		if err != nil {
			return nil, err
		}
		l.ep = ep
		l.turns = counted(ep.Turns)
		l.closing = closed(job.Agent, ep.Turns)
	} else if job.Agent.anew() {
		l.ep = &Episode{}
	} else {
		ep, err := e.Prompt(job.Question, job.Agent, job.Evidence)
		if err != nil {
			return nil, err
		}
		l.ep = ep
	}
	l.ep.ID, l.ep.QuestionID, l.ep.Key, l.ep.Origin = job.ID, job.Question.ID, job.Key, episode.OriginPolicy
	l.closing = l.closing || job.NoTools || len(job.Agent.Tools) == 0
	if job.Agent.anew() && job.Agent.OnBudget == OnBudgetStop && job.Agent.exhausted(l.turns, searches(l.ep.Turns)) {
		l.end(episode.StopBudget)
	}
	if !job.Agent.anew() {
		l.text = newSegmenter(e.Tokenizer, l.ep)
	}
	return l, nil
}

// turn lets every active episode write once and act.
func (e *Engine) turn(ctx context.Context, active []*live) error {
	var rows []Row
	var writing []*live
	for _, l := range active {
		if l.job.Agent.anew() {
			if err := e.newTurn(l); err != nil {
				return fmt.Errorf("rollout: episode %s of question %s: %w", l.ep.ID, l.ep.QuestionID, err)
			}
		}
		bound, ok := e.bound(l)
		if !ok {
			l.end(episode.StopLength)
			continue
		}
		decode, text, seen := e.Tokenizer.Decoder(), "", 0
		protocol := l.job.Agent.Protocol
		rows = append(rows, Row{
			ID: l.row, Tokens: l.ep.Tokens[l.text.sequence], MaxNew: bound, Key: l.job.Key.With(uint64(len(l.ep.Turns))), Ends: protocol.Ends(),
			Segments: l.ep.Sequences[l.text.sequence].Segments,
			Stop: func(tokens []int32) bool {
				from := len(text)
				for ; seen < len(tokens); seen++ {
					text += decode(tokens[seen])
				}
				return protocol.Stopped(text, len(text)-from)
			},
		})
		writing = append(writing, l)
	}
	if len(rows) == 0 {
		return nil
	}
	generated, err := e.Sampler.Generate(ctx, rows, writing[0].job.Sampling)
	if err != nil {
		return fmt.Errorf("rollout: sampling: %w", err)
	}
	var calls []*call
	for i, l := range writing {
		c, err := e.act(l, generated[i])
		if err != nil {
			return fmt.Errorf("rollout: episode %s of question %s: %w", l.ep.ID, l.ep.QuestionID, err)
		}
		if c != nil {
			calls = append(calls, c)
		}
	}
	if err := e.call(ctx, calls); err != nil {
		return err
	}
	for _, l := range writing {
		if l.job.MaxNewTurns > 0 && l.fresh >= l.job.MaxNewTurns && !l.done {
			l.end(episode.StopBudget)
		}
	}
	return nil
}

// bound is how many tokens the next turn may have; false when there is no room for any.
func (e *Engine) bound(l *live) (int, bool) {
	if l.done {
		return 0, false
	}
	agent, length := l.job.Agent, l.text.length()
	bound := agent.TurnTokens.Next
	switch {
	case l.closing:
		bound = agent.TurnTokens.Last
	case counted(l.ep.Turns) == 0:
		bound = agent.TurnTokens.First
	}
	if agent.MaxResponseTokens > 0 {
		bound = min(bound, agent.MaxResponseTokens-(length-l.ep.Sequences[l.text.sequence].PromptLength))
	}
	bound = min(bound, e.Sampler.MaxContext()-length)
	return bound, bound > 0
}

func (l *live) end(stop episode.Stop) {
	l.done = true
	l.ep.Stop = stop
}
