package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/forage-rl/forage/core/internal/rng"
	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
)

// Piece is a part of a rendered text. Trusted parts come from the experiment's files and may hold tags and special
// tokens; the others come from questions, documents or tools and never may.
type Piece struct {
	Text    string
	Trusted bool
}

// Template renders a text of the agent.
type Template interface {
	Render(vars map[string]any) ([]Piece, error)
}

// Message is one message of a chat prompt.
type Message struct {
	Role    string
	Content []Piece
}

// Tokenizer turns pieces into token ids and back.
type Tokenizer interface {
	// EncodePieces encodes the pieces as one text; strings of special tokens count only in trusted pieces.
	EncodePieces(pieces []Piece) []int32
	// Decode gives the text of ids, special tokens included.
	Decode(ids []int32) string
	// Decoder gives the text that each further token completes.
	Decoder() func(id int32) string
	// EOS lists the tokens that end generation.
	EOS() []int32
	// SpecialTokens lists the strings of control tokens.
	SpecialTokens() []string
	// RenderChat lays messages out by the model's chat template, with the prompt for the answer.
	RenderChat(messages []Message) ([]Piece, error)
}

// Row is one sequence to go on with.
type Row struct {
	// ID names the sequence over calls, so that the sampler can keep its cache.
	ID     int64
	Tokens []int32
	MaxNew int
	// Key gives the i-th new token its random number.
	Key rng.Key
	// Stop is called after each new token with all new ones.
	Stop func(tokens []int32) bool
	// Ends says the same as Stop to samplers that must know beforehand: the first closing text of a pair ends the turn.
	Ends []TagPair
	// Segments say who wrote what of Tokens after the prompt.
	Segments []episode.Segment
}

// Generated is what the policy wrote for a row. LogProbs are under the full softmax at the sampling temperature.
type Generated struct {
	Tokens   []int32
	LogProbs []float32
	// Length is true when MaxNew or the context ended it.
	Length bool
}

// Sampler samples from a policy. The result depends on a row's tokens, key and parameters alone.
type Sampler interface {
	Generate(ctx context.Context, rows []Row, params sdk.Sampling) ([]Generated, error)
	// MaxContext is the number of tokens that a sequence can hold.
	MaxContext() int
	// Release forgets the caches of sequences.
	Release(ids ...int64)
	// Park says that a sequence is over, and that others may fork from its first length tokens.
	Park(id int64, length int) error
	// Fork says that sequence to begins with the first length tokens of from, so that what was computed of them can be
	// taken over. Whether it is changes nothing beyond rounding.
	Fork(from, to int64, length int)
	// Forget drops all that was computed of any sequence.
	Forget() error
}

// Tools calls tools. An error ends the rollout; a [sdk.CallResult] with an error text is for the agent to read.
type Tools interface {
	Call(ctx context.Context, tool string, calls []sdk.Call) ([]sdk.CallResult, error)
}

// TurnTokens bounds the tokens of a turn: the first one, later ones, and the last one after the budget is used up.
type TurnTokens struct{ First, Next, Last int }

// What happens when the budget of turns or searches is used up.
const (
	OnBudgetClose     = "close"      // one more turn without tools, announced by the closing text if there is one
	OnBudgetLimitText = "limit_text" // the call is answered by the limit text, then one more turn
	OnBudgetStop      = "stop"       // the call ends the episode; under protocol fields the last call within the budget
)

// Agent is how a policy is asked and what it may do.
type Agent struct {
	Protocol Protocol
	// ChatTemplate lays the prompt out as chat messages; else System and User are simply joined.
	ChatTemplate bool
	System       Template // may be nil
	User         Template
	Observation  Template // of a call's hits
	// Invalid is said after an invalid action. Nil ends the episode instead.
	Invalid Template
	// Limit is said in place of an observation when the budget is used up and OnBudget is limit_text.
	Limit Template
	// Closing is said before the last turn, after what the action that used the budget up came to, when OnBudget is
	// close. It may be nil. MaxObservationTokens does not cut it.
	Closing Template
	// MaxTurns bounds turns that do not end the episode, MaxSearches executed calls; 0 means no bound.
	MaxTurns    int
	MaxSearches int
	OnBudget    string
	// FirstSearch makes the agent search with the question before the policy speaks.
	FirstSearch bool
	TurnTokens  TurnTokens
	// MaxResponseTokens bounds all tokens after the prompt, MaxObservationTokens each observation (cut at its end),
	// MaxPromptTokens the prompt (longer is an error); 0 means no bound.
	// Under protocol fields max_response_tokens bounds each turn, max_prompt_tokens also what is shown of the history.
	MaxResponseTokens    int
	MaxObservationTokens int
	MaxPromptTokens      int
	// Tool is the tool that the protocol's calls go to when they do not name one. Tools lists all that may be called.
	// Without any the policy's first turn is the closing one.
	Tool  string
	Tools []string
	// Descriptions are those of the tools, for the prompt.
	Descriptions []sdk.Tool
}

