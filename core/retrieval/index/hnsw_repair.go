package index

import "slices"

// repair links every vector that cannot be reached from the entry in layer 0 to one that can: its nearest reachable
// vector with room for a link, or, if the search finds none with room, the nearest at the price of a detour.
func (h *HNSW) repair() {
	reached := make([]bool, h.count)
	queue := h.spread(reached, []uint32{h.entry})
	s := newSearcher(h.vectorSet, 2*h.params.M)
	for i := range h.count {
		unit := uint32(i)
		if reached[unit] || h.params.AllowZero && h.isZero(i) {
			continue
		}
		copy(s.query, h.row(i))
		h.beam(s, h.descend(s, int(h.levels[h.entry]), 0), max(h.params.EfConstruction, 64), 0, nil)
		// What a search finds is reachable from where it began, which need not be the entry.
		linked := false
		nearest := h.entry
		for _, c := range slices.Backward(s.pool) {
			if id := c.id & idMask; reached[id] {
				nearest = id
			}
		}
		for _, c := range s.pool {
			id := c.id & idMask
			if block := h.block(id, 0); reached[id] && int(block[0]) < len(block)-1 {
				block[0]++
				block[block[0]] = unit
				linked = true
				break
			}
		}
		if !linked {
			h.detour(nearest, unit)
		}
		queue = h.spread(reached, append(queue[:0], unit))
	}
}

// detour replaces the last link of from by one to unit and gives unit that link, so that whatever was reachable stays
// so. Unit itself must not have been reachable before, so none needs the link that it may lose.
func (h *HNSW) detour(from, unit uint32) {
	block := h.block(from, 0)
	last := block[block[0]]
	block[block[0]] = unit
	own := h.block(unit, 0)
	if contains(own[1:1+own[0]], last) {
		return
	}
	if int(own[0]) < len(own)-1 {
		own[0]++
	}
	own[own[0]] = last
}

// spread marks what can be reached in layer 0 from the vectors in queue, which it uses up and gives back for reuse.
func (h *HNSW) spread(reached []bool, queue []uint32) []uint32 {
	for _, unit := range queue {
		reached[unit] = true
	}
	for len(queue) > 0 {
		unit := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		for _, next := range h.links(unit, 0) {
			if !reached[next] {
				reached[next] = true
				queue = append(queue, next)
			}
		}
	}
	return queue
}
