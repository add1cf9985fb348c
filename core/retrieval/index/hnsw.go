package index

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"sync"
)

// HNSWParams of [BuildHNSW]. Zero fields mean the defaults.
type HNSWParams struct {
	// M is the number of links a vector gets in each layer, 2 to 512; in layer 0 it may have up to 2·M. Default 16.
	M int `json:"m"`
	// EfConstruction is how many candidates are looked at for the links of a vector, at least M; default 200.
	EfConstruction int `json:"ef_construction"`
	// Metric defaults to InnerProduct.
	Metric Metric `json:"metric"`
	// Seed decides in how many layers each vector stands.
	Seed uint64 `json:"seed"`
	// Workers build at the same time; default 1. One worker gives the same graph, byte for byte, for the same vectors,
	// parameters and processor features; several give graphs of equal quality that differ from build to build.
	Workers int `json:"-"`
	// AllowZero takes vectors that are all zeros. They are linked to nothing and never found.
	AllowZero bool `json:"allow_zero"`
	// Progress, if not nil, is told now and then how many vectors are in.
	Progress func(done int) `json:"-"`
}

const (
	maxM     = 512
	maxLevel = 30
)

func (p HNSWParams) withDefaults() (HNSWParams, error) {
	p.M = cmp.Or(p.M, 16)
	p.EfConstruction = cmp.Or(p.EfConstruction, max(200, p.M))
	p.Metric = cmp.Or(p.Metric, InnerProduct)
	p.Workers = cmp.Or(p.Workers, 1)
	switch {
	case p.M < 2 || p.M > maxM:
		return p, fmt.Errorf("hnsw: m = %d, expected 2 to %d", p.M, maxM)
	case p.EfConstruction < p.M || p.EfConstruction > 1<<20:
		return p, fmt.Errorf("hnsw: ef_construction = %d, expected m = %d to %d", p.EfConstruction, p.M, 1<<20)
	case p.Workers < 1:
		return p, fmt.Errorf("hnsw: workers = %d, expected at least 1", p.Workers)
	}
	return p, nil
}

// Key writes what decides the graph, with defaults, for digests.
func (p HNSWParams) Key() (string, error) {
	p, err := p.withDefaults()
	return fmt.Sprintf("hnsw m=%d ef_construction=%d metric=%s seed=%d zero=%t", p.M, p.EfConstruction, p.Metric, p.Seed, p.AllowZero), err
}

// HNSW is a hierarchical navigable small-world graph (Malkov and Yashunin 2018, arXiv:1603.09320): layers of proximity
// graphs, each on a random part of the one below, searched from the top with a beam.
type HNSW struct {
	*vectorSet
	params HNSWParams
	digest [32]byte

	// entry is the vector where searches begin; it stands in the topmost layer.
	entry  uint32
	levels []uint8
	// base holds the links in layer 0: for each vector 1 + 2·M items, the number of links and the links.
	base []uint32
	// upper holds the links in the layers above: for each vector with level L, L blocks of 1 + M items; vector i's begin
	// at block upperAt[i].
	upper   []uint32
	upperAt []uint32

	scratch sync.Pool
}

// Len is the number of vectors.
func (h *HNSW) Len() int { return h.count }

// Dimensions is the length of a vector.
func (h *HNSW) Dimensions() int { return h.dimensions }

// Params gives the parameters of the build, with defaults.
func (h *HNSW) Params() HNSWParams { return h.params }

// Digest is what Write was given.
func (h *HNSW) Digest() [32]byte { return h.digest }

// Vector copies vector i; with [Cosine] it has length 1.
func (h *HNSW) Vector(i int) []float32 {
	defer runtime.KeepAlive(h.vectorSet)
	return slices.Clone(h.row(i)[:h.dimensions])
}

// block gives the links of a vector in a layer with their number before them.
func (h *HNSW) block(unit uint32, level int) []uint32 {
	if level == 0 {
		size := 1 + 2*h.params.M
		return h.base[int(unit)*size:][:size]
	}
	size := 1 + h.params.M
	return h.upper[(int(h.upperAt[unit])+level-1)*size:][:size]
}

func (h *HNSW) links(unit uint32, level int) []uint32 {
	block := h.block(unit, level)
	return block[1 : 1+block[0]]
}

// place computes where each vector's upper links begin and gives the number of blocks.
func (h *HNSW) place() int {
	h.upperAt = make([]uint32, h.count)
	blocks := 0
	for i, level := range h.levels {
		h.upperAt[i] = uint32(blocks)
		blocks += int(level)
	}
	return blocks
}

// init sets what is not part of the file.
func (h *HNSW) init() {
	h.scratch.New = func() any { return newSearcher(h.vectorSet, 2*h.params.M) }
}

// Search gives the k best vectors found, best first, without those for which exclude (which may be nil) returns true.
// Ef is the breadth of the search, at least k; the higher, the more surely the best are found. Where exclude turns away
// so much that the beam fills with it, all vectors are compared instead.
func (h *HNSW) Search(query []float32, k, ef int, exclude func(unit int) bool) ([]Hit, error) {
	return h.AppendSearch(nil, query, k, ef, exclude)
}

