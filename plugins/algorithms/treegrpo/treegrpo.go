// Package treegrpo is Tree-GRPO (arXiv:2509.21240): the episodes of a question grow as trees whose branches share their
// beginning, and each leaf is compared with the leaves of its tree and with all leaves of the question.
//
// A node is one turn of the agent with what came back. Branches are drawn without looking at rewards. Every kept leaf
// is trained on as a whole episode; the comparison within a tree cancels on what its leaves share, and so falls on the
// turns where they part.
//
// Where it differs from the release: a leaf without others to compare with has the advantage 0, and so have equal
// rewards, exactly; questions are told apart by their id, not by their place in a dataset; the loss is a mean over the
// mini-batch and not over micro-batches.
package treegrpo

import (
	"context"
	"fmt"
	"strconv"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
	"github.com/forage-rl/forage/core/sdk/objective"
	"github.com/forage-rl/forage/plugins/algorithms/internal/grpo"
)

// Plugin describes the algorithm.
func Plugin() sdk.AlgorithmPlugin {
	return sdk.NewAlgorithm("tree-grpo", "Tree-GRPO: episodes grow as trees that share prefixes; advantages within the tree and within the question.",
		"Tree-GRPO (arXiv:2509.21240)",
		func(_ context.Context, c Config, host sdk.Host) (sdk.Algorithm, error) {
			return algorithm{c, host}, nil
		})
}

type algorithm struct {
	config Config
	host   sdk.Host
}

func (a algorithm) Plan(_ context.Context, req sdk.PlanRequest) (sdk.PlanResponse, error) {
	if req.Produce {
		return sdk.PlanResponse{}, grpo.NotSupported("tree-grpo only trains: stage %q makes no updates; use a training stage", req.Stage)
	}
	o, err := Objective(a.config)
	if err != nil {
		return sdk.PlanResponse{}, err
	}
	plan := sdk.PlanResponse{Objectives: []objective.Objective{o}, DefaultsNotInPaper: grpo.DefaultsInForce(a.config)}
	if a.config.usesReference() {
		plan.Reference = sdk.ReferenceStageStart
	}
	return plan, nil
}

// forest is the trees of one question.
type forest struct {
	question episode.Question
	trees    []*grown
	sampled  []episode.Episode
}

func (a algorithm) Step(ctx context.Context, req sdk.StepRequest) (sdk.StepResponse, error) {
	c := a.config
	forests, err := a.grow(ctx, req)
	if err != nil {
		return sdk.StepResponse{}, err
	}
	groups, samples, err := c.samples(req, forests)
	if err != nil {
		return sdk.StepResponse{}, err
	}
	out := sdk.StepResponse{Metrics: grpo.Merge(grpo.Metrics(groups), c.budget(forests))}
	if len(samples) == 0 || !c.usesReference() && c.EntropyCoefficient == 0 && !grpo.Learnable(samples) {
		out.Metrics["groups/no_update"] = 1
		return out, nil
	}
	out.Updates = []sdk.Update{{
		Objective: objectiveName, Samples: samples, Epochs: c.Epochs, Temperature: c.Temperature, Order: sdk.OrderGiven,
		MiniBatch: sdk.MiniBatch{Count: grpo.MiniBatch(grpo.Groups(samples), c.MiniBatch, c.Updates), Unit: sdk.UnitQuestion},
	}}
	return out, nil
}

// grow samples the trees of all questions: the first chains in one batch, then each round's branches in one.
func (a algorithm) grow(ctx context.Context, req sdk.StepRequest) ([]forest, error) {
	c := a.config
	if len(req.Questions) == 0 {
		return nil, nil
	}
	forests := make([]forest, len(req.Questions))
	var requests []sdk.RolloutRequest
	for i, q := range req.Questions {
		forests[i].question = q
		requests = append(requests, sdk.RolloutRequest{RequestID: fmt.Sprintf("trees-%d", i), QuestionID: q.ID, N: c.Trees, Keep: c.Rounds*c.Expansions > 0})
	}
	answers, err := grpo.Rollout(ctx, a.host, requests)
	if err != nil {
		return nil, fmt.Errorf("sample %d first chains of %d questions: %w", c.Trees, len(req.Questions), err)
	}
	for i := range forests {
		for _, e := range answers[i] {
			forests[i].sampled = append(forests[i].sampled, e)
			forests[i].trees = append(forests[i].trees, plant(e))
		}
	}
	for round := range c.Rounds {
		if err := a.expand(ctx, req, forests, round); err != nil {
			return nil, fmt.Errorf("round %d of %d: %w", round+1, c.Rounds, err)
		}
	}
	return forests, nil
}

