package study

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/forage-rl/forage/core/experiment"
	"github.com/forage-rl/forage/core/plan"
	"github.com/forage-rl/forage/core/record"
	"github.com/forage-rl/forage/core/report"
)

// Results reads the records of a plan's runs: what a report is made from.
func Results(p *plan.Plan, dir record.Study) (report.Study, error) {
	s := report.Study{Name: p.Study, Description: p.Description, Baseline: p.Baseline}
	if p.Ablation != "" {
		s.Name += " " + p.Ablation
	}
	if p.Primary != nil {
		s.Primary = report.Primary{Evaluations: p.Primary.Evaluations, Metric: p.Primary.Metric}
	}
	if p.Assume != nil {
		s.Assume = report.Assume{SeedSD: p.Assume.SeedSD, Discordance: p.Assume.Discordance}
	}
	configs := map[string]*experiment.Run{}
	for _, r := range p.Runs {
		configs[r.ID] = r.Config
	}
	baseline := map[int64]*experiment.Run{}
	for _, c := range p.Cells {
		if c.Key == p.Baseline {
			for _, id := range c.Runs {
				baseline[configs[id].Seed] = configs[id]
			}
		}
	}
	for _, c := range p.Cells {
		cell := report.Cell{Key: c.Key, Arm: c.Arm, Axes: map[string]string{}, Label: report.OnePart}
		switch {
		case c.Whole:
			cell.Label = report.WholeMethod
		case len(c.Parts) > 1:
			cell.Label = fmt.Sprintf("%d parts changed", len(c.Parts))
		}
		for _, a := range c.Axes {
			cell.Axes[a.Axis] = a.Value
		}
		declared := map[string]bool{}
		for _, id := range c.Runs {
			config := configs[id]
			cell.Runs = append(cell.Runs, report.RunResult{ID: id, Seed: config.Seed})
			for _, name := range Differing(config, baseline[config.Seed]) {
				declared[name] = true
			}
		}
		cell.Declared = slices.Sorted(maps.Keys(declared))
		s.Cells = append(s.Cells, cell)
	}
	return report.Load(dir.Dir, s)
}

// Differing names what two configurations declare differently, as manifests call it: a difference of its digests is
// meant and needs no warning.
func Differing(a, b *experiment.Run) []string {
	if b == nil {
		return nil
	}
	var names []string
	compare := func(have, other map[string]any) {
		for name, v := range have {
			if other[name] == nil || encoded(v) != encoded(other[name]) {
				names = append(names, name)
			}
		}
	}
	compare(blocks(a), blocks(b))
	compare(blocks(b), blocks(a))
	if encoded(a.Stages) != encoded(b.Stages) {
		names = append(names, "trains_observations") // follows from the algorithms
	}
	return names
}

// blocks lists what a configuration reads, under the names of a manifest.
func blocks(r *experiment.Run) map[string]any {
	all := map[string]any{}
	for name, v := range r.Corpora {
		all[name] = v
	}
	for name, v := range r.Indexes {
		all[name] = v
	}
	for name, v := range r.Datasets {
		all[name] = v
	}
	for role, p := range r.Policies {
		all["policy."+role] = p
		all["tokenizer."+role] = p
	}
	return all
}

func encoded(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return err.Error() // resolved blocks are plain data
	}
	return string(data)
}
