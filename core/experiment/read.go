package experiment

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// resolver turns merged blocks into the configuration of one run. Without a seed it reads what stands outside of runs.
type resolver struct {
	s     *Study
	seed  *int64
	diags hcl.Diagnostics

	overlays map[string]*node // what axes lay over shared blocks, by reference; "policies.main" for a role
	laid     map[string]*Axis // the axes behind the overlays
	run      *Run
	arm      string
	method   bool           // see [Study.Method]
	resolved map[string]any // blocks by reference
	open     []string       // blocks being resolved, to end circles
	artefact map[string]bool
	heeded   map[string]heeded // settings of stages that only some algorithms take, by name
}

func (s *Study) newResolver(seed *int64) *resolver {
	return &resolver{s: s, seed: seed, resolved: map[string]any{}, heeded: map[string]heeded{}}
}

func (c *resolver) errorf(at hcl.Range, summary, detail string, args ...any) {
	c.diags = append(c.diags, errorAt(at.Ptr(), summary, detail, args...))
}

// reader reads one block and notices what nobody asked for.
type reader struct {
	c          *resolver
	n          *node
	attributes []string
	blockTypes []string
}

func (c *resolver) read(n *node) *reader { return &reader{c: c, n: n} }

// attr gives the attribute, or nil.
func (r *reader) attr(name string) *attr {
	r.attributes = append(r.attributes, name)
	return r.n.attrs[name]
}

// has says whether the attribute is written and not null. One whose value has an error counts as written.
func (r *reader) has(name string) bool {
	a := r.attr(name)
	if a == nil {
		return false
	}
	v, diags := r.c.s.evaluate(a, r.c.seed)
	return diags.HasErrors() || !v.IsNull()
}

// at is where the attribute stands, or the block's header.
func (r *reader) at(name string) hcl.Range {
	if a := r.n.attrs[name]; a != nil {
		return a.at
	}
	return r.n.def
}

// value gives a value that is there, known and not null.
func (r *reader) value(name string) (cty.Value, bool) {
	a := r.attr(name)
	if a == nil {
		return cty.NilVal, false
	}
	v, diags := r.c.s.evaluate(a, r.c.seed)
	r.c.diags = append(r.c.diags, diags...)
	if diags.HasErrors() || v.IsNull() || !v.IsKnown() {
		return cty.NilVal, false
	}
	return v, true
}

func (r *reader) wrong(name, want string, got cty.Value) {
	r.c.errorf(r.at(name), "Invalid value", "%s must be %s, got %s.", name, want, shown(got))
}

// shown is a value for a message: itself where it is short, else its type.
func shown(v cty.Value) string {
	if v.IsKnown() && !v.IsNull() && v.Type().IsPrimitiveType() {
		if text := printValue(v); len(text) <= 60 {
			return text
		}
	}
	return friendly(v)
}

func (r *reader) text(name, fallback string) string {
	v, ok := r.value(name)
	if !ok {
		return fallback
	}
	if v.Type() != cty.String {
		r.wrong(name, "a text", v)
		return fallback
	}
	return v.AsString()
}

// choice is a text out of a list.
func (r *reader) choice(name, fallback string, allowed ...string) string {
	v, ok := r.value(name)
	if !ok {
		return fallback
	}
	if v.Type() != cty.String {
		r.wrong(name, "one of the texts "+strings.Join(allowed, ", "), v)
		return fallback
	}
	if !slices.Contains(allowed, v.AsString()) {
		r.c.errorf(r.at(name), "Invalid value", "%s must be one of %s, got %q.%s", name, strings.Join(allowed, ", "), v.AsString(), didYouMean(v.AsString(), allowed))
		return fallback
	}
	return v.AsString()
}

// number is a number in [low, high].
func (r *reader) number(name string, fallback, low, high float64) float64 {
	v, ok := r.value(name)
	if !ok {
		return fallback
	}
	f, err := numberOf(v)
	if err != nil {
		r.wrong(name, "a number", v)
		return fallback
	}
	if f < low || f > high {
		r.c.errorf(r.at(name), "Value out of range", "%s must be %s, got %s.", name, interval(low, high), formatNumber(f))
		return fallback
	}
	return f
}

// above is a number greater than 0.
func (r *reader) above(name string, fallback float64) float64 {
	f := r.number(name, fallback, 0, math.Inf(1))
	if f == 0 && fallback != 0 {
		r.c.errorf(r.at(name), "Value out of range", "%s must be greater than 0.", name)
		return fallback
	}
	return f
}

func (r *reader) optionalNumber(name string, low, high float64) *float64 {
	if !r.has(name) {
		return nil
	}
	f := r.number(name, low, low, high)
	return &f
}

