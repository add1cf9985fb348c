package study

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/hcl/v2"
	"golang.org/x/sync/errgroup"

	"github.com/forage-rl/forage/core/host"
	"github.com/forage-rl/forage/core/plan"
	"github.com/forage-rl/forage/core/policy"
	"github.com/forage-rl/forage/core/record"
	"github.com/forage-rl/forage/core/run"
)

// Options says how to execute a plan.
type Options struct {
	Plan      *plan.Plan
	Dir       record.Study
	Catalogue *host.Catalogue
	CacheDir  string
	Backend   *policy.Backend

	// Only keeps runs of these arms; empty means all.
	Only []string
	// RetryFailed runs again what failed before; else it is passed over.
	RetryFailed bool
	// Fresh starts every run from the beginning, whatever earlier attempts left.
	Fresh bool
	// Accept goes on with runs whose preconditions changed.
	Accept bool
	// Parallel is how many runs execute at a time; 0 means 1.
	Parallel int

	// Pause, once closed, ends the execution after the training steps in progress, with checkpoints and
	// [run.ErrPaused].
	Pause <-chan struct{}

	Progress func(runID string, p run.Progress) // may be nil
	Event    func(e record.Event)               // may be nil: told what the journal is told
	Logger   *slog.Logger
}

// Summary counts how the runs of a plan stand after an execution.
type Summary struct {
	Done    int // finished now or before
	Failed  int
	Skipped int // failed before and not retried
	Errors  map[string]error
}

// Due says whether a run has to be executed, given what the journal says of it.
func (o Options) Due(status record.Status) bool {
	switch status {
	case record.Done, record.StoppedByGuard:
		return o.Fresh
	case record.Failed:
		return o.RetryFailed || o.Fresh
	}
	return true
}

