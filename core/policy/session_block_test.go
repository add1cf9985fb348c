package policy

import (
	"slices"
	"testing"

	"github.com/forage-rl/forage/core/internal/rng"
)

// Rows of several blocks are continued, parked and forked across blocks, and the blocks change their size, as if every
// call had a session of its own.
func TestBlocks(t *testing.T) {
	p := newTiny(t, tiny())
	s := session(t, p, 40, 200)
	s.kept, s.fewest = 1<<20, 4
	rows := chains(t, s, 10)
	if len(s.cache) != 4 || s.size != 4 {
		t.Fatalf("%d blocks of %d slots, want 4 of 4", len(s.cache), s.size)
	}
	if same := chains(t, session(t, p, 40, 200), 10); !slices.EqualFunc(rows, same, func(a, b Row) bool { return slices.Equal(a.Tokens, b.Tokens) }) {
		t.Fatal("blocks sample other tokens than all rows in step")
	}
	// A second turn of all but two rows, which end at different times and leave room in their blocks.
	next := slices.Clone(rows)
	next = append(next[:3], next[5:]...)
	for i := range next {
		next[i].MaxNew = 3 + 2*i
		next[i].Key = rng.New(6, uint64(i))
	}
	before := s.Computed()
	sameOutputs(t, "next", generate(t, s, next, SampleParams{}), fresh(t, p, next, SampleParams{}), 1e-5)
	if computed := s.Computed() - before; computed != 10*int64(len(next)) {
		t.Errorf("the second turn computed %d tokens, want 10 of each row", computed)
	}
	// Twice as many forks as rows, of rows in slots and of parked ones.
	for i := range 5 {
		if err := s.Park(int64(i), len(rows[i].Tokens)); err != nil {
			t.Fatal(err)
		}
	}
	forks, depths := branches(rows)
	for i, f := range forks {
		s.Fork(int64(i/2), f.ID, depths[i])
	}
	before = s.Computed()
	sameOutputs(t, "forks", generate(t, s, forks, SampleParams{}), fresh(t, p, forks, SampleParams{}), 1e-5)
	if computed := s.Computed() - before; computed != int64(len(forks)) {
		t.Errorf("%d forks computed %d tokens, want 1 each", len(forks), computed)
	}
	// Blocks of another size.
	s.kept, s.fewest = 3<<20, 8
	more := slices.Concat(forks, next)
	sameOutputs(t, "more", generate(t, s, more, SampleParams{Greedy: true}), fresh(t, p, more, SampleParams{Greedy: true}), 1e-5)
	if s.size != 8 {
		t.Errorf("blocks of %d slots, want 8", s.size)
	}
}
