package sdk

import (
	"cmp"
	"context"

	"github.com/forage-rl/forage/core/sdk/episode"
)

// Retriever is a tool that an agent calls to read from the outside. It returns hits as data; how they are rendered
// into the episode is the agent's.
type Retriever interface {
	// Tool describes the tool to the agent.
	Tool(ctx context.Context) (Tool, error)
	// Call answers a batch of calls in order, one result for each. What is wrong with a call, such as a required
	// argument that is missing or empty, is the Error of its result, which the agent reads and can mend; an error of
	// Call itself fails the run.
	Call(ctx context.Context, req CallRequest) (CallResponse, error)
}

// Tool is the description of a tool.
type Tool struct {
	Name        string
	Description string
	Arguments   []Argument
}

// Argument is one argument of a tool. A protocol that passes plain text gives it to the first one: the arguments
// are then {first: text}.
type Argument struct {
	Name        string
	Type        string // string, int, number, bool or list(string)
	Description string
	Required    bool
}

// CallRequest is a batch of calls, each from another episode.
type CallRequest struct{ Calls []Call }

// Call is one call of the tool.
type Call struct {
	EpisodeID string
	Turn      int            // of the episode, from 0
	Arguments map[string]any // by name, as the policy wrote them: a string, float64, bool, []any or nothing for each
	// Seen lists what the episode's earlier calls returned, in order: for [SearchRequest.Exclude], or to allow only what
	// was found.
	Seen []Seen
}

// Seen is an earlier hit.
type Seen struct {
	Turn        int
	Tool        string
	DocumentID  string
	ParagraphID string
	SentenceID  string
}

// Unit is the id of the finest unit that the hit named, as [episode.Hit.Unit].
func (s Seen) Unit() string { return cmp.Or(s.SentenceID, s.ParagraphID, s.DocumentID) }

// CallResponse holds a result per call.
type CallResponse struct{ Results []CallResult }

// CallResult is the answer to one call: hits, best first, or an error text for the agent to read. Each hit needs a
// DocumentID. No hits and no error is an answer too.
type CallResult struct {
	Hits  []episode.Hit
	Error string
}