func interval(low, high float64) string {
	switch {
	case math.IsInf(high, 1) && math.IsInf(low, -1):
		return "any number"
	case math.IsInf(high, 1):
		return "at least " + formatNumber(low)
	case math.IsInf(low, -1):
		return "at most " + formatNumber(high)
	}
	return "between " + formatNumber(low) + " and " + formatNumber(high)
}

// whole is a whole number of at least low.
func (r *reader) whole(name string, fallback, low int) int {
	return int(r.integer(name, int64(fallback), int64(low)))
}

func (r *reader) integer(name string, fallback, low int64) int64 {
	v, ok := r.value(name)
	if !ok {
		return fallback
	}
	n, err := wholeOf(v)
	if err != nil {
		r.wrong(name, wantWhole(v), v)
		return fallback
	}
	if n < low {
		r.c.errorf(r.at(name), "Value out of range", "%s must be at least %d, got %d.", name, low, n)
		return fallback
	}
	return n
}

// maxWhole is where a float64 begins to count with gaps.
const maxWhole = 1 << 53

// wantWhole is what a value should be that [wholeOf] refuses.
func wantWhole(v cty.Value) string {
	if f, err := numberOf(v); err == nil && math.Abs(f) >= maxWhole {
		return "a whole number of fewer than 16 digits"
	}
	return "a whole number"
}

func wholeOf(v cty.Value) (int64, error) {
	f, err := numberOf(v)
	if err != nil {
		return 0, err
	}
	if f != math.Trunc(f) || math.Abs(f) >= maxWhole {
		return 0, fmt.Errorf("a whole number is required, got %s", formatNumber(f))
	}
	return int64(f), nil
}

func (r *reader) bool(name string, fallback bool) bool {
	v, ok := r.value(name)
	if !ok {
		return fallback
	}
	if v.Type() != cty.Bool {
		r.wrong(name, "true or false", v)
		return fallback
	}
	return v.True()
}

func (r *reader) optionalBool(name string) *bool {
	if !r.has(name) {
		return nil
	}
	b := r.bool(name, false)
	return &b
}

// list gives the elements of a list; ok is false where the attribute is not given.
func (r *reader) list(name string) (elements []cty.Value, ok bool) {
	v, ok := r.value(name)
	if !ok {
		return nil, false
	}
	if !isList(v) {
		r.wrong(name, "a list", v)
		return nil, false
	}
	for it := v.ElementIterator(); it.Next(); {
		_, element := it.Element()
		elements = append(elements, element)
	}
	return elements, true
}

func isList(v cty.Value) bool {
	t := v.Type()
	return t.IsTupleType() || t.IsListType() || t.IsSetType()
}

func (r *reader) texts(name string) ([]string, bool) {
	elements, ok := r.list(name)
	if !ok {
		return nil, false
	}
	list := []string{}
	for _, element := range elements {
		if element.IsNull() || !element.IsKnown() || element.Type() != cty.String {
			r.wrong(name, "a list of texts", element)
			return nil, false
		}
		list = append(list, element.AsString())
	}
	return list, true
}

// path reads the place of a file or folder.
func (r *reader) path(name string) string {
	text := r.text(name, "")
	if v, ok := r.value(name); ok && v.Type() == cty.String {
		r.notBlank(name, text)
	}
	return text
}

func (r *reader) notBlank(name, path string) {
	if strings.TrimSpace(path) == "" {
		r.c.errorf(r.at(name), "Invalid value", "%s is empty; it must name a file or a folder.", name)
	}
}

// paths reads a path or a list of paths.
func (r *reader) paths(name string) []string {
	v, ok := r.value(name)
	if !ok {
		return nil
	}
	if !isList(v) {
		if path := r.path(name); path != "" {
			return []string{path}
		}
		return nil
	}
	list, ok := r.texts(name)
	if ok && len(list) == 0 {
		r.c.errorf(r.at(name), "Invalid value", "%s is a text or a list of at least one text.", name)
	}
	for _, path := range list {
		r.notBlank(name, path)
	}
	return list
}

func (r *reader) numbers(name string) ([]float64, bool) {
	elements, ok := r.list(name)
	if !ok {
		return nil, false
	}
	list := []float64{}
	for _, element := range elements {
		f, err := numberOf(element)
		if err != nil {
			r.wrong(name, "a list of numbers", element)
			return nil, false
		}
		list = append(list, f)
	}
	return list, true
}

func (r *reader) duration(name string) time.Duration {
	text := r.text(name, "")
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		r.c.errorf(r.at(name), "Invalid value", `%s must be a duration such as "30s" or "5m", got %q.`, name, text)
		return 0
	}
	return d
}

// reference gives the block that the attribute refers to, of one of the kinds, or nil.
func (r *reader) reference(name string, kinds ...string) *blockRef {
	v, ok := r.value(name)
	if !ok {
		return nil
	}
	return r.referenceIn(name, v, kinds...)
}

