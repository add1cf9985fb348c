package policy

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
)

// Session samples from a policy and keeps the keys and values of the sequences that it has seen, so that a later call
// with a longer sequence computes only what is new. It is safe for concurrent use, one call at a time.
type Session struct {
	p                  *Policy
	maxRows, maxTokens int

	mu      sync.Mutex
	version uint64 // of the weights that the cache was computed with
	slots   []slotState
	length  int
	kept    int // bytes of caches that a block reads at each step, if it has more rows than fewest
	fewest  int
	size    int                 // slots per block: block b holds slots b·size to (b+1)·size
	cache   [][]*tensors.Tensor // the caches of each block, as the model lays them out
	bySlot  map[int64]int
	forks   map[int64]fork
	clock   uint64

	parked      map[int64]*parkedRow
	parkedOrder []int64 // oldest first
	parkedBytes int
	mostParked  int
	prefilled   atomic.Int64
}

type slotState struct {
	used   bool
	id     int64
	tokens []int32 // whose keys and values the slot holds
	last   uint64  // call that used it last
}

type fork struct {
	from   int64
	length int
}

// widest is the largest number of new tokens per row that one prefill program takes.
const widest = 128

// NewSession makes a session for at most maxRows rows at a time, of at most maxTokens tokens each (prompt and all
// continuations).
func (p *Policy) NewSession(maxRows, maxTokens int) (*Session, error) {
	if maxRows <= 0 || maxTokens <= 1 {
		return nil, fmt.Errorf("new session: needs at least 1 row and 2 tokens, got %d and %d", maxRows, maxTokens)
	}
	if most := p.model.config.MaxPositions; maxTokens > most {
		return nil, fmt.Errorf("new session: %d tokens, but the model was made for %d: lower the maximum", maxTokens, most)
	}
	return &Session{p: p, maxRows: maxRows, maxTokens: maxTokens, bySlot: map[int64]int{}, forks: map[int64]fork{},
		parked: map[int64]*parkedRow{}, mostParked: mostParked, kept: 8 << 20, fewest: 32}, nil
}

// Fork says that row to will begin with the first length tokens of row from, so that they can be copied instead of
// computed. It is a hint: a row that begins otherwise is computed anew. The result is the number of tokens that can be
// copied.
func (s *Session) Fork(from, to int64, length int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forks[to] = fork{from, length}
	_, _, tokens := s.source(from)
	return min(length, len(tokens))
}

// Release says that the row will not be continued. Rows that are not released keep their place, and cost time, until
// others need it.
func (s *Session) Release(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release(id)
}

func (s *Session) release(id int64) {
	if slot, ok := s.bySlot[id]; ok {
		// The tokens stay: a fork may still copy them until the slot is taken.
		s.slots[slot].used = false
	}
	delete(s.forks, id)
}

// Close frees the cache.
func (s *Session) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.drop()
}

// drop forgets everything that was computed.
func (s *Session) drop() error {
	cache := s.cache
	s.cache, s.slots, s.length, s.size = nil, nil, 0, 0
	clear(s.bySlot)
	clear(s.parked)
	s.parkedOrder, s.parkedBytes = nil, 0
	var live []*tensors.Tensor
	for _, block := range cache {
		for _, t := range block {
			if t.Ok() {
				live = append(live, t)
			}
		}
	}
	return finalize(live...)
}

