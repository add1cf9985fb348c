package run

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/forage-rl/forage/core/endpoint"
	"github.com/forage-rl/forage/core/experiment"
	"github.com/forage-rl/forage/core/rollout"
	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
)

// endpointContext is how long a dialogue with a service may get, in pieces, where max_context does not say.
const endpointContext = 32768

// remoteDigest identifies a model behind a service, as far as anything can.
func remoteDigest(e *experiment.Endpoint) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "endpoint\n%s\n%s\n", e.URL, e.Model))
	return hex.EncodeToString(sum[:])
}

// client makes a client of an endpoint. cache may be nil.
func client(e *experiment.Endpoint, cache *endpoint.Cache) (*endpoint.Client, error) {
	return endpoint.New(endpoint.Config{
		URL: e.URL, Model: e.Model, KeyEnv: e.KeyEnv, Concurrency: e.Concurrency, Timeout: time.Duration(e.TimeoutSeconds) * time.Second,
		Retries: e.Retries, Cache: cache,
	})
}

// reach looks whether the services of the run's policies answer, so that one that does not is not found out after hours
// of training.
func (r *runner) reach(ctx context.Context) error {
	for _, handle := range sorted(r.config.PolicyBlocks) {
		p := r.config.PolicyBlocks[handle]
		if p.Endpoint == nil {
			continue
		}
		c, err := client(p.Endpoint, nil)
		if err == nil {
			err = c.Reach(ctx)
			c.Close()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", at(handle, p.Range), err)
		}
	}
	return nil
}

// remote makes the model of a policy behind an endpoint. Its answers are kept in the run's folder, so that a run that
// goes on gets the same ones.
func (ms *models) remote(p *experiment.Policy) (*model, error) {
	r := ms.run
	var cache *endpoint.Cache
	if r.Dir.Dir != "" {
		path := join(r.Dir.Dir, "endpoints", remoteDigest(p.Endpoint)[:16]+".jsonl")
		if r.Fresh {
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, fmt.Errorf("answers of an endpoint: %w", err)
			}
		}
		var err error
		if cache, err = endpoint.OpenCache(path); err != nil {
			return nil, err
		}
	}
	c, err := client(p.Endpoint, cache)
	if err != nil {
		return nil, errors.Join(err, cache.Close())
	}
	table := newPieces()
	context := p.MaxContext
	if context == 0 {
		context = endpointContext
	}
	concurrency := p.Endpoint.Concurrency
	if concurrency == 0 {
		concurrency = endpoint.DefaultConcurrency
	}
	return &model{
		config: p, tokenizer: table, tokens: fmt.Sprintf("endpoint %s %d", remoteDigest(p.Endpoint), p.MaxContext), rows: min(mostRows, 4*concurrency),
		sampler: &remoteSampler{client: c, cache: cache, table: table, context: context, decoded: &r.decoded},
	}, nil
}

// pieces stands in for the tokenizer of a model behind a service, which is not known: it cuts texts into pieces of
// about four bytes, the usual length of a token, so that limits in tokens mean roughly what they say. The numbers of
// pieces mean something only within the process.
type pieces struct {
	texts  []string
	number map[string]int32
}

// Numbers with a meaning of their own.
const (
	pieceEnd    = iota // the model ended its message
	pieceSystem        // a system message begins
	pieceUser          // a user message begins
)

const pieceBytes = 4

var pieceMarks = [...]string{pieceSystem: "<|system|>", pieceUser: "<|user|>"}

func newPieces() *pieces {
	return &pieces{texts: []string{"", pieceMarks[pieceSystem], pieceMarks[pieceUser]}, number: map[string]int32{}}
}

func (t *pieces) id(text string) int32 {
	id, ok := t.number[text]
	if !ok {
		id = int32(len(t.texts))
		text = strings.Clone(text)
		t.texts, t.number[text] = append(t.texts, text), id
	}
	return id
}

