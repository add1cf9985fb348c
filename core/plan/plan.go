package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/forage-rl/forage/core/experiment"
	"github.com/forage-rl/forage/core/record"
)

// Plan is what has to be run for an ablation, or for an experiment that is run alone.
type Plan struct {
	Study       string
	Ablation    string // "" for an experiment that is run alone
	Description string
	Seeds       []int64
	Primary     *experiment.Metric // nil: none named
	Baseline    string             // key of a cell; "" where none is named
	Assume      *experiment.Assume
	Cells       []Cell
	// Runs are in the order of execution: every cell with the first seed, then every cell with the second, …
	Runs []Run
	// Sensitivity says which differences can be told from noise. Whoever knows the statistics fills it in.
	Sensitivity []Sensitivity
	// Checked says that the places where inputs lie have been looked at: see [Plan.CheckInputs].
	Checked bool
}

// Sensitivity is the smallest difference of the primary figure that can be told from noise.
type Sensitivity struct {
	Basis    string  `json:"basis"`    // what the spread is taken from
	Observed float64 `json:"observed"` // smallest observed difference that would be significant
	Power80  float64 `json:"power_80"` // smallest true difference that 80 of 100 studies find
}

// Cell is an arm with values of axes.
type Cell struct {
	// Key names the cell wherever it is told of: the arm, then axis=value in the order of the ablation: "search_r1",
	// "search_r1,group=3".
	Key  string
	Arm  string    // label
	Axes []Setting // in the order of the ablation
	// Whole says that the arm is a method as its experiment has it; else Parts are the paths that it changes.
	Whole      bool
	Parts      []string
	Experiment string
	// Runs are the ids of its runs, one per seed of the plan. Cells that resolve alike share them.
	Runs []string

	arm    *experiment.Arm
	values map[string]experiment.AxisValue
}

// Setting is the value of an axis.
type Setting struct {
	Axis  string `json:"axis"`
	Value string `json:"value"`
}

// Run is one run. Cell is the first one that it belongs to.
type Run struct {
	ID     string
	Cell   Cell
	Seed   int64
	Config *experiment.Run

	// Status is what the records say, "" for a run they do not know. See [Plan.Mark].
	Status  record.Status
	Step    int      // training steps of a run that has not ended
	Message string   // why it failed
	Reasons []string // what changed, for a stale run
	Absent  []experiment.Input
}

// Name is what people are told of: the run's cell and seed.
func (r Run) Name() string { return fmt.Sprintf("%s seed %d", r.Cell.Key, r.Seed) }

// HCL is the run's configuration as a study of one run, which gives the same run id.
func (r Run) HCL() []byte { return r.Config.HCL() }

// idLength is 48 bits: a chance of 2e-10 that two of 300 runs collide, which [Make] would notice.
const idLength = 12

func short(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])[:idLength]
}

// Make expands an ablation. With errors the plan is incomplete.
func Make(s *experiment.Study, a *experiment.Ablation) (*Plan, hcl.Diagnostics) {
	m := &maker{study: s, ablation: a, byID: map[string]*made{}, plan: &Plan{
		Study: s.Name, Ablation: a.Name, Description: a.Description, Seeds: a.Seeds, Primary: a.Primary, Assume: a.Assume,
	}}
	m.plan.Cells = m.cells()
	if len(m.plan.Cells) == 0 && len(a.Arms) > 0 && !m.diags.HasErrors() {
		m.errorf(a.Range, "No cells", "Nothing is left to run: the exclude blocks take out every cell of every arm.")
		return m.plan, m.diags
	}
	if len(a.Seeds) == 0 {
		return m.plan, m.diags
	}
	m.configs = map[string]map[int64]*made{}
	for i := range m.plan.Cells {
		m.resolve(&m.plan.Cells[i])
	}
	m.baseline()
	m.runs()
	m.checkAxes()
	m.checkCells()
	m.diags = append(m.diags, s.WithoutEffect(a)...)
	return m.plan, experiment.Tidy(m.diags)
}

