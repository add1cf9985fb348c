package experiment

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

type frameKey struct {
	dir    string
	seed   int64
	seeded bool // false: outside of any run, where there is no seed
}

type memoKey struct {
	attr   *attr
	seed   int64
	seeded bool
	kind   string // of what was compiled from it
}

type memoized struct {
	value cty.Value
	diags hcl.Diagnostics
}

// setup makes what all frames share.
func (s *Study) setup() {
	s.deferred = &frame{ctx: &hcl.EvalContext{Functions: functions()}}
}

// frame gives what an expression in file may refer to. seed is nil outside of a run.
func (s *Study) frame(file string, seed *int64) *frame {
	key := frameKey{dir: filepath.Dir(file)}
	if seed != nil {
		key.seed, key.seeded = *seed, true
	}
	if f := s.frames[key]; f != nil {
		return f
	}
	f := s.bareFrame(key.dir, seed)
	f.ctx.Variables["local"] = cty.ObjectVal(s.localValues(seed))
	s.frames[key] = f
	return f
}

// bareFrame is a frame without locals.
func (s *Study) bareFrame(dir string, seed *int64) *frame {
	ctx := &hcl.EvalContext{Variables: map[string]cty.Value{}, Functions: maps.Clone(s.deferred.ctx.Functions)}
	ctx.Functions["file"] = s.fileFunction(dir)
	vars := map[string]cty.Value{}
	for name, v := range s.variables {
		vars[name] = v.value
	}
	ctx.Variables["var"] = cty.ObjectVal(vars)
	for _, kind := range blockKinds {
		refs := map[string]cty.Value{}
		for label := range s.blocks[kind] {
			refs[label] = cty.CapsuleVal(refType, &blockRef{kind, label})
		}
		ctx.Variables[kind] = cty.ObjectVal(refs)
	}
	ctx.Variables["artefact"] = cty.ObjectVal(s.artefacts)
	roots := map[string]bool{"var": true, "local": true, "artefact": true}
	for _, kind := range blockKinds {
		roots[kind] = true
	}
	if seed != nil {
		ctx.Variables["seed"] = cty.NumberIntVal(*seed)
		roots["seed"] = true
	}
	return &frame{ctx: ctx, roots: roots, dir: dir, deferred: s.deferred}
}

// checkLocals evaluates all locals once for the diagnostics: those that depend on the seed with seed 1.
func (s *Study) checkLocals() (diags hcl.Diagnostics) {
	seed := int64(1)
	for _, name := range slices.Sorted(maps.Keys(s.locals)) {
		if cycle := s.localCycle(name, nil); cycle != nil {
			diags = append(diags, errorAt(s.locals[name].at.Ptr(), "Circular locals", "A local cannot depend on itself: %s.", strings.Join(cycle, " → ")))
		}
	}
	if diags.HasErrors() {
		for _, d := range diags {
			for name, a := range s.locals {
				if d.Subject != nil && *d.Subject == a.at {
					s.locals[name] = &attr{name: name, value: &cty.DynamicVal, file: a.file, at: a.at}
				}
			}
		}
	}
	values := s.localValues(&seed)
	for _, name := range slices.Sorted(maps.Keys(s.locals)) {
		a := s.locals[name]
		if a.expr == nil {
			continue
		}
		f := s.bareFrame(filepath.Dir(a.file), &seed)
		f.ctx.Variables["local"] = cty.ObjectVal(values)
		_, more := s.valueIn(a.expr, f, false)
		diags = append(diags, more...)
	}
	return diags
}

// localCycle gives the names on a circle of locals through name, or nil.
func (s *Study) localCycle(name string, path []string) []string {
	if len(path) > 0 && path[0] == name {
		return append(path, name)
	}
	if slices.Contains(path, name) || s.locals[name] == nil || s.locals[name].expr == nil {
		return nil
	}
	path = append(slices.Clip(path), name)
	for _, next := range localNames(s.locals[name].expr) {
		if cycle := s.localCycle(next, path); cycle != nil {
			return cycle
		}
	}
	return nil
}

func localNames(expr hcl.Expression) []string {
	var list []string
	for _, t := range expr.Variables() {
		if t.RootName() != "local" || len(t) < 2 {
			continue
		}
		if step, ok := t[1].(hcl.TraverseAttr); ok {
			list = append(list, step.Name)
		}
	}
	return list
}

// localValues evaluates the locals in the order of their dependencies. Without a seed those that need one are left
// out; those with errors are unknown.
func (s *Study) localValues(seed *int64) map[string]cty.Value {
	key := int64(0)
	if seed != nil {
		key = *seed
	}
	memo := s.localMemo
	if seed == nil {
		memo = map[int64]map[string]cty.Value{}
	}
	if values, ok := memo[key]; ok {
		return values
	}
	values := map[string]cty.Value{}
	frames := map[string]*frame{}
	var evaluate func(name string)
	evaluate = func(name string) {
		a := s.locals[name]
		if a == nil {
			return
		}
		if _, done := values[name]; done {
			return
		}
		values[name] = cty.DynamicVal
		if a.expr == nil {
			return
		}
		for _, next := range localNames(a.expr) {
			evaluate(next)
		}
		dir := filepath.Dir(a.file)
		f := frames[dir]
		if f == nil {
			f = s.bareFrame(dir, seed)
			frames[dir] = f
		}
		f.ctx.Variables["local"] = cty.ObjectVal(values)
		if v, diags := s.valueIn(a.expr, f, false); !diags.HasErrors() {
			values[name] = v
		}
	}
	for name := range s.locals {
		evaluate(name)
	}
	if seed == nil {
		for name, a := range s.locals {
			if s.needsSeed(a) {
				delete(values, name)
			}
		}
	}
	memo[key] = values
	return values
}

