// Package rng gives every random number of a run its own key, so that a number depends on what it is for and never
// on the order of execution, the batch it shares or the number of workers.
package rng

import "math/bits"

// Key names a stream of random numbers. The zero Key is valid; derive others with [New] and [Key.With].
type Key struct{ hi, lo uint64 }

// New makes a key from integers such as (run seed, stage, step).
func New(parts ...uint64) Key { return Key{0x9e3779b97f4a7c15, 0xd1b54a32d192ed03}.With(parts...) }

// With derives a key from k and further parts; the order of parts matters.
func (k Key) With(parts ...uint64) Key {
	for _, p := range parts {
		k.lo = mix(k.lo ^ mix(p+0x9e3779b97f4a7c15))
		k.hi = mix(k.hi + bits.RotateLeft64(k.lo, 23))
		k.lo += k.hi
	}
	return k
}

// WithString derives a key from k and a text.
func (k Key) WithString(s string) Key {
	// FNV-1a: only a fixed spreading of the bytes is wanted, With does the mixing.
	h := uint64(0xcbf29ce484222325)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 0x100000001b3
	}
	return k.With(h, uint64(len(s)))
}

// Uint64 is the i-th number of the stream.
func (k Key) Uint64(i uint64) uint64 {
	return mix(k.hi + mix(k.lo+(i+1)*0x9e3779b97f4a7c15))
}

// Float64 is the i-th number of the stream, uniform in [0, 1).
func (k Key) Float64(i uint64) float64 { return float64(k.Uint64(i)>>11) / (1 << 53) }

// Float32 is the i-th number of the stream, uniform in [0, 1).
func (k Key) Float32(i uint64) float32 { return float32(k.Uint64(i)>>40) / (1 << 24) }

// Source is the stream as a math/rand/v2 source: rand.New(key.Source()).
func (k Key) Source() *Source { return &Source{key: k} }

// Source implements math/rand/v2.Source over a Key.
type Source struct {
	key Key
	n   uint64
}

// Uint64 gives the next number.
func (s *Source) Uint64() uint64 {
	v := s.key.Uint64(s.n)
	s.n++
	return v
}

// mix is the finaliser of SplitMix64 (Steele, Lea, Flood 2014).
func mix(z uint64) uint64 {
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb
	return z ^ (z >> 31)
}
