// Package episode holds the data of questions and episodes as plugins see them.
//
// It is a leaf: data only. It must not know tokenizers, models, files or the wire. Token ids and log-probabilities of
// an episode stay in the core; a plugin refers to an episode by its id.
package episode

import (
	"cmp"
	"strings"
)

// Question is one question of a dataset.
type Question struct {
	ID      string   `json:"id"`
	Text    string   `json:"text"`
	Answers []string `json:"answers"` // accepted answers, the main one first
	Gold    []Gold   `json:"gold,omitempty"`
	Hops    int      `json:"hops,omitempty"` // 0 when unknown
	Type    string   `json:"type,omitempty"`
	// Metadata passes through from the dataset, and from artefacts that a stage merges in as annotations. Values are
	// of JSON types.
	Metadata map[string]any `json:"metadata,omitempty"`
}

// Gold is a document that the answer rests on. Title is always set; the ids are where dataset and corpus share them.
type Gold struct {
	Title       string `json:"title"`
	DocumentID  string `json:"document_id,omitempty"`
	ParagraphID string `json:"paragraph_id,omitempty"`
}

// Stop says why an episode ended.
type Stop string

const (
	StopAnswered Stop = "answered" // it gave an answer
	StopBudget   Stop = "budget"   // the budget of turns or searches was used up
	StopLength   Stop = "length"   // a token limit was reached
	StopInvalid  Stop = "invalid"  // an action could not be parsed and the agent ends on it
)

// Origin says where an episode's policy tokens come from.
type Origin string

const (
	OriginPolicy     Origin = "policy"     // sampled by the policy in this run
	OriginExpert     Origin = "expert"     // parsed from a dataset of experts
	OriginRerendered Origin = "rerendered" // sampled under another prompt; only for supervised objectives
)

// SegmentKind says who wrote a stretch of tokens.
type SegmentKind string

const (
	// Policy tokens were written by the policy (or the expert): the only ones an actor loss trains by default.
	Policy SegmentKind = "policy"
	// Observation tokens were returned by a tool.
	Observation SegmentKind = "observation"
	// Notice tokens were written by the agent loop: limit texts and warnings of invalid actions.
	Notice SegmentKind = "notice"
)

// Segment is the half-open range [Start, End) of token positions in its sequence.
type Segment struct {
	Kind  SegmentKind `json:"kind"`
	Start int         `json:"start"`
	End   int         `json:"end"`
	Text  string      `json:"text"`
}

// Sequence is one token buffer: a prompt and the response after it. A growing dialogue has one sequence; an agent
// that renders its prompt anew each hop has one per hop.
type Sequence struct {
	Prompt       string    `json:"prompt"`
	PromptLength int       `json:"prompt_length"` // tokens
	Length       int       `json:"length"`        // tokens, prompt included
	Segments     []Segment `json:"segments"`      // cover [PromptLength, Length) without gap or overlap
}

// ResponseLength is the number of tokens after the prompt: the length of every per-token array about the sequence.
func (s Sequence) ResponseLength() int { return s.Length - s.PromptLength }

// Response is the text after the prompt.
func (s Sequence) Response() string {
	var text strings.Builder
	for _, seg := range s.Segments {
		text.WriteString(seg.Text)
	}
	return text.String()
}

// PolicyMask is 1 for each response token that the policy wrote, else 0.
func (s Sequence) PolicyMask() []bool {
	mask := make([]bool, s.ResponseLength())
	for _, seg := range s.Segments {
		if seg.Kind == Policy {
			for i := seg.Start; i < seg.End; i++ {
				mask[i-s.PromptLength] = true
			}
		}
	}
	return mask
}

// Span is a half-open range of token positions in a sequence. The zero Span is empty.
type Span struct {
	Start int `json:"start"`
	End   int `json:"end"`
}

// Len is the number of tokens.
func (s Span) Len() int { return s.End - s.Start }

// Action is what a turn did.
type Action string