func (r *reader) referenceIn(name string, v cty.Value, kinds ...string) *blockRef {
	if v.Type().Equals(refType) && !v.IsNull() && v.IsKnown() {
		ref := v.EncapsulatedValue().(*blockRef)
		if slices.Contains(kinds, ref.Kind) {
			return ref
		}
		r.c.errorf(r.at(name), "Wrong kind of reference", "%s must be a reference to %s, got %s.", name, alternatives(kinds), ref)
		return nil
	}
	r.wrong(name, "a reference to "+alternatives(kinds)+", such as "+kinds[0]+".x", v)
	return nil
}

func alternatives(kinds []string) string {
	var list []string
	for _, k := range kinds {
		article := "a "
		if strings.ContainsRune("aeio", rune(k[0])) {
			article = "an "
		}
		list = append(list, article+k)
	}
	return strings.Join(list, " or ")
}

// referenceMap gives a map from names to blocks; ok is false where it is not given.
func (r *reader) referenceMap(name, kind string) (map[string]*blockRef, bool) {
	v, ok := r.value(name)
	if !ok {
		return nil, false
	}
	if !v.Type().IsObjectType() && !v.Type().IsMapType() {
		r.wrong(name, fmt.Sprintf("an object of references, such as { x = %s.x }", kind), v)
		return nil, false
	}
	out := map[string]*blockRef{}
	for key, element := range v.AsValueMap() {
		if element.IsNull() {
			continue
		}
		if !names.MatchString(key) {
			r.c.errorf(r.at(name), "Invalid name", "%q in %s is not a name: a lower-case letter, then lower-case letters, digits and _.", key, name)
			continue
		}
		if ref := r.referenceIn(name, element, kind); ref != nil {
			out[key] = ref
		}
	}
	return out, true
}

// block gives the single block of a type, or nil.
func (r *reader) block(typ string) *node {
	r.blockTypes = append(r.blockTypes, typ)
	return r.n.find(typ)
}

// blocks gives the blocks of a type in order.
func (r *reader) blocks(typ string) []*node {
	r.blockTypes = append(r.blockTypes, typ)
	var list []*node
	for _, b := range r.n.blocks {
		if b.typ == typ {
			list = append(list, b)
		}
	}
	return list
}

// labels checks how many labels a block has.
func (c *resolver) labels(n *node, want int, what string) bool {
	if len(n.labels) == want {
		return true
	}
	if want == 0 {
		c.errorf(n.def, "Unexpected label", "A block %s has no label here.", n.typ)
	} else {
		c.errorf(n.def, "Wrong number of labels", "A block %s has one label, %s; got %d.", n.typ, what, len(n.labels))
	}
	return false
}

// instead says what a body takes in place of a name that it does not: the nearest, or all of it.
func (r *reader) instead(name string) string {
	known := slices.Concat(r.attributes, r.blockTypes)
	if near := didYouMean(name, known); near != "" || len(known) == 0 {
		return near
	}
	slices.Sort(known)
	return " It takes " + strings.Join(slices.Compact(known), ", ") + "."
}

// done reports attributes and blocks that nobody asked for.
func (r *reader) done() {
	for _, name := range slices.Sorted(maps.Keys(r.n.attrs)) {
		if slices.Contains(r.attributes, name) || name == "remove" {
			continue
		}
		a := r.n.attrs[name]
		where := r.n.typ
		if where == "" {
			where = "this place"
		}
		if a.axis != nil {
			r.c.lacks(a.axis, fmt.Sprintf("there is no attribute %q in %s", name, where), didYouMean(name, r.attributes))
			continue
		}
		if slices.Contains(r.blockTypes, name) {
			r.c.errorf(a.at, "Block expected", "%s is a block: write %s { … } without \"=\".", name, name)
			continue
		}
		r.c.errorf(a.at, "Unsupported attribute", "%s has no attribute %q.%s", where, name, r.instead(name))
	}
	for _, b := range r.n.blocks {
		if slices.Contains(r.blockTypes, b.typ) {
			continue
		}
		isAttribute := slices.Contains(r.attributes, b.typ)
		switch x := b.laidBy(); {
		case x == nil:
		case isAttribute:
			r.c.lacks(x, fmt.Sprintf("%s is an attribute of %s, and nothing is within it", b.typ, r.n.typ), "")
			continue
		default:
			r.c.lacks(x, fmt.Sprintf("there is no block %q in %s", b.typ, r.n.typ), didYouMean(b.typ, slices.Concat(r.attributes, r.blockTypes)))
			continue
		}
		if isAttribute {
			r.c.errorf(b.def, "Attribute expected", "%s is an attribute: write %s = ….", b.typ, b.typ)
			continue
		}
		r.c.errorf(b.def, "Unsupported block", "%s has no block %q.%s", r.n.typ, b.typ, r.instead(b.typ))
	}
}
