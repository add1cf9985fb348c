package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/forage-rl/forage/core/experiment"
	"github.com/forage-rl/forage/core/plan"
	"github.com/forage-rl/forage/core/record"
)

// studies lists the folders of records that hold a journal, by name.
func (a *app) studies() ([]record.Study, error) {
	entries, err := os.ReadDir(a.runsDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for records: %w", err)
	}
	var list []record.Study
	for _, e := range entries {
		s := record.Study{Dir: filepath.Join(a.runsDir, e.Name())}
		if _, err := os.Stat(s.JournalPath()); err == nil {
			list = append(list, s)
		}
	}
	return list, nil
}

// recordedStudy gives the folder of records that an argument names, by path or by name; ok is false for anything else. A
// study in a folder of that name comes first.
func (a *app) recordedStudy(arg string) (record.Study, bool) {
	if exists(filepath.Join(arg, "main.hcl")) {
		return record.Study{}, false
	}
	for _, dir := range []string{arg, filepath.Join(a.runsDir, arg)} {
		s := record.Study{Dir: dir}
		if _, err := os.Stat(s.JournalPath()); err == nil {
			return s, true
		}
	}
	return record.Study{}, false
}

// findRun finds a run by the path of its folder, its id, or the beginning of its id.
func (a *app) findRun(arg string) (record.Run, error) {
	if r := record.OpenRun(filepath.Clean(arg)); exists(r.ManifestPath()) {
		return r, nil
	}
	studies, err := a.studies()
	if err != nil {
		return record.Run{}, err
	}
	var found []record.Run
	for _, s := range studies {
		runs, err := s.Runs()
		if err != nil {
			return record.Run{}, err
		}
		for _, r := range runs {
			if r.ID == arg || len(arg) >= 4 && strings.HasPrefix(r.ID, arg) {
				found = append(found, r)
			}
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return record.Run{}, fmt.Errorf("there is no run %q in %s: give the folder of a run, its id, or at least 4 characters of it; \"forage status\" lists the studies", arg, a.runsDir)
	}
	var paths []string
	for _, r := range found {
		paths = append(paths, r.Dir)
	}
	return record.Run{}, fmt.Errorf("%q means several runs, say which: %s", arg, strings.Join(paths, ", "))
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// result reads the result of a finished run.
func result(r record.Run) (record.Result, error) {
	res, ok, err := r.ReadResult()
	if err == nil && !ok {
		err = fmt.Errorf("run %s (%s) is not finished: it has no result yet", r.ID, r.Dir)
	}
	return res, err
}

// configOf reads the configuration that a run was executed with. The caller closes the study.
func (a *app) configOf(ctx context.Context, r record.Run) (*opened, *experiment.Run, error) {
	if !exists(r.ConfigPath()) {
		return nil, nil, fmt.Errorf("run %s has no %s: it never started", r.ID, filepath.Base(r.ConfigPath()))
	}
	s, p, err := a.openPlan(ctx, r.ConfigPath(), &studyFlags{})
	if err != nil {
		return nil, nil, err
	}
	if len(p.Runs) != 1 {
		return nil, nil, errors.Join(fmt.Errorf("%s is to hold one run and holds %d", r.ConfigPath(), len(p.Runs)), s.Close())
	}
	return s, p.Runs[0].Config, nil
}

// runOf finds the run of a plan that flags of arm and seed mean: the first one that fits.
func runOf(p *plan.Plan, arm string, seed int64, anySeed bool) (plan.Run, error) {
	var have []string
	for _, r := range p.Runs {
		if (arm == "" || r.Cell.Arm == arm || r.Cell.Key == arm) && (anySeed || r.Seed == seed) {
			return r, nil
		}
		have = append(have, r.Name())
	}
	return plan.Run{}, fmt.Errorf("the study has no such run; it has %s", strings.Join(have, ", "))
}
