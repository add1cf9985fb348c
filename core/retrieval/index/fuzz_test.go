package index

import (
	"bytes"
	"testing"

	"github.com/forage-rl/forage/core/retrieval/internal/mapped"
	"github.com/forage-rl/forage/core/retrieval/internal/mapped/mappedtest"
)

// FuzzHNSWFile changes a good file: opening must refuse it or give a graph that can be searched.
func FuzzHNSWFile(f *testing.F) {
	points, queries := mixture(60, 5, 4, 5, 1)
	good := image(f, build(f, points, HNSWParams{M: 2, EfConstruction: 4}))
	f.Add(uint32(0), []byte{}, uint16(0), true)
	f.Add(uint32(700), []byte{255, 255, 255, 255}, uint16(0), true)
	f.Add(uint32(20), []byte{64}, uint16(9), false)
	f.Add(uint32(320), []byte(`{"m":2,"ef_construction":4,"metric":"ip","count":99999999,"dimensions":5}`), uint16(0), true)
	f.Fuzz(func(t *testing.T, at uint32, change []byte, cut uint16, sums bool) {
		data := bytes.Clone(good)
		copy(data[int(at)%len(data):], change)
		data = data[:len(data)-min(int(cut), len(data))]
		if sums {
			mappedtest.Resum(data)
		}
		file, err := mapped.Parse(data, hnswKind, hnswVersion)
		if err != nil {
			return
		}
		h, err := loadHNSW(file)
		if err != nil {
			return
		}
		query := make([]float32, h.Dimensions())
		copy(query, queries.Row(0))
		if _, err := h.Search(query, 3, 10, nil); err != nil && h.Dimensions() == 5 {
			t.Fatal(err)
		}
	})
}

// FuzzBM25File does the same for the inverted index.
func FuzzBM25File(f *testing.F) {
	units := zipf(30, 1)
	x, err := BuildBM25(f.Context(), len(units), func(i int) string { return units[i] }, BM25Params{})
	if err != nil {
		f.Fatal(err)
	}
	var buffer mapped.Buffer
	if err := x.Write(&buffer, [32]byte{}); err != nil {
		f.Fatal(err)
	}
	good := buffer.Bytes()
	f.Add(uint32(0), []byte{}, uint16(0), true)
	f.Add(uint32(900), []byte{255, 255, 255, 255}, uint16(0), true)
	f.Fuzz(func(t *testing.T, at uint32, change []byte, cut uint16, sums bool) {
		data := bytes.Clone(good)
		copy(data[int(at)%len(data):], change)
		data = data[:len(data)-min(int(cut), len(data))]
		if sums {
			mappedtest.Resum(data)
		}
		file, err := mapped.Parse(data, bm25Kind, bm25Version)
		if err != nil {
			return
		}
		x, err := loadBM25(file)
		if err != nil {
			return
		}
		x.Search(units[0], 5, nil)
		x.Scores(units[1])
	})
}

// FuzzImportCoder reads anything as a graph of the other library.
func FuzzImportCoder(f *testing.F) {
	points, queries := mixture(20, 3, 3, 5, 1)
	var exported bytes.Buffer
	if err := build(f, points, HNSWParams{M: 2, EfConstruction: 4}).ExportCoder(&exported); err != nil {
		f.Fatal(err)
	}
	f.Add(exported.Bytes())
	f.Add([]byte{2, 32})
	f.Fuzz(func(t *testing.T, data []byte) {
		h, _, err := ImportCoder(bytes.NewReader(data), true)
		if err != nil {
			return
		}
		if got := reachable(h); got != h.Len() {
			t.Fatalf("%d of %d vectors can be reached", got, h.Len())
		}
		if h.Dimensions() == 3 {
			if _, err := h.Search(queries.Row(0), 3, 10, nil); err != nil {
				t.Fatal(err)
			}
		}
	})
}
