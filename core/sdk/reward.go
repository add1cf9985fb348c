package sdk

import (
	"context"

	"github.com/forage-rl/forage/core/sdk/episode"
)

// Reward scores finished episodes. It must not depend on which other episodes share its batch.
type Reward interface {
	// Score gives one score per item, in order. A score that is not finite fails the episode.
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

// Score is what a reward gives an episode.
type Score struct {
	Value float64
	// Components are named parts, for expressions and reports.
	Components map[string]float64
	// Turns holds a reward per turn of the episode, or nothing.
	Turns []float64
}
