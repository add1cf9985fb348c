package index

import (
	"math"
	"math/rand/v2"
	"testing"
)

// mixture makes unit vectors of a Gaussian mixture: centres and points lie in a latent space that is projected at
// random into the given dimensions. Within a cluster points are about a tenth as far apart as between clusters.
func mixture(n, dimensions, latent, centres int, seed uint64) (points, queries Matrix) {
	random := rand.New(rand.NewPCG(seed, 99))
	normal := func(n int, scale float64) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = random.NormFloat64() * scale
		}
		return v
	}
	centre := make([][]float64, centres)
	for i := range centre {
		centre[i] = normal(latent, 1)
	}
	projection := make([][]float64, dimensions)
	for i := range projection {
		projection[i] = normal(latent, 1/math.Sqrt(float64(latent)))
	}
	draw := func(n int) Matrix {
		m := Matrix{Dimensions: dimensions, Data: make([]float32, 0, n*dimensions)}
		for range n {
			c := centre[random.IntN(centres)]
			z := normal(latent, .13)
			row := make([]float64, dimensions)
			length := 0.0
			for i, p := range projection {
				for j := range z {
					row[i] += p[j] * (c[j] + z[j])
				}
				length += row[i] * row[i]
			}
			for _, x := range row {
				m.Data = append(m.Data, float32(x/math.Sqrt(length)))
			}
		}
		return m
	}
	return draw(n), draw(1000)
}

// recall is the mean share of the exact k best that the search finds.
func recall(t testing.TB, exact func(q []float32) []Hit, search func(q []float32) []Hit, queries Matrix, n int) float64 {
	t.Helper()
	found, all := 0, 0
	for i := range n {
		want := map[int]bool{}
		for _, hit := range exact(queries.Row(i)) {
			want[hit.Unit] = true
		}
		all += len(want)
		for _, hit := range search(queries.Row(i)) {
			if want[hit.Unit] {
				found++
			}
		}
	}
	return float64(found) / float64(all)
}
