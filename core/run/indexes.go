package run

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/forage-rl/forage/core/experiment"
)

// BuiltIndex describes an index artefact.
type BuiltIndex struct {
	Handle     string        `json:"handle"`
	Kind       string        `json:"kind"`
	Unit       string        `json:"unit"`
	Units      int           `json:"units"`
	Dimensions int           `json:"dimensions,omitempty"` // of its vectors
	Corpus     string        `json:"corpus"`               // digest
	Documents  int           `json:"documents"`
	Digest     string        `json:"digest"`
	Bytes      int64         `json:"bytes"` // of the artefact on the disk
	File       string        `json:"file"`  // "" where it is held in memory only
	Took       time.Duration `json:"took"`  // to build or open it
}

// ExportHNSW writes the graph of an index of a configuration to w in the format of github.com/coder/hnsw, with the
// numbers of its units, from 0, as keys. The index is built if it is not in the cache.
func ExportHNSW(ctx context.Context, config *experiment.Run, cacheDir, handle string, w io.Writer, progress func(what string, done, total int)) (BuiltIndex, error) {
	if _, ok := config.Indexes[handle]; !ok {
		return BuiltIndex{}, fmt.Errorf("there is no %s in the run; it has %s", handle, strings.Join(sorted(config.Indexes), ", "))
	}
	x, err := newResources(config, cacheDir, progress).index(ctx, handle)
	if err != nil {
		return BuiltIndex{}, err
	}
	graph := x.Graph()
	if graph == nil {
		return BuiltIndex{}, fmt.Errorf("%s is of kind %s, which has no graph to export; give it an hnsw block", handle, x.Kind())
	}
	return BuiltIndex{Handle: handle, Kind: string(x.Kind()), Unit: string(x.Unit()), Units: x.Len(), Dimensions: x.Dimensions()}, graph.ExportCoder(w)
}

// OpenIndexes opens all indexes of a configuration, and builds those that are not in the cache.
func OpenIndexes(ctx context.Context, config *experiment.Run, cacheDir string, progress func(what string, done, total int)) ([]BuiltIndex, error) {
	r := newResources(config, cacheDir, progress)
	var list []BuiltIndex
	for _, handle := range sorted(config.Indexes) {
		began := time.Now()
		x, err := r.index(ctx, handle)
		if err != nil {
			return list, err
		}
		built := BuiltIndex{
			Handle: handle, Kind: string(x.Kind()), Unit: string(x.Unit()), Units: x.Len(), Dimensions: x.Dimensions(),
			Corpus: x.Corpus().Digest(), Documents: x.Corpus().Len(), Digest: x.Digest(), Took: time.Since(began),
		}
		file := filepath.Join(cacheDir, "indexes", fmt.Sprintf("%s-%.32s.forage", x.Kind(), x.Digest()))
		if info, err := os.Stat(file); err == nil {
			built.File, built.Bytes = file, info.Size()
		}
		list = append(list, built)
	}
	return list, nil
}
