package rollout

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
)

// runes is a tokenizer with one token per character. Token 0 ends a sequence; specials have negative ids.
type runes struct{}

var specials = []string{"<|im_start|>", "<|im_end|>"}

func (runes) EncodePieces(pieces []Piece) []int32 {
	var ids []int32
	for _, p := range pieces {
		text := p.Text
	next:
		for text != "" {
			if p.Trusted {
				for i, s := range specials {
					if strings.HasPrefix(text, s) {
						ids = append(ids, int32(-1-i))
						text = text[len(s):]
						continue next
					}
				}
			}
			r := []rune(text)[0]
			ids = append(ids, r)
			text = text[len(string(r)):]
		}
	}
	return ids
}

func (t runes) Decode(ids []int32) string {
	decode, text := t.Decoder(), ""
	for _, id := range ids {
		text += decode(id)
	}
	return text
}

func (runes) Decoder() func(int32) string {
	return func(id int32) string {
		switch {
		case id == 0:
			return "<eos>"
		case id < 0:
			return specials[-1-id]
		}
		return string(id)
	}
}

func (runes) EOS() []int32            { return []int32{0} }
func (runes) SpecialTokens() []string { return specials }
func (runes) RenderChat(messages []Message) ([]Piece, error) {
	var pieces []Piece
	for _, m := range messages {
		pieces = append(pieces, Piece{"<|im_start|>" + m.Role + "\n", true})
		pieces = append(pieces, m.Content...)
		pieces = append(pieces, Piece{"<|im_end|>\n", true})
	}
	return append(pieces, Piece{"<|im_start|>assistant\n", true}), nil
}

// script samples given texts, one per turn and row in the order of jobs.
type script struct {
	turns    [][]string
	cut      func(string) string // of a turn's text; nil obeys Row.Stop
	number   map[int64]int       // job of each row
	at       []int
	contexts []map[int64]string
	context  int
}

func (s *script) Generate(_ context.Context, rows []Row, _ sdk.Sampling) ([]Generated, error) {
	if s.number == nil {
		s.number, s.at = map[int64]int{}, make([]int, len(s.turns))
	}
	seen := map[int64]string{}
	var out []Generated
	last := -1
	for _, row := range rows {
		n, known := s.number[row.ID]
		if !known {
			// Rows come in the order of jobs; a prompt that is rendered anew has a row of its own.
			for n = last + 1; n < len(s.turns)-1 && s.at[n] >= len(s.turns[n]); n++ {
			}
			s.number[row.ID] = n
		}
		last = n
		seen[int64(n)] = runes{}.Decode(row.Tokens)
		turns := s.turns[n]
		if s.at[n] >= len(turns) {
			return nil, fmt.Errorf("row %d asks for turn %d of %d", n, s.at[n], len(turns))
		}
		text := turns[s.at[n]]
		s.at[n]++
		if s.cut != nil {
			text = s.cut(text)
		}
		ids := runes{}.EncodePieces([]Piece{{text, true}})
		if s.cut == nil || len(ids) == 0 {
			ids = append(ids, 0)
		}
		var g Generated
		for _, id := range ids {
			g.Tokens = append(g.Tokens, id)
			g.LogProbs = append(g.LogProbs, -0.5)
			if s.cut == nil && row.Stop(g.Tokens) {
				break
			}
			if len(g.Tokens) == row.MaxNew {
				g.Length = true
				break
			}
		}
		out = append(out, g)
	}
	s.contexts = append(s.contexts, seen)
	return out, nil
}

func (s *script) MaxContext() int {
	if s.context > 0 {
		return s.context
	}
	return 1 << 20
}
func (s *script) Release(...int64)       {}
func (s *script) Park(int64, int) error  { return nil }
func (s *script) Fork(int64, int64, int) {}
func (s *script) Forget() error          { return nil }

// reply answers every call with one hit whose text it makes from the query.
type reply func(query string) []episode.Hit

func (r reply) Call(_ context.Context, _ string, calls []sdk.Call) ([]sdk.CallResult, error) {
	var results []sdk.CallResult
	for _, c := range calls {
		results = append(results, sdk.CallResult{Hits: r(c.Arguments["query"].(string))})
	}
	return results, nil
}

// text is a template of one trusted text.
type text string

func (t text) Render(map[string]any) ([]Piece, error) { return []Piece{{string(t), true}}, nil }

// fn is a template made by a function.
type fn func(vars map[string]any) []Piece

func (f fn) Render(vars map[string]any) ([]Piece, error) { return f(vars), nil }

func hitTexts(separator string) fn {
	return func(vars map[string]any) []Piece {
		var pieces []Piece
		for i, h := range vars["hits"].([]any) {
			if i > 0 {
				pieces = append(pieces, Piece{separator, true})
			}
			pieces = append(pieces, Piece{h.(map[string]any)["text"].(string), false})
		}
		return pieces
	}
}

func questionText(vars map[string]any) []Piece {
	return []Piece{{vars["question"].(map[string]any)["text"].(string), false}}
}

func searchR1Tags() *Tags {
	return &Tags{
		Think: TagPair{"<think>", "</think>"}, Call: TagPair{"<search>", "</search>"},
		Observation: TagPair{"\n\n<information>", "</information>\n\n"}, Answer: TagPair{"<answer>", "</answer>"},
		StopAtAnswer: true,
	}
}

func searchR1Agent(maxTurns int) *Agent {
	return &Agent{
		Protocol: searchR1Tags(), User: fn(questionText), Observation: hitTexts("\n"), Invalid: text("<INVALID NOTE>"),
		MaxTurns: maxTurns, OnBudget: OnBudgetClose, TurnTokens: TurnTokens{500, 500, 500}, Tool: "search", Tools: []string{"search"},
	}
}

func davidAgent(maxSearches int) *Agent {
	return &Agent{
		Protocol: &Tags{
			Think: TagPair{"<think>", "</think>"}, Call: TagPair{"<begin_search>", "</end_search>"},
			Observation: TagPair{"\n\n<search_result> ", " </search_result>\n\n\n\n"}, Answer: TagPair{`\boxed{`, "}"},
			CallsInThink: true,
		},
		User: fn(questionText), Observation: fn(func(vars map[string]any) []Piece {
			var pieces []Piece
			for i, h := range vars["hits"].([]any) {
				hit := h.(map[string]any)
				pieces = append(pieces, Piece{fmt.Sprintf("result %d: ", i+1), true},
					Piece{fmt.Sprintf("%q\n%s", hit["title"], hit["text"]), false}, Piece{"\n", true})
			}
			return pieces
		}),
		Limit:       text("\n\n<search_result> Reach the limit of search times. </search_result>\n\n"),
		MaxSearches: maxSearches, OnBudget: OnBudgetLimitText, TurnTokens: TurnTokens{2048, 1024, 2048}, Tool: "search", Tools: []string{"search"},
	}
}

// run carries out one job per script.
func run(e *Engine, agent *Agent, prompts ...string) ([]*Episode, error) {
	var jobs []Job
	for i, p := range prompts {
		jobs = append(jobs, Job{ID: fmt.Sprint("e", i), Question: episode.Question{ID: fmt.Sprint("q", i), Text: p}, Agent: agent})
	}
	return e.Run(context.Background(), jobs)
}

func kinds(ep *Episode) []episode.SegmentKind {
	var list []episode.SegmentKind
	for _, s := range ep.Sequences[0].Segments {
		list = append(list, s.Kind)
	}
	return slices.Clone(list)
}
