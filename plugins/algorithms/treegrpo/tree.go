package treegrpo

import (
	"fmt"
	"slices"

	"github.com/forage-rl/forage/core/sdk/episode"
)

// Tree is the shape of a tree of turns. Node 0 is the root, the prompt; every other node is one turn with its
// observation. A leaf is the last turn of an episode.
type Tree struct{ nodes []node }

type node struct {
	parent   int
	children []int
	leaf     bool
}

// NewTree makes a tree of a root alone.
func NewTree() *Tree { return &Tree{nodes: []node{{parent: -1}}} }

// Add appends a turn after parent and gives its number.
func (t *Tree) Add(parent int, leaf bool) int {
	t.nodes = append(t.nodes, node{parent: parent, leaf: leaf})
	n := len(t.nodes) - 1
	t.nodes[parent].children = append(t.nodes[parent].children, n)
	return n
}

// BreadthFirst lists all nodes but the root, level by level.
func (t *Tree) BreadthFirst() []int {
	queue := []int{0}
	for i := 0; i < len(queue); i++ {
		queue = append(queue, t.nodes[queue[i]].children...)
	}
	return queue[1:]
}

func (t *Tree) filter(leaf bool) []int {
	return slices.DeleteFunc(t.BreadthFirst(), func(n int) bool { return t.nodes[n].leaf != leaf })
}

// Leaves lists the leaves, level by level.
func (t *Tree) Leaves() []int { return t.filter(true) }

// Expandable lists the nodes that a new branch may grow from: the root, then every node that is no leaf.
func (t *Tree) Expandable() []int { return append([]int{0}, t.filter(false)...) }

// Keep draws k leaves, which shuffle orders first, and gives them level by level.
func (t *Tree) Keep(k int, shuffle func(leaves []int)) ([]int, error) {
	leaves := t.Leaves()
	if k > len(leaves) {
		return nil, fmt.Errorf("keep %d leaves of a tree that has %d", k, len(leaves))
	}
	drawn := slices.Clone(leaves)
	shuffle(drawn)
	return slices.DeleteFunc(leaves, func(n int) bool { return !slices.Contains(drawn[:k], n) }), nil
}

// Above lists the nodes on the paths to the given ones, themselves included and without the root, level by level.
func (t *Tree) Above(nodes []int) []int {
	on := make([]bool, len(t.nodes))
	for _, n := range nodes {
		for ; n > 0; n = t.nodes[n].parent {
			on[n] = true
		}
	}
	return slices.DeleteFunc(t.BreadthFirst(), func(n int) bool { return !on[n] })
}

// grown is a tree of sampled episodes.
type grown struct {
	Tree
	branches []episode.Branch // where a branch from each node begins
	episodes map[int]episode.Episode
	first    episode.Episode // the chain that the tree started from
}

func plant(first episode.Episode) *grown {
	g := &grown{Tree: *NewTree(), branches: []episode.Branch{{EpisodeID: first.ID, AfterTurn: -1}}, episodes: map[int]episode.Episode{}, first: first}
	g.graft(0, first)
	return g
}

// graft adds the turns of an episode that were sampled for it, below the node that it grew from. Its last turn is a
// leaf whatever it says; an episode that had no room for a turn of its own is a leaf without one.
func (g *grown) graft(below int, e episode.Episode) {
	at := below
	for i := inherited(e); i < len(e.Turns) || at == below; i++ {
		leaf := i >= len(e.Turns)-1
		at = g.Add(at, leaf)
		g.branches = append(g.branches, episode.Branch{EpisodeID: e.ID, AfterTurn: i})
		if leaf {
			g.episodes[at] = e
		}
	}
}

// inherited is the number of turns that an episode took over from its parent.
func inherited(e episode.Episode) int {
	if e.Parent == nil {
		return 0
	}
	return e.Parent.AfterTurn + 1
}
