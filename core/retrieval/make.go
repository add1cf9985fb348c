package retrieval

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/forage-rl/forage/core/retrieval/corpus"
	"github.com/forage-rl/forage/core/retrieval/encoder"
	"github.com/forage-rl/forage/core/retrieval/index"
	"github.com/forage-rl/forage/core/retrieval/internal/mapped"
	"github.com/forage-rl/forage/core/retrieval/internal/store"
	"golang.org/x/sync/errgroup"
)

// maker makes or opens the artefacts of one index.
type maker struct {
	spec     Spec
	units    corpus.Units
	cacheDir string
	progress Progress
}

// text is what is indexed of a unit.
func (m maker) text(i int) encoder.Passage {
	u := m.units.At(i)
	if m.spec.Unit == corpus.SentenceLevel && !m.spec.SentenceTitles {
		u.Title = ""
	}
	return encoder.Passage{Title: u.Title, Text: u.Text}
}

func (m maker) bm25(ctx context.Context) (*Index, error) {
	key, err := m.spec.BM25.Key()
	if err != nil {
		return nil, err
	}
	digest := m.digest(key)
	build := func() (*index.BM25, error) {
		n := m.units.Len()
		return index.BuildBM25(ctx, n, func(i int) string {
			if i%1024 == 0 {
				m.progress("count words", i, n)
			}
			p := m.text(i)
			return p.Title + "\n" + p.Text
		}, *m.spec.BM25)
	}
	found, err := artefact(ctx, m.cacheDir, "bm25-"+hexOf(digest)[:32]+".forage", build,
		func(x *index.BM25, file *os.File) error { return x.Write(file, digest) }, index.OpenBM25)
	if err != nil {
		return nil, err
	}
	if found.Len() != m.units.Len() {
		return nil, fmt.Errorf("the bm25 artefact holds %d units, the corpus %d: remove it from %s", found.Len(), m.units.Len(), m.cacheDir)
	}
	return &Index{kind: BM25, units: m.units, digest: hexOf(digest), bm25: found}, nil
}

func (m maker) hnsw(ctx context.Context) (*Index, error) {
	params := *m.spec.HNSW
	// A unit without words, such as a sentence of stop words, has no vector; it is in the corpus but cannot be found.
	params.AllowZero = true
	if params.Workers == 0 {
		params.Workers = 1
	}
	key, err := params.Key()
	if err != nil {
		return nil, err
	}
	encoderKey := fmt.Sprintf("encoder %s %s", m.spec.Encoder.Name(), m.spec.Encoder.Digest())
	fitted, err := m.fit(ctx, encoderKey)
	if err != nil {
		return nil, err
	}
	digest := m.digest(key + "\n" + encoderKey)
	name := "hnsw-" + hexOf(digest)[:32] + ".forage"
	build := func() (*index.HNSW, error) {
		vectors, err := m.encode(ctx, fitted)
		if err != nil {
			return nil, err
		}
		params.Progress = func(done int) { m.progress("link vectors", done, vectors.Rows()) }
		return index.BuildHNSW(ctx, vectors, params)
	}
	graph, err := artefact(ctx, m.cacheDir, name, build,
		func(h *index.HNSW, file *os.File) error { return h.Write(file, digest) }, index.OpenHNSW)
	if err != nil {
		return nil, err
	}
	if graph.Dimensions() != fitted.Dimensions() {
		return nil, fmt.Errorf("the index artefact %s has %d dimensions, encoder %q gives %d: use the encoder it was made with, or remove it from %s",
			name, graph.Dimensions(), fitted.Name(), fitted.Dimensions(), m.cacheDir)
	}
	if graph.Len() != m.units.Len() {
		return nil, fmt.Errorf("the index artefact %s holds %d vectors, the corpus %d units: remove it from %s", name, graph.Len(), m.units.Len(), m.cacheDir)
	}
	return &Index{kind: HNSW, units: m.units, digest: hexOf(digest), graph: graph, encoder: fitted, efSearch: m.spec.EfSearch}, nil
}

func (m maker) flat(ctx context.Context) (*Index, error) {
	encoderKey := fmt.Sprintf("encoder %s %s", m.spec.Encoder.Name(), m.spec.Encoder.Digest())
	fitted, err := m.fit(ctx, encoderKey)
	if err != nil {
		return nil, err
	}
	digest := m.digest("flat metric=" + string(index.InnerProduct) + "\n" + encoderKey)
	name := "flat-" + hexOf(digest)[:32] + ".forage"
	build := func() (*index.Flat, error) {
		vectors, err := m.encode(ctx, fitted)
		if err != nil {
			return nil, err
		}
		return index.NewFlat(vectors, index.InnerProduct, true)
	}
	vectors, err := artefact(ctx, m.cacheDir, name, build,
		func(f *index.Flat, file *os.File) error { return f.Write(file, digest) }, index.OpenFlat)
	if err != nil {
		return nil, err
	}
	if vectors.Dimensions() != fitted.Dimensions() || vectors.Len() != m.units.Len() {
		return nil, fmt.Errorf("the index artefact %s holds %d vectors of %d dimensions, the corpus has %d units and encoder %q gives %d: remove it from %s",
			name, vectors.Len(), vectors.Dimensions(), m.units.Len(), fitted.Name(), fitted.Dimensions(), m.cacheDir)
	}
	return &Index{kind: Flat, units: m.units, digest: hexOf(digest), flat: vectors, encoder: fitted}, nil
}

