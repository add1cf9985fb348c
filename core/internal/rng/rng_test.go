package rng

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestKeysDiffer(t *testing.T) {
	seen := map[uint64]string{}
	for a := range uint64(40) {
		for b := range uint64(40) {
			v := New(1, a, b).Uint64(0)
			if was, dup := seen[v]; dup {
				t.Fatalf("keys (1,%d,%d) and %s give the same number", a, b, was)
			}
			seen[v] = "an earlier one"
		}
	}
	if New(1, 2) == New(2, 1) || New(1).With(2) != New(1, 2) {
		t.Fatal("order must matter and With must extend New")
	}
	if New(1).WithString("a") == New(1).WithString("b") {
		t.Fatal("strings must matter")
	}
}

func TestUniform(t *testing.T) {
	const n = 100000
	var sum, sumSq, lag float64
	k := New(7, 3)
	for i := range uint64(n) {
		u, v := k.Float64(i), k.With(i).Float64(0)
		sum += u
		sumSq += u * u
		lag += (u - .5) * (v - .5)
	}
	if m := sum / n; math.Abs(m-.5) > .005 {
		t.Errorf("mean %v", m)
	}
	if v := sumSq / n; math.Abs(v-1./3) > .005 {
		t.Errorf("second moment %v", v)
	}
	if c := lag / n * 12; math.Abs(c) > .02 {
		t.Errorf("neighbouring streams correlate: %v", c)
	}
	if rand.New(k.Source()).Uint64() != k.Uint64(0) {
		t.Error("Source must give the stream of the key")
	}
}
