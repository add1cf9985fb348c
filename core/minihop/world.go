package minihop

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/forage-rl/forage/core/internal/rng"
)

// Documents is how many documents a world has.
const Documents = 156

// Options are the knobs of a world. The zero value is the world of the documentation.
type Options struct {
	// TwoTokenNames gives every entity a second name out of 12 shared ones, so that F1 and exact match differ.
	TwoTokenNames bool
	// Mix is the share of questions with 1, 2 and 3 hops. It must sum to 1; zero means 0, .55, .45.
	Mix [3]float64
}

// World is one set of facts.
type World struct {
	seed     uint64
	options  Options
	rel      []relation
	names    [kinds][]string
	facts    map[fact]int     // index of the object, in the relation's object kind
	order    map[entity][]int // relations in the order of the document's sentences
	entities map[string]entity
	chains   [3][][]int // valid ones of 1, 2 and 3 hops
}

type entity struct {
	kind  kind
	index int
}

type fact struct {
	subject  int
	relation int
}

// Doc is one document: what the world says about one entity.
type Doc struct {
	ID        string   // "<kind>-<number>", the same in all worlds
	Title     string   // the name
	Text      string   // "( TITLE ) REL is OBJ . REL is OBJ ."
	Sentences []string // "REL is OBJ ."
}

// NewWorld draws the facts of the world of that seed.
func NewWorld(seed uint64, o Options) (*World, error) {
	if o.Mix == [3]float64{} {
		o.Mix = [3]float64{0, .55, .45}
	}
	sum := 0.
	for i, share := range o.Mix {
		if !(share >= 0 && share <= 1) {
			return nil, fmt.Errorf("minihop: share of %d-hop questions is %v, want a number in [0, 1]", i+1, share)
		}
		sum += share
	}
	if math.Abs(sum-1) > 1e-6 {
		return nil, fmt.Errorf("minihop: shares of 1-, 2- and 3-hop questions sum to %v, want 1", sum)
	}
	w := &World{
		seed: seed, options: o, rel: relations(),
		facts: map[fact]int{}, order: map[entity][]int{}, entities: map[string]entity{},
	}
	for h := range w.chains {
		w.chains[h] = chains(h + 1)
	}
	second := secondNames()
	for k := range kinds {
		w.names[k] = firstNames(k)
		for i, name := range w.names[k] {
			if o.TwoTokenNames {
				name += " " + second[(5*i+int(k))%len(second)]
				w.names[k][i] = name
			}
			w.entities[name] = entity{k, i}
		}
	}
	key := rng.New(seed).WithString("minihop/facts")
	for r, rel := range w.rel {
		n, _ := rel.from.law()
		for i := range n {
			not := -1
			if rel.from == rel.to {
				not = i
			}
			w.facts[fact{i, r}] = draw(rel.to, not, key.With(uint64(r)).Float64(uint64(i)))
		}
	}
	for k := range kinds {
		if !k.documented() {
			continue
		}
		n, _ := k.law()
		for i := range n {
			var has []int
			for r, rel := range w.rel {
				if rel.from == k {
					has = append(has, r)
				}
			}
			shuffle := rand.New(rng.New(seed).WithString("minihop/order").With(uint64(k), uint64(i)).Source())
			shuffle.Shuffle(len(has), func(a, b int) { has[a], has[b] = has[b], has[a] })
			w.order[entity{k, i}] = has
		}
	}
	return w, nil
}

// draw gives the entity of kind k that the uniform number u falls on under the popularity law without entity not.
func draw(k kind, not int, u float64) int {
	n, exponent := k.law()
	total := 0.
	for i := range n {
		if i != not {
			total += math.Pow(float64(i+1), -exponent)
		}
	}
	u *= total
	last := 0
	for i := range n {
		if i == not {
			continue
		}
		last = i
		if u -= math.Pow(float64(i+1), -exponent); u < 0 {
			break
		}
	}
	return last
}

// Seed is the seed the world was made from.
func (w *World) Seed() uint64 { return w.seed }

// Documents lists the world's 156 documents, in the same order in every world.
func (w *World) Documents() []Doc {
	docs := make([]Doc, 0, Documents)
	for k := range kinds {
		if !k.documented() {
			continue
		}
		for i := range w.names[k] {
			docs = append(docs, w.document(entity{k, i}))
		}
	}
	return docs
}

func (w *World) document(e entity) Doc {
	d := Doc{ID: e.id(), Title: w.name(e)}
	for _, r := range w.order[e] {
		d.Sentences = append(d.Sentences, w.sentence(e, r))
	}
	d.Text = "( " + d.Title + " ) " + strings.Join(d.Sentences, " ")
	return d
}

// sentence is the fact of e about relation r.
func (w *World) sentence(e entity, r int) string {
	return w.rel[r].name + " is " + w.name(w.object(e, r)) + " ."
}

func (e entity) id() string { return fmt.Sprintf("%s-%02d", e.kind, e.index) }

func (w *World) name(e entity) string { return w.names[e.kind][e.index] }

// object is what relation r of e points to.
func (w *World) object(e entity, r int) entity { return entity{w.rel[r].to, w.facts[fact{e.index, r}]} }

// path follows a chain of relations from e: the entities, e first.
func (w *World) path(e entity, chain []int) []entity {
	path := []entity{e}
	for _, r := range chain {
		e = w.object(e, r)
		path = append(path, e)
	}
	return path
}