// Check says what is wrong with the agent.
func (a *Agent) Check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if a.Protocol == nil {
		bad("an agent needs a protocol")
	}
	if a.User == nil {
		bad("an agent needs a user text")
	}
	switch a.OnBudget {
	case OnBudgetClose, OnBudgetStop:
	case OnBudgetLimitText:
		if a.Limit == nil {
			bad("on_budget = %q needs a limit text", OnBudgetLimitText)
		}
	default:
		bad("on_budget must be %q, %q or %q, got %q", OnBudgetClose, OnBudgetLimitText, OnBudgetStop, a.OnBudget)
	}
	if a.Closing != nil && a.OnBudget != OnBudgetClose {
		bad("a closing text is for on_budget = %q, not %q", OnBudgetClose, a.OnBudget)
	}
	if a.Closing != nil && a.anew() {
		bad("a closing text has no place under protocol fields, whose prompt is rendered anew each turn: let user say it")
	}
	if len(a.Tools) > 0 && a.Observation == nil {
		bad("an agent with tools needs an observation text")
	}
	if a.FirstSearch && len(a.Tools) == 0 {
		bad("an agent that searches first needs a tool to search with")
	}
	if a.Invalid != nil && a.MaxTurns <= 0 {
		bad("an agent that goes on after invalid actions needs max_turns")
	}
	if _, ok := a.Protocol.(*JSON); ok && a.MaxTurns <= 0 {
		bad("an agent with protocol json goes on after calls that cannot be carried out, and needs max_turns")
	}
	if a.MaxTurns <= 0 && a.MaxSearches <= 0 && len(a.Tools) > 0 {
		bad("an agent with tools needs max_turns or max_searches")
	}
	if a.TurnTokens.First <= 0 || a.TurnTokens.Next <= 0 || a.TurnTokens.Last <= 0 {
		bad("turn_tokens must be positive, got first %d, next %d, last %d", a.TurnTokens.First, a.TurnTokens.Next, a.TurnTokens.Last)
	}
	return errors.Join(errs...)
}

// called gives the tool and the arguments of a call: the default tool where none is named, and a plain text under the
// name of the tool's first argument.
func (a *Agent) called(action Action) (tool string, arguments map[string]any) {
	tool, arguments = action.Tool, action.Arguments
	if tool == "" {
		tool = a.Tool
	}
	if first := a.describe(tool).Arguments; action.Plain && len(first) > 0 && first[0].Name != "query" {
		arguments = map[string]any{first[0].Name: arguments["query"]}
	}
	return tool, arguments
}

// checkCall says why a call cannot be carried out: there is no such tool, or its arguments are not what it takes.
func (a *Agent) checkCall(turn episode.Turn) error {
	if !slices.Contains(a.Tools, turn.Tool) {
		return fmt.Errorf("there is no tool %q; the tools are: %s", turn.Tool, strings.Join(a.Tools, ", "))
	}
	return checkArguments(a.describe(turn.Tool), turn.Arguments)
}

// describe gives the description of a tool, a blank one where there is none.
func (a *Agent) describe(tool string) sdk.Tool {
	if i := slices.IndexFunc(a.Descriptions, func(t sdk.Tool) bool { return t.Name == tool }); i >= 0 {
		return a.Descriptions[i]
	}
	return sdk.Tool{Name: tool}
}

// Episode is an episode with its tokens, which never leave the core.
type Episode struct {
	episode.Episode
	// Tokens and LogProbs are per sequence. LogProbs has one number per token, 0 where the policy did not write it or
	// no sampler recorded one.
	Tokens   [][]int32
	LogProbs [][]float32
	// Key is the episode's stream of random numbers.
	Key rng.Key
	// TextOnly says that no sampler told the tokens: they are pieces of the text, cut by the core for its bookkeeping.
	TextOnly bool
	// AnsweredBy is set where another policy wrote the answer from what the episode found.
	AnsweredBy *AnsweredBy
}

// AnsweredBy says how the answer of an episode came from another policy.
type AnsweredBy struct {
	Policy string `json:"policy"`          // role or handle
	Agent  string `json:"agent,omitempty"` // label of the agent
	Text   string `json:"text"`            // what it wrote
	// Evidence are the documents, paragraphs or sentences that it was shown, Left how many more there were without room.
	Evidence []string `json:"evidence,omitempty"`
	Left     int      `json:"left_out,omitempty"`
	// PolicyAnswer is the episode's own answer, nil where it gave none.
	PolicyAnswer *string `json:"policy_answer,omitempty"`
}