// EncodePieces implements [rollout.Tokenizer].
func (t *pieces) EncodePieces(list []rollout.Piece) []int32 {
	var ids []int32
	var text strings.Builder
	flush := func() {
		ids = append(ids, t.cut(text.String(), pieceBytes)...)
		text.Reset()
	}
	for _, p := range list {
		rest := p.Text
		for p.Trusted {
			at, mark := -1, 0
			for m := pieceSystem; m <= pieceUser; m++ {
				if i := strings.Index(rest, pieceMarks[m]); i >= 0 && (at < 0 || i < at) {
					at, mark = i, m
				}
			}
			if at < 0 {
				break
			}
			text.WriteString(rest[:at])
			flush()
			ids = append(ids, int32(mark))
			rest = rest[at+len(pieceMarks[mark]):]
		}
		text.WriteString(rest)
	}
	flush()
	return ids
}

// cut cuts a text into pieces of at least so many bytes, but for the last; characters stay whole.
func (t *pieces) cut(text string, bytes int) []int32 {
	var ids []int32
	start := 0
	for i := range text {
		if i-start >= bytes {
			ids = append(ids, t.id(text[start:i]))
			start = i
		}
	}
	if start < len(text) {
		ids = append(ids, t.id(text[start:]))
	}
	return ids
}

// divide cuts a text into a number of pieces of nearly equal length, or into its characters where there are fewer.
func (t *pieces) divide(text string, count int) []int32 {
	runes := []rune(text)
	count = max(1, min(count, len(runes)))
	var ids []int32
	for i := range count {
		if part := runes[i*len(runes)/count : (i+1)*len(runes)/count]; len(part) > 0 {
			ids = append(ids, t.id(string(part)))
		}
	}
	return ids
}

// Decode implements [rollout.Tokenizer].
func (t *pieces) Decode(ids []int32) string {
	var text strings.Builder
	for _, id := range ids {
		text.WriteString(t.texts[id])
	}
	return text.String()
}

// Decoder implements [rollout.Tokenizer].
func (t *pieces) Decoder() func(int32) string { return func(id int32) string { return t.texts[id] } }

// EOS implements [rollout.Tokenizer].
func (t *pieces) EOS() []int32 { return []int32{pieceEnd} }

// SpecialTokens implements [rollout.Tokenizer].
func (t *pieces) SpecialTokens() []string { return pieceMarks[pieceSystem:] }

// RenderChat implements [rollout.Tokenizer]: a mark before each message.
func (t *pieces) RenderChat(messages []rollout.Message) ([]rollout.Piece, error) {
	var list []rollout.Piece
	for _, m := range messages {
		mark := pieceUser
		if m.Role == "system" {
			mark = pieceSystem
		} else if m.Role != "user" {
			return nil, fmt.Errorf("a prompt for a service has system and user messages, not %q", m.Role)
		}
		list = append(list, rollout.Piece{Text: pieceMarks[mark], Trusted: true})
		list = append(list, m.Content...)
	}
	return list, nil
}

// messages turns a row into a dialogue: the prompt's messages, then what the policy wrote as the assistant's and what
// it read as the user's.
func (t *pieces) messages(row rollout.Row) []endpoint.Message {
	var list []endpoint.Message
	add := func(role, text string) {
		switch n := len(list); {
		case text == "":
		case n > 0 && list[n-1].Role == role:
			list[n-1].Content += text
		default:
			list = append(list, endpoint.Message{Role: role, Content: text})
		}
	}
	end := len(row.Tokens)
	if len(row.Segments) > 0 {
		end = row.Segments[0].Start
	}
	role := "user"
	for at := 0; at < end; {
		switch row.Tokens[at] {
		case pieceSystem:
			role = "system"
		case pieceUser:
			role = "user"
		}
		from := at
		if row.Tokens[at] == pieceSystem || row.Tokens[at] == pieceUser {
			from++
		}
		to := from
		for to < end && row.Tokens[to] != pieceSystem && row.Tokens[to] != pieceUser {
			to++
		}
		add(role, t.Decode(row.Tokens[from:to]))
		at = to
	}
	for _, s := range row.Segments {
		role := "user"
		if s.Kind == episode.Policy {
			role = "assistant"
		}
		add(role, t.Decode(row.Tokens[s.Start:s.End]))
	}
	return list
}