// Validate checks everything that a study can run, and what nothing uses. A file of methods alone, which no arm or seeds
// put to use, is checked method by method.
func Validate(s *experiment.Study) hcl.Diagnostics {
	var diags hcl.Diagnostics
	targets, find := s.Targets(), s.Ablation
	if len(targets) == 0 {
		targets, find = s.Idle(), s.Method
		if len(targets) == 0 {
			return hcl.Diagnostics{{Severity: hcl.DiagError, Summary: "Nothing to run", Detail: "The study has neither an ablation nor an experiment."}}
		}
	}
	for _, name := range targets {
		a, more := find(name)
		diags = append(diags, more...)
		if a == nil {
			continue
		}
		_, more = Make(s, a)
		diags = append(diags, more...)
	}
	if !diags.HasErrors() {
		diags = append(diags, s.Unused()...)
	}
	return experiment.Tidy(diags)
}

// made is a resolved run.
type made struct {
	id        string
	canonical string
	config    *experiment.Run
	cell      *Cell
	broken    bool
}

type maker struct {
	study    *experiment.Study
	ablation *experiment.Ablation
	plan     *Plan
	diags    hcl.Diagnostics
	configs  map[string]map[int64]*made // cell key → seed
	byID     map[string]*made
}

func (m *maker) errorf(at hcl.Range, summary, detail string, args ...any) {
	m.diags = append(m.diags, &hcl.Diagnostic{Severity: hcl.DiagError, Summary: summary, Detail: fmt.Sprintf(detail, args...), Subject: &at})
}

func (m *maker) warnf(at hcl.Range, summary, detail string, args ...any) {
	m.diags = append(m.diags, &hcl.Diagnostic{Severity: hcl.DiagWarning, Summary: summary, Detail: fmt.Sprintf(detail, args...), Subject: &at})
}

// resolve makes the configurations of a cell, one per seed.
func (m *maker) resolve(c *Cell) {
	runs := map[int64]*made{}
	m.configs[c.Key] = runs
	c.Runs = nil
	for _, seed := range m.ablation.Seeds {
		config, diags := m.study.Resolve(m.ablation, c.arm, c.values, seed)
		m.diags = append(m.diags, diags...)
		if config == nil || diags.HasErrors() {
			runs[seed] = &made{broken: true, cell: c}
			continue
		}
		canonical, err := config.Canonical()
		if err != nil {
			m.errorf(c.arm.Range, "Configuration without identity", "The run of %s with seed %d cannot be written down: %v.", c.Key, seed, err)
			runs[seed] = &made{broken: true, cell: c}
			continue
		}
		r := &made{id: short(canonical), canonical: string(canonical), config: config, cell: c}
		runs[seed] = r
		c.Runs = append(c.Runs, r.id)
	}
}

// runs lists each run once, by seed and then by cell.
func (m *maker) runs() {
	for _, seed := range m.ablation.Seeds {
		for i := range m.plan.Cells {
			c := &m.plan.Cells[i]
			r := m.configs[c.Key][seed]
			if r == nil || r.broken {
				continue
			}
			if first := m.byID[r.id]; first != nil {
				if first.canonical != r.canonical {
					m.errorf(c.arm.Range, "Equal run ids", "The runs of %s and %s have the id %s though they differ; change either a little.", first.cell.Key, c.Key, r.id)
					continue
				}
				m.compareEvaluations(first, r)
				continue
			}
			m.byID[r.id] = r
			m.plan.Runs = append(m.plan.Runs, Run{ID: r.id, Cell: *c, Seed: seed, Config: r.config})
		}
	}
}

// compareEvaluations refuses cells that are trained alike but evaluated in different ways under one name: one run has
// one set of evaluations.
func (m *maker) compareEvaluations(first, second *made) {
	seen := map[string]string{}
	for _, e := range first.config.Evaluations {
		if key, err := e.Key(first.config, ""); err == nil {
			seen[e.Name] = key
		}
	}
	same := len(first.config.Evaluations) == len(second.config.Evaluations)
	for _, e := range second.config.Evaluations {
		if key, err := e.Key(second.config, ""); err != nil || seen[e.Name] != key {
			same = false
		}
	}
	if !same {
		m.errorf(second.cell.arm.Range, "Same training, other evaluation",
			"The cells %s and %s train alike, so they are one run, but their evaluate blocks differ. Give what differs a name of its own: a further evaluate block for all arms.",
			first.cell.Key, second.cell.Key)
	}
}

