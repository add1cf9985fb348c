package experiment

import (
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
)

// Resolve gives the configuration of one run: an arm of the ablation with values for some of its axes, and a seed.
// Values and defaults are all expanded. With errors the run is incomplete and only good for further checks.
func (s *Study) Resolve(a *Ablation, arm *Arm, values map[string]AxisValue, seed int64) (*Run, hcl.Diagnostics) {
	n, diags := s.armNode(a, arm)
	if n == nil {
		return nil, diags
	}
	c := s.newResolver(&seed)
	c.arm, c.method, c.overlays, c.laid = arm.Name, a.method, map[string]*node{}, map[string]*Axis{}
	c.diags = slices.Clone(diags)
	c.run = newRun()
	run := c.run
	run.Study, run.Ablation, run.Experiment, run.Arm, run.Root, run.Seed = s.Name, a.Name, arm.Experiment, arm.Name, s.Root, seed
	for _, x := range a.Axes {
		v, ok := values[x.Name]
		if !ok {
			continue
		}
		run.Axes[x.Name] = v.Display
		n = c.apply(n, x, v)
	}
	c.experiment(n)
	c.missed()
	return run, Tidy(c.diags)
}

// armNode merges experiment, sets and arm, once.
func (s *Study) armNode(a *Ablation, arm *Arm) (*node, hcl.Diagnostics) {
	if arm.merged != nil || arm.Experiment == "" {
		return arm.merged, arm.broken
	}
	base := s.blocks["experiment"][arm.Experiment]
	if base == nil {
		return nil, nil
	}
	s.use("experiment." + arm.Experiment)
	c := s.newResolver(nil)
	n := base
	for _, set := range slices.Concat(a.sets, arm.sets) {
		n = c.layer(n, set)
	}
	if arm.node != nil {
		over := *arm.node
		over.attrs = maps.Clone(over.attrs)
		delete(over.attrs, "experiment")
		delete(over.attrs, "description")
		delete(over.attrs, "sets")
		n = c.layer(n, &over)
	}
	arm.merged, arm.broken = n, c.diags
	return n, c.diags
}

// layer merges over over base, after its removals.
func (c *resolver) layer(base, over *node) *node {
	if over == nil {
		return base
	}
	base = c.removals(base, over, nil)
	return merge(base, over)
}

func (c *resolver) removals(base, over *node, prefix []string) *node {
	if a := over.attrs["remove"]; a != nil {
		list, _ := c.read(over).texts("remove")
		for _, what := range list {
			path := append(slices.Clone(prefix), strings.Split(what, ".")...)
			next, ok := base.without(path)
			if !ok {
				at := base
				for i := 0; i < len(prefix) && at != nil; i++ {
					at = at.find(prefix[i])
				}
				var known []string
				if at != nil {
					known = at.removable()
				}
				c.errorf(a.at, "Nothing to remove", "There is no %q here.%s", what, didYouMean(what, known))
				continue
			}
			base = next
		}
	}
	for _, b := range over.blocks {
		step := []string{b.typ}
		if namedBlocks[b.typ] {
			step = append(step, b.labels...)
		}
		base = c.removals(base, b, append(slices.Clone(prefix), step...))
	}
	return base
}

// apply lays the value of an axis over the merged experiment or over a shared block.
func (c *resolver) apply(n *node, x *Axis, v AxisValue) *node {
	steps := x.steps
	if len(steps) == 0 || v.attr == nil {
		return n
	}
	lay := func(key string, over *node) *node {
		c.overlays[key] = merge(c.overlays[key], over)
		c.laid[key] = x
		return n
	}
	switch root := steps[0]; {
	case (root == "policies" || root == "tools") && len(steps) == 2:
		return lay(root, &node{typ: root, attrs: map[string]*attr{steps[1]: v.attr}, def: v.attr.at})
	case root == "policies" && len(steps) > 3 && steps[2] == "optimizer":
		return lay("policies."+steps[1]+".optimizer", overlay([]overlayStep{{typ: "optimizer"}}, v.attr))
	case root == "policies" && len(steps) > 2:
		return lay("policies."+steps[1], overlay(plainSteps(steps[2:len(steps)-1]), v.attr))
	case root == "tools" && len(steps) > 2:
		inner := steps[2:]
		if inner[0] == "retriever" {
			inner = inner[1:]
		}
		if len(inner) == 0 {
			c.lacks(x, "a retriever can be replaced only with its tool", "")
			return n
		}
		return lay("tools."+steps[1], overlay(append([]overlayStep{{typ: "retriever"}}, plainSteps(inner[:len(inner)-1])...), v.attr))
	case slices.Contains([]string{"corpus", "encoder", "index", "dataset"}, root) && len(steps) > 2:
		known := c.s.blocks[root]
		if known[steps[1]] == nil {
			c.lacks(x, "there is no "+root+"."+steps[1], didYouMean(steps[1], sortedKeys(known)))
			return n
		}
		return lay(root+"."+steps[1], overlay(plainSteps(steps[2:len(steps)-1]), v.attr))
	}
	path, problem, hint := c.walk(n, steps)
	if problem != "" {
		c.lacks(x, problem, hint)
		return n
	}
	return merge(n, overlay(path, v.attr))
}

