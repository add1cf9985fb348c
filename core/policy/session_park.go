package policy

import (
	"slices"
)

// parkedRow is the keys and values of a row that has ended, in memory beside the caches: there it costs no time, and
// forks may still begin with it.
type parkedRow struct {
	tokens []int32
	caches []any // per tensor of the caches: [heads, tokens, headDim]
	bytes  int
}

// mostParked bounds the memory of parked rows, in bytes.
const mostParked = 1 << 30

// Park says that the row will not be continued, but that others may begin with its first length tokens (see
// [Session.Fork]). Rows are parked as long as there is room for them: the oldest go first, and forks of them compute
// what they would have copied. Where the host cannot reach the caches, the row is released: forks copy it until its
// place is taken.
func (s *Session) Park(id int64, length int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	slot, known := s.bySlot[id]
	if known && s.p.backend.hostMemory && s.cache != nil {
		if err := s.park(id, slot, min(length, len(s.slots[slot].tokens))); err != nil {
			return err
		}
	}
	s.release(id)
	return nil
}

func (s *Session) park(id int64, slot, length int) error {
	row := &parkedRow{tokens: slices.Clone(s.slots[slot].tokens[:length])}
	block, at := s.cache[slot/s.size], slot%s.size
	for _, t := range block {
		dims := t.Shape().Dimensions
		row.bytes += dims[1] * length * dims[3] * t.DType().Size()
	}
	if row.bytes > s.mostParked || length == 0 {
		return nil
	}
	for _, t := range block {
		if err := onHost(t, func(flat hostArray) { row.caches = append(row.caches, flat.take(at, length)) }); err != nil {
			return err
		}
	}
	s.unpark(id)
	s.parked[id] = row
	s.parkedOrder = append(s.parkedOrder, id)
	s.parkedBytes += row.bytes
	for s.parkedBytes > s.mostParked {
		s.unpark(s.parkedOrder[0])
	}
	return nil
}

// unpark forgets a parked row, if there is such a row.
func (s *Session) unpark(id int64) {
	row, known := s.parked[id]
	if !known {
		return
	}
	s.parkedBytes -= row.bytes
	delete(s.parked, id)
	s.parkedOrder = slices.DeleteFunc(s.parkedOrder, func(other int64) bool { return other == id })
}

// Forget drops everything that was computed, so that what follows does not depend, not even in its rounding, on what
// came before.
func (s *Session) Forget() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.drop()
}

// Computed counts the tokens that were run through the network other than by being sampled one after the other:
// prompts, observations, and what a row that lost its place had to compute again.
func (s *Session) Computed() int64 { return s.prefilled.Load() }

// source finds a row to copy from, in a slot or parked, and the tokens that it holds. Slot -1 is none.
func (s *Session) source(from int64) (slot int, row *parkedRow, tokens []int32) {
	if slot, known := s.bySlot[from]; known {
		return slot, nil, s.slots[slot].tokens
	}
	if row, known := s.parked[from]; known {
		return -1, row, row.tokens
	}
	return -1, nil, nil
}

// revive writes the first tokens of parked rows into empty slots.
func (s *Session) revive(places map[int]placement) error {
	for slot, p := range places {
		for k, t := range s.cache[slot/s.size] {
			if err := onHost(t, func(flat hostArray) {
				flat.put(slot%s.size, p.parked.caches[k], len(p.parked.tokens), len(p.tokens))
			}); err != nil {
				return err
			}
		}
	}
	return nil
}
