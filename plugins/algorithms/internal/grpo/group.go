package grpo

import (
	"context"
	"fmt"
	"maps"
	"strings"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
)

// Group is the episodes of one question, with the rewards that its advantages are computed from.
type Group struct {
	Name     string // unique in the step, also when a question occurs twice
	Question episode.Question
	Episodes []episode.Episode
	Rewards  []float64
	// Failed counts episodes that were left out because a tool or the sampler failed.
	Failed int
}

// Sample rolls out n episodes of each question in one batch. Episodes that ended in an error are left out: their reward
// says nothing about the policy.
func Sample(ctx context.Context, host sdk.Host, questions []episode.Question, n int) ([]Group, error) {
	if len(questions) == 0 {
		return nil, nil
	}
	var requests []sdk.RolloutRequest
	for i, q := range questions {
		requests = append(requests, sdk.RolloutRequest{RequestID: fmt.Sprintf("group-%d", i), QuestionID: q.ID, N: n})
	}
	answers, err := Rollout(ctx, host, requests)
	if err != nil {
		return nil, fmt.Errorf("sample %d episodes of %d questions: %w", n, len(questions), err)
	}
	groups := make([]Group, len(questions))
	for i, q := range questions {
		g := Group{Name: requests[i].RequestID, Question: q}
		for _, e := range answers[i] {
			if e.Stop == episode.StopError {
				g.Failed++
				continue
			}
			g.Episodes = append(g.Episodes, e)
			g.Rewards = append(g.Rewards, e.Rewards.Total)
		}
		groups[i] = g
	}
	return groups, nil
}

// Rollout asks the host for episodes and gives them in the order of the requests.
func Rollout(ctx context.Context, host sdk.Host, requests []sdk.RolloutRequest) ([][]episode.Episode, error) {
	responses, err := host.Rollout(ctx, requests)
	if err != nil {
		return nil, err
	}
	byID := map[string][]episode.Episode{}
	for _, r := range responses {
		byID[r.RequestID] = r.Episodes
	}
	out := make([][]episode.Episode, len(requests))
	for i, r := range requests {
		got, answered := byID[r.RequestID]
		if !answered || len(got) != r.N {
			return nil, fmt.Errorf("the host gave %d episodes for request %s, which asks for %d", len(got), r.RequestID, r.N)
		}
		out[i] = got
	}
	return out, nil
}

// Teaches says whether anything can be learnt from the group: it has episodes, and failures have not left one alone.
func (g Group) Teaches() bool {
	return len(g.Episodes) > 1 || len(g.Episodes) == 1 && g.Failed == 0
}

// Field is the name of the field that holds the advantage.
const Field = "advantage"

// Samples turns groups into samples with the advantage as a sequence field.
func Samples(groups []Group, normalize bool) []sdk.Sample {
	return samples(groups, normalize, func(s *sdk.Sample, _ episode.Sequence, advantage float64) {
		s.SequenceFields = map[string]float64{Field: advantage}
	})
}

// TokenSamples turns groups into samples with the advantage as a token field: 0 on every token that the policy did not
// write. It serves losses whose mean runs over more than the policy's tokens.
func TokenSamples(groups []Group, normalize bool) []sdk.Sample {
	return samples(groups, normalize, func(s *sdk.Sample, seq episode.Sequence, advantage float64) {
		values := make([]float32, seq.ResponseLength())
		for t, policy := range seq.PolicyMask() {
			if policy {
				values[t] = float32(advantage)
			}
		}
		s.TokenFields = map[string][]float32{Field: values}
	})
}

func samples(groups []Group, normalize bool, set func(*sdk.Sample, episode.Sequence, float64)) []sdk.Sample {
	var out []sdk.Sample
	for _, g := range groups {
		if !g.Teaches() {
			continue
		}
		for i, a := range Advantages(g.Rewards, normalize) {
			for k, seq := range g.Episodes[i].Sequences {
				s := sdk.Sample{EpisodeID: g.Episodes[i].ID, Sequence: k, Group: g.Name}
				set(&s, seq, a)
				out = append(out, s)
			}
		}
	}
	return out
}

// Metrics describes the groups of a step: mean and spread of rewards, and the shares of groups that teach nothing.
func Metrics(groups []Group) map[string]float64 {
	m := map[string]float64{}
	rewards, failed, equal, perfect := 0, 0, 0, 0
	for _, g := range groups {
		failed += g.Failed
		rewards += len(g.Rewards)
		for _, r := range g.Rewards {
			m["reward/mean"] += r
		}
		if len(g.Rewards) > 0 {
			m["reward/best"] += g.Rewards[ArgMax(g.Rewards)]
			if Equal(g.Rewards) {
				equal++
				if g.Rewards[0] >= 1 {
					perfect++
				}
			}
		}
	}
	if rewards > 0 {
		m["reward/mean"] /= float64(rewards)
	}
	if n := float64(len(groups)); n > 0 {
		m["reward/best"] /= n
		m["groups/equal_rewards"] = float64(equal) / n
		m["groups/all_right"] = float64(perfect) / n
	}
	m["episodes/failed"] = float64(failed)
	return m
}

// Merge adds the metrics of more to those of m.
func Merge(m, more map[string]float64) map[string]float64 {
	out := maps.Clone(m)
	maps.Copy(out, more)
	return out
}

// NotSupported is the error for a stage or option that a method does not offer.
func NotSupported(format string, args ...any) error {
	return fmt.Errorf("%s: %w", strings.TrimSuffix(fmt.Sprintf(format, args...), "."), sdk.ErrNotSupported)
}

// Episodes counts the distinct episodes of samples.
func Episodes(samples []sdk.Sample) int {
	return distinct(samples, func(s sdk.Sample) string { return s.EpisodeID })
}

// Groups counts the distinct groups of samples.
func Groups(samples []sdk.Sample) int {
	return distinct(samples, func(s sdk.Sample) string { return s.Group })
}

func distinct(samples []sdk.Sample, key func(sdk.Sample) string) int {
	seen := map[string]bool{}
	for _, s := range samples {
		seen[key(s)] = true
	}
	return len(seen)
}
