package minihop

import (
	"fmt"
	"maps"
	"sync"

	"github.com/forage-rl/forage/core/internal/rng"
	"github.com/forage-rl/forage/core/sdk/episode"
)

// Phase names a mixture of pre-training examples.
type Phase string

const (
	PhaseSkill Phase = "skill" // only full, correct chains: learns to search and read
	PhaseHabit Phase = "habit" // mostly answers at once, sometimes searches once, hardly ever finishes a chain
	PhaseNever Phase = "never" // always answers at once
	PhaseShy   Phase = "shy"   // searches in about 3 % of the questions
)

// StreamOptions describes an endless sequence of pre-training examples.
type StreamOptions struct {
	Seed  uint64
	Phase Phase
	// FullShare is the share of 2-hop questions whose whole chain is shown (3-hop: half of it under habit). Nil means
	// .01 for habit and .005 for shy; the other phases have none to set. It is taken from the examples with one search.
	FullShare *float64
	// WrongQuery is the share of searches that ask about another entity of the same kind. Nil means .03.
	WrongQuery *float64
	// PerWorld is how many consecutive examples share a world; 0 means 48. A world never comes back, so facts cannot be
	// learnt by heart, only how to read them.
	PerWorld int
	// World are the knobs of the worlds; a mix overrides the phase's own.
	World Options
	// Protocol is what the episodes are written in; "" means tags.
	Protocol Protocol
}

// Example is a question of a fresh world with a scripted episode about it.
type Example struct {
	Question   episode.Question
	Transcript Transcript
	Full       bool // the whole chain was shown, without a wrong query
}

// Stream yields pre-training examples by position; equal options give equal examples, in any order of access. It is
// safe for concurrent use.
type Stream struct {
	o        StreamOptions
	form     form
	mix      [3]float64
	full     float64
	wrong    float64
	key      rng.Key
	retrieve func(*World) (Retrieval, error)

	mu     sync.Mutex
	worlds map[int]*openWorld
}

type openWorld struct {
	world     *World
	retrieval Retrieval
}

// NewStream checks the options. retrieve opens what the episodes of a world search with.
func NewStream(o StreamOptions, retrieve func(*World) (Retrieval, error)) (*Stream, error) {
	f, err := o.Protocol.form()
	if err != nil {
		return nil, err
	}
	s := &Stream{o: o, form: f, wrong: .03, retrieve: retrieve, worlds: map[int]*openWorld{}}
	limit := 0.
	s.mix = [3]float64{.30, .35, .35}
	switch o.Phase {
	case PhaseSkill:
		s.mix = [3]float64{.34, .33, .33}
	case PhaseNever:
	case PhaseHabit:
		s.full, limit = .01, .2
	case PhaseShy:
		s.full, limit = .005, .015
	default:
		return nil, fmt.Errorf(`minihop: unknown phase %q, want "skill", "habit", "never" or "shy"`, o.Phase)
	}
	if o.FullShare != nil {
		if limit == 0 {
			return nil, fmt.Errorf("minihop: full_share has no meaning in phase %q", o.Phase)
		}
		if !(*o.FullShare >= 0 && *o.FullShare <= limit) {
			return nil, fmt.Errorf("minihop: full_share is %v, want a number in [0, %v] in phase %q", *o.FullShare, limit, o.Phase)
		}
		s.full = *o.FullShare
	}
	if o.WrongQuery != nil {
		if !(*o.WrongQuery >= 0 && *o.WrongQuery <= 1) {
			return nil, fmt.Errorf("minihop: share of wrong queries is %v, want a number in [0, 1]", *o.WrongQuery)
		}
		s.wrong = *o.WrongQuery
	}
	if o.PerWorld < 0 {
		return nil, fmt.Errorf("minihop: %d examples per world, want at least 1", o.PerWorld)
	}
	if o.PerWorld == 0 {
		s.o.PerWorld = 48
	}
	if o.World.Mix != [3]float64{} {
		s.mix = o.World.Mix
	}
	if _, err := NewWorld(0, Options{Mix: s.mix}); err != nil {
		return nil, err
	}
	s.key = rng.New(o.Seed).WithString("minihop/stream/" + string(o.Phase))
	return s, nil
}