// remoteSampler is a model behind a service as the rollout engine sees it. It has no log-probabilities: they are 0.
type remoteSampler struct {
	client      *endpoint.Client
	cache       *endpoint.Cache
	table       *pieces
	context     int
	decoded     *atomic.Int64
	read, wrote int64 // tokens as the service counts them
}

// Generate implements [rollout.Sampler]: one request for each row.
func (s *remoteSampler) Generate(ctx context.Context, rows []rollout.Row, params sdk.Sampling) ([]rollout.Generated, error) {
	requests := make([]endpoint.Request, len(rows))
	for i, row := range rows {
		seed := int64(row.Key.Uint64(0) >> 33) // 31 bits: what every service takes
		requests[i] = endpoint.Request{
			Messages: s.table.messages(row), MaxTokens: row.MaxNew, Temperature: params.Temperature, TopP: params.TopP, TopK: params.TopK, Seed: &seed,
		}
		if params.Greedy {
			requests[i].Temperature, requests[i].TopP, requests[i].TopK = 0, 0, 0
		}
		for _, end := range row.Ends {
			requests[i].Stop = append(requests[i].Stop, end.Close)
		}
	}
	answers, err := s.client.CompleteAll(ctx, requests)
	if err != nil {
		return nil, err
	}
	generated := make([]rollout.Generated, len(rows))
	for i, a := range answers {
		generated[i] = s.generated(a, rows[i])
		s.read += int64(a.PromptTokens)
		s.wrote += int64(a.CompletionTokens)
		s.decoded.Add(int64(a.PromptTokens + a.CompletionTokens))
	}
	return generated, nil
}

// generated makes tokens of an answer: as many as the service counted, of as much of the text as the turn keeps.
func (s *remoteSampler) generated(a endpoint.Answer, row rollout.Row) rollout.Generated {
	text, ended := endTurn(a, row.Ends)
	var g rollout.Generated
	if text != "" {
		count := (len(text) + pieceBytes - 1) / pieceBytes
		if a.CompletionTokens > 0 {
			count = a.CompletionTokens
			if len(text) < len(a.Text) {
				count = max(1, count*len(text)/len(a.Text))
			}
		}
		g.Tokens = s.table.divide(text, min(count, row.MaxNew))
	}
	g.Length = !ended && a.Finish == "length"
	if !ended && !g.Length || len(g.Tokens) == 0 {
		g.Tokens = append(g.Tokens, pieceEnd)
	}
	g.LogProbs = make([]float32, len(g.Tokens))
	return g
}

// endTurn gives the text of a turn and whether one of the closing texts ended it. Services take the text that stopped
// them away: it is put back where the service names it, or where its opening text stands without it.
func endTurn(a endpoint.Answer, ends []rollout.TagPair) (text string, ended bool) {
	first := -1
	for _, end := range ends {
		if i := strings.Index(a.Text, end.Close); i >= 0 && (first < 0 || i+len(end.Close) < first) {
			first = i + len(end.Close)
		}
	}
	if first >= 0 {
		return a.Text[:first], true
	}
	if a.Finish != "stop" {
		return a.Text, false
	}
	if i := slices.IndexFunc(ends, func(end rollout.TagPair) bool { return end.Close == a.Stopped }); a.Stopped != "" && i >= 0 {
		return a.Text + a.Stopped, true
	}
	open, closing := -1, ""
	for _, end := range ends {
		if i := strings.LastIndex(a.Text, end.Open); end.Open != "" && i > open {
			open, closing = i, end.Close
		}
	}
	return a.Text + closing, open >= 0
}

// MaxContext implements [rollout.Sampler].
func (s *remoteSampler) MaxContext() int { return s.context }

// Release implements [rollout.Sampler]. Nothing is held of any sequence.
func (s *remoteSampler) Release(...int64) {}

// Park implements [rollout.Sampler].
func (s *remoteSampler) Park(int64, int) error { return nil }

// Fork implements [rollout.Sampler].
func (s *remoteSampler) Fork(int64, int64, int) {}

// Forget implements [rollout.Sampler].
func (s *remoteSampler) Forget() error { return nil }

func (s *remoteSampler) computed() (read, wrote int64) { return s.read, s.wrote }

func (s *remoteSampler) Close() error {
	s.client.Close()
	return s.cache.Close()
}
