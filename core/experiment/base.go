package experiment

import (
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
)

// maxBases bounds a chain of bases, whose blocks are merged one over the other: its cost grows with the square.
const maxBases = 100

// mergeBases puts each block that has a base, base = agent.x, merged over it into the block's place.
func (s *Study) mergeBases() hcl.Diagnostics {
	b := &baser{c: s.newResolver(nil), bases: map[string]int{}}
	for _, kind := range blockKinds {
		if kind == "set" {
			continue // a set is merged itself, and several may stand in a list
		}
		for _, label := range sortedKeys(s.blocks[kind]) {
			b.merge(kind, label)
		}
	}
	return b.c.diags
}

type baser struct {
	c     *resolver
	bases map[string]int // of the blocks that are merged: how many bases each stands on
	open  []string       // blocks being merged, to end circles
}

// merge gives the block merged over its base. nil says that the block is being merged already.
func (b *baser) merge(kind, label string) *node {
	s, name := b.c.s, kind+"."+label
	n := s.blocks[kind][label]
	if _, done := b.bases[name]; done {
		return n
	}
	if slices.Contains(b.open, name) {
		return nil
	}
	a := n.attrs["base"]
	if a == nil || a.null() {
		if remove := n.attrs["remove"]; remove != nil {
			b.c.errorf(remove.at, "Nothing to remove", "%s has no base whose parts could be removed.", name)
		}
		b.bases[name] = 0
		if a != nil {
			s.blocks[kind][label], _ = n.without([]string{"base"})
		}
		return s.blocks[kind][label]
	}
	s.bases[name] = a
	over := *n
	over.attrs = maps.Clone(n.attrs)
	delete(over.attrs, "base")
	out, bases := &over, 0
	b.open = append(b.open, name)
	if ref := b.reference(n, a); ref != nil {
		base := b.merge(kind, ref.Name)
		switch {
		case base != nil && b.bases[ref.String()] < maxBases:
			out = b.layer(base, &over)
			bases = b.bases[ref.String()] + 1
		case base != nil:
			b.c.errorf(a.at, "Too many bases", "%s stands on more than %d bases, one on the other.", name, maxBases)
		default:
			circle := append(slices.Clone(b.open[slices.Index(b.open, ref.String()):]), ref.String())
			b.c.errorf(a.at, "Circular base", "A block cannot be its own base: %s.", strings.Join(circle, " → "))
		}
	}
	b.open = b.open[:len(b.open)-1]
	b.bases[name] = bases
	s.blocks[kind][label] = out
	return out
}

// reference gives the block that base names. It is not marked as used before the block itself is.
func (b *baser) reference(n *node, a *attr) *blockRef {
	v, diags := b.c.s.valueIn(a.expr, b.c.s.frame(a.file, nil), false)
	b.c.diags = append(b.c.diags, diags...)
	if diags.HasErrors() || !v.IsWhollyKnown() {
		return nil
	}
	return b.c.read(n).referenceIn("base", v, n.typ)
}

// layer lays a block over its base as an arm over its experiment. Description and seeds say how the base itself is shown
// and run alone.
func (b *baser) layer(base, over *node) *node {
	shared := *base
	shared.attrs = maps.Clone(base.attrs)
	delete(shared.attrs, "description")
	delete(shared.attrs, "seeds")
	out := *b.c.layer(&shared, over)
	out.labels, out.def, out.body = over.labels, over.def, over.body
	return &out
}
