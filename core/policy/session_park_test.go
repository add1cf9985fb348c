package policy

import (
	"slices"
	"testing"

	"github.com/forage-rl/forage/core/internal/rng"
)

// chains are rows of one prompt each, sampled, with what a tool might have returned after them.
func chains(t *testing.T, s *Session, n int) []Row {
	t.Helper()
	var rows []Row
	for i := range n {
		rows = append(rows, Row{ID: int64(i), Tokens: randomTokens(rng.New(uint64(i)), 30+i, 207), MaxNew: 12, Key: rng.New(uint64(i))})
	}
	for i, out := range generate(t, s, rows, SampleParams{}) {
		rows[i].Tokens = slices.Concat(rows[i].Tokens, out.Tokens, randomTokens(rng.New(99, uint64(i)), 9, 207))
	}
	return rows
}

// branches fork two rows from each chain, at different depths.
func branches(chains []Row) (rows []Row, depths []int) {
	for i, c := range chains {
		for k, depth := range []int{len(c.Tokens) - 15, 30 + i} {
			rows = append(rows, Row{ID: int64(100 + 2*i + k), Tokens: c.Tokens[:depth], MaxNew: 10, Key: rng.New(5, uint64(i), uint64(k))})
			depths = append(depths, depth)
		}
	}
	return rows, depths
}

// Forks give the same, whether what they share was parked, lies in a slot, or has to be computed again.
func TestParkedRows(t *testing.T) {
	p := newTiny(t, tiny())
	const n = 6
	var want []Output
	for name, c := range map[string]struct {
		park       func(s *Session, rows []Row)
		mostParked int
		most       int64 // tokens that the forks compute
	}{
		"parked": {func(s *Session, rows []Row) {
			for _, r := range rows {
				if err := s.Park(r.ID, len(r.Tokens)); err != nil {
					t.Fatal(err)
				}
			}
			// Others take the slots in between.
			var others []Row
			for i := range 2 * n {
				others = append(others, Row{ID: int64(50 + i), Tokens: randomTokens(rng.New(3, uint64(i)), 40, 207), MaxNew: 3, Key: rng.New(4, uint64(i))})
			}
			generate(t, s, others, SampleParams{})
			for _, r := range others {
				s.Release(r.ID)
			}
		}, mostParked, 2 * n},
		"in slots": {func(*Session, []Row) {}, mostParked, 2 * n},
		"no room": {func(s *Session, rows []Row) {
			for _, r := range rows {
				if err := s.Park(r.ID, len(r.Tokens)); err != nil {
					t.Fatal(err)
				}
			}
			generate(t, s, []Row{{ID: 50, Tokens: []int32{1, 2, 3}, MaxNew: 1}}, SampleParams{})
		}, 10, 1 << 20},
		"forgotten": {func(s *Session, _ []Row) {
			if err := s.Forget(); err != nil {
				t.Fatal(err)
			}
		}, mostParked, 1 << 20},
	} {
		s := session(t, p, 4*n, 200)
		s.mostParked = c.mostParked
		rows := chains(t, s, n)
		c.park(s, rows)
		if s.parkedBytes > c.mostParked {
			t.Errorf("%s: %d bytes are parked", name, s.parkedBytes)
		}
		forks, depths := branches(rows)
		for i, f := range forks {
			s.Fork(rows[i/2].ID, f.ID, depths[i])
		}
		before := s.Computed()
		got := generate(t, s, forks, SampleParams{})
		if computed := s.Computed() - before; computed > c.most || c.most == 1<<20 && computed < 30*n {
			t.Errorf("%s: the forks computed %d tokens", name, computed)
		}
		if want == nil {
			want = fresh(t, p, forks, SampleParams{})
		}
		sameOutputs(t, name, got, want, 1e-5)
	}
}

// Where the memory for parked rows is used up, the oldest go.
func TestOldestParkedRowGoes(t *testing.T) {
	p := newTiny(t, tiny())
	s := session(t, p, 8, 200)
	rows := chains(t, s, 4)
	if err := s.Park(0, 20); err != nil {
		t.Fatal(err)
	}
	s.mostParked = 3 * s.parkedBytes
	for _, id := range []int64{1, 2, 3} {
		if err := s.Park(id, 20); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(s.parkedOrder, []int64{1, 2, 3}) || len(s.parked) != 3 || s.parkedBytes != s.mostParked {
		t.Errorf("parked are %v, %d bytes", s.parkedOrder, s.parkedBytes)
	}
	// A row that alone is too large is not parked, and pushes nobody out.
	generate(t, s, []Row{{ID: 9, Tokens: rows[0].Tokens, MaxNew: 40, Key: rng.New(1)}}, SampleParams{})
	if err := s.Park(9, 80); err != nil || len(s.parked) != 3 {
		t.Errorf("after a large row %d are parked (%v)", len(s.parked), err)
	}
	for _, id := range []int64{77, 1, 1} { // unknown, and already parked
		if err := s.Park(id, 20); err != nil || len(s.parked) != 3 {
			t.Errorf("park %d: %d are parked (%v)", id, len(s.parked), err)
		}
	}
}

// After Forget a session does the same, in every bit, whatever it did before; and new weights make it forget.
func TestForgetIsAStart(t *testing.T) {
	p := newTiny(t, tiny())
	s := session(t, p, 24, 200)
	once := func() []Output {
		rows := chains(t, s, 6)
		for _, r := range rows {
			if err := s.Park(r.ID, len(r.Tokens)); err != nil {
				t.Fatal(err)
			}
		}
		forks, depths := branches(rows)
		for i, f := range forks {
			s.Fork(rows[i/2].ID, f.ID, depths[i])
		}
		return generate(t, s, forks, SampleParams{})
	}
	first := once()
	generate(t, s, []Row{{ID: 1, Tokens: randomTokens(rng.New(9), 77, 207), MaxNew: 20}}, SampleParams{})
	if err := s.Forget(); err != nil {
		t.Fatal(err)
	}
	for i, again := range once() {
		if !slices.Equal(again.Tokens, first[i].Tokens) || !slices.Equal(again.LogProbs, first[i].LogProbs) {
			t.Errorf("row %d differs after Forget", i)
		}
	}
	update(t, newTrainer(t, p, OptimizerConfig{LearningRate: 1e-2}), UpdateSpec{Objective: nll(t), Samples: randomSamples(rng.New(1), 4, 30)})
	rows, _ := branches(chains(t, s, 2))
	if s.parkedBytes != 0 || len(s.parked) != 0 {
		t.Errorf("%d rows of the old weights are parked", len(s.parked))
	}
	s.Fork(3, rows[0].ID, 20) // parked before the update
	sameOutputs(t, "new weights", generate(t, s, rows, SampleParams{}), fresh(t, p, rows, SampleParams{}), 1e-5)
}
