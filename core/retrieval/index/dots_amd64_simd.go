//go:build goexperiment.simd && amd64

package index

import (
	"simd/archsimd"
	"unsafe"
)

// chooseDots gives the fastest way to multiply that this processor has.
func chooseDots() dotsFunc {
	switch {
	case archsimd.X86.AVX512():
		return dotsAVX512
	case archsimd.X86.AVX2() && archsimd.X86.FMA():
		return dotsAVX2
	}
	return dotsGeneric
}

// The loads go through pointers: the caller has checked the bounds once (see vectorSet.multiply).

func dotsAVX512(query, base []float32, stride int, ids []uint32, out []float32) {
	q := unsafe.Pointer(unsafe.SliceData(query))
	b := unsafe.Pointer(unsafe.SliceData(base))
	for i, id := range ids {
		v := unsafe.Add(b, int(id)*stride*4)
		var a0, a1, a2, a3 archsimd.Float32x16
		j := 0
		for ; j+64 <= stride; j += 64 {
			a0 = load16(q, j).MulAdd(load16(v, j), a0)
			a1 = load16(q, j+16).MulAdd(load16(v, j+16), a1)
			a2 = load16(q, j+32).MulAdd(load16(v, j+32), a2)
			a3 = load16(q, j+48).MulAdd(load16(v, j+48), a3)
		}
		for ; j < stride; j += 16 {
			a0 = load16(q, j).MulAdd(load16(v, j), a0)
		}
		sum := a0.Add(a1).Add(a2.Add(a3))
		out[i] = sum8(sum.GetLo().Add(sum.GetHi()))
	}
}

func dotsAVX2(query, base []float32, stride int, ids []uint32, out []float32) {
	q := unsafe.Pointer(unsafe.SliceData(query))
	b := unsafe.Pointer(unsafe.SliceData(base))
	for i, id := range ids {
		v := unsafe.Add(b, int(id)*stride*4)
		var a0, a1, a2, a3 archsimd.Float32x8
		j := 0
		for ; j+32 <= stride; j += 32 {
			a0 = load8(q, j).MulAdd(load8(v, j), a0)
			a1 = load8(q, j+8).MulAdd(load8(v, j+8), a1)
			a2 = load8(q, j+16).MulAdd(load8(v, j+16), a2)
			a3 = load8(q, j+24).MulAdd(load8(v, j+24), a3)
		}
		for ; j < stride; j += 16 {
			a0 = load8(q, j).MulAdd(load8(v, j), a0)
			a1 = load8(q, j+8).MulAdd(load8(v, j+8), a1)
		}
		out[i] = sum8(a0.Add(a1).Add(a2.Add(a3)))
	}
}

func sum8(x archsimd.Float32x8) float32 {
	four := x.GetLo().Add(x.GetHi())
	two := four.ConcatAddPairs(four)
	return two.ConcatAddPairs(two).GetElem(0)
}

func load16(p unsafe.Pointer, i int) archsimd.Float32x16 {
	return archsimd.LoadFloat32x16Array((*[16]float32)(unsafe.Add(p, i*4)))
}

func load8(p unsafe.Pointer, i int) archsimd.Float32x8 {
	return archsimd.LoadFloat32x8Array((*[8]float32)(unsafe.Add(p, i*4)))
}
