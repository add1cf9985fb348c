package frugalrag

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
	"github.com/forage-rl/forage/core/sdk/evidence"
	"github.com/forage-rl/forage/plugins/algorithms/internal/grpo"
)

// path is the exploration of one question.
type path struct {
	question episode.Question
	agents   []string
	noFinish bool
	chosen   *episode.Episode // up to the last chosen hop
	score    float64
	done     bool
}

// failed is the score of a candidate that found nothing to score: it finished, or its call failed.
const failed = -1

// explore chooses the hops of the questions, all questions in step.
func (a algorithm) explore(ctx context.Context, req sdk.StepRequest) (sdk.StepResponse, error) {
	c := a.config
	paths := make([]*path, len(req.Questions))
	for i, q := range req.Questions {
		p := &path{question: q, agents: c.Agents}
		if c.withoutFinish(q.ID) {
			p.agents, p.noFinish = c.AgentsNoFinish, true
		}
		if len(p.agents) == 0 {
			p.agents = []string{""}
		}
		paths[i] = p
	}
	for h := range c.MaxIters {
		if err := a.hop(ctx, h, paths); err != nil {
			return sdk.StepResponse{}, fmt.Errorf("hop %d: %w", h, err)
		}
	}
	out := sdk.StepResponse{Metrics: map[string]float64{}}
	var ids []string
	for _, p := range paths {
		if p.chosen == nil {
			continue
		}
		ids = append(ids, p.chosen.ID)
		out.Metrics["explore/recall"] += p.score
		out.Metrics["explore/searches"] += float64(p.chosen.Counters.Searches)
		if p.noFinish {
			out.Metrics["explore/no_finish"]++
		}
	}
	for name := range out.Metrics {
		out.Metrics[name] /= float64(len(ids))
	}
	if len(ids) > 0 {
		out.Artefacts = []sdk.Artefact{{Name: c.artefact(), EpisodeIDs: ids}}
	}
	return out, nil
}

// hop tries all candidates of hop h on the paths that are not done, and chooses.
func (a algorithm) hop(ctx context.Context, h int, paths []*path) error {
	var requests []sdk.RolloutRequest
	var owner []*path
	for i, p := range paths {
		if p.done {
			continue
		}
		for k, agent := range p.agents {
			r := sdk.RolloutRequest{
				RequestID: fmt.Sprintf("hop-%d-%d-%d", h, i, k), QuestionID: p.question.ID, N: a.config.Candidates, MaxNewTurns: 1, Agent: agent,
			}
			if p.chosen != nil {
				r.From = &episode.Branch{EpisodeID: p.chosen.ID, AfterTurn: len(p.chosen.Turns) - 1}
			}
			requests, owner = append(requests, r), append(owner, p)
		}
	}
	if len(requests) == 0 {
		return nil
	}
	answers, err := grpo.Rollout(ctx, a.host, requests)
	if err != nil {
		return err
	}
	candidates := map[*path][]episode.Episode{}
	for i, episodes := range answers {
		candidates[owner[i]] = append(candidates[owner[i]], episodes...)
	}
	for _, p := range paths {
		if !p.done {
			if err := a.choose(p, candidates[p]); err != nil {
				return err
			}
		}
	}
	return nil
}

// choose goes on with the first candidate of the highest score. A finish is chosen only when every candidate finishes
// or fails.
func (a algorithm) choose(p *path, candidates []episode.Episode) error {
	before := 0
	if p.chosen != nil {
		before = len(p.chosen.Turns)
	}
	best, at := 0., -1
	for i, e := range candidates {
		if len(e.Turns) == before {
			continue // nothing was written: the agent's own budget is used up
		}
		score := float64(failed)
		if last := e.Turns[len(e.Turns)-1]; last.Action == episode.ActionCall && last.Executed && last.Error == "" {
			var err error
			if score, err = a.recall(p.question, e); err != nil {
				return err
			}
		}
		if at < 0 || score > best {
			best, at = score, i
		}
	}
	if at < 0 {
		p.done = true
		return nil
	}
	chosen := candidates[at]
	last := chosen.Turns[len(chosen.Turns)-1]
	p.chosen, p.done = &chosen, last.Action == episode.ActionAnswer || chosen.Stop == episode.StopLength
	if best != failed {
		p.score = best
	}
	return nil
}

// recall measures an episode.
func (a algorithm) recall(q episode.Question, e episode.Episode) (float64, error) {
	source, component := a.config.RecallSource, a.config.RecallComponent
	if source == "" {
		if len(q.Gold) == 0 {
			return 0, nil
		}
		return float64(evidence.Found(q.Gold, e.Turns)) / float64(len(q.Gold)), nil
	}
	leaf, ok := e.Rewards.Leaves[source]
	if !ok {
		return 0, fmt.Errorf("recall_source is %q, and the stage's reward has no source of that name", source)
	}
	v, ok := leaf.Components[component]
	if !ok {
		return 0, fmt.Errorf("the reward source %q has no component %q, which recall_component names", source, component)
	}
	return v, nil
}

// withoutFinish draws whether a question is explored without finishing: by its id, so that every pass draws alike.
func (c Config) withoutFinish(question string) bool {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s", c.MixSeed, question))
	return float64(binary.LittleEndian.Uint64(sum[:])>>11)/(1<<53) < c.NoFinishRatio
}

// tau measures what the stage's agent finds.
func (a algorithm) tau(ctx context.Context, req sdk.StepRequest) (sdk.StepResponse, error) {
	c := a.config
	var requests []sdk.RolloutRequest
	for i, q := range req.Questions {
		requests = append(requests, sdk.RolloutRequest{RequestID: fmt.Sprintf("tau-%d", i), QuestionID: q.ID, N: c.Samples})
	}
	answers, err := grpo.Rollout(ctx, a.host, requests)
	if err != nil {
		return sdk.StepResponse{}, err
	}
	table := map[string]map[string]any{}
	mean, searches := 0., 0.
	for i, q := range req.Questions {
		recall, support, supported := 0., 0., false
		for _, e := range answers[i] {
			r, err := a.recall(q, e)
			if err != nil {
				return sdk.StepResponse{}, err
			}
			recall += r / float64(c.Samples)
			searches += float64(e.Counters.Searches) / float64(c.Samples)
			if f1, ok := e.Rewards.Leaves[c.RecallSource].Components["support_f1"]; ok {
				support, supported = support+f1/float64(c.Samples), true
			}
		}
		table[q.ID] = map[string]any{"tau_recall": recall}
		if supported {
			table[q.ID]["tau_support_f1"] = support
		}
		mean += recall
	}
	out := sdk.StepResponse{}
	if n := float64(len(req.Questions)); n > 0 {
		out.Artefacts = []sdk.Artefact{{Name: c.artefact(), ByQuestion: table}}
		out.Metrics = map[string]float64{"tau/recall": mean / n, "tau/searches": searches / n}
	}
	return out, nil
}