// needsSeed says whether the value of a depends on the run's seed.
func (s *Study) needsSeed(a *attr) bool {
	if a.expr == nil {
		return false
	}
	if known, ok := s.seeded[a]; ok {
		return known
	}
	s.seeded[a] = false // ends a circle, which is reported elsewhere
	needs := false
	for _, t := range a.expr.Variables() {
		needs = needs || t.RootName() == "seed"
	}
	for _, name := range localNames(a.expr) {
		needs = needs || s.locals[name] != nil && s.needsSeed(s.locals[name])
	}
	s.seeded[a] = needs
	return needs
}

// evaluate gives the value of an attribute, remembered per seed where it depends on it.
func (s *Study) evaluate(a *attr, seed *int64) (cty.Value, hcl.Diagnostics) {
	if a.value != nil {
		return *a.value, nil
	}
	key := s.key(a, seed, "")
	if m, ok := s.memo[key]; ok {
		return m.value, m.diags
	}
	v, diags := s.valueIn(a.expr, s.frame(a.file, seed), true)
	if !v.IsWhollyKnown() {
		v = cty.DynamicVal // a part of it has an error that is reported where it stands
	}
	s.memo[key] = memoized{v, diags}
	return v, diags
}

func (s *Study) key(a *attr, seed *int64, kind string) memoKey {
	key := memoKey{attr: a, kind: kind}
	switch {
	case seed == nil:
	case s.needsSeed(a):
		key.seed, key.seeded = *seed, true
	default:
		key.seeded = true
	}
	return key
}

// valueIn evaluates an expression whose every name must be known when the study is read. use marks what it refers to
// as used.
func (s *Study) valueIn(expr hcl.Expression, f *frame, use bool) (cty.Value, hcl.Diagnostics) {
	if diags := s.checkNames(expr, f, nil, use); diags.HasErrors() {
		return cty.DynamicVal, diags
	}
	v, diags := expr.Value(f.ctx)
	if diags.HasErrors() {
		return cty.DynamicVal, diags
	}
	return v, diags
}

// checkNames reports references to what does not exist. allowed are further names, which a scope checks.
func (s *Study) checkNames(expr hcl.Expression, f *frame, allowed map[string]cty.Value, use bool) (diags hcl.Diagnostics) {
	for _, t := range expr.Variables() {
		root := t.RootName()
		if _, ok := allowed[root]; ok {
			continue
		}
		if !f.roots[root] {
			if allowed != nil {
				continue
			}
			diags = append(diags, errorAt(t.SourceRange().Ptr(), "Unknown name", "%s", unknownRoot(root, f)))
			continue
		}
		if len(t) < 2 || root == "seed" {
			continue
		}
		step, ok := t[1].(hcl.TraverseAttr)
		if !ok {
			continue
		}
		object := f.ctx.Variables[root]
		if !object.Type().HasAttribute(step.Name) {
			if root == "local" && s.locals[step.Name] != nil {
				diags = append(diags, errorAt(t.SourceRange().Ptr(), "Seed not available", "local.%s depends on the seed, which only the settings of a run may use.", step.Name))
				continue
			}
			known := slices.Collect(maps.Keys(object.Type().AttributeTypes()))
			what := root + "." + step.Name
			diags = append(diags, errorAt(t.SourceRange().Ptr(), "Unknown reference", "There is no %s.%s", what, suggestReference(root, step.Name, known)))
			continue
		}
		if use {
			s.use(root + "." + step.Name)
		}
		if slices.Contains(blockKinds, root) && len(t) > 2 {
			diags = append(diags, errorAt(t.SourceRange().Ptr(), "Invalid reference", "References lead to whole blocks: write %s.%s. A value that several blocks share goes into locals.", root, step.Name))
		}
	}
	return diags
}

// use marks a variable, local or block as used, and what a local or a block is made of.
func (s *Study) use(name string) {
	if s.used[name] {
		return
	}
	s.used[name] = true
	a := s.bases[name]
	if local, ok := strings.CutPrefix(name, "local."); ok {
		a = s.locals[local]
	}
	if a == nil || a.expr == nil {
		return
	}
	for _, t := range a.expr.Variables() {
		if len(t) < 2 {
			continue
		}
		if step, ok := t[1].(hcl.TraverseAttr); ok {
			s.use(t.RootName() + "." + step.Name)
		}
	}
}

func suggestReference(root, got string, known []string) string {
	if hint := didYouMean(got, known); hint != "" {
		return strings.Replace(hint, `"`, `"`+root+".", 1)
	}
	if len(known) == 0 {
		if root == "var" {
			return " The study has no variables."
		}
		if root == "local" {
			return " The study has no locals."
		}
		return " The study has no " + root + " blocks."
	}
	slices.Sort(known)
	if len(known) > 12 {
		known = append(known[:12:12], "…")
	}
	return " There are " + strings.Join(known, ", ") + "."
}

func unknownRoot(root string, f *frame) string {
	if root == "seed" {
		return "The seed is known only in the settings of a run."
	}
	known := slices.Sorted(maps.Keys(f.roots))
	return "Nothing is called \"" + root + "\" here." + didYouMean(root, known) + " A text is written in quotes."
}
