package index

import (
	"encoding/json"
	"fmt"

	"github.com/forage-rl/forage/core/retrieval/internal/mapped"
)

const (
	bm25Kind    = "bm25"
	bm25Version = 1
)

// Write writes the index as a file; digest is kept in its header.
func (x *BM25) Write(target mapped.Target, digest [32]byte) error {
	params, err := json.Marshal(x.params)
	if err != nil {
		return err
	}
	w := mapped.NewWriter(target, bm25Kind, bm25Version, 7)
	mapped.Put(w, "params", params)
	mapped.Put(w, "terms", x.terms)
	mapped.Put(w, "term bounds", x.termBounds)
	mapped.Put(w, "postings", x.postings)
	mapped.Put(w, "units", x.units)
	mapped.Put(w, "counts", x.counts)
	mapped.Put(w, "lengths", x.lengths)
	return w.Finish(digest)
}

// OpenBM25 maps an index that Write wrote.
func OpenBM25(path string) (*BM25, error) {
	file, err := mapped.Open(path, bm25Kind, bm25Version)
	if err != nil {
		return nil, err
	}
	x, err := loadBM25(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return x, nil
}

func loadBM25(file *mapped.File) (*BM25, error) {
	text, err := mapped.Section[uint8](file, "params")
	if err != nil {
		return nil, err
	}
	x := &BM25{file: file}
	if err := json.Unmarshal(text, &x.params); err != nil {
		return nil, fmt.Errorf("%w: parameters: %w", mapped.ErrFormat, err)
	}
	if x.params.B == 0 {
		x.params.NoLength = true
	}
	if x.params, err = x.params.withDefaults(); err != nil {
		return nil, fmt.Errorf("%w: %w", mapped.ErrFormat, err)
	}
	x.stop = set(x.params.Stop)
	if x.terms, err = mapped.Section[uint8](file, "terms"); err != nil {
		return nil, err
	}
	if x.units, err = mapped.Section[uint32](file, "units"); err != nil {
		return nil, err
	}
	if x.counts, err = mapped.Section[uint32](file, "counts"); err != nil {
		return nil, err
	}
	if x.lengths, err = mapped.Section[uint32](file, "lengths"); err != nil {
		return nil, err
	}
	bounds, err := mapped.Section[uint64](file, "term bounds")
	if err != nil {
		return nil, err
	}
	count := len(bounds) - 1
	if count < 0 || len(x.lengths) == 0 || len(x.counts) != len(x.units) {
		return nil, fmt.Errorf("%w: sections of differing length", mapped.ErrFormat)
	}
	if x.termBounds, err = mapped.Offsets(file, "term bounds", count, uint64(len(x.terms))); err != nil {
		return nil, err
	}
	if x.postings, err = mapped.Offsets(file, "postings", count, uint64(len(x.units))); err != nil {
		return nil, err
	}
	return x, x.derive()
}
