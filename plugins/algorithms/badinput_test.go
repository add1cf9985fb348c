package main

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
	"github.com/forage-rl/forage/core/sdk/objective"
	"github.com/forage-rl/forage/core/sdk/sdktest"
)

// variant is one way to run a plugin: each estimator, phase or loss that has code of its own.
type variant struct {
	plugin string
	values map[string]any
	// experts says that it learns from them; samples that it samples episodes, so that they can be bad.
	experts, samples bool
	// least is the smallest group that the plugin accepts; 0 where it has no groups.
	least int
	// rest turns off all terms of the loss beside the advantages; nil where it cannot.
	rest map[string]any
}

func variants() []variant {
	noKL := map[string]any{"kind": "none"}
	advantagesAlone := map[string]any{"kl": noKL, "entropy_coefficient": 0}
	return []variant{
		{plugin: "sft", experts: true},
		{plugin: "sft", values: map[string]any{"observations": "trained", "aggregation": "sequence_mean"}, experts: true},
		{plugin: "preference", samples: true},
		{plugin: "preference", values: map[string]any{"pairs": "expert"}, experts: true, samples: true},
		{plugin: "grpo", values: map[string]any{"group_size": 4}, samples: true, least: 1, rest: map[string]any{"kl": noKL}},
		{plugin: "grpo", values: map[string]any{"group_size": 4, "aggregation": "constant"}, samples: true, least: 1, rest: map[string]any{"kl": noKL}},
		{plugin: "grpo", values: map[string]any{"group_size": 4, "aggregation": "question_mean", "normalize_std": false}, samples: true, least: 1, rest: map[string]any{"kl": noKL}},
		{plugin: "rloo", samples: true, least: 2, rest: map[string]any{"kl_coefficient": 0}},
		{plugin: "reinforce-pp", samples: true, least: 1, rest: map[string]any{"kl_coefficient": 0}},
		{plugin: "reinforce-pp", values: map[string]any{"baseline": "group_mean", "group_size": 3}, samples: true, least: 2, rest: map[string]any{"kl_coefficient": 0}},
		{plugin: "dr-grpo", samples: true, least: 2, rest: map[string]any{}},
		{plugin: "dapo", values: map[string]any{"group_size": 4}, samples: true, least: 2, rest: map[string]any{}},
		{plugin: "dapo", values: map[string]any{"group_size": 4, "dynamic_sampling": false}, samples: true, least: 2, rest: map[string]any{}},
		{plugin: "gspo", samples: true, least: 2, rest: map[string]any{}},
		{plugin: "offpolicy-mix", experts: true, samples: true, least: 2},
		{plugin: "search-r1", samples: true, least: 1, rest: advantagesAlone},
		{plugin: "search-r1", values: map[string]any{"mask_observations": false}, samples: true, least: 1, rest: advantagesAlone},
		{plugin: "search-r1", values: map[string]any{"estimator": "gae", "group_size": 1}, samples: true, least: 1},
		{plugin: "stepsearch", samples: true, least: 1},
		{plugin: "stepsearch", values: map[string]any{"gae_tokens": "policy"}, samples: true, least: 1},
		{plugin: "stepsearch", values: map[string]any{"estimator": "grpo", "group_size": 4}, samples: true, least: 1, rest: map[string]any{"kl_coefficient": 0, "entropy_coefficient": 0}},
		{plugin: "david-grpo", samples: true, least: 1, rest: advantagesAlone},
		{plugin: "david-grpo", values: map[string]any{"phase": "seed"}, experts: true, samples: true, least: 1},
		{plugin: "tree-grpo", samples: true, rest: advantagesAlone},
		{plugin: "tree-grpo", values: map[string]any{"advantage": "tree_per_token", "policy_loss": "turn"}, samples: true}, // tokens of equal episodes differ
		{plugin: "tree-grpo", values: map[string]any{"policy_loss": "sequence"}, samples: true, rest: advantagesAlone},
		{plugin: "frugalrag", samples: true, least: 1},
	}
}

func (v variant) name() string { return fmt.Sprint(v.plugin, v.values) }

// with is the variant's settings and others over them.
func (v variant) with(more map[string]any) map[string]any {
	out := maps.Clone(v.values)
	if out == nil {
		out = map[string]any{}
	}
	maps.Copy(out, more)
	return out
}

func (v variant) described(t *testing.T) sdk.AlgorithmPlugin {
	t.Helper()
	for _, p := range pack().Algorithms {
		if p.Name == v.plugin {
			return p
		}
	}
	t.Fatalf("the pack has no algorithm %q", v.plugin)
	return sdk.AlgorithmPlugin{}
}

