package sdktest

import (
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
)

// Host is a scripted host in memory. Everything it gives depends only on what it was asked, in which order, so that
// two hosts of the same script answer alike. Set its fields before use.
type Host struct {
	// Pool is what Questions draws from, around and around. Nil means [Questions].
	Pool []episode.Question
	// Corpus answers Search and Documents, whatever the handle. Nil means [Documents].
	Corpus []episode.Hit
	// Sample makes the n-th episode (over all requests of the same question) for a request. Nil means [Sample].
	Sample func(h *Host, request sdk.RolloutRequest, q episode.Question, n int) episode.Episode

	mu       sync.Mutex
	drawn    int
	draws    map[string]int
	episodes map[string]episode.Episode
	answered map[string]answered // by request id
	metrics  []map[string]float64
}

type answered struct {
	request  sdk.RolloutRequest
	response sdk.RolloutResponse
}

var _ sdk.Host = (*Host)(nil)

func (h *Host) pool() []episode.Question {
	if h.Pool == nil {
		return Questions()
	}
	return h.Pool
}

func (h *Host) corpus() []episode.Hit {
	if h.Corpus == nil {
		return Documents()
	}
	return h.Corpus
}

// Add lets the host know an episode that it did not sample, such as an expert's.
func (h *Host) Add(episodes ...episode.Episode) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.episodes == nil {
		h.episodes = map[string]episode.Episode{}
	}
	for _, e := range episodes {
		h.episodes[e.ID] = e
	}
}

// Reported lists what Metrics was given.
func (h *Host) Reported() []map[string]float64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.metrics)
}

func (h *Host) find(id string) (episode.Episode, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e, ok := h.episodes[id]
	if !ok {
		return e, fmt.Errorf("episode %q: %w", id, sdk.ErrUnknownEpisode)
	}
	return e, nil
}

// Rollout implements [sdk.Host].
func (h *Host) Rollout(ctx context.Context, requests []sdk.RolloutRequest) ([]sdk.RolloutResponse, error) {
	out := make([]sdk.RolloutResponse, len(requests))
	for i, r := range requests {
		if slices.ContainsFunc(requests[:i], func(q sdk.RolloutRequest) bool { return q.RequestID == r.RequestID }) {
			return nil, idTaken(r)
		}
		var err error
		if out[i], err = h.rollout(r); err != nil {
			return nil, fmt.Errorf("request %q: %w", r.RequestID, err)
		}
	}
	return out, ctx.Err()
}

// nextStep forgets the requests of the step before: their ids are free again.
func (h *Host) nextStep() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answered = nil
}

func idTaken(r sdk.RolloutRequest) error {
	return fmt.Errorf("rollout request %q: another request of the step has this id; give each its own: %w", r.RequestID, sdk.ErrInvalidRequest)
}

