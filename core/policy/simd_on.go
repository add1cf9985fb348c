//go:build goexperiment.simd

package policy

// simdBuilt says that the vector kernels of the Go backend are in this program.
const simdBuilt = true
