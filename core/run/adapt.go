package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/forage-rl/forage/core/experiment"
	"github.com/forage-rl/forage/core/policy"
	"github.com/forage-rl/forage/core/policy/tokenizer"
	"github.com/forage-rl/forage/core/rollout"
	"github.com/forage-rl/forage/core/sdk"
)

// text is a tokenizer as the rollout engine sees it.
type text struct {
	*tokenizer.Tokenizer
	special []string
}

func newText(t *tokenizer.Tokenizer) text {
	out := text{Tokenizer: t}
	for id := range int32(t.VocabSize()) {
		if t.IsSpecial(id) {
			out.special = append(out.special, t.Token(id))
		}
	}
	return out
}

func (t text) EncodePieces(pieces []rollout.Piece) []int32 {
	return t.Tokenizer.EncodePieces(convertPieces(pieces))
}

func (t text) Decode(ids []int32) string { return t.Tokenizer.Decode(ids, false) }

func (t text) Decoder() func(int32) string { return t.NewDecoder().Add }

func (t text) SpecialTokens() []string { return t.special }

func (t text) RenderChat(messages []rollout.Message) ([]rollout.Piece, error) {
	var chat []tokenizer.Message
	for _, m := range messages {
		chat = append(chat, tokenizer.Message{Role: m.Role, Content: convertPieces(m.Content)})
	}
	pieces, err := t.Tokenizer.RenderChat(chat, true)
	if err != nil {
		return nil, err
	}
	out := make([]rollout.Piece, len(pieces))
	for i, p := range pieces {
		out[i] = rollout.Piece(p)
	}
	return out, nil
}

func convertPieces(pieces []rollout.Piece) []tokenizer.Piece {
	out := make([]tokenizer.Piece, len(pieces))
	for i, p := range pieces {
		out[i] = tokenizer.Piece(p)
	}
	return out
}

// sampler is a session of a policy as the rollout engine sees it. It counts the tokens that the policy computes.
type sampler struct {
	session *policy.Session
	context int
	decoded *atomic.Int64
	held    map[int64]held
	wrote   int64 // tokens sampled
}

// held is what the session holds the keys and values of for a row: those of tokens, or of the first forked tokens of
// another row, with which the row begins.
type held struct {
	tokens []int32
	forked int
}

// of says how many of the tokens that the row now has are held. A turn whose prompt is rendered anew begins as the one
// before, and goes on otherwise.
func (h held) of(tokens []int32) int {
	if h.tokens == nil {
		return h.forked
	}
	return policy.CommonPrefix(h.tokens, tokens)
}

func newSampler(p *policy.Policy, rows, context int, decoded *atomic.Int64) (*sampler, error) {
	session, err := p.NewSession(rows, context)
	if err != nil {
		return nil, err
	}
	return &sampler{session: session, context: context, decoded: decoded, held: map[int64]held{}}, nil
}

func (s *sampler) Generate(ctx context.Context, rows []rollout.Row, params sdk.Sampling) ([]rollout.Generated, error) {
	asked := make([]policy.Row, len(rows))
	for i, r := range rows {
		asked[i] = policy.Row{ID: r.ID, Tokens: r.Tokens, MaxNew: r.MaxNew, Key: r.Key, Stop: r.Stop}
	}
	outputs, err := s.session.Generate(ctx, asked, policy.SampleParams{
		Temperature: params.Temperature, TopP: params.TopP, TopK: params.TopK, Greedy: params.Greedy,
	})
	if err != nil {
		return nil, err
	}
	generated := make([]rollout.Generated, len(outputs))
	for i, out := range outputs {
		if slices.ContainsFunc(out.LogProbs, func(p float32) bool { return p != p }) {
			return nil, errors.New("the policy's probabilities are no numbers (NaN): its weights are damaged, or training has driven them apart; look at the loss of the last steps, and start from sound weights or with a smaller learning_rate")
		}
		generated[i] = rollout.Generated{
			Tokens: out.Tokens, LogProbs: out.LogProbs,
			Length: out.Reason == policy.StopLength || out.Reason == policy.StopContext,
		}
		s.wrote += int64(len(out.Tokens))
		s.decoded.Add(int64(len(rows[i].Tokens) + len(out.Tokens) - s.held[rows[i].ID].of(rows[i].Tokens)))
		s.held[rows[i].ID] = held{tokens: slices.Concat(rows[i].Tokens, out.Tokens)}
	}
	return generated, nil
}

func (s *sampler) MaxContext() int { return s.context }

func (s *sampler) Release(ids ...int64) {
	for _, id := range ids {
		s.session.Release(id)
		delete(s.held, id)
	}
}

func (s *sampler) Park(id int64, length int) error {
	delete(s.held, id)
	return s.session.Park(id, length)
}

