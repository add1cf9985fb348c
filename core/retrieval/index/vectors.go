package index

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"github.com/forage-rl/forage/core/retrieval/internal/mapped"
)

// Metric says how two vectors are compared. Scores are higher for closer vectors.
type Metric string

// The metrics.
const (
	// InnerProduct scores by the inner product.
	InnerProduct Metric = "ip"
	// Cosine scores by the cosine of the angle; vectors are kept with length 1.
	Cosine Metric = "cosine"
)

// Limits of what an index holds, which also guard against hostile files.
const (
	maxDimensions = 1 << 16
	maxVectors    = 1 << 30
)

// lane is the number of float32 to whose multiple vectors are padded with zeros: 64 bytes, a cache line.
const lane = 16

// Matrix is a list of vectors of one length, end to end.
type Matrix struct {
	Dimensions int
	Data       []float32
}

// Rows is the number of vectors.
func (m Matrix) Rows() int { return len(m.Data) / max(m.Dimensions, 1) }

// Row is vector i.
func (m Matrix) Row(i int) []float32 { return m.Data[i*m.Dimensions:][:m.Dimensions] }

// dotsFunc sets out[i] to the inner product of query and row ids[i] of base. Query has stride items, a multiple of lane.
type dotsFunc func(query, base []float32, stride int, ids []uint32, out []float32)

// dotsGeneric is the way for processors that no faster one is written for.
func dotsGeneric(query, base []float32, stride int, ids []uint32, out []float32) {
	for i, id := range ids {
		v := base[int(id)*stride:][:stride]
		q := query[:stride]
		var a0, a1, a2, a3 float32
		for j := 0; j+4 <= len(v) && j+4 <= len(q); j += 4 {
			a0 += q[j] * v[j]
			a1 += q[j+1] * v[j+1]
			a2 += q[j+2] * v[j+2]
			a3 += q[j+3] * v[j+3]
		}
		out[i] = (a0 + a1) + (a2 + a3)
	}
}

// vectorSet is the vectors of an index, padded to a multiple of lane.
type vectorSet struct {
	file       *mapped.File // keeps mapped data alive; nil when on the heap
	metric     Metric
	count      int
	dimensions int
	stride     int
	data       []float32
	dots       dotsFunc
}

func newVectorSet(m Matrix, metric Metric, allowZero bool) (*vectorSet, error) {
	metric = cmp.Or(metric, InnerProduct)
	s := &vectorSet{metric: metric, count: m.Rows(), dimensions: m.Dimensions, dots: chooseDots()}
	if err := s.check(); err != nil {
		return nil, err
	}
	if len(m.Data) != s.count*s.dimensions {
		return nil, fmt.Errorf("%d numbers are no whole number of vectors of %d dimensions", len(m.Data), s.dimensions)
	}
	s.data = make([]float32, s.count*s.stride)
	for i := range s.count {
		row := s.row(i)
		copy(row, m.Row(i))
		length, err := lengthOf(row)
		if err != nil {
			return nil, fmt.Errorf("vector %d: %w", i, err)
		}
		if length == 0 && !allowZero {
			return nil, fmt.Errorf("vector %d is all zeros: it has no direction and cannot be found", i)
		}
		if metric == Cosine && length > 0 {
			scale(row, length)
		}
	}
	return s, nil
}

// check validates the shape and sets the stride.
func (s *vectorSet) check() error {
	switch {
	case s.metric != InnerProduct && s.metric != Cosine:
		return fmt.Errorf("unknown metric %q, expected %q or %q", s.metric, InnerProduct, Cosine)
	case s.dimensions < 1 || s.dimensions > maxDimensions:
		return fmt.Errorf("%d dimensions, expected 1 to %d", s.dimensions, maxDimensions)
	case s.count < 1 || s.count > maxVectors:
		return fmt.Errorf("%d vectors, expected 1 to %d", s.count, maxVectors)
	}
	s.stride = (s.dimensions + lane - 1) / lane * lane
	return nil
}

// row is vector i with its padding.
func (s *vectorSet) row(i int) []float32 { return s.data[i*s.stride:][:s.stride] }

func (s *vectorSet) isZero(i int) bool {
	for _, x := range s.row(i) {
		if x != 0 {
			return false
		}
	}
	return true
}

// query checks a query and copies it, padded and for cosine scaled, into buffer.
func (s *vectorSet) query(query, buffer []float32) ([]float32, error) {
	if len(query) != s.dimensions {
		return nil, fmt.Errorf("the query has %d dimensions, the index has %d", len(query), s.dimensions)
	}
	if cap(buffer) < s.stride {
		buffer = make([]float32, s.stride)
	}
	buffer = buffer[:s.stride]
	clear(buffer[copy(buffer, query):])
	length, err := lengthOf(buffer)
	if err != nil {
		return nil, fmt.Errorf("query: %w", err)
	}
	if length == 0 {
		return nil, errors.New("the query is all zeros: it has no direction")
	}
	if s.metric == Cosine {
		scale(buffer, length)
	}
	return buffer, nil
}

// exact gives the k best vectors by trying all.
func (s *vectorSet) exact(query []float32, k int, exclude func(unit int) bool) []Hit {
	best := top{k: min(k, s.count), hits: make([]Hit, 0, min(k, s.count))}
	const block = 256
	ids := make([]uint32, 0, block)
	scores := make([]float32, block)
	flush := func() {
		s.dots(query, s.data, s.stride, ids, scores)
		for i, id := range ids {
			if !best.full() || scores[i] > best.worst() {
				best.push(Hit{int(id), scores[i]})
			}
		}
		ids = ids[:0]
	}
	for i := range s.count {
		if exclude != nil && exclude(i) {
			continue
		}
		if ids = append(ids, uint32(i)); len(ids) == block {
			flush()
		}
	}
	flush()
	return best.sorted()
}

// maxLength keeps inner products of float32 from overflowing.
const maxLength = 1e18

// lengthOf gives the Euclidean length and refuses what is not finite or too long to be multiplied.
func lengthOf(v []float32) (float64, error) {
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	// The squares of finite float32 cannot overflow a float64 sum.
	if math.IsNaN(sum) || math.IsInf(sum, 0) {
		return 0, errors.New("a number is NaN or infinite")
	}
	if sum > maxLength*maxLength {
		return 0, fmt.Errorf("its length is %.3g, the limit is %g", math.Sqrt(sum), maxLength)
	}
	return math.Sqrt(sum), nil
}

func scale(v []float32, length float64) {
	for i, x := range v {
		v[i] = float32(float64(x) / length)
	}
}
