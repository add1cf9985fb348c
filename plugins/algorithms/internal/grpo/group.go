package grpo

import (
	"context"
	"fmt"
	"maps"
	"slices"
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
}

// Sample rolls out n episodes of each question in one batch.
func Sample(ctx context.Context, host sdk.Host, questions []episode.Question, n int) ([]Group, error) {
	return SampleMore(ctx, host, questions, n, 0)
}

// SampleToBranch is [Sample] of episodes that later requests of the step branch from.
func SampleToBranch(ctx context.Context, host sdk.Host, questions []episode.Question, n int) ([]Group, error) {
	return sample(ctx, host, questions, sdk.RolloutRequest{N: n, Keep: true}, 0)
}

// SampleMore is [Sample] after first groups of the same step, whose names it does not use again.
func SampleMore(ctx context.Context, host sdk.Host, questions []episode.Question, n, first int) ([]Group, error) {
	return sample(ctx, host, questions, sdk.RolloutRequest{N: n}, first)
}

// sample makes the request for each question, named after first others.
func sample(ctx context.Context, host sdk.Host, questions []episode.Question, request sdk.RolloutRequest, first int) ([]Group, error) {
	if len(questions) == 0 {
		return nil, nil
	}
	var requests []sdk.RolloutRequest
	for i, q := range questions {
		request.RequestID, request.QuestionID = fmt.Sprintf("group-%d", first+i), q.ID
		requests = append(requests, request)
	}
	answers, err := Rollout(ctx, host, requests)
	if err != nil {
		return nil, fmt.Errorf("sample %d episodes of %d questions: %w", request.N, len(questions), err)
	}
	groups := make([]Group, len(questions))
	for i, q := range questions {
		g := Group{Name: requests[i].RequestID, Question: q, Episodes: answers[i]}
		for _, e := range g.Episodes {
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

// Trainable says whether the policy wrote any token of a sequence: not where its prompt left no room, or where all that
// follows the prompt is the work of tools. Metrics count the episodes of which no sequence is as episodes/empty.
func Trainable(seq episode.Sequence) bool {
	return slices.ContainsFunc(seq.Segments, func(s episode.Segment) bool { return s.Kind == episode.Policy && s.End > s.Start })
}

// Field is the name of the field that holds the advantage.
const Field = "advantage"

// Samples turns groups into samples with the advantage as a sequence field.
func Samples(groups []Group, normalize bool) []sdk.Sample {
	return SamplesOf(groups, func(rewards []float64) []float64 { return Advantages(rewards, normalize) })
}

// SamplesOf is [Samples] with an estimate of one's own of a group's advantages.
func SamplesOf(groups []Group, advantages func(rewards []float64) []float64) []sdk.Sample {
	return samples(groups, advantages, func(s *sdk.Sample, _ episode.Sequence, advantage float64) {
		s.SequenceFields = map[string]float64{Field: advantage}
	})
}

// TokenSamples turns groups into samples with the advantage as a token field: 0 on every token that the policy did not
// write. It serves losses whose mean runs over more than the policy's tokens.
func TokenSamples(groups []Group, normalize bool) []sdk.Sample {
	normalized := func(rewards []float64) []float64 { return Advantages(rewards, normalize) }
	return samples(groups, normalized, func(s *sdk.Sample, seq episode.Sequence, advantage float64) {
		values := make([]float32, seq.ResponseLength())
		for t, policy := range seq.PolicyMask() {
			if policy {
				values[t] = float32(advantage)
			}
		}
		s.TokenFields = map[string][]float32{Field: values}
	})
}

func samples(groups []Group, advantages func([]float64) []float64, set func(*sdk.Sample, episode.Sequence, float64)) []sdk.Sample {
	var out []sdk.Sample
	for _, g := range groups {
		for i, a := range advantages(g.Rewards) {
			for k, seq := range g.Episodes[i].Sequences {
				if !Trainable(seq) {
					continue // its reward counts in the group, but there is nothing to train
				}
				s := sdk.Sample{EpisodeID: g.Episodes[i].ID, Sequence: k, Group: g.Name}
				set(&s, seq, a)
				out = append(out, s)
			}
		}
	}
	return out
}

// Learnable says whether any advantage is not 0: without that, a loss of advantages alone has no gradient.
func Learnable(samples []sdk.Sample) bool {
	return slices.ContainsFunc(samples, func(s sdk.Sample) bool {
		return s.SequenceFields[Field] != 0 || slices.ContainsFunc(s.TokenFields[Field], func(v float32) bool { return v != 0 })
	})
}

// Metrics describes the groups of a step: mean and spread of rewards, and the shares of groups that teach nothing.
func Metrics(groups []Group) map[string]float64 {
	m := map[string]float64{}
	rewards, equal, perfect, empty := 0, 0, 0, 0
	for _, g := range groups {
		for _, e := range g.Episodes {
			if !slices.ContainsFunc(e.Sequences, Trainable) {
				empty++
			}
		}
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
	if empty > 0 {
		m["episodes/empty"] = float64(empty)
	}
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

// NoExperts is the error for a stage of a method that learns from experts and has none.
func NoExperts(label, stage string) error {
	return fmt.Errorf("%s learns from experts and stage %q has none: set experts = dataset.NAME on it", label, stage)
}

// MissingExperts is the error for questions without an expert episode: the first one's id, how many, of how many.
func MissingExperts(first string, missing, questions int) error {
	return fmt.Errorf("no expert episode for question %q (and %d more of %d): add it to the experts, or set missing_expert = \"skip\"",
		first, missing-1, questions)
}
