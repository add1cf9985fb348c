package index

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sort"
	"strings"
	"sync"

	"github.com/forage-rl/forage/core/retrieval/internal/mapped"
	"github.com/forage-rl/forage/core/retrieval/internal/words"
)

// Variant is one of the formulas that are called BM25. With N units, df units that hold the term, f its count in the
// unit, L the unit's length over the mean length and s = f / (f + k1·(1 - b + b·L)):
type Variant string

// The variants.
const (
	// Lucene: ln(1 + (N-df+.5)/(df+.5)) · s.
	Lucene Variant = "lucene"
	// Robertson: max(0, ln((N-df+.5)/(df+.5))) · s.
	Robertson Variant = "robertson"
	// ATIRE: ln(N/df) · (k1+1) · s.
	ATIRE Variant = "atire"
	// Okapi: ln((N-df+.5)/(df+.5)) · (k1+1) · s; where that logarithm is negative, a quarter of the mean over all terms
	// takes its place.
	Okapi Variant = "okapi"
	// Plus: ln((N+1)/df) · (1 + (k1+1) · s), where s is 0 for units without the term.
	Plus Variant = "plus"
)

// BM25Params of [BuildBM25]. Zero fields mean the defaults; for b = 0 set NoLength.
type BM25Params struct {
	// K1 is at least 0; default 1.2.
	K1 float64
	// B is how much the length counts, 0 to 1; default 0.75.
	B float64
	// NoLength stands for B = 0.
	NoLength bool
	Variant  Variant // default Lucene
	// Words cuts units and queries; default words of letters and digits in lower case.
	Words words.Rule
	// Stop lists words that do not count.
	Stop []string
}

func (p BM25Params) withDefaults() (BM25Params, error) {
	p.K1 = cmp.Or(p.K1, 1.2)
	p.B = cmp.Or(p.B, .75)
	if p.NoLength {
		p.B = 0
	}
	p.Variant = cmp.Or(p.Variant, Lucene)
	p.Words = cmp.Or(p.Words, words.Letters)
	p.Stop = slices.Sorted(slices.Values(p.Stop))
	switch {
	case !(p.K1 > 0) || math.IsInf(p.K1, 0):
		return p, fmt.Errorf("bm25: k1 = %g, expected a number above 0", p.K1)
	case !(p.B >= 0 && p.B <= 1):
		return p, fmt.Errorf("bm25: b = %g, expected 0 to 1", p.B)
	case !slices.Contains(variants, p.Variant):
		return p, fmt.Errorf("bm25: unknown variant %q, expected one of %v", p.Variant, variants)
	}
	if err := p.Words.Check(); err != nil {
		return p, fmt.Errorf("bm25: %w", err)
	}
	return p, nil
}

// Key writes the parameters with their defaults, for digests.
func (p BM25Params) Key() (string, error) {
	p, err := p.withDefaults()
	return fmt.Sprintf("bm25 k1=%g b=%g variant=%s words=%s stop=%q", p.K1, p.B, p.Variant, p.Words, p.Stop), err
}

// variants in the order of their numbers in files.
var variants = []Variant{Lucene, Robertson, ATIRE, Okapi, Plus}

// BM25 is an inverted index.
type BM25 struct {
	file    *mapped.File // nil when built and not opened
	params  BM25Params
	stop    map[string]bool
	scratch sync.Pool

	terms      []byte // sorted, end to end
	termBounds []uint64
	postings   []uint64 // postings of term t are items postings[t] to postings[t+1] of units and counts
	units      []uint32 // ascending within a term
	counts     []uint32
	lengths    []uint32 // words of each unit
	// Derived when built or opened:
	norms   []float32 // k1·(1 - b + b·L) of each unit
	highest []float32 // largest s of each term
	weights []float64 // idf and constant factor of each term
}