func (h *Host) rollout(r sdk.RolloutRequest) (sdk.RolloutResponse, error) {
	h.mu.Lock()
	before, repeated := h.answered[r.RequestID]
	h.mu.Unlock()
	done := before.response
	switch {
	case r.RequestID == "":
		return done, fmt.Errorf("it has no request id: %w", sdk.ErrInvalidRequest)
	case repeated && !reflect.DeepEqual(before.request, r):
		return done, idTaken(r)
	case repeated:
		return done, nil
	}
	if r.N <= 0 {
		return done, fmt.Errorf("n is %d: %w", r.N, sdk.ErrInvalidRequest)
	}
	id := r.QuestionID
	if r.From != nil {
		parent, err := h.find(r.From.EpisodeID)
		if err != nil {
			return done, err
		}
		if r.From.AfterTurn < -1 || r.From.AfterTurn >= len(parent.Turns) {
			return done, fmt.Errorf("branch after turn %d of %d: %w", r.From.AfterTurn, len(parent.Turns), sdk.ErrInvalidRequest)
		}
		id = parent.QuestionID
	}
	i := slices.IndexFunc(h.pool(), func(q episode.Question) bool { return q.ID == id })
	if i < 0 {
		return done, fmt.Errorf("unknown question %q: %w", id, sdk.ErrInvalidRequest)
	}
	q := h.pool()[i]
	sample := h.Sample
	if sample == nil {
		sample = Sample
	}
	done = sdk.RolloutResponse{RequestID: r.RequestID}
	for range r.N {
		h.mu.Lock()
		if h.draws == nil {
			h.draws = map[string]int{}
		}
		n := h.draws[id]
		h.draws[id]++
		h.mu.Unlock()
		e := sample(h, r, q, n)
		h.Add(e)
		done.Episodes = append(done.Episodes, e)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.answered == nil {
		h.answered = map[string]answered{}
	}
	h.answered[r.RequestID] = answered{r, done}
	return done, nil
}

// Sample is the usual script: episodes of up to three searches in the corpus, right or wrong, invalid or cut off by
// turns, with reward 1 for a right answer. A branch keeps the turns of its parent up to there.
func Sample(h *Host, r sdk.RolloutRequest, q episode.Question, n int) episode.Episode {
	b := NewEpisode(fmt.Sprintf("%s-e%d", q.ID, n), q)
	if r.From != nil {
		branch := *r.From
		b.e.Parent = &branch
		parent, err := h.find(r.From.EpisodeID)
		if err == nil {
			for _, t := range parent.Turns[:r.From.AfterTurn+1] {
				b.replay(t)
			}
		}
	}
	turns := 1 + n%3
	if r.MaxNewTurns > 0 {
		turns = min(turns, r.MaxNewTurns)
	}
	if r.Tools == nil || len(r.Tools) > 0 {
		for turn := range turns {
			if n%5 == 4 && turn == 0 {
				b.Invalid("I do not know what to do")
				continue
			}
			query := q.Text
			if len(q.Gold) > 0 {
				query = q.Gold[min(turn, len(q.Gold)-1)].Title
			}
			b.Search("I look for "+query, query, h.lookup(query, 2, nil)...)
		}
	}
	switch {
	case n%4 == 3:
	case n%2 == 0 && len(q.Answers) > 0:
		b.Answer(q.Answers[0]).Reward("outcome", 1)
	default:
		b.Answer("something else").Reward("outcome", 0)
	}
	return b.Episode()
}

// replay adds a turn of another episode.
func (b *Builder) replay(t episode.Turn) {
	switch t.Action {
	case episode.ActionCall:
		b.Search(t.Thought, t.Query(), t.Hits...)
	default:
		b.Invalid(t.Text)
	}
}

// Rerender implements [sdk.Host]: the turn's text under a prompt that names the agent.
func (h *Host) Rerender(ctx context.Context, requests []sdk.RerenderRequest) ([]episode.Episode, error) {
	var out []episode.Episode
	for _, r := range requests {
		e, err := h.find(r.EpisodeID)
		if err != nil {
			return nil, err
		}
		if r.Turn < 0 || r.Turn >= len(e.Turns) {
			return nil, fmt.Errorf("turn %d of %d: %w", r.Turn, len(e.Turns), sdk.ErrInvalidRequest)
		}
		b := NewEpisode(fmt.Sprintf("%s-r%d-%s", e.ID, r.Turn, r.Agent), episode.Question{ID: e.QuestionID, Text: r.Agent})
		b.replay(e.Turns[r.Turn])
		again := b.Origin(episode.OriginRerendered).Episode()
		h.Add(again)
		out = append(out, again)
	}
	return out, ctx.Err()
}

// LogProbs implements [sdk.Host]: numbers between -3 and 0 that differ by episode, token and policy.
func (h *Host) LogProbs(_ context.Context, req sdk.LogProbsRequest) ([]sdk.SequenceValues, error) {
	return h.values(req.EpisodeIDs, fmt.Sprint(req.Policy, req.Reference), func(unit float64) float64 { return -3 * unit })
}

// Values implements [sdk.Host]: numbers between -1 and 1.
func (h *Host) Values(_ context.Context, episodeIDs []string) ([]sdk.SequenceValues, error) {
	return h.values(episodeIDs, "critic", func(unit float64) float64 { return 2*unit - 1 })
}

func (h *Host) values(ids []string, salt string, scale func(unit float64) float64) ([]sdk.SequenceValues, error) {
	var out []sdk.SequenceValues
	for _, id := range ids {
		e, err := h.find(id)
		if err != nil {
			return nil, err
		}
		for n, s := range e.Sequences {
			values := make([]float32, s.ResponseLength())
			for i := range values {
				sum := fnv.New32a()
				fmt.Fprint(sum, id, n, i, salt)
				values[i] = float32(scale(float64(sum.Sum32()) / math.MaxUint32))
			}
			out = append(out, sdk.SequenceValues{EpisodeID: id, Sequence: n, Values: values})
		}
	}
	return out, nil
}

// Questions implements [sdk.Host].
func (h *Host) Questions(_ context.Context, n int) ([]episode.Question, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	pool := h.pool()
	if n < 0 || len(pool) == 0 {
		return nil, fmt.Errorf("%d questions of %d: %w", n, len(pool), sdk.ErrInvalidRequest)
	}
	var out []episode.Question
	for range n {
		out = append(out, pool[h.drawn%len(pool)])
		h.drawn++
	}
	return out, nil
}

// lookup ranks the corpus by the number of query words in title and text.
func (h *Host) lookup(query string, k int, exclude []string) []episode.Hit {
	var hits []episode.Hit
	for _, d := range h.corpus() {
		if slices.Contains(exclude, d.DocumentID) || slices.Contains(exclude, d.ParagraphID) && d.ParagraphID != "" {
			continue
		}
		text := " " + strings.ToLower(d.Title+" "+strings.Trim(d.Text, ".")) + " "
		d.Score = 0
		for word := range strings.FieldsSeq(strings.ToLower(query)) {
			if strings.Contains(text, " "+strings.Trim(word, "?.,")+" ") {
				d.Score++
			}
		}
		if d.Score > 0 {
			hits = append(hits, d)
		}
	}
	slices.SortStableFunc(hits, func(a, b episode.Hit) int { return int(b.Score - a.Score) })
	return hits[:min(k, len(hits))]
}

// dimensions of the vectors of Encode.
const dimensions = 16

func vector(text string) []float32 {
	v := make([]float32, dimensions)
	for word := range strings.FieldsSeq(strings.ToLower(text)) {
		sum := fnv.New32a()
		// A hash takes every write.
		_, _ = sum.Write([]byte(strings.Trim(word, "?.,")))
		v[sum.Sum32()%dimensions]++
	}
	var norm float64
	for _, x := range v {
		norm += float64(x) * float64(x)
	}
	if norm > 0 {
		for i := range v {
			v[i] /= float32(math.Sqrt(norm))
		}
	}
	return v
}

// Search implements [sdk.Host]: queries by their words, vectors by their product with [Host.Encode]'s of the corpus.
func (h *Host) Search(_ context.Context, req sdk.SearchRequest) ([][]episode.Hit, error) {
	if len(req.Queries) > 0 && len(req.Vectors) > 0 || req.K <= 0 {
		return nil, fmt.Errorf("a search takes either queries or vectors, and k above 0: %w", sdk.ErrInvalidRequest)
	}
	if n := len(req.Queries) + len(req.Vectors); len(req.Exclude) > 0 && len(req.Exclude) != n {
		return nil, fmt.Errorf("%d lists of excluded ids for a search of %d: %w", len(req.Exclude), n, sdk.ErrInvalidRequest)
	}
	excluded := func(i int) []string {
		if i < len(req.Exclude) {
			return req.Exclude[i]
		}
		return nil
	}
	var out [][]episode.Hit
	for i, q := range req.Queries {
		out = append(out, h.lookup(q, req.K, excluded(i)))
	}
	for i, v := range req.Vectors {
		if len(v) != dimensions {
			return nil, fmt.Errorf("a vector of %d dimensions, the index has %d: %w", len(v), dimensions, sdk.ErrInvalidRequest)
		}
		var hits []episode.Hit
		for _, d := range h.corpus() {
			if slices.Contains(excluded(i), d.DocumentID) || slices.Contains(excluded(i), d.ParagraphID) {
				continue
			}
			d.Score = 0
			for j, x := range vector(d.Title + " " + d.Text) {
				d.Score += float64(x) * float64(v[j])
			}
			hits = append(hits, d)
		}
		slices.SortStableFunc(hits, func(a, b episode.Hit) int {
			switch {
			case a.Score > b.Score:
				return -1
			case a.Score < b.Score:
				return 1
			}
			return 0
		})
		out = append(out, hits[:min(req.K, len(hits))])
	}
	return out, nil
}

// Documents implements [sdk.Host].
func (h *Host) Documents(_ context.Context, _ string, ids []string) ([]episode.Hit, error) {
	var out []episode.Hit
	for _, id := range ids {
		i := slices.IndexFunc(h.corpus(), func(d episode.Hit) bool { return d.DocumentID == id || d.ParagraphID == id && id != "" })
		if i < 0 {
			return nil, fmt.Errorf("document %q: %w", id, sdk.ErrInvalidRequest)
		}
		out = append(out, h.corpus()[i])
	}
	return out, nil
}

// Encode implements [sdk.Host]: hashed words, of length 1.
func (h *Host) Encode(_ context.Context, _ string, texts []string) ([][]float32, error) {
	var out [][]float32
	for _, t := range texts {
		out = append(out, vector(t))
	}
	return out, nil
}

// Metrics implements [sdk.Host].
func (h *Host) Metrics(_ context.Context, values map[string]float64) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.metrics = append(h.metrics, values)
	return nil
}