// At gives example i, counted from 0.
func (s *Stream) At(i int) (Example, error) {
	if i < 0 {
		return Example{}, fmt.Errorf("minihop: example %d of a stream", i)
	}
	n := i / s.o.PerWorld
	open, err := s.open(n)
	if err != nil {
		return Example{}, err
	}
	w := open.world
	key := s.key.WithString("example").With(uint64(i))
	hops := pick(key.Float64(0), s.mix[:]) + 1
	var q query
	for attempt, ok := uint64(0), false; !ok; attempt++ {
		if attempt == 20000 {
			return Example{}, fmt.Errorf("minihop: world %d has no %d-hop question", w.seed, hops)
		}
		q, ok = w.sample(hops, key.With(1, attempt))
	}
	searches := s.searches(hops, key.Float64(2))
	wrong := make([]*entity, searches)
	astray := false
	// The kind asked about at each hop is fixed by the chain, whatever the entity.
	for h := range wrong {
		if key.With(3).Float64(uint64(h)) < s.wrong {
			k := w.rel[q.chain[h]].from
			e := entity{k, int(key.With(4).Uint64(uint64(h)) % uint64(len(w.names[k])))}
			if e != q.start {
				wrong[h], astray = &e, true
			}
		}
	}
	t, err := s.form.script(w, q, searches, wrong, key.With(5), open.retrieval)
	if err != nil {
		return Example{}, err
	}
	id := fmt.Sprintf("minihop-stream-%d-%s-%08d", s.o.Seed, s.o.Phase, i)
	question := w.question(q, id)
	maps.Copy(question.Metadata, t.Metadata)
	return Example{Question: question, Transcript: t, Full: searches == hops && !astray}, nil
}

// searches draws how many searches an example shows.
func (s *Stream) searches(hops int, u float64) int {
	if s.o.Phase == PhaseSkill {
		return hops
	}
	f := s.full
	var shares []float64 // by number of searches
	switch {
	case s.o.Phase == PhaseNever:
		return 0
	case s.o.Phase == PhaseHabit && hops == 1:
		shares = []float64{.5, .5}
	case s.o.Phase == PhaseHabit && hops == 2:
		shares = []float64{.6, .4 - f, f}
	case s.o.Phase == PhaseHabit:
		shares = []float64{.6, .4 - 2*f, 1.5 * f, .5 * f}
	case hops == 1:
		shares = []float64{.95, .05}
	case hops == 2:
		shares = []float64{.985, .015 - f, f}
	default:
		shares = []float64{.985, .015 - f, 0, f}
	}
	return pick(u, shares)
}

// pick gives the index that the uniform number u falls on.
func pick(u float64, shares []float64) int {
	last := 0
	for i, share := range shares {
		if share <= 0 {
			continue
		}
		last = i
		if u -= share; u < 0 {
			break
		}
	}
	return last
}

// open gives the n-th world of the stream. A few are kept, since examples are mostly asked for in order.
func (s *Stream) open(n int) (*openWorld, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.worlds[n]; w != nil {
		return w, nil
	}
	o := s.o.World
	o.Mix = s.mix
	w, err := NewWorld(s.key.WithString("world").Uint64(uint64(n)), o)
	if err != nil {
		return nil, err
	}
	retrieval, err := s.retrieve(w)
	if err != nil {
		return nil, fmt.Errorf("minihop: open the retriever of world %d: %w", w.seed, err)
	}
	if len(s.worlds) >= 4 {
		clear(s.worlds)
	}
	s.worlds[n] = &openWorld{w, retrieval}
	return s.worlds[n], nil
}
