package retrieval

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sort"

	"github.com/forage-rl/forage/core/retrieval/corpus"
	"github.com/forage-rl/forage/core/retrieval/encoder"
	"github.com/forage-rl/forage/core/retrieval/index"
	"golang.org/x/sync/errgroup"
)

// Kind is the structure of an index.
type Kind string

// The kinds.
const (
	BM25 Kind = "bm25"
	HNSW Kind = "hnsw"
	Flat Kind = "flat"
)

// Spec declares an index: exactly one of BM25, HNSW and Flat, the latter two with Encoder.
type Spec struct {
	Corpus *corpus.Corpus
	// Unit is what is found; default paragraphs.
	Unit corpus.Level
	// SentenceTitles indexes a sentence together with its document's title; documents and paragraphs always are.
	SentenceTitles bool

	BM25 *index.BM25Params

	HNSW *index.HNSWParams
	// Flat compares a query with all vectors, by inner product.
	Flat    bool
	Encoder encoder.Encoder
	// EfSearch is the breadth of a search, raised to the number of hits asked for; default 128. It is no part of the
	// artefact.
	EfSearch int
}

// Progress is told what is being made and how far it is. It may be called by several goroutines, one at a time.
type Progress func(stage string, done, total int)

// Hit is a unit that was found. ParagraphID and SentenceID are empty where the unit has none.
type Hit struct {
	// ID is the unit's.
	ID          string
	DocumentID  string
	ParagraphID string
	SentenceID  string
	Title       string
	Text        string
	// Score is higher for better hits; only scores of one index compare.
	Score float32
}

// Index finds units. It may be used by many goroutines.
type Index struct {
	kind     Kind
	units    corpus.Units
	digest   string
	bm25     *index.BM25
	graph    *index.HNSW
	flat     *index.Flat
	encoder  encoder.Encoder
	efSearch int
}

// Kind is the structure of the index.
func (x *Index) Kind() Kind { return x.kind }

// Unit is the level of what it finds.
func (x *Index) Unit() corpus.Level { return x.units.Level() }

// Corpus is what it searches.
func (x *Index) Corpus() *corpus.Corpus { return x.units.Corpus() }

// Len is the number of units.
func (x *Index) Len() int { return x.units.Len() }

// Digest identifies corpus, unit, encoder and parameters: 64 hexadecimal digits.
func (x *Index) Digest() string { return x.digest }

// Dimensions is the length of its vectors, 0 where it has none.
func (x *Index) Dimensions() int {
	switch {
	case x.graph != nil:
		return x.graph.Dimensions()
	case x.flat != nil:
		return x.flat.Dimensions()
	}
	return 0
}

// Encoder is what makes its vectors, nil where it has none.
func (x *Index) Encoder() encoder.Encoder { return x.encoder }

// Graph is the graph of its vectors, for export; nil where it has none.
func (x *Index) Graph() *index.HNSW { return x.graph }

// Search gives for each query the k best hits, best first; fewer where fewer agree at all with the query. Exclude is nil
// or holds, for each query, ids of documents, paragraphs or sentences that must not be found; ids that the corpus does
// not have are passed over. A query of which nothing can be searched for finds nothing.
func (x *Index) Search(ctx context.Context, queries []string, k int, exclude [][]string) ([][]Hit, error) {
	if err := x.checkSearch(len(queries), k, exclude); err != nil {
		return nil, err
	}
	if x.kind == BM25 {
		return x.each(ctx, len(queries), exclude, func(i int, exclude func(int) bool) ([]index.Hit, error) {
			return x.bm25.Search(queries[i], k, exclude), nil
		})
	}
	vectors, err := x.encoder.EncodeQueries(ctx, queries)
	if err != nil {
		return nil, fmt.Errorf("encode the queries: %w", err)
	}
	if len(vectors) != len(queries) {
		return nil, fmt.Errorf("encoder %q gave %d vectors for %d queries", x.encoder.Name(), len(vectors), len(queries))
	}
	return x.each(ctx, len(queries), exclude, func(i int, exclude func(int) bool) ([]index.Hit, error) {
		if !slices.ContainsFunc(vectors[i], func(v float32) bool { return v != 0 }) {
			return nil, nil
		}
		hits, err := x.nearest(vectors[i], k, exclude)
		if err != nil {
			return nil, fmt.Errorf("query %.60q: %w", queries[i], err)
		}
		return hits, nil
	})
}

// SearchVectors is Search with the queries' vectors; vectors that are all zeros or not finite are errors.
func (x *Index) SearchVectors(ctx context.Context, vectors [][]float32, k int, exclude [][]string) ([][]Hit, error) {
	if x.kind == BM25 {
		return nil, fmt.Errorf("a %s index has no vectors: search it with text", x.kind)
	}
	if err := x.checkSearch(len(vectors), k, exclude); err != nil {
		return nil, err
	}
	return x.each(ctx, len(vectors), exclude, func(i int, exclude func(int) bool) ([]index.Hit, error) {
		hits, err := x.nearest(vectors[i], k, exclude)
		if err != nil {
			return nil, fmt.Errorf("vector %d: %w", i, err)
		}
		return hits, nil
	})
}

