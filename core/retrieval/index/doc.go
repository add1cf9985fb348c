// Package index owns the data structures that find units: an inverted index with BM25 for words, a navigable small-world
// graph (HNSW) and an exhaustive scan for vectors, and their files. Units are numbers here; the package must not know
// corpora, encoders or ids.
//
// All indexes are read-only after they are built or opened, may be searched by many goroutines, and order equal scores
// by the lower unit.
package index

// Hit is a unit that was found. Higher scores are better.
type Hit struct {
	Unit  int
	Score float32
}
