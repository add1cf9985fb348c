package run

import (
	"context"
	"fmt"
	"maps"
	"sync"

	"github.com/forage-rl/forage/core/retrieval/corpus"
	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
)

// tools serves the retrieval services, which are the same for all plugins of a run.
type tools struct{ *resources }

// Search implements [sdk.Host].
func (t tools) Search(ctx context.Context, req sdk.SearchRequest) ([][]episode.Hit, error) {
	index, ok := t.indexes[req.Index]
	if !ok {
		return nil, fmt.Errorf("index %q: %w", req.Index, sdk.ErrUnknownHandle)
	}
	if len(req.Queries) > 0 && len(req.Vectors) > 0 {
		return nil, fmt.Errorf("a search takes queries or vectors, not both: %w", sdk.ErrInvalidRequest)
	}
	if len(req.Vectors) > 0 {
		return index.SearchVectors(ctx, req.Vectors, req.K, req.Exclude)
	}
	return index.Search(ctx, req.Queries, req.K, req.Exclude)
}

// Documents implements [sdk.Host].
func (t tools) Documents(_ context.Context, handle string, ids []string) ([]episode.Hit, error) {
	c, ok := t.corpora[handle]
	if !ok {
		return nil, fmt.Errorf("corpus %q: %w", handle, sdk.ErrUnknownHandle)
	}
	hits := make([]episode.Hit, len(ids))
	for i, id := range ids {
		unit, ok := findUnit(c, id)
		if !ok {
			return nil, fmt.Errorf("corpus %q has no unit %q: %w", handle, id, sdk.ErrInvalidRequest)
		}
		hits[i] = episode.Hit{
			DocumentID: unit.DocumentID, ParagraphID: unit.ParagraphID, SentenceID: unit.SentenceID, Title: unit.Title, Text: unit.Text,
		}
	}
	return hits, nil
}

// findUnit finds the document, paragraph or sentence of an id.
func findUnit(c *corpus.Corpus, id string) (corpus.Unit, bool) {
	for _, level := range []corpus.Level{corpus.DocumentLevel, corpus.ParagraphLevel, corpus.SentenceLevel} {
		units, err := c.Unit(level)
		if err != nil {
			continue // the levels above are those that there are
		}
		if start, end, ok := units.Resolve(id); ok && end == start+1 {
			if unit := units.At(start); unit.ID == id {
				return unit, true
			}
		}
	}
	return corpus.Unit{}, false
}

// Encode implements [sdk.Host].
func (t tools) Encode(ctx context.Context, handle string, texts []string) ([][]float32, error) {
	index, ok := t.indexes[handle]
	if !ok {
		return nil, fmt.Errorf("index %q: %w", handle, sdk.ErrUnknownHandle)
	}
	return index.Encode(ctx, texts)
}

// services is what plugins that sample nothing can ask for.
type services struct{ tools }

func onlyAlgorithms(what string) error {
	return fmt.Errorf("%s is a service for algorithms: %w", what, sdk.ErrNotSupported)
}

func (services) Rollout(context.Context, []sdk.RolloutRequest) ([]sdk.RolloutResponse, error) {
	return nil, onlyAlgorithms("Rollout")
}
func (services) Rerender(context.Context, []sdk.RerenderRequest) ([]episode.Episode, error) {
	return nil, onlyAlgorithms("Rerender")
}
func (services) LogProbs(context.Context, sdk.LogProbsRequest) ([]sdk.SequenceValues, error) {
	return nil, onlyAlgorithms("LogProbs")
}
func (services) Values(context.Context, []string) ([]sdk.SequenceValues, error) {
	return nil, onlyAlgorithms("Values")
}
func (services) Questions(context.Context, int) ([]episode.Question, error) {
	return nil, onlyAlgorithms("Questions")
}
func (services) Metrics(context.Context, map[string]float64) error { return onlyAlgorithms("Metrics") }

// algorithmHost is what the algorithm of a stage can ask for: the services of the step that is running.
type algorithmHost struct {
	tools
	mu      sync.Mutex // held during a call
	current *step
}

// enter says which step is running, nil for none. It waits for a call that is under way: nothing else uses a step or its
// policies at the same time, whatever the plugin does.
func (h *algorithmHost) enter(st *step) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.current = st
}

// during makes one call of the step that is running.
func during[T any](h *algorithmHost, call func(*step) (T, error)) (T, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.current == nil {
		var none T
		return none, fmt.Errorf("this service exists only within a training step: %w", sdk.ErrInvalidRequest)
	}
	return call(h.current)
}

func (h *algorithmHost) Rollout(ctx context.Context, requests []sdk.RolloutRequest) ([]sdk.RolloutResponse, error) {
	return during(h, func(st *step) ([]sdk.RolloutResponse, error) { return st.Rollout(ctx, requests) })
}

func (h *algorithmHost) Rerender(_ context.Context, requests []sdk.RerenderRequest) ([]episode.Episode, error) {
	return during(h, func(st *step) ([]episode.Episode, error) { return st.Rerender(requests) })
}

func (h *algorithmHost) LogProbs(ctx context.Context, req sdk.LogProbsRequest) ([]sdk.SequenceValues, error) {
	return during(h, func(st *step) ([]sdk.SequenceValues, error) { return st.LogProbs(ctx, req) })
}

func (h *algorithmHost) Values(ctx context.Context, ids []string) ([]sdk.SequenceValues, error) {
	return during(h, func(st *step) ([]sdk.SequenceValues, error) { return st.Values(ctx, ids) })
}

func (h *algorithmHost) Questions(_ context.Context, n int) ([]episode.Question, error) {
	return during(h, func(st *step) ([]episode.Question, error) { return st.Questions(n) })
}

func (h *algorithmHost) Metrics(_ context.Context, values map[string]float64) error {
	_, err := during(h, func(st *step) (struct{}, error) {
		maps.Copy(st.metrics, values)
		return struct{}{}, nil
	})
	return err
}

var (
	_ sdk.Host = services{}
	_ sdk.Host = (*algorithmHost)(nil)
)
