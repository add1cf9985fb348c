package experiment

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/diag"
	"github.com/forage-rl/forage/core/sdk/schema"
)

// plugin reads the block of a plugin by the plugin's own schema. It gives nil where there is no such plugin.
func (c *resolver) plugin(n *node, kind sdk.Kind) *Plugin {
	if !c.labels(n, 1, "the plugin's name") {
		return nil
	}
	p := &Plugin{Kind: kind, Label: n.label(), Range: n.def, Ranges: map[string]hcl.Range{}, targets: map[string]any{}}
	info, err := c.s.schemas.schema(kind, p.Label)
	if err != nil {
		detail := err.Error()
		if !strings.HasSuffix(detail, ".") && !strings.HasSuffix(detail, "?") {
			detail += "."
		}
		if namer, ok := c.s.schemas.source.(Namer); ok {
			detail += didYouMean(p.Label, namer.Names(kind))
		}
		c.errorf(n.def, "Unknown plugin", "The %s plugin %q cannot be used: %s", kind, p.Label, detail)
		return nil
	}
	p.Info = info
	before := len(c.diags)
	r := c.read(n)
	if process := r.block("process"); process != nil {
		c.process(process, p)
	}
	p.Values = c.schemaValues(r, info.Schema, "", p)
	r.done()
	if c.diags[before:].HasErrors() {
		return p
	}
	said, uses := c.s.schemas.validate(kind, p.Label, p.Values)
	p.uses = &uses
	for _, d := range said {
		severity := hcl.DiagError
		if d.Severity == diag.Warning {
			severity = hcl.DiagWarning
		}
		at := p.Locate(d.Path)
		found := &hcl.Diagnostic{Severity: severity, Summary: d.Summary, Detail: d.Detail, Subject: &at}
		if around(n.body, at) {
			found.Context = n.body.Ptr()
		}
		c.diags = append(c.diags, found)
	}
	return p
}

// around says that block holds at. A merged block may take an attribute from elsewhere, and to show the lines from one to
// the other tells nothing.
func around(block, at hcl.Range) bool {
	return block.Filename == at.Filename && block.Start.Byte <= at.Start.Byte && at.End.Byte <= block.End.Byte
}

// process reads how the plugin's process is run. Nothing in it changes a result.
func (c *resolver) process(n *node, p *Plugin) {
	r := c.read(n)
	p.Timeout = r.duration("timeout")
	p.MaxInFlight = r.whole("max_in_flight", 0, 1)
	p.Replicas = r.whole("replicas", 0, 1)
	p.Env, _ = r.texts("env")
	r.done()
}

// Locate finds the place of a path in the plugin's configuration: the nearest one that is written, else the block.
func (p *Plugin) Locate(path diag.Path) hcl.Range {
	for n := len(path); n > 0; n-- {
		if at, ok := p.Ranges[path[:n].String()]; ok {
			return at
		}
	}
	return p.Range
}

// schemaValues reads a block by a schema, defaults expanded.
func (c *resolver) schemaValues(r *reader, s schema.Schema, path string, p *Plugin) map[string]any {
	values := map[string]any{}
	for _, a := range s.Attributes {
		written := r.attr(a.Name)
		if written != nil {
			p.Ranges[path+a.Name] = written.at
		}
		v, given := r.value(a.Name)
		if !given {
			switch {
			case a.Default != nil:
				values[a.Name] = a.Default
			case a.Required && !c.isUnknown(written):
				c.errorf(r.n.def, "Missing attribute", "%s %q needs %q: %s", r.n.typ, r.n.label(), path+a.Name, sentence(a.Description))
			}
			continue
		}
		value, problem := c.schemaValue(v, a.Type, p)
		if problem == "" {
			problem = a.Check(value)
		}
		if problem == "" {
			problem = p.unfit(a, value)
		}
		if problem != "" {
			c.errorf(written.at, "Invalid value", "%s: %s. %s", path+a.Name, problem, sentence(a.Description))
			continue
		}
		values[a.Name] = value
	}
	for _, b := range s.Blocks {
		list := r.blocks(b.Type)
		if len(list) == 0 && b.Required {
			c.errorf(r.n.def, "Missing block", "%s %q needs a block %s: %s", r.n.typ, r.n.label(), b.Type, sentence(b.Description))
			continue
		}
		if b.Single && len(list) > 1 {
			c.errorf(list[1].def, "Duplicate block", "There is already a block %s here, at %s.", b.Type, place(list[0].def))
			continue
		}
		var repeated []any
		for i, n := range list {
			inner := path + b.Type
			if !b.Single {
				inner += fmt.Sprintf("[%d]", i)
			}
			if len(n.labels) != b.Labels {
				c.errorf(n.def, "Wrong number of labels", "A block %s has %d label(s) here, got %d.", b.Type, b.Labels, len(n.labels))
				continue
			}
			p.Ranges[inner] = n.def
			reader := c.read(n)
			inside := c.schemaValues(reader, b.Schema, inner+".", p)
			reader.done()
			if b.Labels > 0 {
				labels := []any{}
				for _, l := range n.labels {
					labels = append(labels, l)
				}
				inside["labels"] = labels
			}
			if b.Single {
				values[b.Type] = inside
			} else {
				repeated = append(repeated, inside)
			}
		}
		if repeated != nil {
			values[b.Type] = repeated
		}
	}
	return values
}