func (x *Index) nearest(vector []float32, k int, exclude func(int) bool) ([]index.Hit, error) {
	if x.flat != nil {
		return x.flat.Search(vector, k, exclude)
	}
	return x.graph.Search(vector, k, x.efSearch, exclude)
}

func (x *Index) checkSearch(queries, k int, exclude [][]string) error {
	if k < 1 {
		return fmt.Errorf("k = %d, expected at least 1", k)
	}
	if exclude != nil && len(exclude) != queries {
		return fmt.Errorf("%d lists of excluded ids for %d queries", len(exclude), queries)
	}
	return nil
}

// each runs the searches side by side.
func (x *Index) each(ctx context.Context, n int, exclude [][]string, search func(int, func(int) bool) ([]index.Hit, error)) ([][]Hit, error) {
	results := make([][]Hit, n)
	group, ctx := errgroup.WithContext(ctx)
	workers := min(runtime.GOMAXPROCS(0), n)
	for w := range workers {
		group.Go(func() error {
			for i := w; i < n; i += workers {
				if err := ctx.Err(); err != nil {
					return err
				}
				var without func(int) bool
				if exclude != nil {
					without = x.without(exclude[i])
				}
				found, err := search(i, without)
				if err != nil {
					return err
				}
				results[i] = make([]Hit, len(found))
				for j, hit := range found {
					results[i][j] = x.hit(hit)
				}
			}
			return nil
		})
	}
	return results, group.Wait()
}

func (x *Index) hit(h index.Hit) Hit {
	u := x.units.At(h.Unit)
	return Hit{u.ID, u.DocumentID, u.ParagraphID, u.SentenceID, u.Title, u.Text, h.Score}
}

// without gives the test for units that ids stand for.
func (x *Index) without(ids []string) func(int) bool {
	type stretch struct{ start, end int }
	var stretches []stretch
	for _, id := range ids {
		if start, end, ok := x.units.Resolve(id); ok && start < end {
			stretches = append(stretches, stretch{start, end})
		}
	}
	if len(stretches) == 0 {
		return nil
	}
	slices.SortFunc(stretches, func(a, b stretch) int { return cmp.Compare(a.start, b.start) })
	// Merged, so that the last one that begins before a unit is the only one that can hold it.
	merged := stretches[:1]
	for _, s := range stretches[1:] {
		if last := &merged[len(merged)-1]; s.start <= last.end {
			last.end = max(last.end, s.end)
		} else {
			merged = append(merged, s)
		}
	}
	return func(unit int) bool {
		at := sort.Search(len(merged), func(i int) bool { return merged[i].start > unit }) - 1
		return at >= 0 && unit < merged[at].end
	}
}

// OpenIndex gives the index that spec declares. In cacheDir the artefact is made once, by one of the processes that want
// it, and then mapped; with an empty cacheDir it is made in memory. Progress may be nil.
func OpenIndex(ctx context.Context, spec Spec, cacheDir string, progress Progress) (*Index, error) {
	if spec.Corpus == nil {
		return nil, errors.New("an index needs a corpus")
	}
	spec.Unit = cmp.Or(spec.Unit, corpus.ParagraphLevel)
	spec.EfSearch = cmp.Or(spec.EfSearch, 128)
	if progress == nil {
		progress = func(string, int, int) {}
	}
	units, err := spec.Corpus.Unit(spec.Unit)
	if err != nil {
		return nil, err
	}
	if units.Len() == 0 {
		return nil, fmt.Errorf("the corpus has no %s to index", spec.Unit)
	}
	m := maker{spec: spec, units: units, cacheDir: cacheDir, progress: progress}
	kinds := 0
	for _, given := range []bool{spec.BM25 != nil, spec.HNSW != nil, spec.Flat} {
		if given {
			kinds++
		}
	}
	switch {
	case kinds != 1:
		return nil, errors.New("an index needs exactly one of bm25, hnsw and flat")
	case spec.BM25 != nil:
		if spec.Encoder != nil {
			return nil, fmt.Errorf("a bm25 index takes no encoder, %q was given", spec.Encoder.Name())
		}
		return m.bm25(ctx)
	case spec.Encoder == nil:
		return nil, errors.New("an index of vectors (hnsw or flat) needs an encoder")
	case spec.Flat:
		return m.flat(ctx)
	case spec.EfSearch < 1:
		return nil, fmt.Errorf("ef_search = %d, expected at least 1", spec.EfSearch)
	}
	return m.hnsw(ctx)
}

// digest names an artefact by all that decides it.
func (m maker) digest(key string) [32]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%s\ncorpus %s\nunit %s titles %t\n", key, m.spec.Corpus.Digest(), m.spec.Unit, m.spec.SentenceTitles))
}

func hexOf(digest [32]byte) string { return hex.EncodeToString(digest[:]) }

// finite refuses a vector that holds NaN or an infinity.
func finite(v []float32) bool {
	for _, x := range v {
		if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
			return false
		}
	}
	return true
}