// place gives every running row a slot whose cache holds a prefix of the row.
func (r *sampling) place() error {
	if r.version != r.weights.version {
		if err := r.drop(); err != nil {
			return err
		}
		r.version = r.weights.version
	}
	r.clock++
	asked := map[int64]bool{}
	need := 0
	for i, row := range r.rows {
		if !r.end[i] {
			asked[row.ID] = true
			need = max(need, min(len(row.Tokens)+row.MaxNew, r.maxTokens))
		}
	}
	// Rows that were not released stay, as long as there is room: the least recently used go first.
	var stay []int
	for slot, st := range r.slots {
		if st.used && !asked[st.id] {
			stay = append(stay, slot)
		}
	}
	most := r.slotCount(r.maxRows)
	for len(stay)+len(asked) > most {
		oldest := 0
		for i, slot := range stay {
			if r.slots[slot].last < r.slots[stay[oldest]].last {
				oldest = i
			}
		}
		stay = append(stay[:oldest], stay[oldest+1:]...)
	}
	count := r.slotCount(len(stay) + len(asked))
	if count < len(r.slots) && 2*count > len(r.slots) {
		count = len(r.slots) // not worth moving
	}
	length := r.length
	if need > length {
		length = r.cacheLength(need, count)
	}
	size := r.blockSize(count, length)
	count = roundUp(count, size, false)

	places := make([]placement, 0, len(stay)+len(asked))
	for _, slot := range stay {
		places = append(places, placement{row: -1, wish: slot, source: slot, id: r.slots[slot].id, tokens: r.slots[slot].tokens, last: r.slots[slot].last})
	}
	for i, row := range r.rows {
		if r.end[i] {
			continue
		}
		p := placement{row: i, wish: -1, source: -1, id: row.ID, last: r.clock}
		held := row.Tokens[:len(row.Tokens)-1] // the last token is always computed: its logits choose the next
		if slot, known := r.bySlot[row.ID]; known {
			p.wish, p.source = slot, slot
			p.tokens = r.slots[slot].tokens[:CommonPrefix(r.slots[slot].tokens, held)]
		} else if f, asked := r.forks[row.ID]; asked {
			var tokens []int32
			p.source, p.parked, tokens = r.source(f.from)
			p.tokens = slices.Clone(tokens[:min(f.length, CommonPrefix(tokens, held))])
		}
		delete(r.forks, row.ID)
		places = append(places, p)
	}
	return r.arrange(places, count, length, size)
}

// placement is the place of one row in a new arrangement of the slots.
type placement struct {
	row    int        // index of the call's row; -1: a row of an earlier call
	wish   int        // slot to stay in; -1: any
	source int        // slot to copy from; -1: none
	parked *parkedRow // to copy from; nil: none
	id     int64
	tokens []int32 // what the source holds of the row
	last   uint64
}

// arrange puts rows into count slots of the given length, size of them to a block, moving the caches only if something
// does move.
func (r *sampling) arrange(places []placement, count, length, size int) error {
	slots, source, keep := make([]slotState, count), make([]int32, count), make([]int32, count)
	taken := make([]bool, count)
	revived := map[int]placement{}
	put := func(slot int, p placement) {
		taken[slot] = true
		slots[slot] = slotState{used: true, id: p.id, tokens: p.tokens, last: p.last}
		switch {
		case p.source >= 0:
			source[slot], keep[slot] = int32(p.source), int32(len(p.tokens))
		case len(p.tokens) > 0:
			revived[slot] = p
		}
		if p.row >= 0 {
			r.slot[p.row] = slot
		}
	}
	var rest []placement
	for _, p := range places {
		if p.wish >= 0 && p.wish < count {
			put(p.wish, p)
		} else {
			rest = append(rest, p)
		}
	}
	free := 0
	for _, p := range rest {
		for taken[free] {
			free++
		}
		put(free, p)
	}
	// Slots that nobody took keep what they hold: a fork may still want it.
	for slot := range min(count, len(r.slots)) {
		if !taken[slot] {
			slots[slot] = r.slots[slot]
			slots[slot].used = false
			source[slot], keep[slot] = int32(slot), int32(len(slots[slot].tokens))
		}
	}
	if err := r.move(slots, source, keep, length, size); err != nil {
		return err
	}
	if len(revived) > 0 {
		if err := r.revive(revived); err != nil {
			return err
		}
	}
	clear(r.bySlot)
	for slot, st := range r.slots {
		if st.used || len(st.tokens) > 0 {
			r.bySlot[st.id] = slot
		}
	}
	return nil
}

// prefillAll computes what the caches lack of the running rows, and the first new token of each.
func (r *sampling) prefillAll(ctx context.Context) error {
	if err := r.prefillShared(ctx); err != nil {
		return err
	}
	for {
		wave := r.nextWave(func(i int) int { return len(r.rows[i].Tokens) })
		if len(wave) == 0 {
			return nil
		}
		if err := checkContext(ctx); err != nil {
			return err
		}
		if err := r.prefillWave(wave); err != nil {
			return err
		}
	}
}

