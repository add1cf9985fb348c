package encoder

import (
	"context"
	"iter"
)

// Passage is a text to be found, with its title where it has one.
type Passage struct{ Title, Text string }

// Encoder makes vectors of float32 whose inner product says how well a query and a passage agree. Implementations may be
// used by many goroutines.
type Encoder interface {
	// Name is what a user calls it, for messages.
	Name() string
	// Dimensions is the length of every vector.
	Dimensions() int
	// Digest identifies everything that decides the vectors, but what [Fitter] takes from a corpus.
	Digest() string
	// EncodeQueries gives one vector a query. A vector of zeros means that nothing of the query can be searched for.
	EncodeQueries(ctx context.Context, queries []string) ([][]float32, error)
	// EncodePassages gives one vector a passage. A vector of zeros means that it cannot be found.
	EncodePassages(ctx context.Context, passages []Passage) ([][]float32, error)
}

// Fitter is an Encoder that needs statistics of the corpus it serves. It cannot encode before it is fitted.
type Fitter interface {
	Encoder
	// Fit gives an encoder with the statistics of the passages.
	Fit(ctx context.Context, passages iter.Seq[Passage]) (Fitted, error)
	// Restore gives the encoder whose State was kept.
	Restore(state []byte) (Fitted, error)
}

// Fitted is an Encoder with statistics.
type Fitted interface {
	Encoder
	// State is all that Fit found out, as bytes that are equal for equal statistics.
	State() []byte
}
