package plan

import (
	"maps"
	"slices"
	"strings"

	"github.com/forage-rl/forage/core/experiment"
)

// maxCells bounds a plan: three axes of twenty values are 8,000 cells, more than anybody runs.
const maxCells = 10_000

// cells expands arms and axes, in the order in which they are written.
func (m *maker) cells() []Cell {
	a := m.ablation
	var cells []Cell
	for _, arm := range a.Arms {
		combinations := []map[string]experiment.AxisValue{{}}
		for _, group := range axisGroups(a, arm.Name) {
			if len(cells)+len(combinations)*len(group[0].Values) > maxCells {
				m.errorf(a.Range, "Too many cells", "The axes make more than %d cells. Zip axes that go together, limit them to arms, or vary one at a time.", maxCells)
				return nil
			}
			var next []map[string]experiment.AxisValue
			for _, before := range combinations {
				for i := range group[0].Values {
					values := maps.Clone(before)
					for _, x := range group {
						values[x.Name] = x.Values[min(i, len(x.Values)-1)]
					}
					next = append(next, values)
				}
			}
			combinations = next
		}
		for _, values := range combinations {
			cells = append(cells, newCell(a, arm, values))
		}
	}
	cells = m.exclude(cells)
	for _, ref := range a.Include {
		i := slices.IndexFunc(a.Arms, func(arm *experiment.Arm) bool { return arm.Name == ref.Arm })
		if i < 0 {
			continue
		}
		c := newCell(a, a.Arms[i], ref.Values)
		if !slices.ContainsFunc(cells, func(o Cell) bool { return o.Key == c.Key }) {
			cells = append(cells, c)
		}
	}
	return cells
}

// axisGroups are the axes of an arm: each alone, zipped ones together, in order of the first.
func axisGroups(a *experiment.Ablation, arm string) [][]*experiment.Axis {
	var groups [][]*experiment.Axis
	var done []string
	for _, x := range a.Axes {
		if !x.Applies(arm) || len(x.Values) == 0 || slices.Contains(done, x.Name) {
			continue
		}
		names := []string{x.Name}
		for _, zip := range a.Zip {
			if slices.Contains(zip, x.Name) {
				names = zip
			}
		}
		var group []*experiment.Axis
		for _, other := range a.Axes {
			if slices.Contains(names, other.Name) && len(other.Values) > 0 {
				group = append(group, other)
			}
		}
		done = append(done, names...)
		groups = append(groups, group)
	}
	return groups
}

func newCell(a *experiment.Ablation, arm *experiment.Arm, values map[string]experiment.AxisValue) Cell {
	c := Cell{Arm: arm.Name, Whole: arm.WholeMethod(), Parts: arm.Parts, Experiment: arm.Experiment, arm: arm, values: values}
	key := []string{arm.Name}
	for _, x := range a.Axes {
		v, ok := values[x.Name]
		if !ok {
			continue
		}
		c.Axes = append(c.Axes, Setting{x.Name, v.Display})
		key = append(key, x.Name+"="+v.Display)
	}
	c.Key = strings.Join(key, ",")
	return c
}

// matches says whether ref names the cell, maybe among others.
func (c *Cell) matches(ref experiment.CellRef) bool {
	if ref.Arm != "" && ref.Arm != c.Arm {
		return false
	}
	for name, v := range ref.Values {
		if have, ok := c.values[name]; !ok || have.Text != v.Text {
			return false
		}
	}
	return true
}

func (m *maker) exclude(cells []Cell) []Cell {
	for _, ref := range m.ablation.Exclude {
		before := len(cells)
		cells = slices.DeleteFunc(cells, func(c Cell) bool { return c.matches(ref) })
		if len(cells) == before {
			m.warnf(ref.Range, "Nothing to exclude", "No cell matches.")
		}
	}
	return cells
}

// baseline finds the cell that all others are compared with. A baseline that leaves axes open is the arm with those
// settings as they are: the cell that resolves alike if there is one, else a cell of its own.
func (m *maker) baseline() {
	a := m.ablation
	if a.Baseline == nil || a.Baseline.Arm == "" {
		return
	}
	ref := *a.Baseline
	i := slices.IndexFunc(a.Arms, func(arm *experiment.Arm) bool { return arm.Name == ref.Arm })
	if i < 0 {
		return // reported when the ablation was read
	}
	var matching []int
	for i := range m.plan.Cells {
		if m.plan.Cells[i].matches(ref) {
			matching = append(matching, i)
		}
	}
	switch len(matching) {
	case 0:
		m.errorf(ref.Range, "No such cell", "The baseline is not among the cells; the arm %q has %s.", ref.Arm, listed(m.keys(ref.Arm)))
		return
	case 1:
		m.plan.Baseline = m.plan.Cells[matching[0]].Key
		return
	}
	own := newCell(a, a.Arms[i], ref.Values)
	m.resolve(&own)
	for _, i := range matching {
		if slices.Equal(m.plan.Cells[i].Runs, own.Runs) && len(own.Runs) == len(a.Seeds) {
			m.plan.Baseline = m.plan.Cells[i].Key
			return
		}
	}
	m.plan.Baseline = own.Key
	if !slices.ContainsFunc(m.plan.Cells, func(c Cell) bool { return c.Key == own.Key }) {
		m.plan.Cells = slices.Insert(m.plan.Cells, matching[0], own)
	}
}

func (m *maker) keys(arm string) []string {
	var keys []string
	for _, c := range m.plan.Cells {
		if c.Arm == arm {
			keys = append(keys, c.Key)
		}
	}
	return keys
}
