package run

import (
	"maps"
	"time"

	"github.com/forage-rl/forage/core/host"
	"github.com/forage-rl/forage/core/policy"
	"github.com/forage-rl/forage/core/rollout"
	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
)

// logUpdate records what an update did.
func (s *stage) logUpdate(values map[string]float64, u sdk.Update, m policy.UpdateMetrics) {
	prefix := "train/" + u.Objective + "/"
	values[prefix+"loss"] = m.Loss
	values[prefix+"grad_norm"] = m.GradNorm
	values[prefix+"learning_rate"] = m.LearningRate
	values[prefix+"optimizer_steps"] = float64(m.Steps)
	values[prefix+"trained_tokens"] = float64(m.TrainedTokens)
	if m.SkippedRows > 0 {
		values[prefix+"skipped_rows"] = float64(m.SkippedRows)
	}
	if m.EmptySteps > 0 {
		values[prefix+"empty_steps"] = float64(m.EmptySteps)
	}
	for name, v := range m.Metrics {
		values[prefix+name] = v
	}
	s.run.state.Budgets.TrainedTokens += int64(m.TrainedTokens)
	s.run.state.Budgets.OptimizerSteps += int64(m.Steps)
}

// account records the step's episodes: their means, the budgets, the files.
func (s *stage) account(st *step, resp sdk.StepResponse, values map[string]float64) error {
	r := s.run
	episodes := st.sampled()
	measured, err := episodeMetrics(st, resp)
	if err != nil {
		return err
	}
	maps.Copy(values, measured)
	s.noteScores(episodes)
	for _, ep := range episodes {
		fresh := ep.Counters.PolicyTokens
		if ep.Parent != nil {
			fresh -= inherited(ep)
		}
		r.state.Budgets.SampledTokens += int64(fresh)
		r.state.Budgets.ToolCalls += int64(calls(ep))
	}
	digest, err := writeEpisodes(r.attempt.EpisodesDir(), r.state.Global+1, s.config.Name, episodes, resp.UsedRewards, func(id string) (policy, agent string) {
		if by := st.made[id]; by.model != s.model {
			return by.policy, by.agent
		}
		return "", st.made[id].agent
	})
	if err != nil {
		return err
	}
	r.state.EpisodesDigest = chain(r.state.EpisodesDigest, digest)
	return nil
}

// inherited counts the policy tokens that a continued episode took over.
func inherited(ep *rollout.Episode) int {
	n := 0
	for _, t := range ep.Turns[:ep.Parent.AfterTurn+1] {
		n += t.Span.Len()
	}
	return n
}

// calls counts the tool calls that an episode carried out itself: those of turns that it took over from another were
// counted there.
func calls(ep *rollout.Episode) int {
	own := ep.Turns
	if ep.Parent != nil {
		own = own[ep.Parent.AfterTurn+1:]
	}
	n := 0
	for _, t := range own {
		if t.Executed && t.Action == episode.ActionCall {
			n++
		}
	}
	return n
}

// transport is the time that a step has waited for calls to plugins beyond the work of either side, from what they had
// taken before it and after it. Rewards are asked at the same time, so the slowest of them counts.
func transport(before, after []host.Stats) time.Duration {
	had := map[string]time.Duration{}
	for _, s := range before {
		had[s.Instance] = s.Transport
	}
	var total, rewards time.Duration
	for _, s := range after {
		took := s.Transport - had[s.Instance]
		if s.Kind == sdk.KindReward {
			rewards = max(rewards, took)
		} else {
			total += took
		}
	}
	return total + rewards
}
