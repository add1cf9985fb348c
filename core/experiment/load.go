package experiment

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// Inputs are what a study gets from outside.
type Inputs struct {
	Vars     map[string]string // -var name=value
	VarFiles []string          // -var-file, later ones win
	Env      []string          // as of os.Environ: FORAGE_VAR_name=value
}

// Study is a parsed study. Its methods are not safe for concurrent use.
type Study struct {
	Name string // of the folder
	Dir  string // folder of main.hcl
	Root string // absolute folder that relative paths of data start at
	// Ablations in the order of the files.
	Ablations []*Ablation

	parser  *hclparse.Parser
	schemas *schemaCache
	roots   []string // folders that file() reads from
	own     map[string]bool
	texts   map[string]string
	inputs  Inputs

	blocks    map[string]map[string]*node // kind → label
	locals    map[string]*attr
	variables map[string]*variable
	artefacts map[string]cty.Value // every artefact that a reference names
	bases     map[string]*attr     // block → its attribute base

	torn      bool            // files are not there, or have errors of syntax
	broken    bool            // there were errors in reading the files
	used      map[string]bool // references followed: var.x, local.x, dataset.x …
	frames    map[frameKey]*frame
	memo      map[memoKey]memoized
	compiled  map[memoKey]any
	seeded    map[*attr]bool
	deferred  *frame
	scopes    *scopes
	localMemo map[int64]map[string]cty.Value
}

// Files gives the sources of the study by name, for printing diagnostics.
func (s *Study) Files() map[string]*hcl.File {
	files := maps.Clone(s.parser.Files())
	for name, text := range s.texts {
		if files[name] == nil {
			files[name] = &hcl.File{Bytes: []byte(text)}
		}
	}
	return files
}

// Readable says whether all files of the study were there and without errors of syntax. Of others, what is missing in
// blocks and references is a guess.
func (s *Study) Readable() bool { return !s.torn }

// blockKinds are the top-level blocks that references lead to.
var blockKinds = []string{"corpus", "encoder", "index", "dataset", "tool", "agent", "policy", "experiment", "set"}

// names are what blocks may be called: usable in references, expressions and axis paths.
var names = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

var metricName = regexp.MustCompile(`^[a-z][a-z0-9_./]*$`)

// Load reads a study: a folder with main.hcl and any other .hcl files, the main.hcl of one, or a single other file
// that holds everything (as the config.hcl of a run does). Included files are read too. The diagnostics cover the
// files' syntax, variables and the heads of ablations; [Study.Resolve] checks the rest.
func Load(ctx context.Context, path string, inputs Inputs, source SchemaSource) (*Study, hcl.Diagnostics) {
	s := &Study{
		parser: hclparse.NewParser(), schemas: newSchemaCache(source), inputs: inputs, own: map[string]bool{}, texts: map[string]string{},
		blocks: map[string]map[string]*node{}, locals: map[string]*attr{}, variables: map[string]*variable{}, artefacts: map[string]cty.Value{}, bases: map[string]*attr{},
		used: map[string]bool{}, frames: map[frameKey]*frame{}, memo: map[memoKey]memoized{}, compiled: map[memoKey]any{},
		scopes: newScopes(), seeded: map[*attr]bool{}, localMemo: map[int64]map[string]cty.Value{},
	}
	for _, kind := range append([]string{"ablation"}, blockKinds...) {
		s.blocks[kind] = map[string]*node{}
	}
	files, err := s.locate(path)
	if err != nil {
		s.torn = true
		return s, hcl.Diagnostics{{Severity: hcl.DiagError, Summary: "No study", Detail: err.Error()}}
	}
	var diags hcl.Diagnostics
	var order []*node
	for i := 0; i < len(files); i++ {
		if err := ctx.Err(); err != nil {
			return s, hcl.Diagnostics{{Severity: hcl.DiagError, Summary: "Interrupted", Detail: err.Error()}}
		}
		included, more := s.readFile(files[i], &order)
		diags = append(diags, more...)
		for _, name := range included {
			if !slices.Contains(files, name) {
				files = append(files, name)
			}
		}
	}
	s.collectArtefacts(order)
	s.setup()
	diags = append(diags, s.checkVariables()...)
	diags = append(diags, s.checkLocals()...)
	diags = append(diags, s.mergeBases()...)
	diags = append(diags, s.readRoot(order)...)
	for _, n := range order {
		if n.typ == "ablation" {
			a, more := s.readAblation(n)
			diags = append(diags, more...)
			s.Ablations = append(s.Ablations, a)
		}
	}
	s.broken = diags.HasErrors()
	return s, Tidy(diags)
}

