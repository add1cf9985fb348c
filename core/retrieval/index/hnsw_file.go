package index

import (
	"encoding/json"
	"fmt"
	"math"
	"runtime"

	"github.com/forage-rl/forage/core/retrieval/internal/mapped"
)

const (
	hnswKind    = "hnsw"
	hnswVersion = 1
)

// hnswHead is the part of the file that is not an array.
type hnswHead struct {
	HNSWParams
	Count      int    `json:"count"`
	Dimensions int    `json:"dimensions"`
	Entry      uint32 `json:"entry"`
}

// Write writes the graph with its vectors as a file; digest is kept in its header.
func (h *HNSW) Write(target mapped.Target, digest [32]byte) error {
	defer runtime.KeepAlive(h.vectorSet)
	head, err := json.Marshal(hnswHead{h.params, h.count, h.dimensions, h.entry})
	if err != nil {
		return err
	}
	w := mapped.NewWriter(target, hnswKind, hnswVersion, 5)
	mapped.Put(w, "head", head)
	mapped.Put(w, "vectors", h.data)
	mapped.Put(w, "levels", h.levels)
	mapped.Put(w, "base", h.base)
	mapped.Put(w, "upper", h.upper)
	return w.Finish(digest)
}

// OpenHNSW maps a graph that Write wrote. A file that is damaged, or made to do damage, is refused with an error.
func OpenHNSW(path string) (*HNSW, error) {
	file, err := mapped.Open(path, hnswKind, hnswVersion)
	if err != nil {
		return nil, err
	}
	h, err := loadHNSW(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return h, nil
}

// loadHNSW checks all that a search relies on: every link leads to a vector that stands in the link's layer.
func loadHNSW(file *mapped.File) (*HNSW, error) {
	text, err := mapped.Section[uint8](file, "head")
	if err != nil {
		return nil, err
	}
	var head hnswHead
	if err := json.Unmarshal(text, &head); err != nil {
		return nil, fmt.Errorf("%w: parameters: %w", mapped.ErrFormat, err)
	}
	params, err := head.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", mapped.ErrFormat, err)
	}
	h := &HNSW{
		vectorSet: &vectorSet{file: file, metric: params.Metric, count: head.Count, dimensions: head.Dimensions, dots: chooseDots()},
		params:    params, digest: file.Digest(), entry: head.Entry,
	}
	if err := h.check(); err != nil {
		return nil, fmt.Errorf("%w: %w", mapped.ErrFormat, err)
	}
	if h.data, err = mapped.Section[float32](file, "vectors"); err != nil {
		return nil, err
	}
	if h.levels, err = mapped.Section[uint8](file, "levels"); err != nil {
		return nil, err
	}
	if h.base, err = mapped.Section[uint32](file, "base"); err != nil {
		return nil, err
	}
	if h.upper, err = mapped.Section[uint32](file, "upper"); err != nil {
		return nil, err
	}
	if len(h.levels) != h.count || len(h.data) != h.count*h.stride || len(h.base) != h.count*(1+2*params.M) {
		return nil, fmt.Errorf("%w: sections of differing length", mapped.ErrFormat)
	}
	if err := h.validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", mapped.ErrFormat, err)
	}
	h.init()
	return h, nil
}

// validate checks the entry, the levels, every link and every number.
func (h *HNSW) validate() error {
	if int64(h.entry) >= int64(h.count) {
		return fmt.Errorf("entry %d of %d vectors", h.entry, h.count)
	}
	blocks := 0
	for i, level := range h.levels {
		if level > maxLevel || level > h.levels[h.entry] {
			return fmt.Errorf("vector %d stands in layer %d, the entry in %d", i, level, h.levels[h.entry])
		}
		blocks += int(level)
	}
	if blocks > math.MaxUint32 || len(h.upper) != blocks*(1+h.params.M) {
		return fmt.Errorf("%d items of upper links, expected %d blocks of %d", len(h.upper), blocks, 1+h.params.M)
	}
	h.place()
	for i, level := range h.levels {
		for l := range int(level) + 1 {
			block := h.block(uint32(i), l)
			if int64(block[0]) > int64(len(block)-1) {
				return fmt.Errorf("vector %d has %d links in layer %d", i, block[0], l)
			}
			for _, id := range block[1 : 1+block[0]] {
				if int64(id) >= int64(h.count) || int(h.levels[id]) < l {
					return fmt.Errorf("vector %d is linked to %d in layer %d, which is not there", i, id, l)
				}
			}
		}
	}
	var square [1]float32
	for i := range h.count {
		h.dots(h.row(i), h.data, h.stride, []uint32{uint32(i)}, square[:])
		if !(square[0] <= maxLength*maxLength) {
			return fmt.Errorf("vector %d is not finite or too long", i)
		}
	}
	return nil
}
