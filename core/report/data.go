package report

import (
	"maps"
	"slices"
	"strconv"

	"github.com/forage-rl/forage/core/report/stats"
)

// data lists the numbers of the report for the CSV.
func (r *Report) data() []datum {
	var out []datum
	add := func(d datum, quantity string, value float64) {
		d.quantity, d.value = quantity, value
		out = append(out, d)
	}
	addInterval := func(d datum, name string, i stats.Interval) {
		add(d, name+"_low", i.Low)
		add(d, name+"_high", i.High)
	}
	for _, p := range r.Primary {
		d := datum{table: "primary", cell: p.Cell}
		add(d, "seeds", float64(len(p.Seeds)))
		if len(p.Seeds) == 0 {
			continue
		}
		add(d, "mean", p.CellMean)
		add(d, "baseline_mean", p.BaseMean)
		add(d, "difference", p.Test.Mean)
		if len(p.Seeds) >= stats.MinSeeds {
			add(d, "sd", p.Test.SD)
			add(d, "critical_t", p.Test.Critical)
			addInterval(d, "interval", p.Test.Interval)
		}
		if p.Crossed != nil {
			addInterval(d, "bootstrap", *p.Crossed)
		}
		if p.Test.HasP {
			add(d, "t", p.Test.T)
			add(d, "p", p.Test.P)
			add(d, "p_holm", p.Adjusted)
		}
	}
	out = append(out, checkpointData(r.Checkpoints)...)
	for _, c := range r.Cells {
		d := datum{table: "scores", cell: c.Key}
		for _, s := range c.Scores {
			d.seed = strconv.FormatInt(s.Seed, 10)
			add(d, r.Metric, s.Score)
		}
		d.seed = ""
		if c.Interval != nil {
			addInterval(d, "bootstrap", *c.Interval)
		}
	}
	for _, e := range r.Evaluations {
		for _, row := range e.Rows {
			d := datum{table: "evaluation", evaluation: e.Name, cell: row.Cell}
			for _, m := range e.Metrics {
				if v, ok := row.Values[m]; ok {
					add(d, m, v.Mean)
					if v.N > 1 {
						add(d, m+"_sd", v.SD)
					}
				}
			}
			for _, h := range slices.Sorted(maps.Keys(row.ByHops)) {
				add(d, r.Metric+"_hops_"+strconv.Itoa(h), row.ByHops[h].Mean)
			}
		}
	}
	for _, c := range r.Cells {
		d := datum{table: "budget", cell: c.Key}
		for i, v := range budgetMeans(c) {
			if name := budgetNames()[i]; c.Results > 0 && (name != "wall_seconds" || r.Options.Times) {
				add(d, name, v)
			}
		}
	}
	for _, a := range r.Aggregates {
		d := datum{table: "aggregate", cell: a.Cell}
		add(d, "interquartile_mean", a.IQM)
		if a.Cell != r.Baseline {
			add(d, "probability_of_improvement", a.Improvement)
		}
	}
	for _, s := range r.Sensitivity {
		d := datum{table: "sensitivity", cell: s.Basis}
		add(d, "observed", s.Detectable.Observed)
		add(d, "true_at_power_80", s.Detectable.Power80)
	}
	return out
}

func checkpointData(rows []CheckpointRow) []datum {
	var out []datum
	for _, c := range rows {
		add := func(quantity string, value float64) {
			out = append(out, datum{table: "these_checkpoints_only", evaluation: c.Evaluation, cell: c.Cell, quantity: c.Metric + "_" + quantity, value: value})
		}
		add("difference", c.Difference)
		add("sign_flip_p", c.Test.P)
		if c.McNemar != nil {
			add("only_cell_right", float64(c.McNemar.OnlyCell))
			add("only_baseline_right", float64(c.McNemar.OnlyBaseline))
			add("mcnemar_p", c.McNemar.P)
		}
	}
	return out
}
