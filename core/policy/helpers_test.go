package policy

import (
	"testing"

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
