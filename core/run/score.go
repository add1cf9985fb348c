package run

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/forage-rl/forage/core/experiment"
	"github.com/forage-rl/forage/core/rollout"
	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
)

// scorer asks the reward plugins of a stage and combines what they say by the experiment's expressions.
type scorer struct {
	config  *experiment.Reward // nil: every reward is 0
	sources []sdk.Reward       // in the order of config.Sources
}

// score fills in the rewards of episodes. validation is passed on to the plugins. The sources are asked at the same
// time, each for all episodes at once.
func (s *scorer) score(ctx context.Context, episodes []*rollout.Episode, questions map[string]episode.Question, validation bool) error {
	if s == nil || s.config == nil || len(episodes) == 0 {
		return nil
	}
	req := sdk.ScoreRequest{Validation: validation}
	for _, ep := range episodes {
		req.Items = append(req.Items, sdk.ScoreItem{Question: questions[ep.QuestionID], Episode: ep.Episode})
	}
	scores := make([][]sdk.Score, len(s.sources))
	group, groupCtx := errgroup.WithContext(ctx)
	for i, source := range s.sources {
		group.Go(func() error {
			resp, err := source.Score(groupCtx, req)
			if err != nil {
				return fmt.Errorf("reward %q: %w", s.config.Sources[i].Name, err)
			}
			if err := checkScores(resp.Scores, req.Items); err != nil {
				return fmt.Errorf("reward %q (%s): %w", s.config.Sources[i].Name, s.config.Sources[i].Plugin.Label, err)
			}
			scores[i] = resp.Scores
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for i, ep := range episodes {
		leaves := map[string]episode.Leaf{}
		for j, source := range s.config.Sources {
			leaves[source.Name] = episode.Leaf(scores[j][i])
		}
		if err := s.combine(ep, questions[ep.QuestionID], leaves); err != nil {
			return fmt.Errorf("episode %s of question %s: %w", ep.ID, ep.QuestionID, err)
		}
	}
	return nil
}

// checkScores refuses scores that are not one finite number per episode.
func checkScores(scores []sdk.Score, items []sdk.ScoreItem) error {
	if len(scores) != len(items) {
		return fmt.Errorf("gave %d scores for %d episodes", len(scores), len(items))
	}
	finite := func(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
	for i, s := range scores {
		ep := items[i].Episode
		if !finite(s.Value) {
			return fmt.Errorf("gave %v to episode %s of question %s; a score must be finite", s.Value, ep.ID, ep.QuestionID)
		}
		for name, v := range s.Components {
			if !finite(v) {
				return fmt.Errorf("gave %v as component %q to episode %s of question %s; it must be finite", v, name, ep.ID, ep.QuestionID)
			}
		}
		if len(s.Turns) > 0 && len(s.Turns) != len(ep.Turns) {
			return fmt.Errorf("gave %d scores of turns to episode %s, which has %d turns", len(s.Turns), ep.ID, len(ep.Turns))
		}
		for t, v := range s.Turns {
			if !finite(v) {
				return fmt.Errorf("gave %v to turn %d of episode %s; it must be finite", v, t, ep.ID)
			}
		}
	}
	return nil
}

// combine evaluates total and turn_total.
func (s *scorer) combine(ep *rollout.Episode, q episode.Question, leaves map[string]episode.Leaf) error {
	vars := rewardVars(ep, q)
	for name, leaf := range leaves {
		vars[name] = leafVars(leaf)
	}
	total, err := s.config.Total.Number(vars)
	if err != nil {
		return err
	}
	ep.Rewards = episode.Rewards{Total: total, Leaves: leaves}
	if s.config.TurnTotal == nil {
		return nil
	}
	for i, turn := range ep.Turns {
		vars["turn"] = map[string]any{
			"index": i, "last": i == len(ep.Turns)-1, "search": turn.Action == episode.ActionCall,
			"valid": turn.Action == episode.ActionCall || turn.Action == episode.ActionAnswer, "policy_tokens": turn.Span.Len(),
		}
		for name, leaf := range leaves {
			fields := leafVars(leaf)
			fields["turn"] = 0.
			if len(leaf.Turns) > 0 {
				fields["turn"] = leaf.Turns[i]
			}
			vars[name] = fields
		}
		v, err := s.config.TurnTotal.Number(vars)
		if err != nil {
			return fmt.Errorf("turn %d: %w", i, err)
		}
		ep.Rewards.TurnTotals = append(ep.Rewards.TurnTotals, v)
	}
	return nil
}

func rewardVars(ep *rollout.Episode, q episode.Question) map[string]any {
	c := ep.Counters
	return map[string]any{
		"question": map[string]any{"hops": q.Hops, "type": q.Type},
		"episode": map[string]any{
			"turns": c.Turns, "searches": c.Searches, "valid": c.Valid, "invalid": c.Invalid, "policy_tokens": c.PolicyTokens,
			"observation_tokens": c.ObservationTokens, "answered": ep.Answer != nil, "stop": string(ep.Stop),
		},
	}
}

func leafVars(leaf episode.Leaf) map[string]any {
	components := leaf.Components
	if components == nil {
		components = map[string]float64{}
	}
	turns := leaf.Turns
	if turns == nil {
		turns = []float64{}
	}
	return map[string]any{"value": leaf.Value, "components": components, "turns": turns}
}

// warnOfSilence tells of reward sources that were 0 for all episodes of the stage, as those are that read what the
// questions do not have.
func (s *stage) warnOfSilence() {
	if s.produces() || s.config.Reward == nil {
		return
	}
	r := s.run
	for _, source := range s.config.Reward.Sources {
		for _, read := range sorted(r.state.Scored) {
			if name, _, _ := strings.Cut(read, "."); name == source.Name && !r.state.Scored[read] {
				r.state.Warnings = append(r.state.Warnings, fmt.Sprintf("stage %q: the reward %s was 0 for every episode; see whether these questions and episodes have what it reads: forage plugin describe reward/%s",
					s.config.Name, read, source.Plugin.Label))
			}
		}
	}
}

// noteScores remembers which reward sources, and which of their components that the total reads, have given anything.
// The value of a source is not missed where the total reads its components.
func (s *stage) noteScores(episodes []*rollout.Episode) {
	if s.config.Reward == nil {
		return
	}
	total := s.config.Reward.Total.Text()
	note := func(read string, gave bool) {
		if s.run.state.Scored == nil {
			s.run.state.Scored = map[string]bool{}
		}
		s.run.state.Scored[read] = s.run.state.Scored[read] || gave
	}
	for _, ep := range episodes {
		for name, leaf := range ep.Rewards.Leaves {
			if !strings.Contains(total, name+".components") {
				note(name, leaf.Value != 0 || slices.ContainsFunc(leaf.Turns, func(v float64) bool { return v != 0 }))
			}
			for component, v := range leaf.Components {
				if read := name + ".components[" + strconv.Quote(component) + "]"; strings.Contains(total, read) {
					note(read, v != 0)
				}
			}
		}
	}
}