// locate finds the study's own files.
func (s *Study) locate(path string) ([]string, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New(path + " does not exist; name a folder with a main.hcl, or start one with forage init")
	}
	if err != nil {
		return nil, err
	}
	s.Dir = path
	if !info.IsDir() {
		s.Dir = filepath.Dir(path)
	}
	absolute, err := filepath.Abs(s.Dir)
	if err != nil {
		return nil, err
	}
	s.Name, s.Root = filepath.Base(absolute), absolute
	s.roots = []string{filepath.Clean(s.Dir)}
	if !info.IsDir() && filepath.Base(path) != "main.hcl" {
		return []string{filepath.Clean(path)}, nil
	}
	entries, err := os.ReadDir(s.Dir)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		if !e.IsDir() && strings.HasSuffix(e.Name(), ".hcl") && !strings.HasPrefix(e.Name(), ".") && e.Name() != "forage.lock.hcl" {
			files = append(files, filepath.Join(s.Dir, e.Name()))
		}
	}
	main := filepath.Join(s.Dir, "main.hcl")
	if !slices.Contains(files, main) {
		return nil, errors.New(s.Dir + " has no main.hcl; a study is a folder with one. Name a single file by its own path, or start a study with forage init DIR")
	}
	slices.SortStableFunc(files, func(a, b string) int {
		return cmp.Or(compareBool(b == main, a == main), strings.Compare(a, b))
	})
	return files, nil
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// readFile parses a file, adds its blocks and gives the files it includes.
func (s *Study) readFile(name string, order *[]*node) (included []string, diags hcl.Diagnostics) {
	if filepath.Dir(name) == filepath.Clean(s.Dir) {
		s.own[name] = true
	}
	file, diags := s.parseFile(name)
	s.torn = s.torn || diags.HasErrors()
	if file == nil || file.Body == nil {
		return nil, diags
	}
	body, ok := file.Body.(*hclsyntax.Body)
	if !ok {
		return nil, append(diags, &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "Unsupported syntax", Detail: name + " is not in the native syntax of HCL."})
	}
	for _, a := range sortedAttributes(body) {
		diags = append(diags, errorAt(a.NameRange.Ptr(), "Unexpected attribute", "Only blocks stand at the top of a file. A fixed value goes into a locals block."))
	}
	for _, b := range body.Blocks {
		if b.Type == "include" {
			files, more := s.include(name, b)
			diags = append(diags, more...)
			included = append(included, files...)
			continue
		}
		diags = append(diags, s.add(b, order)...)
	}
	return included, diags
}

func sortedAttributes(body *hclsyntax.Body) []*hclsyntax.Attribute {
	var list []*hclsyntax.Attribute
	for _, a := range body.Attributes {
		list = append(list, a)
	}
	slices.SortFunc(list, func(a, b *hclsyntax.Attribute) int { return cmp.Compare(a.SrcRange.Start.Byte, b.SrcRange.Start.Byte) })
	return list
}

func (s *Study) include(name string, b *hclsyntax.Block) (files []string, diags hcl.Diagnostics) {
	for _, a := range sortedAttributes(b.Body) {
		if a.Name != "files" {
			diags = append(diags, errorAt(a.NameRange.Ptr(), "Unsupported attribute", "An include block has only files.%s", didYouMean(a.Name, []string{"files"})))
			continue
		}
		v, more := a.Expr.Value(nil)
		diags = append(diags, more...)
		if more.HasErrors() {
			continue
		}
		if v.IsNull() || !v.CanIterateElements() || v.Type().IsObjectType() || v.Type().IsMapType() {
			diags = append(diags, errorAt(a.Expr.Range().Ptr(), "Invalid list of files", "files is a list of paths relative to this file, got %s.", friendly(v)))
			continue
		}
		for it := v.ElementIterator(); it.Next(); {
			_, element := it.Element()
			if element.IsNull() || element.Type() != cty.String {
				diags = append(diags, errorAt(a.Expr.Range().Ptr(), "Invalid list of files", "files is a list of paths relative to this file; an element is %s.", friendly(element)))
				continue
			}
			path := element.AsString()
			if !filepath.IsAbs(path) {
				path = filepath.Join(filepath.Dir(name), path)
			}
			path = filepath.Clean(path)
			if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
				diags = append(diags, errorAt(a.Expr.Range().Ptr(), "Included file not found", "There is no file %s (%q, relative to %s).", path, element.AsString(), filepath.Dir(name)))
				continue
			}
			if dir := filepath.Dir(path); !slices.Contains(s.roots, dir) {
				s.roots = append(s.roots, dir)
			}
			files = append(files, path)
		}
	}
	for _, inner := range b.Body.Blocks {
		diags = append(diags, errorAt(inner.DefRange().Ptr(), "Unsupported block", "An include block has only the attribute files."))
	}
	if len(b.Labels) > 0 {
		diags = append(diags, errorAt(b.LabelRanges[0].Ptr(), "Unexpected label", "An include block has no label."))
	}
	return files, diags
}

