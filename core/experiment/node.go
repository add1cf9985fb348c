package experiment

import (
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// node is a block as merged so far. Nodes are not changed once a file is read: merging makes new ones that share parts.
type node struct {
	typ    string
	labels []string
	attrs  map[string]*attr
	blocks []*node
	def    hcl.Range // header
	body   hcl.Range // all of the block
}

// attr is an attribute as written. Its pointer identifies it in caches.
type attr struct {
	name  string
	expr  hclsyntax.Expression
	value *cty.Value // in place of expr
	file  string     // where it stands; file() is relative to it
	at    hcl.Range
	axis  *Axis // set where an axis put it there
}

// null says whether the attribute is written as null, which goes back to the default.
func (a *attr) null() bool {
	if a.expr == nil {
		return a.value != nil && a.value.IsNull()
	}
	literal, ok := a.expr.(*hclsyntax.LiteralValueExpr)
	return ok && literal.Val.IsNull()
}

func (n *node) label() string {
	if len(n.labels) == 0 {
		return ""
	}
	return n.labels[0]
}

// name is the block as references and diagnostics write it: stage.main, agent.
func (n *node) name() string { return strings.Join(append([]string{n.typ}, n.labels...), ".") }

// key is what blocks merge by within their parent. A block whose label names a plugin or a kind (algorithm, optimizer,
// protocol …) is there once; all others are told apart by their label.
func (n *node) key() string {
	if namedBlocks[n.typ] || len(n.labels) == 0 {
		return n.name()
	}
	return n.typ
}

// namedBlocks are those whose label is a name given by the study.
var namedBlocks = map[string]bool{
	"stage": true, "evaluate": true, "guard": true, "source": true, "arm": true, "axis": true,
	"corpus": true, "encoder": true, "index": true, "dataset": true, "tool": true, "policy": true, "experiment": true, "ablation": true, "variable": true,
}

// objectBlocks may be written as a block or as an object: sampling = { temperature = 0.6 }.
var objectBlocks = map[string]bool{"sampling": true, "turn_tokens": true, "checkpoint": true, "answer_with": true, "world": true, "std_dev": true}

// pluginBlocks hold a plugin's own attributes and blocks.
func (n *node) isPlugin() bool {
	return len(n.labels) == 1 && (n.typ == "algorithm" || n.typ == "reward" || n.typ == "retriever")
}

func newNode(b *hclsyntax.Block, diags *hcl.Diagnostics) *node {
	n := nodeOfBody(b.Body, diags)
	n.typ, n.labels, n.def = b.Type, b.Labels, b.DefRange()
	n.body = hcl.RangeBetween(b.TypeRange, b.CloseBraceRange)
	return n
}

func nodeOfBody(body *hclsyntax.Body, diags *hcl.Diagnostics) *node {
	n := &node{attrs: map[string]*attr{}}
	for name, a := range body.Attributes {
		if object, ok := a.Expr.(*hclsyntax.ObjectConsExpr); ok && objectBlocks[name] {
			if b := nodeOfObject(name, a, object); b != nil {
				n.blocks = append(n.blocks, b)
				continue
			}
		}
		n.attrs[name] = &attr{name: name, expr: a.Expr, file: a.SrcRange.Filename, at: a.SrcRange}
	}
	for _, b := range body.Blocks {
		n.blocks = append(n.blocks, newNode(b, diags))
	}
	return n
}

// nodeOfObject reads name = { a = 1 } as a block; nil where a key is not a plain name.
func nodeOfObject(name string, a *hclsyntax.Attribute, object *hclsyntax.ObjectConsExpr) *node {
	n := &node{typ: name, attrs: map[string]*attr{}, def: a.NameRange, body: a.SrcRange}
	for _, item := range object.Items {
		key := hcl.ExprAsKeyword(item.KeyExpr)
		if key == "" || n.attrs[key] != nil {
			return nil
		}
		at := hcl.RangeBetween(item.KeyExpr.Range(), item.ValueExpr.Range())
		n.attrs[key] = &attr{name: key, expr: item.ValueExpr, file: at.Filename, at: at}
	}
	return n
}

// find gives the block with that key, or nil.
func (n *node) find(key string) *node {
	if n == nil {
		return nil
	}
	for _, b := range n.blocks {
		if b.key() == key {
			return b
		}
	}
	return nil
}

// duplicates reports blocks that are written twice in one body, and keeps the first.
func (n *node) duplicates(diags *hcl.Diagnostics) {
	if n.isPlugin() {
		return
	}
	seen := map[string]*node{}
	n.blocks = slices.DeleteFunc(n.blocks, func(b *node) bool {
		if n.typ == "ablation" && (b.typ == "exclude" || b.typ == "include") {
			return false
		}
		if first := seen[b.key()]; first != nil {
			*diags = append(*diags, errorAt(b.def.Ptr(), "Duplicate block", "There is already a block %s here, at %s. Put the settings of both into one.", b.key(), place(first.def)))
			return true
		}
		seen[b.key()] = b
		b.duplicates(diags)
		return false
	})
}

// merge lays over over base: attributes replace, blocks merge by [node.key], and a block of another label replaces.
// An attribute that refers to a whole block (agent = agent.x) also drops what was merged over the earlier one.
func merge(base, over *node) *node {
	if base == nil {
		return over
	}
	if over == nil {
		return base
	}
	out := &node{typ: base.typ, labels: base.labels, attrs: maps.Clone(base.attrs), def: base.def, body: base.body}
	blocks := slices.Clone(base.blocks)
	for name, a := range over.attrs {
		if name == "remove" {
			continue
		}
		out.attrs[name] = a
		blocks = slices.DeleteFunc(blocks, func(b *node) bool {
			return len(b.labels) == 0 && b.typ == name && (name == "agent" || objectBlocks[name])
		})
	}
	if base.isPlugin() {
		out.blocks = mergeRepeated(blocks, over.blocks)
		return out
	}
	for _, b := range over.blocks {
		i := slices.IndexFunc(blocks, func(o *node) bool { return o.key() == b.key() })
		switch {
		case i < 0:
			blocks = append(blocks, b)
		case b.replaces(blocks[i]):
			blocks[i] = b
		default:
			blocks[i] = merge(blocks[i], b)
		}
	}
	out.blocks = blocks
	return out
}

// replaces says whether n stands for another plugin or kind than base, so that nothing of base is kept. A block that an
// axis makes has no label and never does.
func (n *node) replaces(base *node) bool {
	return !namedBlocks[n.typ] && len(n.labels) > 0 && !slices.Equal(n.labels, base.labels)
}

// mergeRepeated merges the blocks of a plugin's configuration: single ones and labelled ones by name, repeated
// unlabelled ones are replaced together.
func mergeRepeated(base, over []*node) []*node {
	count := func(list []*node, key string) int {
		n := 0
		for _, b := range list {
			if b.name() == key {
				n++
			}
		}
		return n
	}
	out := slices.Clone(base)
	replaced := map[string]bool{}
	for _, b := range over {
		key := b.name()
		if count(base, key) == 1 && count(over, key) == 1 {
			i := slices.IndexFunc(out, func(o *node) bool { return o.name() == key })
			out[i] = merge(out[i], b)
			continue
		}
		if !replaced[key] {
			replaced[key] = true
			out = slices.DeleteFunc(out, func(o *node) bool { return o.name() == key })
		}
		out = append(out, b)
	}
	return out
}

// without removes what path leads to, such as guard.collapse or stage.main.reward. ok is false where there is nothing.
func (n *node) without(path []string) (_ *node, ok bool) {
	for i, b := range n.blocks {
		name := []string{b.typ}
		if namedBlocks[b.typ] {
			name = append(name, b.labels...)
		}
		if len(path) < len(name) || !slices.Equal(path[:len(name)], name) {
			continue
		}
		out := *n
		out.blocks = slices.Clone(n.blocks)
		if len(path) == len(name) {
			out.blocks = slices.Delete(out.blocks, i, i+1)
			return &out, true
		}
		inner, ok := b.without(path[len(name):])
		if !ok {
			continue
		}
		out.blocks[i] = inner
		return &out, true
	}
	if len(path) == 1 && n.attrs[path[0]] != nil {
		out := *n
		out.attrs = maps.Clone(n.attrs)
		delete(out.attrs, path[0])
		return &out, true
	}
	return n, false
}

// removable lists what [node.without] understands, one level deep.
func (n *node) removable() []string {
	var names []string
	for _, b := range n.blocks {
		if namedBlocks[b.typ] {
			names = append(names, b.name())
		} else {
			names = append(names, b.typ)
		}
	}
	return slices.Concat(names, slices.Collect(maps.Keys(n.attrs)))
}

// overlay builds the nested blocks that put one attribute at a path of keys.
func overlay(keys []overlayStep, a *attr) *node {
	n := &node{attrs: map[string]*attr{a.name: a}, def: a.at, body: a.at}
	for _, k := range slices.Backward(keys) {
		n.typ, n.labels = k.typ, k.labels
		n = &node{attrs: map[string]*attr{}, blocks: []*node{n}, def: a.at, body: a.at}
	}
	return n
}

// laidBy is the axis that made the block, nil for one that is written.
func (n *node) laidBy() *Axis {
	for len(n.attrs) == 0 && len(n.blocks) == 1 {
		n = n.blocks[0]
	}
	if len(n.attrs) != 1 || len(n.blocks) > 0 {
		return nil
	}
	for _, a := range n.attrs {
		return a.axis
	}
	return nil
}

type overlayStep struct {
	typ    string
	labels []string
}