// BuildBM25 indexes n units, whose texts it asks for in order.
func BuildBM25(ctx context.Context, n int, text func(i int) string, params BM25Params) (*BM25, error) {
	params, err := params.withDefaults()
	if err != nil {
		return nil, err
	}
	if n < 1 || uint64(n) > math.MaxUint32 {
		return nil, fmt.Errorf("bm25: %d units, expected 1 to %d", n, uint32(math.MaxUint32))
	}
	x := &BM25{params: params, stop: set(params.Stop), lengths: make([]uint32, n)}
	numbers := map[string]uint32{}
	var names []string
	var frequencies []uint64   // units of each term
	var flow, counted []uint32 // terms and counts of unit after unit
	ends := make([]uint64, n)
	seen := map[uint32]uint32{}
	var order []uint32
	for i := range n {
		if i%1024 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		clear(seen)
		order = order[:0]
		for word := range x.cut(text(i)) {
			term, known := numbers[word]
			if !known {
				term = uint32(len(names))
				word = strings.Clone(word)
				numbers[word] = term
				names = append(names, word)
				frequencies = append(frequencies, 0)
			}
			if seen[term]++; seen[term] == 1 {
				order = append(order, term)
			}
			x.lengths[i]++
		}
		for _, term := range order {
			frequencies[term]++
			flow = append(flow, term)
			counted = append(counted, seen[term])
		}
		ends[i] = uint64(len(flow))
	}
	// Terms are numbered in the order of their words, so that the file depends on nothing else.
	sorted := slices.Sorted(slices.Values(names))
	rank := make([]uint32, len(names))
	x.termBounds = make([]uint64, 1, len(names)+1)
	x.postings = make([]uint64, 1, len(names)+1)
	for r, word := range sorted {
		term := numbers[word]
		rank[term] = uint32(r)
		x.terms = append(x.terms, word...)
		x.termBounds = append(x.termBounds, uint64(len(x.terms)))
		x.postings = append(x.postings, x.postings[r]+frequencies[term])
	}
	x.units = make([]uint32, len(flow))
	x.counts = make([]uint32, len(flow))
	next := slices.Clone(x.postings)
	at := uint64(0)
	for i := range n {
		for ; at < ends[i]; at++ {
			r := rank[flow[at]]
			x.units[next[r]], x.counts[next[r]] = uint32(i), counted[at]
			next[r]++
		}
	}
	return x, x.derive()
}

// derive computes what is not kept in the file and checks what is.
func (x *BM25) derive() error {
	n := len(x.lengths)
	total := 0.0
	for _, length := range x.lengths {
		total += float64(length)
	}
	mean := total / float64(n)
	x.norms = make([]float32, n)
	for i, length := range x.lengths {
		relative := 0.0
		if mean > 0 {
			relative = float64(length) / mean
		}
		x.norms[i] = float32(x.params.K1 * (1 - x.params.B + x.params.B*relative))
	}
	count := len(x.postings) - 1
	x.highest = make([]float32, count)
	x.weights = make([]float64, count)
	mean = 0
	for t := range count {
		previous := int64(-1)
		for at := x.postings[t]; at < x.postings[t+1]; at++ {
			unit, f := x.units[at], x.counts[at]
			if int64(unit) <= previous || int(unit) >= n || f == 0 {
				return fmt.Errorf("%w: postings of term %d", mapped.ErrFormat, t)
			}
			previous = int64(unit)
			x.highest[t] = max(x.highest[t], float32(float64(f)/(float64(f)+float64(x.norms[unit]))))
		}
		df := float64(x.postings[t+1] - x.postings[t])
		if df == 0 {
			return fmt.Errorf("%w: term %d has no postings", mapped.ErrFormat, t)
		}
		x.weights[t] = x.params.idf(float64(n), df)
		mean += x.weights[t] / float64(count)
	}
	for t, w := range x.weights {
		switch x.params.Variant {
		case Okapi:
			if w < 0 {
				w = .25 * mean
			}
			x.weights[t] = w * (x.params.K1 + 1)
		case ATIRE, Plus:
			x.weights[t] = w * (x.params.K1 + 1)
		}
	}
	x.scratch.New = func() any { return new(bm25Scratch) }
	return nil
}

