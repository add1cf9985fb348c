package experiment

import (
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
)

// WithoutEffect reports what an ablation's sets and arms say that no run heeds: stages that no arm has, and settings of
// the whole experiment that every stage of an arm sets again for itself.
func (s *Study) WithoutEffect(a *Ablation) hcl.Diagnostics {
	c := s.newResolver(nil)
	for _, set := range a.sets {
		c.withoutEffect(set, a, a.Arms)
	}
	users := map[*node][]*Arm{}
	for _, arm := range a.Arms {
		for _, set := range arm.sets {
			users[set] = append(users[set], arm)
		}
	}
	for _, arm := range a.Arms {
		for _, set := range arm.sets {
			if users[set][0] == arm {
				c.withoutEffect(set, a, users[set])
			}
		}
		if arm.node != nil {
			c.withoutEffect(arm.node, a, []*Arm{arm})
		}
	}
	return c.diags
}

func (c *resolver) withoutEffect(layer *node, a *Ablation, arms []*Arm) {
	for _, b := range layer.blocks {
		switch b.typ {
		case "stage":
			c.strayStage(b, a, arms)
		case "optimizer", "schedule", "critic", "reward":
			c.setAgain(b, a, arms)
		}
	}
}

// strayStage reports a stage that has no algorithm in any of the arms and is not run in any: nothing it could change.
func (c *resolver) strayStage(b *node, a *Ablation, arms []*Arm) {
	var known []string
	for _, arm := range arms {
		n, _ := c.s.armNode(a, arm)
		if n == nil || n.attrs["stages"] == nil {
			return // reported elsewhere
		}
		stages, broken := c.stagesOf(n)
		if broken || n.find(b.key()).find("algorithm") != nil || slices.ContainsFunc(stages, func(o *node) bool { return o.label() == b.label() }) {
			return
		}
		for _, stage := range stages {
			if !slices.Contains(known, stage.label()) {
				known = append(known, stage.label())
			}
		}
	}
	c.errorf(b.def, "Unknown stage", "No experiment that this changes has a stage %q.%s The stages are %s.", b.label(), didYouMean(b.label(), known), listed(known))
}

// setAgain warns of settings over which the stages of an arm have their own.
func (c *resolver) setAgain(b *node, a *Ablation, arms []*Arm) {
	type found struct {
		arms []string
		by   *attr
	}
	again := map[*attr]*found{}
	var order []*attr
	names := map[*attr]string{}
	for _, arm := range arms {
		n, _ := c.s.armNode(a, arm)
		if n == nil {
			continue
		}
		stages, broken := c.stagesOf(n)
		if broken || len(stages) == 0 {
			continue
		}
		count, by := map[*attr]int{}, map[*attr]*attr{}
		for _, stage := range stages {
			shadowed(stage.find(b.key()), b, b.typ, func(outer, inner *attr, name string) {
				count[outer]++
				names[outer] = name
				if by[outer] == nil {
					by[outer] = inner
				}
			})
		}
		for outer, k := range count {
			if k < len(stages) {
				continue
			}
			if again[outer] == nil {
				again[outer] = &found{by: by[outer]}
				order = append(order, outer)
			}
			again[outer].arms = append(again[outer].arms, arm.Name)
		}
	}
	slices.SortFunc(order, func(x, y *attr) int { return x.at.Start.Byte - y.at.Start.Byte })
	for _, outer := range order {
		f := again[outer]
		of := "the stages of arm " + f.arms[0]
		if len(f.arms) > 1 {
			of = "the stages of the arms " + strings.Join(f.arms, ", ")
		}
		where := ""
		if f.by != nil {
			where = ", at " + place(f.by.at)
		}
		c.diags = append(c.diags, warningAt(outer.at.Ptr(), "Setting without effect", "%s is said for the whole experiment, but %s have their own%s, which counts. To change that, say it inside their stage block.", names[outer], of, where))
	}
}

// stagesOf are the stage blocks that an arm runs.
func (c *resolver) stagesOf(n *node) (stages []*node, broken bool) {
	quiet := c.s.newResolver(c.seed) // what is wrong with the list is reported with the runs
	list := quiet.stageList(quiet.read(n))
	return list, quiet.diags.HasErrors()
}

// shadowed tells of the attributes of outer, a block of the experiment, that inner, the same block of a stage, has too.
// A block with another plugin or kind replaces all of it.
func shadowed(inner, outer *node, name string, found func(outer, inner *attr, name string)) {
	if inner == nil {
		return
	}
	replaced := inner.replaces(outer)
	for _, key := range sortedKeys(outer.attrs) {
		if own := inner.attrs[key]; own != nil || replaced {
			found(outer.attrs[key], own, name+"."+key)
		}
	}
	for _, b := range outer.blocks {
		within := inner.find(b.key())
		if replaced {
			within = inner
		}
		shadowed(within, b, name+"."+b.name(), found)
	}
}