// Execute carries the plan's runs out. A run that fails does not keep the others from running; the error of Execute
// is about the study itself (or ctx), those of runs are in the summary.
func Execute(ctx context.Context, o Options) (summary Summary, err error) {
	summary.Errors = map[string]error{}
	lock, err := record.Lock(o.Dir.LockPath())
	if err != nil {
		return summary, fmt.Errorf("study %s: %w", o.Dir.Dir, err)
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	journal, err := record.OpenJournal(o.Dir.JournalPath())
	if err != nil {
		return summary, fmt.Errorf("study %s: %w", o.Dir.Dir, err)
	}
	defer func() { err = errors.Join(err, journal.Close()) }()
	x := &execution{Options: o, journal: journal, summary: &summary}
	due, err := x.due()
	if err != nil {
		return summary, err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(max(1, o.Parallel))
	for _, r := range due {
		if groupCtx.Err() != nil || x.paused() {
			break
		}
		group.Go(func() error {
			if x.paused() { // while it waited for its turn
				return nil
			}
			return x.execute(groupCtx, r)
		})
	}
	if err := group.Wait(); err != nil {
		return summary, err
	}
	if x.paused() {
		return summary, run.ErrPaused
	}
	return summary, ctx.Err()
}

type execution struct {
	Options
	journal *record.Journal

	mu      sync.Mutex
	summary *Summary
}

// due writes down what was not known yet and lists the runs to execute, in the plan's order.
func (x *execution) due() ([]plan.Run, error) {
	states, err := x.Dir.States()
	if err != nil {
		return nil, fmt.Errorf("study %s: %w", x.Dir.Dir, err)
	}
	var due []plan.Run
	for _, r := range x.Plan.Runs {
		if len(x.Only) > 0 && !slices.Contains(x.Only, r.Cell.Arm) {
			continue
		}
		state, known := states[r.ID]
		switch {
		case !known:
			err = x.note(record.Event{Run: r.ID, Cell: r.Cell.Key, Seed: &r.Seed, Event: record.Planned})
		case state.Status == record.Lost:
			err = x.note(record.Event{Run: r.ID, Attempt: state.Attempt, Event: record.Lost, Step: state.Step, Message: state.Message})
		}
		if err != nil {
			return nil, err
		}
		if settled, err := x.settle(r, state); err != nil {
			return nil, err
		} else if settled {
			continue
		}
		switch {
		case x.Due(state.Status):
			due = append(due, r)
		case state.Status == record.Failed:
			x.summary.Skipped++
			x.summary.Errors[r.ID] = errors.New(state.Message)
		default:
			x.summary.Done++
		}
	}
	return due, nil
}

// settle deals with a run that is stale, or was when it was last looked at, and says whether nothing is left to do.
func (x *execution) settle(r plan.Run, state record.State) (bool, error) {
	reasons := strings.Join(r.Reasons, ", ")
	switch {
	case x.Fresh:
		return false, nil
	case reasons != "" && !x.Accept:
		// Neither reused nor resumed: what it was made from is not there any more.
		x.summary.Failed++
		x.summary.Errors[r.ID] = fmt.Errorf("stale: %s; keep it with --accept, or start it afresh with --fresh", reasons)
		if state.Status == record.Stale {
			return true, nil
		}
		return true, x.note(record.Event{Run: r.ID, Attempt: state.Attempt, Event: record.Stale, Step: state.Step, Message: reasons})
	case reasons == "" && (state.Status != record.Stale || r.Status == ""):
		return false, nil
	}
	// It is to be kept, or was noted as stale before and is as it was again: a result counts.
	result, ok, err := x.Dir.Run(r.ID).ReadResult()
	if err != nil || !ok {
		return false, err
	}
	if reasons != "" {
		reasons = plan.Accepted(r.Reasons)
	}
	x.summary.Done++
	return true, x.note(record.Event{Run: r.ID, Attempt: state.Attempt, Event: result.Status, Step: result.Checkpoint.Step, Message: reasons})
}

func (x *execution) paused() bool {
	select {
	case <-x.Pause:
		return true
	default:
		return false
	}
}

func (x *execution) note(e record.Event) error {
	if err := x.journal.Append(e); err != nil {
		return fmt.Errorf("study %s: %w", x.Dir.Dir, err)
	}
	if x.Event != nil {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.Event(e)
	}
	return nil
}

// execute carries one run out. Its own failure is noted and not returned.
func (x *execution) execute(ctx context.Context, r plan.Run) error {
	dir := x.Dir.Run(r.ID)
	attempt, step := 0, 0
	logger := x.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	result, err := run.Execute(ctx, run.Options{
		Config: r.Config, ID: r.ID, Cell: r.Cell.Key, Dir: dir, Catalogue: x.Catalogue, CacheDir: x.CacheDir, Backend: x.Backend,
		Accept: x.Accept, Fresh: x.Fresh, Pause: x.Pause, Logger: logger.With("run", r.ID),
		Started: func(n, from int) error {
			attempt = n
			if err := record.WriteFile(dir.ConfigPath(), r.HCL()); err != nil {
				return err
			}
			return x.note(record.Event{Run: r.ID, Attempt: n, Event: record.Started, Step: from})
		},
		Lost: func(n, at int, reason string) error {
			return x.note(record.Event{Run: r.ID, Attempt: n, Event: record.Lost, Step: at, Message: reason})
		},
		Progress: func(p run.Progress) {
			step = p.Step
			if x.Progress != nil {
				x.Progress(r.ID, p)
			}
		},
	})
	event := record.Event{Run: r.ID, Attempt: attempt, Step: step}
	var stale *run.StaleError
	switch {
	case ctx.Err() != nil && err != nil:
		// Whoever asked to stop will run it again: it is not a failure of the run.
		event.Event, event.Message = record.Lost, "stopped on request"
		return errors.Join(x.note(event), ctx.Err())
	case errors.Is(err, run.ErrPaused):
		event.Event, event.Message = record.Lost, err.Error()
		return x.note(event)
	case errors.As(err, &stale):
		event.Event, event.Message = record.Stale, err.Error()
	case err != nil:
		event.Event, event.Message = record.Failed, err.Error()
	default:
		event.Event, event.Step = result.Status, result.Checkpoint.Step
	}
	x.mu.Lock()
	if err != nil {
		x.summary.Failed++
		x.summary.Errors[r.ID] = err
	} else {
		x.summary.Done++
	}
	x.mu.Unlock()
	return x.note(event)
}

// Unsupported lists what the runs of a plan ask for that this version does not carry out. The plan may be nil.
func Unsupported(p *plan.Plan) hcl.Diagnostics {
	var diags hcl.Diagnostics
	if p != nil {
		for _, r := range p.Runs {
			diags = append(diags, run.Unsupported(r.Config)...)
		}
	}
	return diags
}