const (
	ActionCall    Action = "call"    // called a tool
	ActionAnswer  Action = "answer"  // gave the answer
	ActionInvalid Action = "invalid" // wrote nothing that the protocol understands
	ActionNone    Action = "none"    // stopped at a limit before an action was complete
)

// Turn is one stretch of policy text and what came of it.
type Turn struct {
	Sequence        int            `json:"sequence"` // index into Episode.Sequences
	Span            Span           `json:"span"`     // the policy's tokens
	ActionSpan      Span           `json:"action_span"`
	ObservationSpan Span           `json:"observation_span"`
	Text            string         `json:"text"` // the policy's text
	Thought         string         `json:"thought,omitempty"`
	Action          Action         `json:"action"`
	Tool            string         `json:"tool,omitempty"`
	Arguments       map[string]any `json:"arguments,omitempty"`
	Hits            []Hit          `json:"hits,omitempty"`
	Observation     string         `json:"observation,omitempty"`
	Error           string         `json:"error,omitempty"` // of the tool; the episode may have gone on
	// Executed is false for a call that was parsed but not carried out, because the budget was used up.
	Executed       bool    `json:"executed"`
	LatencySeconds float64 `json:"latency_seconds,omitempty"`
}

// Query is the call's argument "query" as text, or "".
func (t Turn) Query() string {
	q, _ := t.Arguments["query"].(string)
	return q
}

// Hit is one unit of text that a tool returned.
type Hit struct {
	DocumentID  string  `json:"document_id"`
	ParagraphID string  `json:"paragraph_id,omitempty"`
	SentenceID  string  `json:"sentence_id,omitempty"`
	Title       string  `json:"title"`
	Text        string  `json:"text"`
	Score       float64 `json:"score"`
}

// Unit is the id of the finest unit that the hit names: sentence, paragraph or document. It is what an index of that unit
// knows it by.
func (h Hit) Unit() string { return cmp.Or(h.SentenceID, h.ParagraphID, h.DocumentID) }

// Branch is a point of an episode that another one grows from: just after turn AfterTurn (0-based), or after the
// prompt when AfterTurn is -1.
type Branch struct {
	EpisodeID string `json:"episode_id"`
	AfterTurn int    `json:"after_turn"`
}

// Counters counts what happened in an episode.
type Counters struct {
	Turns             int `json:"turns"`
	Searches          int `json:"searches"` // executed tool calls
	Valid             int `json:"valid"`
	Invalid           int `json:"invalid"`
	PolicyTokens      int `json:"policy_tokens"`
	ObservationTokens int `json:"observation_tokens"`
}

// Rewards of an episode. Total is what the experiment's expression gave; Leaves hold each reward source by name.
type Rewards struct {
	Total      float64         `json:"total"`
	TurnTotals []float64       `json:"turn_totals,omitempty"`
	Leaves     map[string]Leaf `json:"leaves,omitempty"`
}

// Leaf is the score that one reward plugin gave.
type Leaf struct {
	Value      float64            `json:"value"`
	Components map[string]float64 `json:"components,omitempty"`
	Turns      []float64          `json:"turns,omitempty"` // one per turn, or none
}

// Episode is one attempt at a question.
type Episode struct {
	ID         string     `json:"id"`
	QuestionID string     `json:"question_id"`
	Parent     *Branch    `json:"parent,omitempty"`
	Sequences  []Sequence `json:"sequences"`
	Turns      []Turn     `json:"turns"`
	Answer     *string    `json:"answer,omitempty"` // nil when it gave none
	Stop       Stop       `json:"stop"`
	Counters   Counters   `json:"counters"`
	Rewards    Rewards    `json:"rewards"`
	Origin     Origin     `json:"origin"`
}

// Hits lists what the episode's tools returned, in order of turns.
func (e Episode) Hits() []Hit {
	var hits []Hit
	for _, t := range e.Turns {
		hits = append(hits, t.Hits...)
	}
	return hits
}
