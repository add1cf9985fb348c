//go:build goexperiment.simd && amd64

package index

import "simd/archsimd"

// allDots gives every way to multiply that this processor can go.
func allDots() map[string]dotsFunc {
	ways := map[string]dotsFunc{"generic": dotsGeneric}
	if archsimd.X86.AVX2() && archsimd.X86.FMA() {
		ways["AVX2"] = dotsAVX2
	}
	if archsimd.X86.AVX512() {
		ways["AVX-512"] = dotsAVX512
	}
	return ways
}
