package index

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"
)

// benchSize is the number of vectors of the benchmarks: FORAGE_BENCH_VECTORS, by default 100,000.
func benchSize() int {
	if n, err := strconv.Atoi(os.Getenv("FORAGE_BENCH_VECTORS")); err == nil && n > 0 {
		return n
	}
	return 100_000
}

func BenchmarkHNSW(b *testing.B) {
	points, queries := mixture(benchSize(), 128, 32, 1000, 1)
	var h *HNSW
	start := time.Now()
	h, err := BuildHNSW(b.Context(), points, HNSWParams{M: 16, EfConstruction: 100, Seed: 1})
	if err != nil {
		b.Fatal(err)
	}
	b.Logf("build: %.0f vectors/s", float64(points.Rows())/time.Since(start).Seconds())
	for _, ef := range []int{10, 20, 40} {
		b.Run(fmt.Sprintf("ef=%d", ef), func(b *testing.B) {
			b.ReportAllocs()
			var hits []Hit
			for i := 0; b.Loop(); i++ {
				hits, _ = h.AppendSearch(hits[:0], queries.Row(i%queries.Rows()), 10, ef, nil)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "queries/s")
			b.ReportMetric(recall(b, func(q []float32) []Hit { hits, _ := h.Exact(q, 10, nil); return hits },
				func(q []float32) []Hit { hits, _ := h.Search(q, 10, ef, nil); return hits }, queries, 300), "recall@10")
		})
	}
}
