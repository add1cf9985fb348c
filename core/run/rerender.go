package run

import (
	"fmt"

	"github.com/forage-rl/forage/core/rollout"
	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
)

// Rerender is that of [sdk.Host]: an episode of one sequence for each request.
func (st *step) Rerender(requests []sdk.RerenderRequest) ([]episode.Episode, error) {
	out := make([]episode.Episode, len(requests))
	for i, r := range requests {
		ep, ok := st.episodes[r.EpisodeID]
		if !ok {
			return nil, fmt.Errorf("episode %q: %w", r.EpisodeID, sdk.ErrUnknownEpisode)
		}
		if r.Turn < 0 || r.Turn >= len(ep.Turns) {
			return nil, fmt.Errorf("episode %q has %d turns, not one of number %d: %w", r.EpisodeID, len(ep.Turns), r.Turn, sdk.ErrInvalidRequest)
		}
		by, err := st.stage.ask(r.Agent, nil)
		if err != nil {
			return nil, err
		}
		made, err := st.rerender(ep, st.questions[ep.QuestionID].Question, []int{r.Turn}, by)
		if err != nil {
			return nil, err
		}
		made.ID = fmt.Sprintf("r-%s.%d", ep.ID, r.Turn)
		if r.Agent != "" {
			made.ID += "." + r.Agent
		}
		st.episodes[made.ID] = made
		own := st.stage.own()
		own.agent, own.key = r.Agent, by.key
		st.made[made.ID] = own
		out[i] = lean(made.Episode)
	}
	return out, nil
}

// rerender lays turns of an episode out under an agent's prompt, for the policy that the stage trains.
func (st *step) rerender(ep *rollout.Episode, q episode.Question, turns []int, by asked) (*rollout.Episode, error) {
	s := st.stage
	if from := st.made[ep.ID].model; from != nil && from.tokens != s.model.tokens {
		text := *ep // its tokens are of another tokenizer: only the texts are taken over
		text.Tokens, text.LogProbs = nil, nil
		ep = &text
	}
	made, err := s.model.engine(s.run.tools).Rerender(ep, q, turns, by.agent)
	if err != nil {
		return nil, err
	}
	return made, s.fits(made)
}

// fits refuses an episode that is longer than what the policy was made for.
func (s *stage) fits(ep *rollout.Episode) error {
	for _, tokens := range ep.Tokens {
		if n, most := len(tokens), s.model.positions(); n > most {
			return fmt.Errorf("episode %s of question %s has %d tokens with its prompt, the model was made for %d: remove it", ep.ID, ep.QuestionID, n, most)
		}
	}
	return nil
}
