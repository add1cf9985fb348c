package run

import (
	"fmt"
	"slices"
	"strings"

	"github.com/forage-rl/forage/core/internal/suggest"
)

// guards evaluates the guards on a step's metrics and says whether one asks for a checkpoint.
func (r *runner) guards(stage string, values map[string]float64) (bool, error) {
	due := false
	r.measured = sorted(values)
	for _, g := range r.config.Guards {
		missing := slices.ContainsFunc(g.When.Keys("metrics"), func(key string) bool { _, ok := values[key]; return !ok })
		if missing {
			continue // this step did not measure it
		}
		if !slices.Contains(r.state.Watched, g.Name) {
			r.state.Watched = append(r.state.Watched, g.Name)
		}
		hit, err := g.When.Bool(map[string]any{"metrics": values, "step": r.state.Global, "stage": stage})
		if err != nil {
			return false, fmt.Errorf("guard %q: %w", g.Name, err)
		}
		if !hit {
			continue
		}
		text := fmt.Sprintf("guard %q at step %d: %s", g.Name, r.state.Global, g.When.Text())
		switch g.Action {
		case "stop":
			r.stopped = g.Name
			r.state.Warnings = append(r.state.Warnings, text+"; the training was stopped")
		case "checkpoint":
			due = true
		default:
			if !slices.Contains(r.state.Warned, g.Name) {
				r.state.Warnings = append(r.state.Warnings, text)
				r.state.Warned = append(r.state.Warned, g.Name)
			}
		}
		r.log.Warn(text)
	}
	return due, nil
}

// unwatched tells of guards that never looked, because no step measured what they read.
func (r *runner) unwatched() (warnings []string) {
	if len(r.config.Stages) == 0 {
		return nil
	}
	for _, g := range r.config.Guards {
		if slices.Contains(r.state.Watched, g.Name) {
			continue
		}
		var hints string
		for _, key := range g.When.Keys("metrics") {
			if near := suggest.Nearest(key, r.measured); near != "" && near != key {
				hints += fmt.Sprintf("; did you mean %q?", near)
			}
		}
		warnings = append(warnings, fmt.Sprintf("guard %q (%s:%d) never looked: no step measured all of %s%s", g.Name, g.Range.Filename, g.Range.Start.Line, strings.Join(g.When.Keys("metrics"), ", "), hints))
	}
	return warnings
}