// checkAxes warns of axes that change nothing.
func (m *maker) checkAxes() {
	if m.diags.HasErrors() {
		return
	}
	for _, x := range m.ablation.Axes {
		effect, seen := false, false
		groups := map[string]string{}
		for i := range m.plan.Cells {
			c := &m.plan.Cells[i]
			if _, ok := c.values[x.Name]; !ok {
				continue
			}
			var rest []string
			for _, s := range c.Axes {
				if s.Axis != x.Name {
					rest = append(rest, s.Axis+"="+s.Value)
				}
			}
			key, ids := c.Arm+","+strings.Join(rest, ","), strings.Join(c.Runs, " ")
			if before, ok := groups[key]; ok {
				seen = true
				effect = effect || before != ids
			}
			groups[key] = ids
		}
		zipped := slices.ContainsFunc(m.ablation.Zip, func(group []string) bool { return slices.Contains(group, x.Name) })
		if seen && !effect && !zipped {
			m.warnf(x.PathRange, "Axis without effect", "No value of the axis %q changes how anything is trained: what it sets is not used, or set again further in.", x.Name)
		}
	}
}

// checkCells checks what all runs of a comparison must have.
func (m *maker) checkCells() {
	a := m.ablation
	if a.Name == "" {
		return
	}
	if a.Primary == nil {
		m.warnf(a.Range, "No primary metric", "Without primary = metric(\"evaluation\", \"metric\") the report has no test.")
	}
	if m.plan.Baseline == "" && a.Baseline == nil && len(m.plan.Cells) > 1 {
		m.warnf(a.Range, "No baseline", "Without baseline = { arm = \"…\" } the report has no test.")
	}
	for i := range m.plan.Cells {
		c := &m.plan.Cells[i]
		r := m.configs[c.Key][a.Seeds[0]]
		if r != nil && !r.broken {
			m.checkPrimary(r)
		}
	}
}

func (m *maker) checkPrimary(r *made) {
	primary := m.ablation.Primary
	if primary == nil {
		return
	}
	var names []string
	byName := map[string]*experiment.Evaluation{}
	for _, e := range r.config.Evaluations {
		names = append(names, e.Name)
		byName[e.Name] = e
	}
	for _, name := range primary.Evaluations {
		e := byName[name]
		if e == nil {
			m.errorf(r.cell.arm.Range, "Missing evaluation", "The primary metric is %s, but arm %q has no evaluate block %q; it has %s.",
				primary, r.cell.Arm, name, listed(names))
			continue
		}
		if !slices.Contains(e.Metrics, primary.Metric) {
			m.errorf(e.Range, "Missing metric", "The primary metric is %s, but in arm %q the evaluation %q measures only %s.",
				primary, r.cell.Arm, name, listed(e.Metrics))
		}
		sel := r.config.Checkpoint.Select
		by := byName[sel.Evaluation]
		if sel.Kind == experiment.SelectBest && by != nil && (by == e || sameQuestions(by.Dataset, e.Dataset)) {
			m.errorf(by.Range, "Selection on the tested questions", "Arm %q selects its checkpoint by the questions that the primary metric %s is measured on. Select by other questions.",
				r.cell.Arm, primary)
		}
	}
}

// sameQuestions says whether two datasets are read from the same place.
func sameQuestions(a, b *experiment.Dataset) bool {
	if a == nil || b == nil {
		return false
	}
	seed := func(d *experiment.Dataset) int64 {
		if d.Seed == nil {
			return -1
		}
		return *d.Seed
	}
	return a.Handle == b.Handle || a.Path == b.Path && a.Builtin == b.Builtin && a.Split == b.Split && len(a.Concat) == 0 && len(b.Concat) == 0 &&
		a.Limit == b.Limit && seed(a) == seed(b)
}

func listed(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}
