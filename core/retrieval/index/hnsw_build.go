package index

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/forage-rl/forage/core/internal/rng"
)

// serialStart is how many vectors one worker inserts before others join: early on every vector is every other's
// neighbour, and workers that do not see each other's vectors would lose them.
const serialStart = 2048

// builder inserts vectors into a graph.
type hnswBuilder struct {
	h *HNSW
	// locks guard the links of vectors when several workers build; nil for one worker.
	locks []sync.Mutex
}

// BuildHNSW makes a graph of the vectors, which are copied. Vectors that are not finite are refused, and those of all
// zeros unless AllowZero is set. Every vector of the graph can be reached from its entry in layer 0.
func BuildHNSW(ctx context.Context, vectors Matrix, params HNSWParams) (*HNSW, error) {
	params, err := params.withDefaults()
	if err != nil {
		return nil, err
	}
	set, err := newVectorSet(vectors, params.Metric, params.AllowZero)
	if err != nil {
		return nil, fmt.Errorf("hnsw: %w", err)
	}
	progress := params.Progress
	params.Progress = nil
	h := &HNSW{vectorSet: set, params: params}
	h.drawLevels()
	h.base = make([]uint32, h.count*(1+2*params.M))
	h.upper = make([]uint32, h.place()*(1+params.M))
	if h.isZero(int(h.entry)) {
		return nil, errors.New("hnsw: all vectors are zeros")
	}
	h.init()
	b := &hnswBuilder{h: h}
	if err := b.insertAll(ctx, progress); err != nil {
		return nil, err
	}
	h.repair()
	return h, nil
}

// drawLevels gives each vector its topmost layer, level ≥ l with probability M^-l, and makes the first of the highest
// the entry.
func (h *HNSW) drawLevels() {
	h.levels = make([]uint8, h.count)
	key := rng.New(h.params.Seed).WithString("hnsw levels")
	scale := 1 / math.Log(float64(h.params.M))
	found := false
	for i := range h.count {
		if h.params.AllowZero && h.isZero(i) {
			continue
		}
		u := 1 - key.Float64(uint64(i)) // in (0, 1]
		h.levels[i] = uint8(min(-math.Log(u)*scale, maxLevel))
		if !found || h.levels[i] > h.levels[h.entry] {
			h.entry, found = uint32(i), true
		}
	}
}

func (b *hnswBuilder) insertAll(ctx context.Context, progress func(done int)) error {
	h := b.h
	w := b.newWorker()
	start := h.count
	if h.params.Workers > 1 {
		start = min(start, serialStart)
	}
	// The entry counts as inserted from the start; nothing is linked to it yet.
	for i := range start {
		if i%256 == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
			if progress != nil {
				progress(i)
			}
		}
		w.insert(uint32(i))
	}
	if start == h.count {
		return nil
	}
	b.locks = make([]sync.Mutex, 1<<14)
	var next atomic.Int64
	next.Store(int64(start))
	var group sync.WaitGroup
	var report sync.Mutex
	for range h.params.Workers {
		group.Go(func() {
			w := b.newWorker()
			for ctx.Err() == nil {
				const share = 16
				first := int(next.Add(share)) - share
				if first >= h.count {
					return
				}
				for i := first; i < min(first+share, h.count); i++ {
					w.insert(uint32(i))
				}
				if progress != nil && first%4096 < share {
					report.Lock()
					progress(first)
					report.Unlock()
				}
			}
		})
	}
	group.Wait()
	return ctx.Err()
}

// worker inserts one vector at a time.
type worker struct {
	b *hnswBuilder
	s *searcher
	// chosen are the links found for the vector, layer by layer.
	chosen [][]candidate
	kept   []candidate
	ids    []uint32
	scores []float32
	full   []candidate
}

func (b *hnswBuilder) newWorker() *worker {
	degree := 2*b.h.params.M + 1
	return &worker{
		b: b, s: newSearcher(b.h.vectorSet, degree),
		chosen: make([][]candidate, maxLevel+1),
		ids:    make([]uint32, degree), scores: make([]float32, degree),
	}
}

// insert finds the links of a vector in all its layers and then sets them from the bottom up, so that whoever meets
// the vector in a layer finds its links in the layers below.
func (w *worker) insert(unit uint32) {
	h := w.b.h
	if unit == h.entry || h.params.AllowZero && h.isZero(int(unit)) {
		return
	}
	s := w.s
	copy(s.query, h.row(int(unit)))
	level := int(h.levels[unit])
	s.fresh[0] = h.entry
	h.dots(s.query, h.data, h.stride, s.fresh[:1], s.scores)
	best := candidate{s.scores[0], h.entry}
	for l := int(h.levels[h.entry]); l > level; l-- {
		best = w.climb(best, l)
	}
	for l := level; l >= 0; l-- {
		w.beam(best, h.params.EfConstruction, l)
		best = s.pool[0]
		best.id &= idMask
		w.chosen[l] = append(w.chosen[l][:0], w.choose(s.pool, h.params.M)...)
	}
	for l := range level + 1 {
		links := w.chosen[l]
		w.lock(unit)
		block := h.block(unit, l)
		// Others may have linked to this vector in a lower layer and been linked back already.
		n := block[0]
		for _, c := range links {
			if id := c.id & idMask; !contains(block[1:1+n], id) && int(n) < len(block)-1 {
				n++
				block[n] = id
			}
		}
		block[0] = n
		w.unlock(unit)
		for _, c := range links {
			w.connect(c.id&idMask, candidate{c.score, unit}, l)
		}
	}
}

