package grpo

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
	"github.com/forage-rl/forage/core/sdk/objective"
)

// Training says how the samples of a step are turned into optimizer steps; see [MiniBatch] for MiniBatch and Updates.
type Training struct {
	MiniBatch, Updates, Epochs int
	Temperature                float64
}

// Update trains on samples in mini-batches of whole episodes.
func (t Training) Update(objective string, samples []sdk.Sample) sdk.Update {
	return sdk.Update{
		Objective: objective, Samples: samples, Epochs: t.Epochs, Temperature: t.Temperature, Order: sdk.OrderGiven,
		MiniBatch: sdk.MiniBatch{Count: MiniBatch(Episodes(samples), t.MiniBatch, t.Updates), Unit: sdk.UnitEpisode},
	}
}

// Batch is what a step learns from.
type Batch struct {
	Groups  []Group
	Samples []sdk.Sample
	// UsedRewards and Metrics are reported beside those of the groups.
	UsedRewards map[string]sdk.UsedReward
	Metrics     map[string]float64
}

// Method is the shape that the critic-free methods share: one objective, one update on the samples of a step.
type Method struct {
	Label     string
	Config    any // for the defaults in force
	Objective objective.Objective
	// Reference is the policy that the method compares with, "" for none.
	Reference string
	Training  Training
	// AdvantagesOnly says that the objective has no term beside the advantages, so that samples whose advantages are
	// all 0 make no update: an optimizer step on them would only carry old momentum on.
	AdvantagesOnly bool
	// TrainsObservations says that the objective reaches text that the policy did not write.
	TrainsObservations bool
	// NeedsExperts refuses a stage without.
	NeedsExperts bool
	// Collect samples what a step learns from.
	Collect func(ctx context.Context, req sdk.StepRequest) (Batch, error)
}

var _ sdk.Algorithm = Method{}

// Plan implements [sdk.Algorithm].
func (m Method) Plan(_ context.Context, req sdk.PlanRequest) (sdk.PlanResponse, error) {
	if req.Produce {
		return sdk.PlanResponse{}, NotSupported("%s only trains: stage %q makes no updates; use a training stage", m.Label, req.Stage)
	}
	if m.NeedsExperts && !req.HasExperts {
		return sdk.PlanResponse{}, NoExperts(m.Label, req.Stage)
	}
	return sdk.PlanResponse{
		Objectives: []objective.Objective{m.Objective}, Reference: m.Reference, TrainsObservations: m.TrainsObservations, DefaultsNotInPaper: DefaultsInForce(m.Config),
	}, nil
}

// Step implements [sdk.Algorithm].
func (m Method) Step(ctx context.Context, req sdk.StepRequest) (sdk.StepResponse, error) {
	batch, err := m.Collect(ctx, req)
	if err != nil {
		return sdk.StepResponse{}, err
	}
	out := sdk.StepResponse{UsedRewards: batch.UsedRewards, Metrics: Merge(Metrics(batch.Groups), batch.Metrics)}
	if len(batch.Samples) == 0 || m.AdvantagesOnly && !Learnable(batch.Samples) {
		out.Metrics["groups/no_update"] = 1
		return out, nil
	}
	out.Updates = []sdk.Update{m.Training.Update(m.Objective.Name, batch.Samples)}
	return out, nil
}

// CollectGroups is [Method.Collect] of methods that sample a group per question and need no more than its rewards.
func CollectGroups(host sdk.Host, size int, advantages func(rewards []float64) []float64) func(context.Context, sdk.StepRequest) (Batch, error) {
	return func(ctx context.Context, req sdk.StepRequest) (Batch, error) {
		groups, err := Sample(ctx, host, req.Questions, size)
		return Batch{Groups: groups, Samples: SamplesOf(groups, advantages)}, err
	}
}

// LogRatios asks for logp - ref_logp of each response token of the groups' episodes, per episode and sequence: the
// estimate k1 of the divergence from the reference. It is 0 on tokens that the policy did not write.
func LogRatios(ctx context.Context, host sdk.Host, groups []Group, temperature float64) (map[string][][]float64, error) {
	out := map[string][][]float64{}
	var ids []string
	sequences := map[string][]episode.Sequence{}
	for _, g := range groups {
		for _, e := range g.Episodes {
			ids = append(ids, e.ID)
			sequences[e.ID] = e.Sequences
			out[e.ID] = make([][]float64, len(e.Sequences))
			for k, seq := range e.Sequences {
				out[e.ID][k] = make([]float64, seq.ResponseLength())
			}
		}
	}
	if len(ids) == 0 {
		return out, nil
	}
	for _, side := range []struct {
		reference bool
		sign      float64
	}{{false, 1}, {true, -1}} {
		values, err := host.LogProbs(ctx, sdk.LogProbsRequest{EpisodeIDs: ids, Reference: side.reference, Temperature: temperature})
		if err != nil {
			return nil, fmt.Errorf("divergence from the reference: %w", err)
		}
		for _, v := range values {
			for t, policy := range sequences[v.EpisodeID][v.Sequence].PolicyMask() {
				if policy {
					out[v.EpisodeID][v.Sequence][t] += side.sign * float64(v.Values[t])
				}
			}
		}
	}
	return out, nil
}

// Sum adds the values of an episode's tokens up.
func Sum(sequences [][]float64) float64 {
	sum := 0.
	for _, values := range sequences {
		for _, v := range values {
			sum += v
		}
	}
	return sum
}

// MeanSum is the mean over episodes of [Sum].
func MeanSum(episodes map[string][][]float64) float64 {
	if len(episodes) == 0 {
		return 0
	}
	sum := 0.
	for _, id := range slices.Sorted(maps.Keys(episodes)) { // in one order: sums of floats depend on it
		sum += Sum(episodes[id])
	}
	return sum / float64(len(episodes))
}
