//go:build !(goexperiment.simd && amd64)

package index

func chooseDots() dotsFunc { return dotsGeneric }