// expand grows the branches of one round.
func (a algorithm) expand(ctx context.Context, req sdk.StepRequest, forests []forest, round int) error {
	type place struct{ forest, tree, node int }
	var places []place
	var requests []sdk.RolloutRequest
	for i, f := range forests {
		for t, tree := range f.trees {
			candidates := tree.Expandable()
			draw := req.Rand("expand", f.question.ID, strconv.Itoa(t), strconv.Itoa(round))
			for k := range a.config.Expansions {
				node := candidates[draw.IntN(len(candidates))]
				places = append(places, place{i, t, node})
				requests = append(requests, sdk.RolloutRequest{
					RequestID: fmt.Sprintf("branch-%d-%d-%d-%d", i, t, round, k), QuestionID: f.question.ID, From: &tree.branches[node], N: 1,
					Keep: round+1 < a.config.Rounds,
				})
			}
		}
	}
	if len(requests) == 0 {
		return nil
	}
	answers, err := grpo.Rollout(ctx, a.host, requests)
	if err != nil {
		return fmt.Errorf("grow %d branches: %w", len(requests), err)
	}
	for k, p := range places {
		f, e := &forests[p.forest], answers[k][0]
		f.sampled = append(f.sampled, e)
		f.trees[p.tree].graft(p.node, e)
	}
	return nil
}

// samples draws the leaves to train on and gives them their advantages.
func (c Config) samples(req sdk.StepRequest, forests []forest) ([]grpo.Group, []sdk.Sample, error) {
	groups := make([]grpo.Group, len(forests))
	var leaves []Leaf
	var rewards []float64
	var episodes []episode.Episode
	trees := 0
	for i, f := range forests {
		g := grpo.Group{Name: fmt.Sprintf("question-%d", i), Question: f.question}
		for t, tree := range f.trees {
			draw := req.Rand("leaves", f.question.ID, strconv.Itoa(t))
			kept, err := tree.Keep(c.Leaves, func(list []int) {
				draw.Shuffle(len(list), func(a, b int) { list[a], list[b] = list[b], list[a] })
			})
			if err != nil {
				return nil, nil, err
			}
			for _, n := range kept {
				e := tree.episodes[n]
				g.Episodes, g.Rewards = append(g.Episodes, e), append(g.Rewards, e.Rewards.Total)
				leaves, rewards, episodes = append(leaves, Leaf{Question: i, Tree: trees}), append(rewards, e.Rewards.Total), append(episodes, e)
			}
			trees++
		}
		groups[i] = g
	}
	return groups, c.weigh(groups, episodes, rewards, leaves), nil
}

// weigh makes the samples of the leaves.
func (c Config) weigh(groups []grpo.Group, episodes []episode.Episode, rewards []float64, leaves []Leaf) []sdk.Sample {
	var samples []sdk.Sample
	// from is the place of a sequence's first response token among those of its episode.
	sample := func(i int, set func(s *sdk.Sample, from, tokens int)) {
		from := 0
		for k, seq := range episodes[i].Sequences {
			n := seq.ResponseLength()
			if grpo.Trainable(seq) {
				s := sdk.Sample{EpisodeID: episodes[i].ID, Sequence: k, Group: groups[leaves[i].Question].Name}
				set(&s, from, n)
				samples = append(samples, s)
			}
			from += n
		}
	}
	if !perToken(c.Advantage) {
		for i, a := range Advantages(c.Advantage, rewards, leaves) {
			sample(i, func(s *sdk.Sample, _, _ int) { s.SequenceFields = map[string]float64{grpo.Field: a} })
		}
		return samples
	}
	placed := make([][]float64, len(episodes))
	for i, e := range episodes {
		placed[i] = onLastToken(e, rewards[i])
	}
	for i, row := range TokenAdvantages(c.Advantage, placed, leaves) {
		sample(i, func(s *sdk.Sample, from, tokens int) {
			values := make([]float32, tokens)
			for t := range values {
				values[t] = float32(row[from+t])
			}
			s.TokenFields = map[string][]float32{grpo.Field: values}
		})
	}
	return samples
}

// onLastToken gives a number per token of an episode's responses, one after the other: the reward on the last one that
// the policy wrote, and 0.
func onLastToken(e episode.Episode, reward float64) []float64 {
	var values []float64
	last := -1
	for _, seq := range e.Sequences {
		for t, policy := range seq.PolicyMask() {
			if policy {
				last = len(values) + t
			}
		}
		values = append(values, make([]float64, seq.ResponseLength())...)
	}
	if last >= 0 {
		values[last] = reward
	}
	return values
}
