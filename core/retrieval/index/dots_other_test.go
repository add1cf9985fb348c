//go:build !(goexperiment.simd && amd64)

package index

func allDots() map[string]dotsFunc { return map[string]dotsFunc{"generic": dotsGeneric} }
