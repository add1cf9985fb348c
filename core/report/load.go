package report

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/forage-rl/forage/core/record"
)

// Load reads the records of the runs that plan names from a study's folder (runs/<study>) and gives plan with them
// filled in. Runs without a folder or a result stay without one; damaged records are errors. A plan without cells takes
// them from the results it finds, which then also say their seeds.
func Load(studyDir string, plan Study) (Study, error) {
	dir := record.Study{Dir: studyDir}
	states, err := dir.States()
	if err != nil {
		return Study{}, err
	}
	if len(plan.Cells) == 0 {
		if plan.Cells, err = discover(dir); err != nil {
			return Study{}, err
		}
	} else {
		plan.Cells = slices.Clone(plan.Cells)
	}
	for i := range plan.Cells {
		runs := slices.Clone(plan.Cells[i].Runs)
		for j := range runs {
			seed := runs[j].Seed
			if runs[j], err = LoadRun(dir.Run(runs[j].ID)); err != nil {
				return Study{}, err
			}
			if runs[j].HasResult && runs[j].Result.Seed != seed {
				return Study{}, fmt.Errorf("%s: the result has seed %d, the plan %d", dir.Run(runs[j].ID).ResultPath(), runs[j].Result.Seed, seed)
			}
			runs[j].Seed = seed
			runs[j].State = states[runs[j].ID]
		}
		plan.Cells[i].Runs = runs
	}
	return plan, nil
}

// LoadRun reads the records of one run from its folder. Its State stays zero: that is the study's journal's to say.
func LoadRun(run record.Run) (RunResult, error) {
	out := RunResult{ID: run.ID, Questions: map[string][]record.QuestionResult{}}
	var err error
	if out.Manifest, _, err = run.ReadManifest(); err != nil {
		return RunResult{}, err
	}
	if out.History, err = record.ReadMetrics(run); err != nil {
		return RunResult{}, err
	}
	if out.Result, out.HasResult, err = run.ReadResult(); err != nil || !out.HasResult {
		return out, err
	}
	out.Seed = out.Result.Seed
	for _, e := range out.Result.Evaluations {
		if !filepath.IsLocal(e.Questions) {
			return RunResult{}, fmt.Errorf("%s: evaluation %q: questions file %q is not inside the run's folder", run.ResultPath(), e.Name, e.Questions)
		}
		questions, err := record.ReadQuestions(filepath.Join(run.Dir, e.Questions))
		if err != nil {
			return RunResult{}, fmt.Errorf("evaluation %q: %w", e.Name, err)
		}
		if len(questions) != e.N {
			return RunResult{}, fmt.Errorf("%s: evaluation %q has %d questions, %s says %d", filepath.Join(run.Dir, e.Questions),
				e.Name, len(questions), filepath.Base(run.ResultPath()), e.N)
		}
		out.Questions[e.Name] = questions
	}
	return out, nil
}

// discover makes cells from the results in a study's folder.
func discover(dir record.Study) ([]Cell, error) {
	runs, err := dir.Runs()
	if err != nil {
		return nil, err
	}
	var cells []Cell
	for _, run := range runs {
		res, ok, err := run.ReadResult()
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		i := slices.IndexFunc(cells, func(c Cell) bool { return c.Key == res.Cell })
		if i < 0 {
			i = len(cells)
			cells = append(cells, Cell{Key: res.Cell, Arm: res.Arm, Axes: res.Axes})
		}
		cells[i].Runs = append(cells[i].Runs, RunResult{ID: run.ID, Seed: res.Seed})
	}
	for _, c := range cells {
		slices.SortFunc(c.Runs, func(a, b RunResult) int { return cmp.Compare(a.Seed, b.Seed) })
	}
	slices.SortFunc(cells, func(a, b Cell) int { return cmp.Compare(a.Key, b.Key) })
	return cells, nil
}
