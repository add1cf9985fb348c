package sdk

import (
	"context"

	"github.com/forage-rl/forage/core/sdk/episode"
)

// Host is what the core does for a plugin. Every method takes a batch; a repeated request id gives the same answer.
// An error of a service that the host does not offer wraps [ErrNotSupported].
type Host interface {
	// Rollout samples episodes and scores them. Algorithms only.
	Rollout(ctx context.Context, requests []RolloutRequest) ([]RolloutResponse, error)
	// Rerender lays chosen policy text out under another agent's prompt. Algorithms only.
	Rerender(ctx context.Context, requests []RerenderRequest) ([]episode.Episode, error)
	// LogProbs gives log-probabilities over the response of each sequence, under the policy or its reference.
	LogProbs(ctx context.Context, req LogProbsRequest) ([]SequenceValues, error)
	// Values gives the critic's values over the response of each sequence.
	Values(ctx context.Context, episodeIDs []string) ([]SequenceValues, error)
	// Questions draws n further questions of the stage's training set; the data cursor moves on. Algorithms only.
	Questions(ctx context.Context, n int) ([]episode.Question, error)
	// Search looks queries up in an index.
	Search(ctx context.Context, req SearchRequest) ([][]episode.Hit, error)
	// Documents reads units of a corpus (the handle of a reference to one) by id. An unknown id is an error that names it.
	Documents(ctx context.Context, corpus string, ids []string) ([]episode.Hit, error)
	// Encode turns texts into vectors with the encoder of an index (by its handle).
	Encode(ctx context.Context, index string, texts []string) ([][]float32, error)
	// Metrics reports numbers of the current step beside those of the step's response.
	Metrics(ctx context.Context, values map[string]float64) error
}

// RolloutRequest asks for N episodes of a question, from the start or from a branch of an earlier episode.
type RolloutRequest struct {
	// RequestID is any text that no other request of the step has: a question's id is not enough, for a step may hold a
	// question twice. The same request with the same id gives the same episodes again.
	RequestID  string
	QuestionID string          // of the step; may be empty with From
	From       *episode.Branch // nil for new episodes
	N          int             // 1 to 1,000,000
	// MaxNewTurns bounds the turns that are sampled now; 0 means the agent's own limits alone.
	MaxNewTurns int
	// Policy is a role of the run or the handle of a policy that the configuration refers to, which is as it was when
	// the run started; "" means the policy that the stage trains.
	Policy string
	// Agent is a name of the experiment's agents or the handle of an agent that the configuration refers to; "" means
	// the stage's.
	Agent    string
	Tools    []string // of the run; nil means the agent's, an empty list none: the policy can only answer
	Sampling *Sampling
	// Keep says that later requests of the step are to branch from these episodes, so that what was computed of them
	// is kept and the branches compute only what is new. It changes no result, only cost.
	Keep bool
}

// Sampling takes the place of the stage's sampling, as a whole.
type Sampling struct {
	Temperature float64 // divides the logits; 0 means 1
	TopP        float64 // share of the probability that is kept, in [0, 1]; 0 and 1 keep all
	TopK        int     // tokens that are kept; 0 keeps all
	Greedy      bool    // always the likeliest token; the others have no effect
}

// RolloutResponse holds the episodes of one request, scored. They come without texts (prompt, segments, what a turn
// wrote and read): an algorithm decides by spans, hits, answer and rewards.
type RolloutResponse struct {
	RequestID string
	Episodes  []episode.Episode
}

// RerenderRequest names the policy text of one turn and the agent whose prompt it goes under, as in [RolloutRequest].
// The answer is an episode of one sequence and one turn.
type RerenderRequest struct {
	EpisodeID string
	Turn      int
	Agent     string
}

// LogProbsRequest asks for log-probabilities of episodes.
type LogProbsRequest struct {
	EpisodeIDs  []string
	Policy      string // as in [RolloutRequest]
	Reference   bool
	Temperature float64 // 0 means the sampling temperature
}

// SequenceValues is an array over the response of one sequence.
type SequenceValues struct {
	EpisodeID string
	Sequence  int       // index into Episode.Sequences
	Values    []float32 // one for each token after the prompt
}

// SearchRequest looks up Queries (text) or Vectors in an index, one of the two. The answer holds for each of them at most
// K hits, best first.
type SearchRequest struct {
	Index   string // [schema.Ref.Handle] of the configuration
	Queries []string
	Vectors [][]float32 // of the index's dimension, as Host.Encode gives them
	K       int         // at least 1
	// Exclude lists unit ids to leave out, one list per query, or nothing.
	Exclude [][]string
}
