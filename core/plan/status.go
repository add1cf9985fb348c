package plan

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/forage-rl/forage/core/experiment"
	"github.com/forage-rl/forage/core/record"
)

// RecordSource knows how runs stand.
type RecordSource interface {
	// State gives the state of a run; ok is false for one that is not recorded. Reasons say what changed since the run
	// was made: with any, the run is stale.
	State(ctx context.Context, r Run) (state record.State, reasons []string, ok bool, err error)
}

// Mark fills in the status of every run.
func (p *Plan) Mark(ctx context.Context, source RecordSource) error {
	for i := range p.Runs {
		r := &p.Runs[i]
		state, reasons, ok, err := source.State(ctx, *r)
		if err != nil {
			return fmt.Errorf("state of run %s: %w", r.ID, err)
		}
		if !ok {
			continue
		}
		r.Status, r.Step, r.Message, r.Reasons = state.Status, state.Step, state.Message, reasons
		switch {
		case len(reasons) == 0 || state.Status == record.Planned:
		case state.Message == Accepted(reasons):
			r.Reasons = nil
		default:
			r.Status = record.Stale
		}
	}
	return nil
}

// Accepted is what the journal says of a finished run that is to be kept although something changed; it holds until
// something else changes.
func Accepted(reasons []string) string { return "accepted although " + strings.Join(reasons, ", ") }

// CheckInputs marks what is absent from the disk and from the environment. Nothing is read.
func (p *Plan) CheckInputs() error {
	p.Checked = true
	missing := map[string]bool{}
	for i := range p.Runs {
		r := &p.Runs[i]
		r.Absent = nil
		for _, in := range r.Config.Inputs() {
			gone, known := missing[in.Place()]
			if !known && in.Env != "" {
				gone = strings.TrimSpace(os.Getenv(in.Env)) == ""
			} else if !known {
				_, err := os.Stat(in.Path)
				gone = errors.Is(err, fs.ErrNotExist)
				if err != nil && !gone {
					return fmt.Errorf("look for %s: %w", in.Role, err)
				}
			}
			missing[in.Place()] = gone
			if gone {
				r.Absent = append(r.Absent, in)
			}
		}
	}
	return nil
}

// Absent lists every missing input once, in the order of the runs.
func (p *Plan) Absent() []experiment.Input {
	seen := map[string]bool{}
	var list []experiment.Input
	for _, r := range p.Runs {
		for _, in := range r.Absent {
			if key := in.Role + "\x00" + in.Place(); !seen[key] {
				seen[key] = true
				list = append(list, in)
			}
		}
	}
	return list
}

// Journal is the [RecordSource] of a study's folder. It finds nothing stale but what the journal says is.
type Journal struct {
	Study record.Study

	states map[string]record.State
}

// State implements [RecordSource]. The journal is read once.
func (j *Journal) State(_ context.Context, r Run) (state record.State, reasons []string, ok bool, err error) {
	if j.states == nil {
		if j.states, err = j.Study.States(); err != nil {
			return state, nil, false, err
		}
	}
	state, ok = j.states[r.ID]
	return state, nil, ok, nil
}
