package record

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Study is the folder runs/<study>.
type Study struct{ Dir string }

// JournalPath is the study's journal.jsonl.
func (s Study) JournalPath() string { return filepath.Join(s.Dir, "journal.jsonl") }

// LockPath is the lock of the process that executes the study.
func (s Study) LockPath() string { return filepath.Join(s.Dir, "lock") }

// Run is the folder of the run with this id.
func (s Study) Run(id string) Run { return Run{Dir: filepath.Join(s.Dir, id), ID: id} }

// Runs lists the runs that have a folder with a manifest, by id.
func (s Study) Runs() ([]Run, error) {
	entries, err := os.ReadDir(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	var runs []Run
	for _, e := range entries {
		run := s.Run(e.Name())
		if _, err := os.Stat(run.ManifestPath()); e.IsDir() && !strings.HasPrefix(e.Name(), ".") && err == nil {
			runs = append(runs, run)
		}
	}
	return runs, nil
}

// States reads the journal and reduces it. A run that is started but whose lock nobody holds is reported as lost:
// its process died without a word.
func (s Study) States() (map[string]State, error) {
	events, err := ReadJournal(s.JournalPath())
	if err != nil {
		return nil, err
	}
	states := States(events)
	for id, state := range states {
		if state.Status != Started {
			continue
		}
		_, held, err := Locked(s.Run(id).LockPath())
		if err != nil {
			return nil, err
		}
		if !held {
			state.Status = Lost
			state.Message = fmt.Sprintf("attempt %d ended without a word: its process is gone", state.Attempt)
			states[id] = state
		}
	}
	return states, nil
}

// Run is the folder of one run.
type Run struct {
	Dir string
	ID  string
}

// OpenRun is the run whose folder is dir.
func OpenRun(dir string) Run { return Run{Dir: dir, ID: filepath.Base(dir)} }

// ManifestPath is the run's manifest.json.
func (r Run) ManifestPath() string { return filepath.Join(r.Dir, "manifest.json") }

// ConfigPath is the run's config.hcl: its resolved configuration, which can be run again.
func (r Run) ConfigPath() string { return filepath.Join(r.Dir, "config.hcl") }

// ResultPath is the run's result.json.
func (r Run) ResultPath() string { return filepath.Join(r.Dir, "result.json") }

// LockPath is held by the process that executes the run, for as long as it does.
func (r Run) LockPath() string { return filepath.Join(r.Dir, "lock") }

// QuestionsPath is the file of the records per question of an evaluation.
func (r Run) QuestionsPath(evaluation string) (string, error) {
	if evaluation == "" || strings.HasPrefix(evaluation, ".") || strings.ContainsAny(evaluation, `/\`+"\x00") {
		return "", fmt.Errorf("evaluation name %q cannot name a folder: use letters, digits, - and _", evaluation)
	}
	return filepath.Join(r.Dir, "evaluations", evaluation, "questions.jsonl"), nil
}

// Attempt is one execution of a run: attempt-N, counted from 1.
type Attempt struct {
	Dir string
	N   int
}

// AttemptInfo is attempt.json: where an attempt began.
type AttemptInfo struct {
	Attempt int       `json:"attempt"`
	Started time.Time `json:"started"`
	// ResumedFrom is the checkpoint it continues from; nil when it starts from the beginning.
	ResumedFrom *CheckpointRef `json:"resumed_from,omitempty"`
	ResumedStep int            `json:"-"`
	// Inexact says that the continuation need not equal an uninterrupted run; Changes says why.
	Inexact bool     `json:"inexact,omitempty"`
	Changes []Change `json:"changes,omitempty"`
	Host    string   `json:"host,omitempty"`
	PID     int      `json:"pid,omitempty"`
}

// Resumed says whether the attempt continues an earlier one.
func (i AttemptInfo) Resumed() bool { return i.ResumedFrom != nil }

// Attempts lists the attempts of the run in order.
func (r Run) Attempts() ([]Attempt, error) {
	entries, err := os.ReadDir(r.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list attempts: %w", err)
	}
	var attempts []Attempt
	for _, e := range entries {
		if n, ok := numbered(e, "attempt-"); ok {
			attempts = append(attempts, Attempt{Dir: filepath.Join(r.Dir, e.Name()), N: n})
		}
	}
	slices.SortFunc(attempts, func(a, b Attempt) int { return cmp.Compare(a.N, b.N) })
	return attempts, nil
}

// AttemptOf is the attempt whose work at a training step (from 1) counts: the last one that did not resume from a later
// state. ok is false where there is none.
func (r Run) AttemptOf(step int) (a Attempt, ok bool, err error) {
	attempts, err := r.Attempts()
	if err != nil {
		return Attempt{}, false, err
	}
	for _, a := range slices.Backward(attempts) {
		info, err := a.Info()
		if err != nil {
			return Attempt{}, false, err
		}
		if !info.Resumed() || step > info.ResumedStep {
			return a, true, nil
		}
	}
	return Attempt{}, false, nil
}

// NewAttempt makes the folder of the next attempt. from is the checkpoint that it continues from, nil for a fresh
// start. The caller holds the run's lock.
func (r Run) NewAttempt(from *Checkpoint, info AttemptInfo) (Attempt, error) {
	attempts, err := r.Attempts()
	if err != nil {
		return Attempt{}, err
	}
	n := 1
	if len(attempts) > 0 {
		n = attempts[len(attempts)-1].N + 1
	}
	info.Attempt = n
	if from != nil {
		info.ResumedFrom = &CheckpointRef{Attempt: from.Attempt, Step: from.Step}
	}
	if info.Started.IsZero() {
		info.Started = time.Now().UTC()
	}
	if info.PID == 0 {
		info.PID = os.Getpid()
	}
	if info.Host == "" {
		if host, err := os.Hostname(); err == nil {
			info.Host = host
		}
	}
	a := Attempt{Dir: filepath.Join(r.Dir, "attempt-"+strconv.Itoa(n)), N: n}
	err = AtomicDir(a.Dir, func(tmp string) error {
		for _, d := range []string{a.EpisodesDir(), a.CheckpointsDir(), a.LogsDir(), a.TensorBoardDir()} {
			if err := os.Mkdir(filepath.Join(tmp, filepath.Base(d)), 0o755); err != nil {
				return err
			}
		}
		return WriteJSON(filepath.Join(tmp, "attempt.json"), info)
	})
	return a, err
}

// Info reads attempt.json.
func (a Attempt) Info() (AttemptInfo, error) {
	var info AttemptInfo
	if err := ReadJSON(filepath.Join(a.Dir, "attempt.json"), &info); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w: part of the run's records was deleted; delete %s too and the run starts anew", err, filepath.Dir(a.Dir))
		}
		return AttemptInfo{}, err
	}
	if info.ResumedFrom != nil {
		info.ResumedStep = info.ResumedFrom.Step
	}
	return info, nil
}

// MetricsPath is the attempt's metrics.jsonl.
func (a Attempt) MetricsPath() string { return filepath.Join(a.Dir, "metrics.jsonl") }

// TensorBoardDir holds the attempt's TensorBoard event files.
func (a Attempt) TensorBoardDir() string { return filepath.Join(a.Dir, "tensorboard") }

// EpisodesDir holds the attempt's episodes, a file per step.
func (a Attempt) EpisodesDir() string { return filepath.Join(a.Dir, "episodes") }

// ArtefactsDir holds what produce stages of the attempt wrote for later stages.
func (a Attempt) ArtefactsDir() string { return filepath.Join(a.Dir, "artefacts") }

// CheckpointsDir holds the attempt's checkpoints.
func (a Attempt) CheckpointsDir() string { return filepath.Join(a.Dir, "checkpoints") }

// LogsDir holds the attempt's logs, a file per plugin.
func (a Attempt) LogsDir() string { return filepath.Join(a.Dir, "logs") }

// LogPath is the log of a plugin; characters that cannot stand in a file name become "_".
func (a Attempt) LogPath(plugin string) string {
	clean := strings.Map(func(c rune) rune {
		if c == '/' || c == '\\' || c < ' ' {
			return '_'
		}
		return c
	}, plugin)
	return filepath.Join(a.LogsDir(), strings.TrimLeft(clean, ".")+".log")
}

// Checkpoint is a whole checkpoint on the disk: the state after Step training steps.
type Checkpoint struct {
	Dir     string
	Attempt int
	Step    int
}

// WriteCheckpoint makes the checkpoint after step training steps from what fill writes; it appears whole or not at all.
func (a Attempt) WriteCheckpoint(step int, fill func(dir string) error) (Checkpoint, error) {
	c := Checkpoint{Dir: filepath.Join(a.CheckpointsDir(), fmt.Sprintf("step-%06d", step)), Attempt: a.N, Step: step}
	return c, AtomicDir(c.Dir, fill)
}

// Checkpoints lists the attempt's own checkpoints by step.
func (a Attempt) Checkpoints() ([]Checkpoint, error) {
	entries, err := os.ReadDir(a.CheckpointsDir())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list checkpoints: %w", err)
	}
	var out []Checkpoint
	for _, e := range entries {
		if step, ok := numbered(e, "step-"); ok {
			out = append(out, Checkpoint{Dir: filepath.Join(a.CheckpointsDir(), e.Name()), Attempt: a.N, Step: step})
		}
	}
	slices.SortFunc(out, func(a, b Checkpoint) int { return cmp.Compare(a.Step, b.Step) })
	return out, nil
}

// Checkpoints lists the checkpoints on the run's line of history, by step: of each attempt those up to the step from
// which the next one resumed. What an attempt did after the checkpoint that was continued is not part of it.
func (r Run) Checkpoints() ([]Checkpoint, error) {
	attempts, err := r.Attempts()
	if err != nil {
		return nil, err
	}
	var out []Checkpoint
	for _, a := range attempts {
		info, err := a.Info()
		if err != nil {
			return nil, err
		}
		out = keep(out, func(c Checkpoint) bool { return info.Resumed() && c.Step <= info.ResumedStep })
		own, err := a.Checkpoints()
		if err != nil {
			return nil, err
		}
		out = append(out, own...)
	}
	return out, nil
}

// LatestCheckpoint is the newest checkpoint of the run's history; ok is false where there is none.
func (r Run) LatestCheckpoint() (c Checkpoint, ok bool, err error) {
	all, err := r.Checkpoints()
	if err != nil || len(all) == 0 {
		return Checkpoint{}, false, err
	}
	return all[len(all)-1], true, nil
}

// PruneCheckpoints deletes all but the last keep checkpoints of the run's history and those of the protected steps
// (such as the best one). keep must be at least 1. Checkpoints that are no longer part of the history are left alone.
func (r Run) PruneCheckpoints(keep int, protect ...int) error {
	if keep < 1 {
		return fmt.Errorf("prune checkpoints of %s: keep is %d, expected at least 1", r.Dir, keep)
	}
	all, err := r.Checkpoints()
	if err != nil {
		return err
	}
	for _, c := range all[:max(0, len(all)-keep)] {
		if slices.Contains(protect, c.Step) {
			continue
		}
		if err := RemoveDir(c.Dir); err != nil {
			return err
		}
	}
	return nil
}

// numbered gives the number of a folder named prefix plus decimal digits.
func numbered(e fs.DirEntry, prefix string) (int, bool) {
	digits, found := strings.CutPrefix(e.Name(), prefix)
	if !found || !e.IsDir() || digits == "" || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(digits)
	return n, err == nil
}

func marshalLine(v any) ([]byte, error) {
	data, err := json.Marshal(v)
	return append(data, '\n'), err
}
