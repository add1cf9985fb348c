package experiment

import (
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// Ablation compares arms over axes and seeds. An experiment that is run alone is an ablation of one arm.
type Ablation struct {
	Name        string // "" for an experiment that is run alone
	Description string
	Seeds       []int64
	Primary     *Metric  // nil: none named
	Baseline    *CellRef // nil: none named
	Arms        []*Arm
	Axes        []*Axis
	Zip         [][]string // groups of axes that go together
	Exclude     []CellRef
	Include     []CellRef
	Assume      *Assume
	Range       hcl.Range

	sets   []*node // shared by all arms, in the order of merging
	method bool    // a method by itself: policies and training questions come with a study
}

// Assume is what the plan takes for the spread of results where no runs tell it.
type Assume struct {
	SeedSD      float64 // standard deviation over seeds of one cell's primary figure
	Discordance float64 // share of questions that exactly one of two cells has right
}

// Arm is one line of a comparison.
type Arm struct {
	Name        string
	Description string
	Experiment  string // label of the experiment block
	// Parts are the paths that the arm changes over its experiment; empty for a whole method.
	Parts []string
	Range hcl.Range

	sets   []*node
	node   *node
	merged *node // experiment, sets and arm; nil until first needed
	broken hcl.Diagnostics
}

// WholeMethod says that the arm is its experiment as it stands, up to what all arms share.
func (a *Arm) WholeMethod() bool { return len(a.Parts) == 0 }

// Axis varies one setting.
type Axis struct {
	Name      string
	Path      string // from the run's resolved tree, such as stage.main.algorithm.group_size
	Values    []AxisValue
	Arms      []string // nil: all
	Range     hcl.Range
	PathRange hcl.Range

	steps []string
}

// Applies says whether the axis varies an arm.
func (x *Axis) Applies(arm string) bool { return x.Arms == nil || slices.Contains(x.Arms, arm) }

// AxisValue is one value of an axis.
type AxisValue struct {
	Text    string // as HCL; values with equal texts are the same
	Display string // for tables
	attr    *attr
}

// CellRef names a cell, or several where it leaves out axes.
type CellRef struct {
	Arm    string // "": every arm
	Values map[string]AxisValue
	Range  hcl.Range
}

// Ablation finds an ablation by name, or makes one of a lone experiment of that name. The empty name means the only
// one there is.
func (s *Study) Ablation(name string) (*Ablation, hcl.Diagnostics) {
	lone := s.lone()
	if name == "" {
		switch {
		case len(s.Ablations) == 1:
			return s.Ablations[0], nil
		case len(s.Ablations) == 0 && len(lone) == 1:
			return s.alone(lone[0])
		}
	}
	var known []string
	for _, a := range s.Ablations {
		if a.Name == name {
			return a, nil
		}
		known = append(known, a.Name)
	}
	if s.blocks["experiment"][name] != nil {
		return s.alone(name)
	}
	known = append(known, lone...)
	summary, detail := "Unknown ablation", "The study has no ablation or experiment "+quote(name)+"."+didYouMean(name, known)
	if name == "" {
		summary, detail = "No ablation chosen", "The study has several; name one with --ablation."
	}
	if len(known) == 0 {
		detail = "The study has neither an ablation nor an experiment with seeds, so there is nothing to run."
	} else {
		detail += " There are " + strings.Join(known, ", ") + "."
	}
	return nil, hcl.Diagnostics{{Severity: hcl.DiagError, Summary: summary, Detail: detail}}
}

// Method makes a comparison of one arm of an experiment that no study runs, to check it by itself: what a study gives
// (policies, an agent, training questions) may be missing.
func (s *Study) Method(name string) (*Ablation, hcl.Diagnostics) {
	a, diags := s.alone(name)
	a.method = true
	return a, diags
}

// Targets are all names that [Study.Ablation] makes something of, in order: ablations, then experiments with seeds.
func (s *Study) Targets() []string {
	var list []string
	for _, a := range s.Ablations {
		list = append(list, a.Name)
	}
	return append(list, s.lone()...)
}

// Idle are the experiments that neither an arm nor seeds of their own put to use, sorted.
func (s *Study) Idle() []string {
	busy := s.lone()
	for _, a := range s.Ablations {
		for _, arm := range a.Arms {
			busy = append(busy, arm.Experiment)
		}
	}
	var list []string
	for _, name := range sortedKeys(s.blocks["experiment"]) {
		if !slices.Contains(busy, name) {
			list = append(list, name)
		}
	}
	return list
}

// lone are the experiments with seeds.
func (s *Study) lone() []string {
	var list []string
	for _, name := range sortedKeys(s.blocks["experiment"]) {
		if s.blocks["experiment"][name].attrs["seeds"] != nil {
			list = append(list, name)
		}
	}
	return list
}

// alone makes a comparison of one arm. Without seeds of its own the experiment runs with seed 1.
func (s *Study) alone(name string) (*Ablation, hcl.Diagnostics) {
	n := s.blocks["experiment"][name]
	s.use("experiment." + name)
	c := s.newResolver(nil)
	r := c.read(n)
	a := &Ablation{Seeds: []int64{1}, Range: n.def, Arms: []*Arm{{Name: name, Experiment: name, Range: n.def}}, Description: r.text("description", "")}
	a.Arms[0].Description = a.Description
	if r.has("seeds") {
		a.Seeds = c.seeds(r)
	}
	return a, Tidy(c.diags)
}

func (c *resolver) seeds(r *reader) []int64 {
	elements, ok := r.list("seeds")
	if !ok {
		if !r.has("seeds") {
			c.errorf(r.n.def, "Missing attribute", "%s needs seeds, such as seeds = [1, 2, 3, 4, 5].", r.n.name())
		}
		return nil
	}
	var list []int64
	for _, element := range elements {
		n, err := wholeOf(element)
		switch {
		case err != nil || n < 0:
			r.wrong("seeds", "a list of whole numbers of at least 0", element)
		case slices.Contains(list, n):
			c.errorf(r.at("seeds"), "Duplicate seed", "The seed %d is listed twice; a repeated run tells nothing new.", n)
		default:
			list = append(list, n)
		}
	}
	if len(elements) == 0 {
		c.errorf(r.at("seeds"), "Invalid value", "seeds must not be empty.")
	}
	return list
}

func (s *Study) readAblation(n *node) (*Ablation, hcl.Diagnostics) {
	c := s.newResolver(nil)
	r := c.read(n)
	a := &Ablation{Name: n.label(), Description: r.text("description", ""), Range: n.def}
	a.Seeds = c.seeds(r)
	if v, ok := r.value("primary"); ok {
		if v.Type().Equals(metricType) {
			a.Primary = v.EncapsulatedValue().(*Metric)
		} else {
			r.wrong("primary", `metric("evaluation", "metric")`, v)
		}
	}
	a.sets = c.sets(r)
	if set := r.block("set"); set != nil && c.labels(set, 0, "") {
		a.sets = append(a.sets, set)
	}
	for _, b := range r.blocks("arm") {
		if c.labels(b, 1, "its name") {
			a.Arms = append(a.Arms, c.armHead(b, a.sets))
		}
	}
	if len(a.Arms) == 0 {
		c.errorf(n.def, "Missing block", "%s needs at least one arm.", n.name())
	}
	for _, b := range r.blocks("axis") {
		if c.labels(b, 1, "its name") {
			a.Axes = append(a.Axes, c.axis(b, a))
		}
	}
	c.zip(r, a)
	if v, ok := r.value("baseline"); ok {
		ref := c.cellRef(a, r.at("baseline"), v)
		if ref.Arm == "" {
			if len(a.Arms) == 1 {
				ref.Arm = a.Arms[0].Name
			} else {
				c.errorf(r.at("baseline"), "Missing arm", "The baseline is one cell: name its arm, such as baseline = { arm = \"x\" }.")
			}
		}
		a.Baseline = &ref
	}
	a.Exclude, a.Include = c.cellRefs(r, a, "exclude"), c.cellRefs(r, a, "include")
	for _, ref := range a.Include {
		if ref.Arm == "" {
			c.errorf(ref.Range, "Missing arm", "A cell to include needs its arm.")
		}
	}
	if b := r.block("assume"); b != nil {
		inner := c.read(b)
		a.Assume = &Assume{SeedSD: inner.number("seed_sd", 0.02, 0, 1), Discordance: inner.number("discordance", 0.3, 0, 1)}
		inner.done()
	}
	r.done()
	return a, c.diags
}

// armHead reads the head of an arm of an ablation whose arms all share sets; what it changes is read with the runs.
func (c *resolver) armHead(n *node, shared []*node) *Arm {
	arm := &Arm{Name: n.label(), Range: n.def, node: n}
	if !names.MatchString(arm.Name) {
		c.errorf(n.def, "Invalid name", "%q cannot name an arm: a lower-case letter, then lower-case letters, digits and _.", arm.Name)
	}
	r := c.read(n)
	arm.Description = r.text("description", "")
	if ref := r.reference("experiment", "experiment"); ref != nil {
		arm.Experiment = ref.Name
	} else if !r.has("experiment") {
		c.errorf(n.def, "Missing attribute", "%s needs experiment = experiment.x, the method it takes or changes.", n.name())
	}
	arm.sets = c.sets(r)
	base := c.s.blocks["experiment"][arm.Experiment]
	for _, set := range shared {
		base = merge(base, set)
	}
	for _, set := range slices.Concat(arm.sets, []*node{n}) {
		for _, part := range changes(set, base, "") {
			if !slices.Contains(arm.Parts, part) {
				arm.Parts = append(arm.Parts, part)
			}
		}
		base = merge(base, set)
	}
	return arm
}

// sets reads sets = [set.x, …].
func (c *resolver) sets(r *reader) []*node {
	elements, _ := r.list("sets")
	var list []*node
	for _, element := range elements {
		ref := r.referenceIn("sets", element, "set")
		if ref == nil {
			continue
		}
		n := c.s.blocks["set"][ref.Name]
		if slices.Contains(list, n) {
			c.errorf(r.at("sets"), "Duplicate set", "%s is listed twice.", ref)
			continue
		}
		list = append(list, n)
	}
	return list
}

// changes lists the paths that a block sets in base, nil where it is new. One that takes another plugin or kind than base
// is one part, whatever it sets.
func changes(n, base *node, prefix string) []string {
	var list []string
	for _, name := range sortedKeys(n.attrs) {
		switch {
		case name == "remove":
			list = append(list, prefix+"remove")
		case prefix == "" && (name == "experiment" || name == "description" || name == "sets"):
		default:
			list = append(list, prefix+name)
		}
	}
	for _, b := range n.blocks {
		name, whole := b.typ, b.typ
		if namedBlocks[b.typ] {
			name, whole = b.name(), b.name()
		} else if len(b.labels) > 0 {
			whole += " " + quote(b.label())
		}
		var old *node
		if base != nil {
			if i := slices.IndexFunc(base.blocks, func(o *node) bool { return o.key() == b.key() }); i >= 0 {
				old = base.blocks[i]
			}
		}
		inner := changes(b, old, prefix+name+".")
		if len(inner) == 0 || old != nil && b.replaces(old) {
			inner = []string{prefix + whole}
		}
		list = append(list, inner...)
	}
	return list
}

func (c *resolver) axis(n *node, a *Ablation) *Axis {
	x := &Axis{Name: n.label(), Range: n.def, PathRange: n.def}
	if !names.MatchString(x.Name) || x.Name == "arm" {
		c.errorf(n.def, "Invalid name", "%q cannot name an axis: a lower-case letter, then lower-case letters, digits and _, and not arm.", x.Name)
	}
	r := c.read(n)
	r.text("description", "")
	if p := r.attr("path"); p == nil {
		c.errorf(n.def, "Missing attribute", "%s needs path, such as path = stage.main.algorithm.group_size.", n.name())
	} else {
		x.PathRange = p.at
		x.steps = pathSteps(p.expr)
		x.Path = strings.Join(x.steps, ".")
		if len(x.steps) == 0 {
			c.errorf(p.at, "Invalid path", "A path is a chain of names, such as stage.main.algorithm.group_size.")
		}
	}
	c.axisValues(r, x)
	if list, ok := r.texts("arms"); ok {
		x.Arms = []string{}
		var known []string
		for _, arm := range a.Arms {
			known = append(known, arm.Name)
		}
		for _, name := range list {
			if !slices.Contains(known, name) {
				c.errorf(r.at("arms"), "Unknown arm", "There is no arm %q.%s", name, didYouMean(name, known))
				continue
			}
			x.Arms = append(x.Arms, name)
		}
	}
	r.done()
	return x
}

// pathSteps reads a path written as a reference or as a text.
func pathSteps(expr hclsyntax.Expression) []string {
	t, diags := hcl.AbsTraversalForExpr(expr)
	if diags.HasErrors() {
		v, diags := expr.Value(nil)
		if diags.HasErrors() || v.IsNull() || v.Type() != cty.String {
			return nil
		}
		t, diags = hclsyntax.ParseTraversalAbs([]byte(v.AsString()), "", hcl.InitialPos)
		if diags.HasErrors() {
			return nil
		}
	}
	var steps []string
	for _, step := range t {
		switch s := step.(type) {
		case hcl.TraverseRoot:
			steps = append(steps, s.Name)
		case hcl.TraverseAttr:
			steps = append(steps, s.Name)
		case hcl.TraverseIndex:
			if s.Key.Type() != cty.String {
				return nil
			}
			steps = append(steps, s.Key.AsString())
		}
	}
	return steps
}

func (c *resolver) axisValues(r *reader, x *Axis) {
	a := r.attr("values")
	if a == nil {
		c.errorf(r.n.def, "Missing attribute", "%s needs values, a list.", r.n.name())
		return
	}
	var attrs []*attr
	if tuple, ok := a.expr.(*hclsyntax.TupleConsExpr); ok {
		for _, e := range tuple.Exprs {
			attrs = append(attrs, &attr{expr: e, file: a.file, at: e.Range(), axis: x})
		}
	} else if elements, ok := r.list("values"); ok {
		for _, v := range elements {
			attrs = append(attrs, &attr{value: &v, file: a.file, at: a.at, axis: x})
		}
	} else {
		return
	}
	if len(attrs) == 0 {
		c.errorf(a.at, "Invalid value", "values must not be empty.")
	}
	for _, v := range attrs {
		value, ok := c.axisValue(x, v)
		if !ok {
			continue
		}
		if slices.ContainsFunc(x.Values, func(o AxisValue) bool { return o.Text == value.Text }) {
			c.errorf(v.at, "Duplicate value", "%s is listed twice.", value.Display)
			continue
		}
		x.Values = append(x.Values, value)
	}
}

// axisValue prepares a value; one that depends on the seed is shown as it is written.
func (c *resolver) axisValue(x *Axis, a *attr) (AxisValue, bool) {
	if len(x.steps) > 0 {
		a.name = x.steps[len(x.steps)-1]
	}
	if a.expr != nil && c.s.needsSeed(a) {
		text, diags := c.s.deferred.print(a.expr)
		c.diags = append(c.diags, diags...)
		return AxisValue{text, text, a}, !diags.HasErrors()
	}
	v, diags := c.s.evaluate(a, nil)
	c.diags = append(c.diags, diags...)
	if diags.HasErrors() || !v.IsKnown() {
		return AxisValue{}, false
	}
	text := printValue(v)
	display := text
	switch {
	case v.IsNull():
	case v.Type() == cty.String:
		display = v.AsString()
	case v.Type().Equals(refType):
		display = v.EncapsulatedValue().(*blockRef).Name
	}
	return AxisValue{text, display, a}, true
}

// zip reads zip = ["a", "b"] or a list of such lists.
func (c *resolver) zip(r *reader, a *Ablation) {
	elements, ok := r.list("zip")
	if !ok || len(elements) == 0 {
		return
	}
	groups := [][]cty.Value{elements}
	if isList(elements[0]) {
		groups = nil
		for _, element := range elements {
			if !isList(element) {
				r.wrong("zip", "a list of names of axes, or a list of such lists", element)
				return
			}
			groups = append(groups, element.AsValueSlice())
		}
	}
	var known []string
	for _, x := range a.Axes {
		known = append(known, x.Name)
	}
	var taken []string
	for _, group := range groups {
		var list []string
		length := -1
		for _, element := range group {
			if element.IsNull() || element.Type() != cty.String {
				r.wrong("zip", "a list of names of axes", element)
				return
			}
			name := element.AsString()
			i := slices.Index(known, name)
			if i < 0 {
				c.errorf(r.at("zip"), "Unknown axis", "There is no axis %q.%s", name, didYouMean(name, known))
				return
			}
			if slices.Contains(taken, name) {
				c.errorf(r.at("zip"), "Duplicate axis", "The axis %q is zipped twice.", name)
				return
			}
			taken = append(taken, name)
			x := a.Axes[i]
			if length >= 0 && len(x.Values) != length {
				c.errorf(r.at("zip"), "Different lengths", "Zipped axes go step by step and need equally many values; %s has %d and %s has %d.", list[0], length, name, len(x.Values))
				return
			}
			if len(list) > 0 && !sameArms(x, a.axis(list[0])) {
				c.errorf(r.at("zip"), "Different arms", "Zipped axes must apply to the same arms; %s and %s differ.", list[0], name)
				return
			}
			length = len(x.Values)
			list = append(list, name)
		}
		a.Zip = append(a.Zip, list)
	}
}

func sameArms(x, y *Axis) bool {
	if x.Arms == nil || y.Arms == nil {
		return x.Arms == nil && y.Arms == nil
	}
	a, b := slices.Sorted(slices.Values(x.Arms)), slices.Sorted(slices.Values(y.Arms))
	return slices.Equal(a, b)
}

func (a *Ablation) axis(name string) *Axis {
	for _, x := range a.Axes {
		if x.Name == name {
			return x
		}
	}
	return nil
}

// cellRefs reads exclude or include: blocks, or an attribute that is a list of objects.
func (c *resolver) cellRefs(r *reader, a *Ablation, name string) []CellRef {
	var list []CellRef
	add := func(at hcl.Range, v cty.Value) {
		before := len(c.diags)
		if ref := c.cellRef(a, at, v); len(c.diags) == before { // half of one would name other cells
			list = append(list, ref)
		}
	}
	if elements, ok := r.list(name); ok {
		for _, element := range elements {
			add(r.at(name), element)
		}
	}
	for _, b := range r.blocks(name) {
		fields := map[string]cty.Value{}
		inner := c.read(b)
		for _, key := range sortedKeys(b.attrs) {
			if v, ok := inner.value(key); ok {
				fields[key] = v
			}
		}
		inner.done()
		add(b.def, cty.ObjectVal(fields))
	}
	return list
}

func (c *resolver) cellRef(a *Ablation, at hcl.Range, v cty.Value) CellRef {
	ref := CellRef{Values: map[string]AxisValue{}, Range: at}
	if !v.Type().IsObjectType() && !v.Type().IsMapType() {
		c.errorf(at, "Invalid value", "A cell is an object such as { arm = \"x\", lr = 1e-6 }, got %s.", friendly(v))
		return ref
	}
	known := []string{"arm"}
	for _, x := range a.Axes {
		known = append(known, x.Name)
	}
	fields := v.AsValueMap()
	for _, key := range sortedKeys(fields) {
		value := fields[key]
		if key == "arm" {
			if value.IsNull() || value.Type() != cty.String {
				c.errorf(at, "Invalid value", "arm must be the name of an arm in quotes, got %s.", friendly(value))
				continue
			}
			ref.Arm = value.AsString()
			var arms []string
			for _, arm := range a.Arms {
				arms = append(arms, arm.Name)
			}
			if !slices.Contains(arms, ref.Arm) {
				c.errorf(at, "Unknown arm", "There is no arm %q.%s", ref.Arm, didYouMean(ref.Arm, arms))
			}
			continue
		}
		x := a.axis(key)
		if x == nil {
			c.errorf(at, "Unknown axis", "There is no axis %q.%s", key, didYouMean(key, known))
			continue
		}
		text := printValue(value)
		i := slices.IndexFunc(x.Values, func(o AxisValue) bool { return o.Text == text })
		if i >= 0 {
			ref.Values[key] = x.Values[i]
			continue
		}
		if made, ok := c.axisValue(x, &attr{value: &value, file: at.Filename, at: at, axis: x}); ok {
			ref.Values[key] = made
		}
	}
	return ref
}