const (
	stateKind    = "encoder"
	stateVersion = 1
)

// fit gives the encoder with its statistics, taken from the corpus or from the artefact that an earlier run left.
func (m maker) fit(ctx context.Context, key string) (encoder.Encoder, error) {
	fitter, ok := m.spec.Encoder.(encoder.Fitter)
	if !ok {
		return m.spec.Encoder, nil
	}
	digest := m.digest(key)
	build := func() (encoder.Fitted, error) { return fitter.Fit(ctx, m.passages()) }
	write := func(e encoder.Fitted, file *os.File) error {
		w := mapped.NewWriter(file, stateKind, stateVersion, 1)
		mapped.Put(w, "state", e.State())
		return w.Finish(digest)
	}
	open := func(path string) (encoder.Fitted, error) {
		file, err := mapped.Open(path, stateKind, stateVersion)
		if err != nil {
			return nil, err
		}
		state, err := mapped.Section[uint8](file, "state")
		if err != nil {
			return nil, err
		}
		defer runtime.KeepAlive(file)
		return fitter.Restore(state)
	}
	return artefact(ctx, m.cacheDir, "encoder-"+hexOf(digest)[:32]+".forage", build, write, open)
}

func (m maker) passages() iter.Seq[encoder.Passage] {
	return func(yield func(encoder.Passage) bool) {
		n := m.units.Len()
		for i := range n {
			if i%1024 == 0 {
				m.progress("fit the encoder", i, n)
			}
			if !yield(m.text(i)) {
				return
			}
		}
	}
}

// encode gives the vectors of all units, in batches side by side.
func (m maker) encode(ctx context.Context, e encoder.Encoder) (index.Matrix, error) {
	const batch = 256
	n, dimensions := m.units.Len(), e.Dimensions()
	if dimensions < 1 {
		return index.Matrix{}, fmt.Errorf("encoder %q gives vectors of %d dimensions", e.Name(), dimensions)
	}
	vectors := index.Matrix{Dimensions: dimensions, Data: make([]float32, n*dimensions)}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	var done atomic.Int64
	var report sync.Mutex
	for start := 0; start < n; start += batch {
		group.Go(func() error {
			passages := make([]encoder.Passage, min(batch, n-start))
			for i := range passages {
				passages[i] = m.text(start + i)
			}
			encoded, err := e.EncodePassages(ctx, passages)
			if err != nil {
				return fmt.Errorf("encode the corpus: %w", err)
			}
			if len(encoded) != len(passages) {
				return fmt.Errorf("encoder %q gave %d vectors for %d passages", e.Name(), len(encoded), len(passages))
			}
			for i, v := range encoded {
				if len(v) != dimensions {
					return fmt.Errorf("encoder %q gave a vector of %d dimensions, it declares %d", e.Name(), len(v), dimensions)
				}
				if !finite(v) {
					return fmt.Errorf("encoder %q gave a vector that is not finite for unit %q", e.Name(), m.units.At(start+i).ID)
				}
				copy(vectors.Row(start+i), v)
			}
			finished := int(done.Add(int64(len(passages))))
			report.Lock()
			defer report.Unlock()
			m.progress("encode", finished, n)
			return nil
		})
	}
	return vectors, group.Wait()
}

// artefact opens the file of this name in dir, after having it built where it is absent; without a dir it is only built.
// A file found damaged is built again, once.
func artefact[T any](ctx context.Context, dir, name string, build func() (T, error), write func(T, *os.File) error, open func(string) (T, error)) (T, error) {
	var none T
	if dir == "" {
		return build()
	}
	for attempt := 0; ; attempt++ {
		path, err := store.Ensure(ctx, dir, name, func(file *os.File) error {
			made, err := build()
			if err != nil {
				return err
			}
			return write(made, file)
		})
		if err != nil {
			return none, err
		}
		opened, err := open(path)
		if err == nil {
			return opened, nil
		}
		if attempt > 0 || !errors.Is(err, mapped.ErrFormat) {
			return none, err
		}
		if err := store.Discard(path); err != nil {
			return none, err
		}
	}
}
