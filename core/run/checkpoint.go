package run

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/forage-rl/forage/core/policy/checkpoint"
	"github.com/forage-rl/forage/core/record"
	"github.com/forage-rl/forage/core/sdk"
)

// state is where a run is: with weights, optimizer and the algorithm's own state, all that a checkpoint holds. Random
// numbers have keys and need no state.
type state struct {
	Stage  int `json:"stage"`  // the one in progress, from 0
	Step   int `json:"step"`   // training steps finished in it
	Global int `json:"global"` // training steps finished in all
	Cursor int `json:"cursor"` // questions drawn in the stage
	// StageStart is the training step (over all stages) that the stage in progress started at.
	StageStart int `json:"stage_start"`

	Budgets        record.Budgets `json:"budgets"`
	EpisodesDigest string         `json:"episodes_digest"`
	BestStep       int            `json:"best_step,omitempty"` // of checkpoint selection
	BestValue      float64        `json:"best_value,omitempty"`
	Artefacts      []produced     `json:"artefacts,omitempty"`
	Warned         []string       `json:"warned,omitempty"`  // guards that have warned
	Watched        []string       `json:"watched,omitempty"` // guards whose metrics were measured at least once
	// Scored holds what the total reads of reward sources, by name, in the stage in progress: whether any episode had more
	// than 0 of it.
	Scored   map[string]bool `json:"scored,omitempty"`
	Warnings []string        `json:"warnings,omitempty"` // of the training: of guards, of restarts
	// Noticed holds the warnings of what attempts read and started: one that resumes in a later stage does not read and
	// start all of it again.
	Noticed   []string `json:"noticed,omitempty"`
	Inexact   bool     `json:"inexact,omitempty"`    // it was resumed where it need not equal an uninterrupted run
	StoppedBy string   `json:"stopped_by,omitempty"` // guard
}

// noticed lists the warnings of what this attempt and those before it read and started, each once.
func (r *runner) noticed() []string {
	all := slices.Clone(r.state.Noticed)
	for _, text := range r.warnings {
		if !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return all
}

// spend adds the time since the last call, or since the run began, to what the run has spent.
func (r *runner) spend() {
	now := time.Now()
	r.state.Budgets.WallSeconds += now.Sub(r.started).Seconds()
	r.started = now
}

func chain(digest, next string) string {
	sum := sha256.Sum256([]byte(digest + next))
	return hex.EncodeToString(sum[:])
}

// checkpoint writes the state after the steps so far.
func (s *stage) checkpoint(ctx context.Context) error {
	r := s.run
	r.report("writing a checkpoint", 0, 0)
	have, err := r.attempt.Checkpoints()
	if err != nil {
		return err
	}
	for _, c := range have {
		if c.Step == r.state.Global {
			// The end of one stage and the start of the next have the same weights but not the same state.
			if err := record.RemoveDir(c.Dir); err != nil {
				return err
			}
		}
	}
	_, err = r.attempt.WriteCheckpoint(r.state.Global, func(dir string) error {
		for _, role := range r.trainedRoles() {
			m, err := r.models.get(ctx, role)
			if err != nil {
				return err
			}
			if err := m.Save(ctx, weightsIn(dir, role), checkpoint.Float32); err != nil {
				return err
			}
		}
		if s.trainer != nil {
			if err := s.trainer.SaveState(ctx, join(dir, "trainer")); err != nil {
				return err
			}
		}
		if r.critic != nil {
			if err := r.critic.trainer.SaveState(ctx, join(dir, "critic")); err != nil {
				return err
			}
		}
		if stateful, ok := s.algorithm.(sdk.Stateful); ok {
			data, err := stateful.Save(ctx)
			if err != nil && !errors.Is(err, sdk.ErrNotSupported) {
				return fmt.Errorf("state of algorithm %q: %w", s.config.Algorithm.Label, err)
			}
			if err == nil {
				if err := os.WriteFile(join(dir, "algorithm.bin"), data, 0o644); err != nil {
					return err
				}
			}
		}
		r.state.Noticed = r.noticed()
		r.spend()
		return record.WriteJSON(join(dir, "state.json"), r.state)
	})
	if err != nil {
		return fmt.Errorf("checkpoint at step %d: %w", r.state.Global, err)
	}
	r.saved = time.Now()
	if err := r.sink.Sync(); err != nil {
		return err
	}
	keep := max(1, r.config.Checkpoint.Keep)
	return r.Dir.PruneCheckpoints(keep, r.state.StageStart, r.state.BestStep)
}

// restore gives the optimizer, the critic and the algorithm the state of the checkpoint that the attempt continues from.
func (s *stage) restore(ctx context.Context) error {
	r := s.run
	from := r.resume
	r.resume = nil
	if s.trainer != nil && (r.state.Step > 0 || s.config.OptimizerState == "keep") {
		if err := s.trainer.LoadState(ctx, join(from.Dir, "trainer")); err != nil {
			return fmt.Errorf("checkpoint %s: %w", from.Dir, err)
		}
		if r.critic != nil {
			if err := r.critic.trainer.LoadState(ctx, join(from.Dir, "critic")); err != nil {
				return fmt.Errorf("critic of checkpoint %s: %w", from.Dir, err)
			}
		}
	}
	if r.state.Step == 0 {
		return nil
	}
	data, err := os.ReadFile(join(from.Dir, "algorithm.bin"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	stateful, ok := s.algorithm.(sdk.Stateful)
	if !ok {
		return fmt.Errorf("checkpoint %s holds a state of algorithm %q, which has no longer any", from.Dir, s.config.Algorithm.Label)
	}
	return stateful.Load(ctx, data)
}

// takeReference makes the reference policy: the weights that the stage started from, or those of the run.
func (s *stage) takeReference(ctx context.Context, which string) error {
	r := s.run
	if s.model.Policy == nil {
		return fmt.Errorf("policy %q is behind an endpoint and has no weights to keep: %w", s.role(), sdk.ErrNotSupported)
	}
	dir, err := r.folder(roleOf(s.config.Policy))
	if err != nil {
		return err
	}
	if which == sdk.ReferenceStageStart {
		if r.state.Step == 0 {
			return s.model.Snapshot()
		}
		checkpoints, err := r.Dir.Checkpoints()
		if err != nil {
			return err
		}
		dir = ""
		for _, c := range checkpoints {
			if c.Step == r.state.StageStart {
				dir = weightsIn(c.Dir, roleOf(s.config.Policy))
			}
		}
		if dir == "" {
			return fmt.Errorf("the checkpoint of the stage's start (step %d) is gone; start the run afresh with --fresh", r.state.StageStart)
		}
	} else if r.state.Global == 0 {
		return s.model.Snapshot()
	}
	return s.model.LoadReference(ctx, dir)
}