// add registers a top-level block.
func (s *Study) add(b *hclsyntax.Block, order *[]*node) (diags hcl.Diagnostics) {
	labels := 1
	switch b.Type {
	case "locals", "study":
		labels = 0
	case "variable", "ablation":
	default:
		if !slices.Contains(blockKinds, b.Type) {
			known := append([]string{"include", "variable", "locals", "study", "ablation"}, blockKinds...)
			return hcl.Diagnostics{errorAt(b.TypeRange.Ptr(), "Unsupported block type", "Blocks of type %q are not expected here.%s The blocks of a study are %s.",
				b.Type, didYouMean(b.Type, known), strings.Join(known, ", "))}
		}
	}
	if len(b.Labels) != labels {
		return hcl.Diagnostics{errorAt(b.DefRange().Ptr(), "Wrong number of labels", "A block of type %q has %d label(s), got %d.", b.Type, labels, len(b.Labels))}
	}
	if labels == 1 && !names.MatchString(b.Labels[0]) {
		diags = append(diags, errorAt(b.LabelRanges[0].Ptr(), "Invalid name", "%q cannot be used in references. Names start with a lower-case letter, followed by lower-case letters, digits and _.", b.Labels[0]))
	}
	switch b.Type {
	case "locals":
		for _, a := range sortedAttributes(b.Body) {
			if first := s.locals[a.Name]; first != nil {
				diags = append(diags, errorAt(a.NameRange.Ptr(), "Duplicate local", "local.%s is already defined at %s.", a.Name, place(first.at)))
				continue
			}
			s.locals[a.Name] = &attr{name: a.Name, expr: a.Expr, file: a.SrcRange.Filename, at: a.SrcRange}
		}
		for _, inner := range b.Body.Blocks {
			diags = append(diags, errorAt(inner.DefRange().Ptr(), "Unsupported block", "A locals block has only attributes."))
		}
		return diags
	case "variable":
		return append(diags, s.addVariable(b)...)
	}
	n := newNode(b, &diags)
	n.duplicates(&diags)
	*order = append(*order, n)
	if b.Type == "study" {
		return diags
	}
	if first := s.blocks[n.typ][n.label()]; first != nil {
		return append(diags, errorAt(n.def.Ptr(), "Duplicate block", "%s is already defined at %s.", n.name(), place(first.def)))
	}
	s.blocks[n.typ][n.label()] = n
	return diags
}

// readRoot reads the study block: the folder that relative paths of data start at.
func (s *Study) readRoot(order []*node) hcl.Diagnostics {
	c := s.newResolver(nil)
	var first *node
	for _, n := range order {
		if n.typ != "study" {
			continue
		}
		if first != nil {
			c.errorf(n.def, "Duplicate block", "There is already a study block at %s.", place(first.def))
			continue
		}
		first = n
		r := c.read(n)
		if root := r.text("root", ""); root != "" {
			if !filepath.IsAbs(root) {
				root = filepath.Join(s.Root, root)
			}
			s.Root = filepath.Clean(root)
		}
		if name := r.text("name", s.Name); name == filepath.Base(name) && filepath.IsLocal(name) && name != "." {
			s.Name = name
		} else {
			c.errorf(r.at("name"), "Invalid name", "The records of the study are kept in a folder of this name: it cannot be empty or a path, got %q.", name)
		}
		r.done()
	}
	return c.diags
}

// collectArtefacts finds every artefact.x that is mentioned, so that expressions with it can be evaluated.
func (s *Study) collectArtefacts(order []*node) {
	visit := func(a *attr) {
		if a.expr == nil {
			return
		}
		for _, t := range a.expr.Variables() {
			if t.RootName() != "artefact" || len(t) < 2 {
				continue
			}
			if step, ok := t[1].(hcl.TraverseAttr); ok {
				s.artefacts[step.Name] = cty.CapsuleVal(refType, &blockRef{"artefact", step.Name})
			}
		}
	}
	var walk func(n *node)
	walk = func(n *node) {
		for _, a := range n.attrs {
			visit(a)
		}
		for _, b := range n.blocks {
			walk(b)
		}
	}
	for _, n := range order {
		walk(n)
	}
	for _, a := range s.locals {
		visit(a)
	}
}

// Tidy sorts diagnostics by place and drops repetitions.
func Tidy(diags hcl.Diagnostics) hcl.Diagnostics {
	type key struct{ place, summary, detail string }
	seen := map[key]bool{}
	var out hcl.Diagnostics
	for _, d := range diags {
		k := key{summary: d.Summary, detail: d.Detail}
		if d.Subject != nil {
			k.place = d.Subject.String()
		}
		if !seen[k] {
			seen[k] = true
			out = append(out, d)
		}
	}
	slices.SortStableFunc(out, func(a, b *hcl.Diagnostic) int {
		if a.Subject == nil || b.Subject == nil {
			return compareBool(a.Subject != nil, b.Subject != nil)
		}
		return cmp.Or(strings.Compare(a.Subject.Filename, b.Subject.Filename), cmp.Compare(a.Subject.Start.Byte, b.Subject.Start.Byte))
	})
	return out
}