// defaultsOf gives the values of a block that is not written, nil where it cannot do without attributes.
func defaultsOf(s schema.Schema) map[string]any {
	values := map[string]any{}
	for _, a := range s.Attributes {
		if a.Required {
			return nil
		}
		if a.Default != nil {
			values[a.Name] = a.Default
		}
	}
	for _, b := range s.Blocks {
		if b.Required {
			return nil
		}
		if inside := defaultsOf(b.Schema); b.Single && inside != nil {
			values[b.Type] = inside
		}
	}
	return values
}

// isUnknown says whether the attribute is written with an error, which is reported already.
func (c *resolver) isUnknown(a *attr) bool {
	if a == nil {
		return false
	}
	v, diags := c.s.evaluate(a, c.seed)
	return diags.HasErrors() || !v.IsKnown()
}

func sentence(s string) string {
	s = strings.TrimSpace(s)
	if s == "" || strings.HasSuffix(s, ".") {
		return s
	}
	return s + "."
}

// unfit says what is wrong with an index of another kind than the plugin searches.
func (p *Plugin) unfit(a schema.Attribute, value any) string {
	ref, _ := value.(schema.Ref)
	x, _ := p.targets[ref.Handle].(*Index)
	if a.Type != schema.IndexRef || len(a.Enum) == 0 || x == nil || slices.Contains(a.Enum, x.Kind()) {
		return ""
	}
	return fmt.Sprintf("an index of kind %s is required, but %s is of kind %s", strings.Join(a.Enum, " or "), ref.Handle, x.Kind())
}

// schemaValue converts a value to the type of an attribute: a text of what is wrong, or "".
func (c *resolver) schemaValue(v cty.Value, t schema.Type, p *Plugin) (any, string) {
	switch t {
	case schema.String:
		if v.Type() != cty.String {
			return nil, "a text is required, got " + shown(v)
		}
		return v.AsString(), ""
	case schema.Bool:
		if v.Type() != cty.Bool {
			return nil, "true or false is required, got " + shown(v)
		}
		return v.True(), ""
	case schema.Number:
		f, err := numberOf(v)
		if err != nil {
			return nil, "a number is required, got " + shown(v)
		}
		return f, ""
	case schema.Int:
		n, err := wholeOf(v)
		if err != nil {
			return nil, wantWhole(v) + " is required, got " + shown(v)
		}
		return float64(n), ""
	case schema.StringList, schema.NumberList, schema.IndexRefs, schema.CorpusRefs, schema.PolicyRefs, schema.AgentRefs:
		if !isList(v) {
			return nil, "a list is required, got " + shown(v)
		}
		list := []any{}
		for it := v.ElementIterator(); it.Next(); {
			_, element := it.Element()
			item, problem := c.schemaValue(element, t.Element(), p)
			if problem != "" {
				return nil, fmt.Sprintf("element %d: %s", len(list), problem)
			}
			list = append(list, item)
		}
		return list, ""
	case schema.StringMap, schema.NumberMap:
		if !v.Type().IsObjectType() && !v.Type().IsMapType() {
			return nil, "an object is required, got " + shown(v)
		}
		m := map[string]any{}
		for _, key := range slices.Sorted(maps.Keys(v.AsValueMap())) {
			item, problem := c.schemaValue(v.AsValueMap()[key], t.Element(), p)
			if problem != "" {
				return nil, fmt.Sprintf("%s: %s", key, problem)
			}
			m[key] = item
		}
		return m, ""
	case schema.IndexRef, schema.CorpusRef, schema.PolicyRef, schema.AgentRef:
		if !v.Type().Equals(refType) {
			return nil, fmt.Sprintf("a reference such as %s.x is required, got %s", t, shown(v))
		}
		ref := v.EncapsulatedValue().(*blockRef)
		if ref.Kind != string(t) {
			return nil, fmt.Sprintf("a reference to %s is required, got %s", alternatives([]string{string(t)}), ref)
		}
		handle := ref.String()
		target := c.resolve(ref)
		p.targets[handle] = target
		unit := ""
		if x, ok := target.(*Index); ok && x != nil {
			unit = x.Unit
		}
		return schema.Ref{Handle: handle, Unit: unit}, ""
	}
	return nil, fmt.Sprintf("the plugin's schema has a type %q that this version does not know", t)
}