// prefillShared computes the prompt of rows that begin alike once, and copies it to the others, where that is cheaper.
func (r *sampling) prefillShared(ctx context.Context) error {
	leaders := map[string]int{} // tokens -> the row that computes them
	follows := map[int]int{}    // row -> leader
	saved := 0
	for i, row := range r.rows {
		if r.end[i] || len(row.Tokens) == 1 {
			continue
		}
		text := tokenKey(row.Tokens[:len(row.Tokens)-1])
		leader, known := leaders[text]
		if !known {
			leaders[text] = i
			continue
		}
		if held, own := len(r.slots[r.slot[leader]].tokens), len(r.slots[r.slot[i]].tokens); held >= own {
			follows[i] = leader
			saved += len(row.Tokens) - 1 - own
		}
	}
	// A multiplication of matrices runs at some 2e10 operations a second, a copy at some 2e9 bytes.
	compute := float64(saved) * 2 * float64(r.p.Parameters()) / 2e10
	c := r.p.model.config
	moving := float64(len(r.slots)*r.length*c.Layers*2*c.KVHeads*c.HeadDim*4) / 2e9
	if compute <= moving {
		return nil
	}
	leads := map[int]bool{}
	for _, leader := range follows {
		leads[leader] = true
	}
	for {
		wave := r.nextWave(func(i int) int {
			if leads[i] {
				return len(r.rows[i].Tokens) - 1
			}
			return 0
		})
		if len(wave) == 0 {
			break
		}
		if err := checkContext(ctx); err != nil {
			return err
		}
		if err := r.prefillWave(wave); err != nil {
			return err
		}
	}
	slots := append([]slotState(nil), r.slots...)
	source, keep := make([]int32, len(slots)), make([]int32, len(slots))
	for i := range slots {
		source[i], keep[i] = int32(i), int32(len(slots[i].tokens))
	}
	for row, leader := range follows {
		slot := r.slot[row]
		slots[slot].tokens = append([]int32(nil), r.rows[row].Tokens[:len(r.rows[row].Tokens)-1]...)
		source[slot], keep[slot] = int32(r.slot[leader]), int32(len(slots[slot].tokens))
	}
	return r.move(slots, source, keep, r.length, r.size)
}

func tokenKey(tokens []int32) string {
	b := make([]byte, 0, 4*len(tokens))
	for _, t := range tokens {
		b = append(b, byte(t), byte(t>>8), byte(t>>16), byte(t>>24))
	}
	return string(b)
}

// piece is a run of new tokens of one row.
type piece struct{ row, from, to int }

// nextWave takes the next tokens of every running row whose cache holds less than upTo says.
func (r *sampling) nextWave(upTo func(row int) int) []piece {
	var wave []piece
	for i := range r.rows {
		if r.end[i] {
			continue
		}
		held := len(r.slots[r.slot[i]].tokens)
		if end := min(upTo(i), held+widest); end > held {
			wave = append(wave, piece{i, held, end})
		}
	}
	return wave
}

// prefillWave runs the pieces through the network; rows whose last token is among them get their first new token.
func (r *sampling) prefillWave(wave []piece) error {
	blocks := make([][]piece, len(r.cache))
	for _, p := range wave {
		b := r.slot[p.row] / r.size
		blocks[b] = append(blocks[b], p)
	}
	for b, wave := range blocks {
		if len(wave) > 0 {
			if err := r.prefillBlock(b, wave); err != nil {
				return err
			}
		}
	}
	return nil
}