func (s *sampler) Fork(from, to int64, length int) {
	s.held[to] = held{forked: s.session.Fork(from, to, length)}
}

func (s *sampler) Forget() error { return s.session.Forget() }

func (s *sampler) computed() (read, wrote int64) { return s.session.Computed(), s.wrote }

func (s *sampler) Close() error { return s.session.Close() }

// template is a text of the language as the rollout engine sees it.
type template struct{ *experiment.Template }

func (t template) Render(vars map[string]any) ([]rollout.Piece, error) {
	pieces, err := t.Template.Render(vars)
	if err != nil {
		return nil, err
	}
	out := make([]rollout.Piece, len(pieces))
	for i, p := range pieces {
		out[i] = rollout.Piece(p)
	}
	return out, nil
}

func optional(t *experiment.Template) rollout.Template {
	if t == nil {
		return nil
	}
	return template{t}
}

// protocol makes the rollout engine's protocol from a resolved one.
func protocol(p experiment.Protocol) (rollout.Protocol, error) {
	switch p.Kind {
	case experiment.ProtocolTags:
		t := p.Tags
		tags := &rollout.Tags{
			Think: rollout.TagPair(t.Think), Call: rollout.TagPair(t.Call), Observation: rollout.TagPair(t.Observation),
			Answer: rollout.TagPair(t.Answer), StopAtAnswer: t.StopAtAnswer, CallsInThink: t.CallsInThink,
		}
		if len(t.Calls) > 0 {
			tags.Calls = map[string]rollout.TagPair{}
			for tool, pair := range t.Calls {
				tags.Calls[tool] = rollout.TagPair(pair)
			}
		}
		return tags, tags.Check()
	case experiment.ProtocolJSON:
		j := p.JSON
		calls := &rollout.JSON{
			Think: rollout.TagPair(j.Think), Call: rollout.TagPair(j.Call), Observation: rollout.TagPair(j.Observation),
			Answer: rollout.TagPair(j.Answer), NameKey: j.NameKey, ArgumentsKey: j.ArgsKey,
			FinishTool: j.FinishTool, FinishArgument: j.FinishArg,
		}
		return calls, calls.Check()
	case experiment.ProtocolFields:
		f := p.Fields
		fields := &rollout.Fields{
			Marker: rollout.TagPair(f.Marker), Thought: f.Thought, Tool: f.Tool, Arguments: f.Arguments, Completed: f.Completed,
			FinishTool: f.FinishTool, FinishArg: f.FinishArg, Inline: f.Inline,
		}
		return fields, fields.Check()
	}
	return nil, fmt.Errorf("there is no protocol %q", p.Kind)
}

// agent makes the rollout engine's agent from a resolved one. tools describes the tools there are, by name.
func agent(a *experiment.Agent, tools map[string]sdk.Tool) (*rollout.Agent, error) {
	place := fmt.Sprintf("%s:%d", a.Range.Filename, a.Range.Start.Line)
	spoken, err := protocol(a.Protocol)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", place, err)
	}
	names := a.Tools
	if names == nil {
		for name := range tools {
			names = append(names, name)
		}
		slices.Sort(names)
	}
	out := &rollout.Agent{
		Protocol: spoken, ChatTemplate: a.ChatTemplate, System: optional(a.System), User: optional(a.User),
		Observation: optional(a.Observation), Invalid: optional(a.Invalid), Limit: optional(a.Limit), Closing: optional(a.Closing),
		MaxTurns: a.MaxTurns, MaxSearches: a.MaxSearches, OnBudget: a.OnBudget, FirstSearch: a.FirstAction == "search_question",
		TurnTokens: rollout.TurnTokens(a.TurnTokens), MaxResponseTokens: a.MaxResponseTokens,
		MaxObservationTokens: a.MaxObservationTokens, MaxPromptTokens: a.MaxPromptTokens, Tool: a.Tool, Tools: names,
	}
	for _, name := range names {
		description, ok := tools[name]
		if !ok {
			return nil, fmt.Errorf("%s: the agent's tool %q is not among the run's tools", place, name)
		}
		description.Name = name
		out.Descriptions = append(out.Descriptions, description)
	}
	if out.Tool == "" && len(names) > 0 {
		if tags := a.Protocol.Tags; len(names) > 1 && tags != nil && tags.Call != (experiment.TagPair{}) {
			return nil, fmt.Errorf("%s: the agent has %d tools; say which one plain calls go to with tool = …", place, len(names))
		}
		out.Tool = names[0]
	}
	if err := out.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", place, err)
	}
	return out, nil
}

func sampling(s experiment.Sampling) sdk.Sampling {
	return sdk.Sampling{Temperature: s.Temperature, TopP: s.TopP, TopK: s.TopK, Greedy: s.Greedy}
}
