package sdk

import (
	"context"

	"github.com/forage-rl/forage/core/sdk/episode"
)

// Reward scores finished episodes. It must not depend on which other episodes share its batch.
type Reward interface {
	// Score gives one score per item, in order. A score that is not finite fails the run, and so does a number of turns
	// that is not the episode's.
	Score(ctx context.Context, req ScoreRequest) (ScoreResponse, error)
}

// ScoreRequest is a batch of episodes with their questions.
type ScoreRequest struct {
	Items []ScoreItem
	// Validation is true when the score is for an evaluation and not for training: some methods score differently.
	Validation bool
}

// ScoreItem is one episode, text included.
type ScoreItem struct {
	Question episode.Question
	Episode  episode.Episode
}

// ScoreResponse holds a score per item.
type ScoreResponse struct{ Scores []Score }

// Score is what a reward gives an episode. The study weighs it against others in total and turn_total, as
// SOURCE.value, SOURCE.components.NAME and SOURCE.turn, so it needs no particular scale; most are in [0, 1].
type Score struct {
	Value float64
	// Components are named parts, for expressions and reports: the same names for every episode.
	Components map[string]float64
	// Turns holds a reward for each of Episode.Turns, or nothing.
	Turns []float64
}