// AppendSearch is Search that appends to hits, without allocating if there is room.
func (h *HNSW) AppendSearch(hits []Hit, query []float32, k, ef int, exclude func(unit int) bool) ([]Hit, error) {
	defer runtime.KeepAlive(h.vectorSet)
	s := h.scratch.Get().(*searcher)
	defer h.scratch.Put(s)
	q, err := h.query(query, s.query)
	if err != nil || k <= 0 {
		return hits, err
	}
	s.query = q
	start := h.descend(s, int(h.levels[h.entry]), 0)
	if !h.beam(s, start, max(k, ef), 0, exclude) {
		return append(hits, h.exact(q, k, h.withoutZeros(exclude))...), nil
	}
	for _, c := range s.pool {
		if k == 0 {
			break
		}
		if exclude == nil || c.id&hidden == 0 {
			hits = append(hits, Hit{int(c.id & idMask), c.score})
			k--
		}
	}
	return hits, nil
}

// Exact gives the k best vectors by comparing with all.
func (h *HNSW) Exact(query []float32, k int, exclude func(unit int) bool) ([]Hit, error) {
	defer runtime.KeepAlive(h.vectorSet)
	q, err := h.query(query, nil)
	if err != nil || k <= 0 {
		return nil, err
	}
	return h.exact(q, k, h.withoutZeros(exclude)), nil
}

func (h *HNSW) withoutZeros(exclude func(int) bool) func(int) bool {
	if !h.params.AllowZero {
		return exclude
	}
	return func(i int) bool { return exclude != nil && exclude(i) || h.isZero(i) }
}

// A candidate's id carries two marks above the number.
const (
	expanded uint32 = 1 << 31
	hidden   uint32 = 1 << 30 // turned away by exclude
	idMask          = hidden - 1
)

type candidate struct {
	score float32
	id    uint32
}

// ahead says whether a comes before b in the pool.
func ahead(a, b candidate) bool {
	return a.score > b.score || a.score == b.score && a.id&idMask < b.id&idMask
}

// searcher is the working memory of one search.
type searcher struct {
	query []float32
	// visited[i] == epoch marks vector i as seen in this search. One byte keeps the marks in the cache.
	visited []uint8
	epoch   uint8
	pool    []candidate // best first
	fresh   []uint32
	scores  []float32
	copied  []uint32
}

func newSearcher(set *vectorSet, degree int) *searcher {
	return &searcher{
		query:   make([]float32, set.stride),
		visited: make([]uint8, set.count),
		fresh:   make([]uint32, degree),
		scores:  make([]float32, max(degree, 1)),
	}
}

// begin forgets what was visited.
func (s *searcher) begin() {
	if s.epoch++; s.epoch == 0 {
		clear(s.visited)
		s.epoch = 1
	}
	s.pool = s.pool[:0]
}

// descend walks greedily from the entry through the layers above bottom and gives the best vector met.
func (h *HNSW) descend(s *searcher, top, bottom int) candidate {
	s.fresh[0] = h.entry
	h.dots(s.query, h.data, h.stride, s.fresh[:1], s.scores)
	best := candidate{s.scores[0], h.entry}
	for level := top; level > bottom; level-- {
		best = h.climb(s, best, level)
	}
	return best
}

// climb walks to better neighbours in one layer until there are none.
func (h *HNSW) climb(s *searcher, best candidate, level int) candidate {
	for {
		links := h.links(best.id, level)
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

// beam searches one layer from start and leaves the ef best in s.pool, with hidden ones between them when exclude is
// given. It returns false when it met so many hidden ones that an exhaustive search is cheaper.
func (h *HNSW) beam(s *searcher, start candidate, ef, level int, exclude func(int) bool) bool {
	s.begin()
	shown := 0 // pool entries that are not hidden
	if exclude != nil && exclude(int(start.id)) {
		start.id |= hidden
	} else {
		shown = 1
	}
	s.visited[start.id&idMask] = s.epoch
	s.pool = append(s.pool, start)
	for next := 0; next < len(s.pool); {
		id := s.pool[next].id
		if id&expanded != 0 {
			next++
			continue
		}
		s.pool[next].id |= expanded
		fresh := s.unseen(h.links(id&idMask, level))
		h.dots(s.query, h.data, h.stride, fresh, s.scores)
		for i, id := range fresh {
			c := candidate{s.scores[i], id}
			if shown == ef && !ahead(c, s.pool[len(s.pool)-1]) {
				continue
			}
			if exclude != nil && exclude(int(id)) {
				c.id |= hidden
				if len(s.pool)-shown > 8*ef+1024 {
					return false
				}
			} else {
				shown++
			}
			next = min(next, s.insert(c))
			for shown > ef || shown == ef && s.pool[len(s.pool)-1].id&hidden != 0 {
				if s.pool[len(s.pool)-1].id&hidden == 0 {
					shown--
				}
				s.pool = s.pool[:len(s.pool)-1]
			}
		}
	}
	return true
}

// unseen gives those of ids that were not visited, and marks them.
func (s *searcher) unseen(ids []uint32) []uint32 {
	fresh := s.fresh[:len(ids)]
	n := 0
	for _, id := range ids {
		if s.visited[id] != s.epoch {
			s.visited[id] = s.epoch
			fresh[n] = id
			n++
		}
	}
	return fresh[:n]
}

// insert puts c into the pool and gives its place.
func (s *searcher) insert(c candidate) int {
	low, high := 0, len(s.pool)
	for low < high {
		middle := int(uint(low+high) >> 1)
		if ahead(s.pool[middle], c) {
			low = middle + 1
		} else {
			high = middle
		}
	}
	s.pool = append(s.pool, candidate{})
	copy(s.pool[low+1:], s.pool[low:])
	s.pool[low] = c
	return low
}
