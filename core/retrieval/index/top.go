package index

import (
	"cmp"
	"slices"
)

// before says whether a is the better hit.
func before(a, b Hit) bool {
	return a.Score > b.Score || a.Score == b.Score && a.Unit < b.Unit
}

// top keeps the k best hits of those pushed: a heap with the worst one at its root.
type top struct {
	k    int
	hits []Hit
}

// full says whether a hit must now beat the worst one kept.
func (t *top) full() bool { return len(t.hits) == t.k }

// worst is the least score kept.
func (t *top) worst() float32 { return t.hits[0].Score }

func (t *top) push(h Hit) {
	if len(t.hits) < t.k {
		t.hits = append(t.hits, h)
		for i := len(t.hits) - 1; i > 0; {
			parent := (i - 1) / 2
			if !before(t.hits[parent], t.hits[i]) {
				break
			}
			t.hits[parent], t.hits[i] = t.hits[i], t.hits[parent]
			i = parent
		}
		return
	}
	if !before(h, t.hits[0]) {
		return
	}
	i := 0
	for {
		child := 2*i + 1
		if child >= len(t.hits) {
			break
		}
		if child+1 < len(t.hits) && before(t.hits[child], t.hits[child+1]) {
			child++
		}
		if !before(h, t.hits[child]) {
			break
		}
		t.hits[i] = t.hits[child]
		i = child
	}
	t.hits[i] = h
}

// sorted gives the hits, best first.
func (t *top) sorted() []Hit {
	slices.SortFunc(t.hits, func(a, b Hit) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Unit, b.Unit))
	})
	return t.hits
}
