package run

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/forage-rl/forage/core/host"
	"github.com/forage-rl/forage/core/record"
)

// maxCrashes is how often an execution goes back to its last checkpoint because the process of the algorithm died. What kills
// a process from outside (memory that others need, an administrator) seldom comes back; a mistake of the algorithm
// does, and ends the run after so many tries.
const maxCrashes = 3

// crash is the end of an algorithm's process in the middle of its stage.
type crash struct {
	stage string
	step  int // of the stage: the one in progress
	cause *host.CrashError
}

// algorithmInstance names the plugin instance of a stage's algorithm.
func algorithmInstance(stage string) string { return fmt.Sprintf("stage.%s.algorithm", stage) }

// crashed tells whether the stage's training ended because the process of its algorithm did; nil where it did not.
func (s *stage) crashed(err error) *crash {
	var cause *host.CrashError
	if !errors.As(err, &cause) || cause.Plugin != algorithmInstance(s.config.Name) {
		return nil
	}
	return &crash{stage: s.config.Name, step: s.run.state.Step, cause: cause}
}

// advance starts an attempt and trains what is left.
func (r *runner) advance(ctx context.Context) error {
	if err := r.open(ctx); err != nil {
		return err
	}
	return r.train(ctx)
}

// restartable says whether the run can go on after what ended the attempt. A stage in progress has a checkpoint: that
// of its start, if no later one.
func (r *runner) restartable(ctx context.Context) bool {
	return r.crash != nil && len(r.crashes) < maxCrashes && ctx.Err() == nil
}

// final is the error that a run ends with.
func (r *runner) final(err error) error {
	if r.crash != nil && len(r.crashes) > 0 {
		return fmt.Errorf("run %s: it went back to its last checkpoint %d times already: %w", r.ID, len(r.crashes), err)
	}
	return fmt.Errorf("run %s: %w", r.ID, err)
}

// restart gives the run as it is before its next attempt, as if the program had died with the plugin: whatever the
// unfinished steps left in weights, optimizer, cursor and processes is given up, so that nothing of it can be kept by
// mistake.
func (r *runner) restart() (*runner, error) {
	text := fmt.Sprintf("stage %q: the algorithm's process died in step %d (%s); the run went on from its last checkpoint (restart %d of %d)",
		r.crash.stage, r.crash.step, r.crash.cause.Exit, len(r.crashes)+1, maxCrashes)
	r.log.Warn(text, "error", r.crash.cause)
	fresh := newRunner(r.Options)
	fresh.started, fresh.crashes = r.started, append(r.crashes, text)
	fresh.Fresh = false // what this very execution has done is not to be thrown away
	if err := r.close(); err != nil {
		return fresh, err
	}
	if r.Lost != nil {
		return fresh, r.Lost(r.attempt.N, r.state.Global, fmt.Sprintf("%s: %v", text, r.crash.cause))
	}
	return fresh, nil
}

// carryOver adds to the state of the checkpoint what has become of the run since it was written.
func (r *runner) carryOver(info record.AttemptInfo) {
	for _, text := range r.crashes {
		if !slices.Contains(r.state.Warnings, text) {
			r.state.Warnings = append(r.state.Warnings, text)
		}
	}
	if info.Inexact {
		r.state.Inexact = true
		r.state.Warnings = append(r.state.Warnings, fmt.Sprintf("resumed at step %d on other preconditions %v: it need not equal an uninterrupted run", r.state.Global, info.Changes))
	}
}