// TestVariantsCoverThePack: what follows leaves no algorithm out.
func TestVariantsCoverThePack(t *testing.T) {
	for _, p := range pack().Algorithms {
		if !slices.ContainsFunc(variants(), func(v variant) bool { return v.plugin == p.Name }) {
			t.Errorf("no variant of %q", p.Name)
		}
	}
}

// script makes the n-th episode of a question.
type script = func(h *sdktest.Host, r sdk.RolloutRequest, q episode.Question, n int) episode.Episode

// usual is the usual script, where tools make the difference to answers if the variant looks for that.
func (v variant) usual(h *sdktest.Host, r sdk.RolloutRequest, q episode.Question, n int) episode.Episode {
	e := sdktest.Sample(h, r, q, n)
	if v.plugin == "preference" && r.Tools != nil {
		e.Rewards.Total = 0
	}
	return e
}

// rewarded gives all episodes the same reward.
func rewarded(reward float64) script {
	return func(h *sdktest.Host, r sdk.RolloutRequest, q episode.Question, n int) episode.Episode {
		e := sdktest.Sample(h, r, q, n)
		e.Rewards.Total = reward
		return e
	}
}

// silenced makes what the policy wrote in an episode the work of tools.
func silenced(e episode.Episode) episode.Episode {
	e.Sequences = slices.Clone(e.Sequences)
	for k, seq := range e.Sequences {
		seq.Segments = slices.Clone(seq.Segments)
		for i := range seq.Segments {
			seq.Segments[i].Kind = episode.Notice
		}
		e.Sequences[k] = seq
	}
	e.Turns, e.Counters.PolicyTokens = nil, 0
	return e
}

// silent is the usual script without a token of the policy in those episodes.
func (v variant) silent(which func(n int) bool) script {
	return func(h *sdktest.Host, r sdk.RolloutRequest, q episode.Question, n int) episode.Episode {
		e := v.usual(h, r, q, n)
		if which(n) {
			return silenced(e)
		}
		return e
	}
}

// TestUsualEpisodes: no variant has a number that is not finite or trains what the policy did not write.
func TestUsualEpisodes(t *testing.T) {
	for _, v := range variants() {
		t.Run(v.name(), func(t *testing.T) {
			if out := v.try(t, v.values, v.usual, v.knownExperts()); out.trained == 0 {
				t.Errorf("nothing is trained: %v", out.metrics)
			}
		})
	}
}

// TestGroupOfOne: a plugin either refuses a group of one, or trains it without a number that is not finite.
func TestGroupOfOne(t *testing.T) {
	for _, v := range variants() {
		if v.least == 0 {
			continue
		}
		t.Run(v.name(), func(t *testing.T) {
			values := v.with(map[string]any{"group_size": 1})
			if ds := v.described(t).Validate(values); ds.HasErrors() != (v.least > 1) {
				t.Fatalf("a group of one gives %v; the smallest group is %d", ds, v.least)
			}
			if v.least == 1 {
				v.try(t, values, v.usual, v.knownExperts())
			}
		})
	}
	one := variant{plugin: "tree-grpo", values: map[string]any{"trees": 1, "expansions": 0, "leaves": 1}}
	if out := one.try(t, one.with(map[string]any{"kl": map[string]any{"kind": "none"}, "entropy_coefficient": 0}), one.usual, nil); out.trained != 0 || out.metrics["groups/no_update"] != 1 {
		t.Errorf("a leaf alone has nothing to be compared with: %d samples, %v", out.trained, out.metrics)
	}
}

// TestAllEqual: a group of equal rewards is compared with nothing. Where the loss has no term beside the advantages there
// is no update, and a metric says so.
func TestAllEqual(t *testing.T) {
	for _, v := range variants() {
		if !v.samples {
			continue
		}
		t.Run(v.name(), func(t *testing.T) {
			for _, reward := range []float64{0, .1, 1, -1} { // sums of a tenth are not exact
				v.try(t, v.values, rewarded(reward), v.knownExperts())
				if v.rest == nil {
					continue
				}
				out := v.try(t, v.with(v.rest), rewarded(reward), v.knownExperts())
				if out.trained != 0 || out.metrics["groups/no_update"] != 1 {
					t.Errorf("reward %v: %d samples, metrics %v", reward, out.trained, out.metrics)
				}
			}
		})
	}
}

