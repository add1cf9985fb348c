package index

import (
	"encoding/json"
	"fmt"
	"runtime"

	"github.com/forage-rl/forage/core/retrieval/internal/mapped"
)

// Flat finds vectors by comparing with all of them: exact, and the measure for [HNSW].
type Flat struct{ set *vectorSet }

// NewFlat copies the vectors. Vectors that are not finite are refused, and those that are all zeros unless allowZero:
// they are kept, but never found.
func NewFlat(vectors Matrix, metric Metric, allowZero bool) (*Flat, error) {
	set, err := newVectorSet(vectors, metric, allowZero)
	if err != nil {
		return nil, err
	}
	return &Flat{set}, nil
}

// Len is the number of vectors, those that cannot be found included.
func (f *Flat) Len() int { return f.set.count }

// Dimensions is the length of the vectors.
func (f *Flat) Dimensions() int { return f.set.dimensions }

// Search gives the k best vectors, best first, without those for which exclude (which may be nil) returns true.
func (f *Flat) Search(query []float32, k int, exclude func(unit int) bool) ([]Hit, error) {
	defer runtime.KeepAlive(f.set)
	q, err := f.set.query(query, nil)
	if err != nil || k <= 0 {
		return nil, err
	}
	return f.set.exact(q, k, func(unit int) bool {
		return exclude != nil && exclude(unit) || f.set.isZero(unit)
	}), nil
}

const (
	flatKind    = "flat"
	flatVersion = 1
)

// flatHead is the part of the file that is not an array.
type flatHead struct {
	Metric     Metric `json:"metric"`
	Count      int    `json:"count"`
	Dimensions int    `json:"dimensions"`
}

// Write writes the vectors as a file; digest is kept in its header.
func (f *Flat) Write(target mapped.Target, digest [32]byte) error {
	defer runtime.KeepAlive(f.set)
	head, err := json.Marshal(flatHead{f.set.metric, f.set.count, f.set.dimensions})
	if err != nil {
		return err
	}
	w := mapped.NewWriter(target, flatKind, flatVersion, 2)
	mapped.Put(w, "head", head)
	mapped.Put(w, "vectors", f.set.data)
	return w.Finish(digest)
}

// OpenFlat maps vectors that Write wrote. A damaged file is refused with an error.
func OpenFlat(path string) (*Flat, error) {
	file, err := mapped.Open(path, flatKind, flatVersion)
	if err != nil {
		return nil, err
	}
	f, err := loadFlat(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

func loadFlat(file *mapped.File) (*Flat, error) {
	text, err := mapped.Section[uint8](file, "head")
	if err != nil {
		return nil, err
	}
	var head flatHead
	if err := json.Unmarshal(text, &head); err != nil {
		return nil, fmt.Errorf("%w: parameters: %w", mapped.ErrFormat, err)
	}
	set := &vectorSet{file: file, metric: head.Metric, count: head.Count, dimensions: head.Dimensions, dots: chooseDots()}
	if err := set.check(); err != nil {
		return nil, fmt.Errorf("%w: %w", mapped.ErrFormat, err)
	}
	if set.data, err = mapped.Section[float32](file, "vectors"); err != nil {
		return nil, err
	}
	if len(set.data) != set.count*set.stride {
		return nil, fmt.Errorf("%w: %d numbers for %d vectors of %d dimensions", mapped.ErrFormat, len(set.data), set.count, set.dimensions)
	}
	for i := range set.count {
		if _, err := lengthOf(set.row(i)); err != nil {
			return nil, fmt.Errorf("%w: vector %d: %w", mapped.ErrFormat, i, err)
		}
	}
	return &Flat{set}, nil
}