func (c *resolver) lacks(x *Axis, why, hint string) {
	c.errorf(x.PathRange, "Path not found", "The axis %q leads to %s, which arm %q lacks: %s.%s Correct the path, or name the arms that have it: arms = [...].",
		x.Name, x.Path, c.arm, why, hint)
}

// missed reports axes over shared blocks, roles and tools that the run does not have.
func (c *resolver) missed() {
	for _, key := range sortedKeys(c.laid) {
		kind, name, _ := strings.Cut(key, ".")
		switch kind {
		case "policies":
			name, _, _ = strings.Cut(name, ".")
			if name != "" && len(c.run.Policies) > 0 && c.run.Policies[name] == nil {
				c.lacks(c.laid[key], "it has no policy "+quote(name), didYouMean(name, sortedKeys(c.run.Policies)))
			}
		case "tools":
			if name != "" && c.run.Tools[name] == nil && !c.diags.HasErrors() {
				c.lacks(c.laid[key], "it has no tool "+quote(name), didYouMean(name, sortedKeys(c.run.Tools)))
			}
		default:
			if _, ok := c.resolved[key]; !ok && !c.diags.HasErrors() {
				c.lacks(c.laid[key], "it does not use "+key, "")
			}
		}
	}
}

func plainSteps(names []string) []overlayStep {
	var list []overlayStep
	for _, name := range names {
		list = append(list, overlayStep{typ: name})
	}
	return list
}

// walk turns the steps of a path into nested blocks; the last one is the attribute.
func (c *resolver) walk(n *node, steps []string) (path []overlayStep, problem, hint string) {
	for len(steps) > 1 {
		typ := steps[0]
		if n != nil && n.typ == "reward" && len(n.labels) == 0 && n.find("source."+typ) != nil {
			path = append(path, overlayStep{"source", []string{typ}}, overlayStep{typ: "reward"})
			n = n.find("source." + typ).find("reward")
			steps = steps[1:]
			continue
		}
		if namedBlocks[typ] && n != nil && !n.isPlugin() {
			if len(steps) < 3 {
				return nil, typ + "." + steps[1] + " is a block; a path leads to an attribute", ""
			}
			b := n.find(typ + "." + steps[1])
			if b != nil && typ == "stage" && !c.listsStage(n, steps[1]) {
				return nil, "its stages leave out " + quote(steps[1]), ""
			}
			if b == nil {
				return nil, "it has no " + typ + " " + quote(steps[1]), didYouMean(steps[1], labelsOf(n, typ))
			}
			path = append(path, overlayStep{typ, []string{steps[1]}})
			n, steps = b, steps[2:]
			continue
		}
		b := n.find(typ)
		step := overlayStep{typ: typ}
		if b == nil {
			switch {
			case n != nil && (typ == "algorithm" || typ == "reward"):
				return nil, "there is no block " + typ, ""
			case typ == "optimizer":
				step.labels = []string{"adamw"}
			}
		}
		path = append(path, step)
		n, steps = b, steps[1:]
	}
	return path, "", ""
}

func labelsOf(n *node, typ string) []string {
	var list []string
	for _, b := range n.blocks {
		if b.typ == typ {
			list = append(list, b.label())
		}
	}
	return list
}

// listsStage says whether the experiment runs the stage.
func (c *resolver) listsStage(n *node, stage string) bool {
	a := n.attrs["stages"]
	if a == nil {
		return true
	}
	v, diags := c.s.evaluate(a, c.seed)
	if diags.HasErrors() || !v.IsKnown() || v.IsNull() || !isList(v) {
		return true
	}
	for it := v.ElementIterator(); it.Next(); {
		_, element := it.Element()
		if printValue(element) == quote(stage) {
			return true
		}
	}
	return false
}
