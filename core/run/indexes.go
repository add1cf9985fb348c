package run

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
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
