package minihop

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/forage-rl/forage/core/retrieval/corpus"
	"github.com/forage-rl/forage/core/retrieval/encoder"
)

// Hits is how many documents the environment returns for a query by default.
const Hits = 2

// Corpus gives the world's documents as a corpus: one paragraph each, whose sentences are the facts.
func (w *World) Corpus() (*corpus.Corpus, error) {
	var docs []corpus.Document
	for _, d := range w.Documents() {
		docs = append(docs, corpus.Document{
			ID: d.ID, Title: d.Title, Paragraphs: []corpus.Paragraph{{Text: d.Text, Sentences: d.Sentences}},
		})
	}
	c, err := corpus.FromDocuments(docs)
	if err != nil {
		return nil, fmt.Errorf("minihop: corpus of world %d: %w", w.seed, err)
	}
	return c, nil
}

// Encoder is the world's own kind of hashed encoder, not yet fitted; 0 dimensions means 128.
func Encoder(dimensions int) (*encoder.Hashed, error) {
	return encoder.NewHashed(encoder.HashedOptions{Dimensions: dimensions, Stop: StopWords(), Words: encoder.BlankWords})
}

// HashedSearch is the exact retriever over the hashed encoder: all documents ranked by inner product. It serves the
// observations of scripted episodes, which are made for thousands of worlds that no index is built for.
// Zero dimensions means 128, zero hits means 2.
func (w *World) HashedSearch(dimensions, hits int) (Search, error) {
	hits = cmp.Or(hits, Hits)
	docs := w.Documents()
	if hits < 1 || hits > len(docs) {
		return nil, fmt.Errorf("minihop: %d documents per search, want 1 to %d", hits, len(docs))
	}
	passages := make([]encoder.Passage, len(docs))
	for i, d := range docs {
		passages[i] = encoder.Passage{Title: d.Title, Text: d.Text}
	}
	rank, err := rankHashed(dimensions, passages)
	if err != nil {
		return nil, err
	}
	return func(query string) ([]Doc, error) {
		order, err := rank(query)
		if err != nil {
			return nil, err
		}
		best := make([]Doc, hits)
		for i := range best {
			best[i] = docs[order[i]]
		}
		return best, nil
	}, nil
}

// rankHashed fits the world's encoder to passages and gives what orders them by inner product with a query, best first,
// ties as they come.
func rankHashed(dimensions int, passages []encoder.Passage) (func(query string) ([]int, error), error) {
	enc, err := Encoder(dimensions)
	if err != nil {
		return nil, err
	}
	ctx := context.Background() // nothing below waits
	fitted, err := enc.Fit(ctx, slices.Values(passages))
	if err != nil {
		return nil, err
	}
	vectors, err := fitted.EncodePassages(ctx, passages)
	if err != nil {
		return nil, err
	}
	return func(query string) ([]int, error) {
		q, err := fitted.EncodeQueries(ctx, []string{query})
		if err != nil {
			return nil, err
		}
		scores := make([]float32, len(vectors))
		order := make([]int, len(vectors))
		for i, v := range vectors {
			order[i] = i
			for j, x := range v {
				scores[i] += x * q[0][j]
			}
		}
		slices.SortFunc(order, func(a, b int) int {
			return cmp.Or(cmp.Compare(scores[b], scores[a]), cmp.Compare(a, b))
		})
		return order, nil
	}, nil
}
