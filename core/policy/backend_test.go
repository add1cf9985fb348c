package policy

import (
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestDescribe(t *testing.T) {
	b := testBackend(t)
	d := b.Describe()
	if !strings.HasPrefix(d.Backend, "go:num_executors=") || !d.Fused || d.Cores != runtime.GOMAXPROCS(0) {
		t.Errorf("description %+v", d)
	}
	if (len(d.Warnings) > 0) != (Warning() != "") || simdBuilt && Warning() != "" {
		t.Errorf("warnings %q, Warning() %q", d.Warnings, Warning())
	}
}

func TestOpenBackendErrors(t *testing.T) {
	for spec, want := range map[string]string{"cuda": "unknown name", "go:no_such_option": "no_such_option", "xla": ""} {
		b, err := OpenBackend(spec)
		if err == nil {
			t.Errorf("%s opens as %s", spec, b.Name())
			continue
		}
		if !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), spec) {
			t.Errorf("%s: %v", spec, err)
		}
	}
	if _, err := OpenBackend("xla:/nowhere/plugin.so"); err == nil || !xlaBuilt && !errors.Is(err, ErrNotSupported) {
		t.Errorf("an absent plugin gives %v", err)
	}
}

// A program built with GOEXPERIMENT=simd must run the vector kernels: a product of matrices, several times as fast as
// the plain loops of Go that it would fall back to, in the same process.
func TestVectorUnitInUse(t *testing.T) {
	if !simdBuilt || !hasVectorUnit() {
		t.Skip("built without GOEXPERIMENT=simd, or no AVX2")
	}
	const n = 256
	a := make([]float32, n*n)
	for i := range a {
		a[i] = float32(i%7) - 3
	}
	kernel := matrixProduct(t, n, a)
	var ours []float32
	loop := func() { ours = plainProduct(n, a) }
	best := func(f func()) time.Duration {
		var times []time.Duration
		for range 7 {
			start := time.Now()
			f()
			times = append(times, time.Since(start))
		}
		return slices.Min(times)
	}
	var theirs []float32
	fast, slow := best(func() { theirs = kernel() }), best(loop)
	if !slices.Equal(ours, theirs) {
		t.Error("the products differ") // small integers: exact in float32
	}
	if slow < 2*fast {
		t.Errorf("the kernel takes %v, plain Go %v: are the vector kernels compiled in?", fast, slow)
	}
}

func plainProduct(n int, a []float32) []float32 {
	out := make([]float32, n*n)
	for i := range n {
		row := out[i*n : (i+1)*n]
		for k := range n {
			x := a[i*n+k]
			for j, y := range a[k*n : (k+1)*n] {
				row[j] += x * y
			}
		}
	}
	return out
}