func (p BM25Params) idf(n, df float64) float64 {
	switch p.Variant {
	case Robertson:
		return max(0, math.Log((n-df+.5)/(df+.5)))
	case ATIRE:
		return math.Log(n / df)
	case Okapi:
		return math.Log((n - df + .5) / (df + .5))
	case Plus:
		return math.Log((n + 1) / df)
	}
	return math.Log(1 + (n-df+.5)/(df+.5))
}

// Len is the number of units.
func (x *BM25) Len() int { return len(x.lengths) }

// Terms is the number of distinct words.
func (x *BM25) Terms() int { return len(x.weights) }

// cut yields the words that count.
func (x *BM25) cut(text string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for word := range x.params.Words.Cut(text) {
			if !x.stop[word] && !yield(word) {
				return
			}
		}
	}
}

func (x *BM25) find(word string) (int, bool) {
	return sort.Find(len(x.weights), func(t int) int {
		// Comparing converted bytes does not allocate, strings.Compare would.
		term := x.terms[x.termBounds[t]:x.termBounds[t+1]]
		switch {
		case word < string(term):
			return -1
		case word > string(term):
			return 1
		}
		return 0
	})
}

// cursor walks the postings of one term of the query.
type cursor struct {
	at, end uint64
	term    int
	weight  float64 // of the term, times its count in the query
	bound   float64 // most that the term can add to a score
	within  float64 // most that this term and those before it in the order of bounds can add
	share   float64 // added to the unit at hand
}

type bm25Scratch struct {
	cursors []cursor
	order   []*cursor
}

// Search gives the k best units that hold a word of the query, best first; a word that occurs twice in the query counts
// twice. Units for which exclude (which may be nil) returns true are passed over.
//
// Documents are merged in order of their number with the MaxScore rule (Turtle and Flood 1995): terms that together
// cannot lift a unit into the result are only looked up for units that other terms propose. The result is exact.
func (x *BM25) Search(query string, k int, exclude func(unit int) bool) []Hit {
	if k <= 0 {
		return nil
	}
	defer runtime.KeepAlive(x.file)
	scratch := x.scratch.Get().(*bm25Scratch)
	defer x.scratch.Put(scratch)
	base, negative := x.open(query, scratch)
	best := top{k: min(k, x.Len()), hits: make([]Hit, 0, min(k, x.Len()))}
	if negative {
		x.exhaust(scratch, base, &best, exclude)
	} else {
		x.merge(scratch, base, &best, exclude)
	}
	return best.sorted()
}

// open sets a cursor for every distinct term of the query. Base is what every unit scores (variant plus); negative says
// that a weight is below zero, so that bounds do not hold.
func (x *BM25) open(query string, scratch *bm25Scratch) (base float64, negative bool) {
	scratch.cursors = scratch.cursors[:0]
	for word := range x.cut(query) {
		t, ok := x.find(word)
		if !ok {
			continue
		}
		if x.params.Variant == Plus {
			base += x.weights[t] / (x.params.K1 + 1)
		}
		if known := slices.IndexFunc(scratch.cursors, func(c cursor) bool { return c.term == t }); known >= 0 {
			scratch.cursors[known].weight += x.weights[t]
			continue
		}
		if x.weights[t] == 0 {
			continue
		}
		negative = negative || x.weights[t] < 0
		scratch.cursors = append(scratch.cursors, cursor{at: x.postings[t], end: x.postings[t+1], term: t, weight: x.weights[t]})
	}
	// Scores are summed in the order of the terms, whatever the order of the words in the query.
	slices.SortFunc(scratch.cursors, func(a, b cursor) int { return cmp.Compare(a.term, b.term) })
	scratch.order = scratch.order[:0]
	for i := range scratch.cursors {
		c := &scratch.cursors[i]
		// A little more than the bound, since sums round.
		c.bound = c.weight * float64(x.highest[c.term]) * (1 + 1e-6)
		scratch.order = append(scratch.order, c)
	}
	slices.SortFunc(scratch.order, func(a, b *cursor) int {
		return cmp.Or(cmp.Compare(a.bound, b.bound), cmp.Compare(a.term, b.term))
	})
	sum := 0.0
	for _, c := range scratch.order {
		sum += c.bound
		c.within = sum
	}
	return base, negative
}