// prefillBlock is prefillWave for the pieces of rows in one block.
func (r *sampling) prefillBlock(block int, wave []piece) error {
	m, slots := r.p.model, r.size
	total, width := 0, 0
	for _, p := range wave {
		total += p.to - p.from
		width = max(width, p.to-p.from)
	}
	r.prefilled.Add(int64(total))
	dear := r.p.backend.dearCompile
	n := roundUp(total, 16, dear)
	width = roundUp(width, 4, dear)
	tokens, positions := make([]int32, n), make([]int32, n)
	for i := range positions {
		positions[i] = int32(r.length)
	}
	query, packed := make([]int32, 2*n), make([]int32, slots*width)
	starts, counts, last := make([]int32, slots), make([]int32, slots), make([]int32, slots)
	at := 0
	complete := map[int]bool{}
	fresh := 1
	for _, p := range wave {
		slot, row := r.slot[p.row]-block*r.size, r.rows[p.row]
		starts[slot], counts[slot] = int32(p.from), int32(p.to-p.from)
		if p.from > 0 {
			fresh = 0
		}
		for j := p.from; j < p.to; j++ {
			tokens[at], positions[at] = row.Tokens[j], int32(j)
			query[2*at], query[2*at+1] = int32(slot), int32(j-p.from)
			packed[slot*width+j-p.from] = int32(at)
			at++
		}
		last[slot] = int32(at - 1)
		complete[p.row] = p.to == len(row.Tokens)
		st := &r.slots[r.slot[p.row]]
		st.tokens = append(st.tokens, row.Tokens[p.from:p.to]...)
	}
	key := programKey{kind: "prefill", sizes: [6]int{slots, r.length, n, width, r.how, fresh}}
	g, err := r.p.programs.get(r.p.backend, key, func(g *graph.Graph) []*graph.Node {
		return m.prefill(g, slots, r.length, n, width, r.how, fresh == 1)
	})
	if err != nil {
		return err
	}
	args := r.p.backend.arguments(g.NumParameters()).keep(r.weights.tensors...)
	host(args, tokens, n)
	host(args, positions, n)
	host(args, query, n, 2)
	host(args, packed, slots, width)
	host(args, starts, slots)
	host(args, counts, slots)
	host(args, last, slots)
	return r.choose(args, g, block, func(row int) bool { return complete[row] })
}

// cacheLength chooses the length of the caches: the session's maximum where that is small, because growing costs a
// copy, else what is needed now.
func (s *Session) cacheLength(need, slots int) int {
	const small = 64 << 20 // bytes
	m, c := s.p.model, s.p.model.config
	full := roundUp(s.maxTokens, 8, s.p.backend.dearCompile)
	if m.fused && slots*c.Layers*2*c.KVHeads*c.HeadDim*full*4 <= small {
		return full
	}
	// A quarter more, so that the next turn does not outgrow it at once.
	return min(roundUp(need+need/4, 8, s.p.backend.dearCompile), full)
}

// blockSize chooses how many of the slots a program runs at a time. A step reads all that its rows hold in the caches:
// where that exceeds what the processor's own caches keep from one step to the next, blocks of rows that run one after
// the other to their end are faster than all rows in step. Blocks of fewer rows than fewest are not: then the weights cost more.
func (s *Session) blockSize(slots, length int) int {
	m, c := s.p.model, s.p.model.config
	row := c.Layers * 2 * c.KVHeads * c.HeadDim * (length + 1) * m.dtype.Size()
	if !s.p.backend.hostMemory || slots <= s.fewest || s.fewest*row > s.kept+s.kept/2 {
		return slots
	}
	most := max(s.fewest, s.kept/row/4*4)
	blocks := (slots + most - 1) / most
	return roundUp((slots+blocks-1)/blocks, 4, false)
}

// slotCount rounds a number of rows up. The Go backend has a slow kernel for products of fewer than slowProduct
// multiplications: where the largest weights of a layer escape it with fewRows rows and not with one, one row takes
// longer than that many, and six longer than eight.
func (s *Session) slotCount(rows int) int {
	const slowProduct, fewRows = 4 << 20, 4
	c := s.p.model.config
	if largest := 2 * c.HiddenSize * c.IntermediateSize; s.p.model.fused && largest < slowProduct && fewRows*largest >= slowProduct {
		rows = roundUp(rows, fewRows, false)
	}
	if rows < 8 {
		return roundUp(rows, 1, s.p.backend.dearCompile)
	}
	return roundUp(rows, 8, s.p.backend.dearCompile)
}
