package policy

import (
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"

	"github.com/gomlx/gomlx/core/tensors"
)

func flat64(t testing.TB, x *tensors.Tensor) []float64 {
	t.Helper()
	flat, err := tensors.CopyFlatData[float64](x)
	if err != nil {
		t.Fatal(err)
	}
	return flat
}

// matrixProduct gives a function that multiplies the n×n matrix by itself on the default backend.
func matrixProduct(t testing.TB, n int, a []float32) func() []float32 {
	t.Helper()
	b := testBackend(t)
	g := graph.NewGraph(b.engine, "product")
	x := graph.Parameter(g, "x", shapes.Make(dtypes.Float32, n, n))
	if err := g.Compile(graph.DotProduct(x, x)); err != nil {
		t.Fatal(err)
	}
	return func() []float32 {
		args := b.arguments(1)
		host(args, a, n, n)
		out, err := args.run(g)
		if err != nil {
			t.Fatal(err)
		}
		flat, err := downloadFloats(out[0])
		if err != nil {
			t.Fatal(err)
		}
		return flat
	}
}