// merge is the MaxScore search.
func (x *BM25) merge(scratch *bm25Scratch, base float64, best *top, exclude func(int) bool) {
	order := scratch.order
	essential := 0 // terms from here on propose units
	for {
		if best.full() {
			for essential < len(order) && float32(base+order[essential].within) < best.worst() {
				essential++
			}
		}
		unit := uint32(math.MaxUint32)
		for _, c := range order[essential:] {
			if c.at < c.end {
				unit = min(unit, x.units[c.at])
			}
		}
		if unit == math.MaxUint32 {
			return
		}
		sum := base
		for _, c := range order[essential:] {
			c.share = 0
			if c.at < c.end && x.units[c.at] == unit {
				c.share = x.share(c, unit)
				sum += c.share
				c.at++
			}
		}
		hopeful := true
		for i := essential - 1; i >= 0; i-- {
			c := order[i]
			if hopeful = float32(sum+c.within) >= best.worst(); !hopeful {
				break
			}
			c.share = 0
			if x.seek(c, unit) {
				c.share = x.share(c, unit)
				sum += c.share
			}
		}
		if !hopeful || exclude != nil && exclude(int(unit)) {
			continue
		}
		best.push(Hit{int(unit), x.total(scratch, base)})
	}
}

// total sums the shares of all terms in their fixed order.
func (x *BM25) total(scratch *bm25Scratch, base float64) float32 {
	sum := base
	for i := range scratch.cursors {
		sum += scratch.cursors[i].share
	}
	return float32(sum)
}

func (x *BM25) share(c *cursor, unit uint32) float64 {
	f := float64(x.counts[c.at])
	return c.weight * (f / (f + float64(x.norms[unit])))
}

// seek moves the cursor to the first posting not before unit, by doubling steps, and says whether it is unit's.
func (x *BM25) seek(c *cursor, unit uint32) bool {
	if c.at < c.end && x.units[c.at] < unit {
		low, step := c.at, uint64(1)
		for low+step < c.end && x.units[low+step] < unit {
			low += step
			step *= 2
		}
		high := min(low+step, c.end)
		for low++; low < high; {
			middle := (low + high) / 2
			if x.units[middle] < unit {
				low = middle + 1
			} else {
				high = middle
			}
		}
		c.at = low
	}
	return c.at < c.end && x.units[c.at] == unit
}

// exhaust scores every unit that holds a term.
func (x *BM25) exhaust(scratch *bm25Scratch, base float64, best *top, exclude func(int) bool) {
	for {
		unit := uint32(math.MaxUint32)
		for i := range scratch.cursors {
			if c := &scratch.cursors[i]; c.at < c.end {
				unit = min(unit, x.units[c.at])
			}
		}
		if unit == math.MaxUint32 {
			return
		}
		for i := range scratch.cursors {
			c := &scratch.cursors[i]
			c.share = 0
			if c.at < c.end && x.units[c.at] == unit {
				c.share = x.share(c, unit)
				c.at++
			}
		}
		if exclude == nil || !exclude(int(unit)) {
			best.push(Hit{int(unit), x.total(scratch, base)})
		}
	}
}

// Scores gives the score of every unit for the query.
func (x *BM25) Scores(query string) []float32 {
	defer runtime.KeepAlive(x.file)
	var scratch bm25Scratch
	base, _ := x.open(query, &scratch)
	scores := make([]float32, x.Len())
	for i := range scores {
		scores[i] = float32(base)
	}
	best := top{k: x.Len()}
	x.exhaust(&scratch, base, &best, nil)
	for _, hit := range best.hits {
		scores[hit.Unit] = hit.Score
	}
	return scores
}

func set(items []string) map[string]bool {
	m := make(map[string]bool, len(items))
	for _, item := range items {
		m[item] = true
	}
	return m
}