// TestNoPolicyTokens: an episode in which the policy wrote nothing is left out and counted; the others are trained. Where
// all are so, there is no update of the policy.
func TestNoPolicyTokens(t *testing.T) {
	for _, v := range variants() {
		t.Run(v.name(), func(t *testing.T) {
			experts := v.knownExperts()
			if v.samples {
				values := v.values
				if v.least == 1 {
					values = v.with(map[string]any{"group_size": 4})
				}
				out := v.try(t, values, v.silent(func(n int) bool { return n%4 == 2 }), experts)
				if out.trained == 0 || v.least > 0 && out.metrics["episodes/empty"] == 0 {
					t.Errorf("some episodes: %d samples, metrics %v", out.trained, out.metrics)
				}
			}
			for i := range experts {
				experts[i] = silenced(experts[i])
			}
			out := v.try(t, v.values, v.silent(func(int) bool { return true }), experts)
			switch {
			case v.plugin == "sft" && v.values["observations"] == "trained": // the response is trained, whoever wrote it
			case out.trained != 0:
				t.Errorf("all episodes: %d samples are trained, metrics %v", out.trained, out.metrics)
			case v.plugin == "preference": // no pair
				if out.metrics["pairs/count"] != 0 {
					t.Errorf("all episodes: metrics %v", out.metrics)
				}
			case out.metrics["episodes/empty"]+out.metrics["experts/empty"] == 0, v.samples && v.plugin != "frugalrag" && out.metrics["groups/no_update"] != 1:
				t.Errorf("all episodes: no metric says that nothing was trained: %v", out.metrics)
			}
		})
	}
}

func (v variant) knownExperts() []episode.Episode {
	if v.experts {
		return experts()
	}
	return nil
}

// TestGroupsAreCompared: the advantages that reach the trainer sum to zero in each group, do not depend on a constant added
// to all rewards, and grow with their scale only where the method does not divide by their spread.
func TestGroupsAreCompared(t *testing.T) {
	for _, c := range []struct {
		v     variant
		grows bool
	}{
		{v: variant{plugin: "grpo", values: map[string]any{"group_size": 4}}},
		{v: variant{plugin: "grpo", values: map[string]any{"group_size": 4, "normalize_std": false}}, grows: true},
		{v: variant{plugin: "rloo", values: map[string]any{"kl_coefficient": 0}}, grows: true},
		{v: variant{plugin: "dr-grpo"}, grows: true},
		{v: variant{plugin: "dapo", values: map[string]any{"group_size": 4, "dynamic_sampling": false}}},
		{v: variant{plugin: "gspo"}},
		{v: variant{plugin: "search-r1"}},
		{v: variant{plugin: "stepsearch", values: map[string]any{"estimator": "grpo", "group_size": 4}}},
		{v: variant{plugin: "david-grpo", values: map[string]any{"continuation": map[string]any{"enabled": false}}}},
		{v: variant{plugin: "tree-grpo"}},
		{v: variant{plugin: "frugalrag"}},
	} {
		t.Run(c.v.name(), func(t *testing.T) {
			advantages := func(scale, shift float64) map[string]float64 {
				sums, out := map[string]float64{}, map[string]float64{}
				for _, s := range c.v.try(t, c.v.values, func(h *sdktest.Host, r sdk.RolloutRequest, q episode.Question, n int) episode.Episode {
					e := sdktest.Sample(h, r, q, n)
					e.Rewards.Total = scale*float64(n%3)/2 + shift
					return e
				}, nil).samples {
					out[s.EpisodeID] = s.SequenceFields["advantage"]
					sums[s.Group] += s.SequenceFields["advantage"]
				}
				for group, sum := range sums {
					if math.Abs(sum) > 1e-9 {
						t.Errorf("the advantages of %s sum to %v", group, sum)
					}
				}
				return out
			}
			factor := 1.
			if c.grows {
				factor = 4
			}
			usual, larger, shifted := advantages(1, 0), advantages(4, 0), advantages(1, 3)
			different := 0
			for id, a := range usual {
				if math.Abs(larger[id]-factor*a) > 1e-3 || math.Abs(shifted[id]-a) > 1e-9 {
					t.Errorf("%s: advantage %v, %v with rewards of four times the scale, %v with 3 added to all", id, a, larger[id], shifted[id])
				}
				if a != 0 {
					different++
				}
			}
			if different == 0 {
				t.Error("no advantage differs from 0")
			}
		})
	}
}

// outcome is what a step reported, and the samples that it trains the policy on.
type outcome struct {
	metrics map[string]float64
	trained int
	samples []sdk.Sample
}