// climb and beam are HNSW's, but read links under a lock when other workers write them.
func (w *worker) climb(best candidate, level int) candidate {
	h, s := w.b.h, w.s
	if w.b.locks == nil {
		return h.climb(s, best, level)
	}
	for {
		links := w.links(best.id, level)
		h.dots(s.query, h.data, h.stride, links, s.scores)
		better := best
		for i, id := range links {
			if c := (candidate{s.scores[i], id}); ahead(c, better) {
				better = c
			}
		}
		if better.id == best.id {
			return best
		}
		best = better
	}
}

func (w *worker) beam(start candidate, ef, level int) {
	h, s := w.b.h, w.s
	if w.b.locks == nil {
		h.beam(s, start, ef, level, nil)
		return
	}
	s.begin()
	s.visited[start.id] = s.epoch
	s.pool = append(s.pool, start)
	for next := 0; next < len(s.pool); {
		id := s.pool[next].id
		if id&expanded != 0 {
			next++
			continue
		}
		s.pool[next].id |= expanded
		fresh := s.unseen(w.links(id, level))
		h.dots(s.query, h.data, h.stride, fresh, s.scores)
		for i, id := range fresh {
			c := candidate{s.scores[i], id}
			if len(s.pool) == ef {
				if !ahead(c, s.pool[ef-1]) {
					continue
				}
				s.pool = s.pool[:ef-1]
			}
			next = min(next, s.insert(c))
		}
	}
}

// links copies the links of a vector while no one writes them.
func (w *worker) links(unit uint32, level int) []uint32 {
	w.lock(unit)
	w.s.copied = append(w.s.copied[:0], w.b.h.links(unit, level)...)
	w.unlock(unit)
	return w.s.copied
}

// choose takes up to m of the candidates, best first, leaving out each that is closer to one already taken than to the
// vector itself (the paper's algorithm 4): links in many directions keep clustered data connected.
func (w *worker) choose(candidates []candidate, m int) []candidate {
	h := w.b.h
	w.kept = w.kept[:0]
	if len(candidates) <= m {
		return append(w.kept, candidates...)
	}
	for _, c := range candidates {
		if len(w.kept) == m {
			break
		}
		if !w.shadowed(h.row(int(c.id&idMask)), c.score) {
			w.kept = append(w.kept, c)
		}
	}
	return w.kept
}

// shadowed says whether a vector is closer to one of those kept than score.
func (w *worker) shadowed(vector []float32, score float32) bool {
	h := w.b.h
	const batch = 4
	for start := 0; start < len(w.kept); start += batch {
		n := min(batch, len(w.kept)-start)
		for i, k := range w.kept[start : start+n] {
			w.ids[i] = k.id & idMask
		}
		h.dots(vector, h.data, h.stride, w.ids[:n], w.scores)
		for _, s := range w.scores[:n] {
			if s > score {
				return true
			}
		}
	}
	return false
}

// connect adds a link to a vector; where it has no room, its links are chosen anew.
func (w *worker) connect(unit uint32, link candidate, level int) {
	h := w.b.h
	w.lock(unit)
	defer w.unlock(unit)
	block := h.block(unit, level)
	n, room := int(block[0]), len(block)-1
	if contains(block[1:1+n], link.id) {
		return
	}
	if n < room {
		block[n+1] = link.id
		block[0]++
		return
	}
	h.dots(h.row(int(unit)), h.data, h.stride, block[1:], w.scores)
	w.full = append(w.full[:0], link)
	for i, id := range block[1:] {
		w.full = append(w.full, candidate{w.scores[i], id})
	}
	sortCandidates(w.full)
	kept := w.choose(w.full, room)
	for i, c := range kept {
		block[i+1] = c.id
	}
	block[0] = uint32(len(kept))
}

func (w *worker) lock(unit uint32) {
	if w.b.locks != nil {
		w.b.locks[unit%uint32(len(w.b.locks))].Lock()
	}
}

func (w *worker) unlock(unit uint32) {
	if w.b.locks != nil {
		w.b.locks[unit%uint32(len(w.b.locks))].Unlock()
	}
}

func contains(ids []uint32, id uint32) bool {
	return slices.Contains(ids, id)
}

// sortCandidates sorts a few candidates, best first.
func sortCandidates(items []candidate) {
	for i := 1; i < len(items); i++ {
		c := items[i]
		j := i
		for ; j > 0 && ahead(c, items[j-1]); j-- {
			items[j] = items[j-1]
		}
		items[j] = c
	}
}
