package policy

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
)

// move makes the caches fit an arrangement: slot i holds the first keep[i] tokens of the old slot source[i].
func (s *Session) move(slots []slotState, source, keep []int32, length, size int) error {
	old, oldLength, oldSize := s.slots, s.length, s.size
	s.slots, s.length, s.size = slots, length, size
	same := s.cache != nil && len(slots) == len(old) && length == oldLength && size == oldSize
	stay, still := same, same
	for i := 0; stay && i < len(slots); i++ {
		stay = keep[i] == 0 || int(source[i]) == i
		still = still && stay && int(keep[i]) == len(old[i].tokens)
	}
	switch {
	case still:
		return nil
	case stay && s.p.backend.hostMemory:
		for b, block := range s.cache {
			for _, t := range block {
				if err := onHost(t, func(flat hostArray) {
					for at := range size {
						i := b*size + at
						flat.clear(at, int(keep[i]), len(old[i].tokens))
					}
				}); err != nil {
					return err
				}
			}
		}
		return nil
	case s.cache == nil || !slices.ContainsFunc(keep, func(n int32) bool { return n > 0 }):
		return s.emptyCache()
	case !s.p.backend.hostMemory:
		return s.moveInGraph(len(old), oldLength, source, keep)
	}
	// One tensor after the other, so that the old caches and the new ones need not have room together.
	moved := make([][]*tensors.Tensor, len(slots)/size)
	for k := range s.p.model.caches() {
		for b := range moved {
			t, err := s.newCache()
			if err != nil {
				return err
			}
			moved[b] = append(moved[b], t)
			for at := range size {
				i := b*size + at
				if keep[i] == 0 {
					continue
				}
				was := s.cache[int(source[i])/oldSize][k]
				if err := copyTokens(t, at, was, int(source[i])%oldSize, int(keep[i])); err != nil {
					return err
				}
			}
		}
		for _, block := range s.cache {
			if err := finalize(block[k]); err != nil {
				return err
			}
		}
	}
	s.cache = moved
	return nil
}

// copyTokens copies what one slot of a cache tensor holds of its first tokens to a slot of another.
func copyTokens(to *tensors.Tensor, slot int, from *tensors.Tensor, source, tokens int) error {
	var inner error
	err := onHost(from, func(old hostArray) {
		inner = onHost(to, func(flat hostArray) { flat.copy(slot, old, source, tokens) })
	})
	return errors.Join(err, inner)
}

// emptyCache replaces the caches by new ones that hold nothing.
func (s *Session) emptyCache() error {
	old := s.cache
	s.cache = nil
	for _, block := range old {
		if err := finalize(block...); err != nil {
			return err
		}
	}
	for range len(s.slots) / s.size {
		var block []*tensors.Tensor
		for range s.p.model.caches() {
			t, err := s.newCache()
			if err != nil {
				return err
			}
			block = append(block, t)
		}
		s.cache = append(s.cache, block)
	}
	return nil
}

// newCache makes one empty tensor of the caches of a block.
func (s *Session) newCache() (*tensors.Tensor, error) {
	shape := s.p.model.cacheShape(s.size, s.length)
	t, err := tensors.FromShapeForBackend(s.p.backend.engine, 0, shape)
	if err != nil {
		return nil, fmt.Errorf("make a cache of %s: %w", shape, err)
	}
	return t, nil
}

// moveInGraph is for backends whose memory the host cannot reach, where all slots are one block.
func (s *Session) moveInGraph(oldSlots, oldLength int, source, keep []int32) error {
	m, n := s.p.model, len(s.slots)
	key := programKey{kind: "regroup", sizes: [6]int{oldSlots, oldLength, n, s.length}}
	g, err := s.p.programs.get(s.p.backend, key, func(g *graph.Graph) []*graph.Node {
		return m.regroup(g, oldSlots, oldLength, n, s.length)
	})
	if err != nil {
		return err
	}
	args := s.p.backend.arguments(g.NumParameters())
	host(args, source, n)
	host(args, keep, n)
	was := s.cache[0]
	if s.cache[0], err = args.keep(was...).run(g); err != nil {
		return err
	}
	return finalize(was...)
}

// hostArray is the memory of a cache tensor [slots, heads, length+1, width].
type hostArray interface {
	clear(slot, from, to int)
	copy(slot int, source hostArray, from, tokens int)
	// take gives a copy of the first tokens of a slot, as [heads, tokens, headDim]; put writes the first tokens of such
	// a copy of held ones.
	take(slot, tokens int) any
	put(slot int, taken any, held, tokens int)
}

type hostCache[T float32 | float64] struct {
	flat                    []T
	heads, positions, width int
}

// onHost gives f the memory of a cache tensor.
func onHost(t *tensors.Tensor, f func(hostArray)) error {
	dims := t.Shape().Dimensions
	return t.MutableFlatData(func(flat any) {
		switch flat := flat.(type) {
		case []float32:
			f(hostCache[float32]{flat, dims[1], dims[2], dims[3]})
		case []float64:
			f(hostCache[float64]{flat, dims[1], dims[2], dims[3]})
		}
	})
}

// tokens gives the memory of a range of positions of one slot and head.
func (h hostCache[T]) tokens(slot, head, from, to int) []T {
	base := (slot*h.heads + head) * h.positions
	return h.flat[(base+from)*h.width : (base+to)*h.width]
}

func (h hostCache[T]) clear(slot, from, to int) {
	for head := range h.heads {
		clear(h.tokens(slot, head, from, max(from, to)))
	}
}

func (h hostCache[T]) copy(slot int, source hostArray, from, tokens int) {
	other, same := source.(hostCache[T])
	if !same {
		return // caches of one session have one dtype
	}
	for head := range h.heads {
		copy(h.tokens(slot, head, 0, tokens), other.tokens(from, head, 0, tokens))
	}
}

func (h hostCache[T]) take(slot, tokens int) any {
	out := make([]T, 0, h.heads*tokens*h.width)
	for head := range h.heads {
		out = append(out, h.tokens(slot, head, 0, tokens)...)
	}
	return out
}

func (h hostCache[T]) put(slot int, taken any, held, tokens int) {
	from, same := taken.([]T)
	if !same {
		return // caches of one session have one dtype
	}
	for head := range h.heads {
		copy(h.tokens(slot, head, 0, tokens), from[head*held*h.width:])
	}
}