// try runs one step and evaluates its updates as a trainer would, all samples of one in a mini-batch. All that a loss may
// read is NaN where the policy did not write it. Nothing that comes out may be NaN or infinite, and no gradient may stand
// on what the policy did not write, unless the plan says that it is trained.
func (v variant) try(t *testing.T, values map[string]any, sample script, experts []episode.Episode) outcome {
	t.Helper()
	host := &recorder{Host: &sdktest.Host{Sample: sample}, seen: map[string]episode.Episode{}}
	host.Add(experts...)
	for _, e := range experts {
		host.seen[e.ID] = e
	}
	a := sdktest.Algorithm(t, v.described(t), values, host)
	plan, err := a.Plan(t.Context(), sdk.PlanRequest{Stage: "main", Steps: 1, Questions: 4, HasExperts: experts != nil})
	if err != nil {
		t.Fatal(err)
	}
	step, err := a.Step(t.Context(), sdk.StepRequest{Of: 1, Questions: sdktest.Questions(), Experts: experts})
	if err != nil {
		t.Fatal(err)
	}
	finite := func(what string, x float64) {
		t.Helper()
		if math.IsNaN(x) || math.IsInf(x, 0) {
			t.Errorf("%s is %v", what, x)
		}
	}
	for name, x := range step.Metrics {
		finite("metric "+name, x)
	}
	for id, r := range step.UsedRewards {
		finite("used reward of "+id, r.Value)
	}
	out := outcome{metrics: step.Metrics}
	for _, u := range step.Updates {
		o := plan.Objectives[slices.IndexFunc(plan.Objectives, func(o objective.Objective) bool { return o.Name == u.Objective })]
		everywhere := plan.TrainsObservations || o.Trains == objective.TrainsCritic
		if o.Trains == objective.TrainsPolicy {
			out.trained += len(u.Samples)
			out.samples = append(out.samples, u.Samples...)
		}
		var batch objective.Batch
		for _, s := range u.Samples {
			batch.Rows = append(batch.Rows, rowOf(host.seen[s.EpisodeID], s, everywhere))
		}
		r, err := objective.Eval(o, batch)
		if err != nil {
			t.Fatal(err)
		}
		finite("loss of "+o.Name, r.Loss)
		for name, x := range r.Metrics {
			finite(name+" of "+o.Name, x)
		}
		for _, gradient := range [][][]float64{r.GradLogP, r.GradEntropy, r.GradValue} {
			for i, row := range gradient {
				for at, g := range row {
					finite("gradient of "+o.Name, g)
					if g != 0 && !everywhere && !batch.Rows[i].PolicyMask[at] {
						t.Errorf("%s has the gradient %v on token %d of %s, which the policy did not write", o.Name, g, at, u.Samples[i].EpisodeID)
					}
				}
			}
		}
	}
	return out
}

// recorder is a host whose episodes are noted.
type recorder struct {
	*sdktest.Host
	seen map[string]episode.Episode
}

func (r *recorder) Rollout(ctx context.Context, requests []sdk.RolloutRequest) ([]sdk.RolloutResponse, error) {
	out, err := r.Host.Rollout(ctx, requests)
	for _, response := range out {
		for _, e := range response.Episodes {
			r.seen[e.ID] = e
		}
	}
	return out, err
}

// rowOf is a sample as a trainer sees it: numbers of its own for each token, and NaN off the policy's unless all count.
func rowOf(e episode.Episode, s sdk.Sample, everywhere bool) objective.Row {
	seq := e.Sequences[s.Sequence]
	mask := seq.PolicyMask()
	numbers := func(salt int) []float64 {
		out := make([]float64, len(mask))
		for t := range out {
			out[t] = -float64(1+(t*7+salt*3+len(e.ID))%11) / 4
			if !mask[t] && !everywhere {
				out[t] = math.NaN()
			}
		}
		return out
	}
	row := objective.Row{
		LogP: numbers(1), OldLogP: numbers(2), SamplerLogP: numbers(3), RefLogP: numbers(4), Entropy: numbers(5), Value: numbers(6), OldValue: numbers(7),
		PolicyMask: mask, Turns: make([]int, len(mask)), Group: s.Group, SequenceFields: s.SequenceFields, TokenFields: map[string][]float64{},
	}
	for t := range row.Turns {
		at := seq.PromptLength + t
		row.Turns[t] = slices.IndexFunc(e.Turns, func(turn episode.Turn) bool {
			return turn.Sequence == s.Sequence && turn.Span.Start <= at && at < turn.Span.End
		})
	}
	for name, values := range s.TokenFields {
		for _, x := range values {
			row.TokenFields[name] = append(row.TokenFields[name], float64(x))
		}
	}
	return row
}
