package record

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"
)

// Status is what happened to a run: the kind of a journal event and, after reduction, the state of the run.
type Status string

// The statuses of a run. Lost is an attempt that ended without a result and that another one continues: it is written
// by whoever stopped it, or by a process that found a started run without a living owner, and is what [Study.States]
// reports for one that nobody has written down yet.
const (
	Planned        Status = "planned"
	Started        Status = "started"
	Done           Status = "done"
	Failed         Status = "failed"
	Lost           Status = "lost"
	StoppedByGuard Status = "stopped_by_guard"
	Stale          Status = "stale"
)

// Text is the status as people read it: an attempt that is lost was interrupted, and the run goes on.
func (s Status) Text() string {
	if s == Lost {
		return "interrupted"
	}
	return strings.ReplaceAll(string(s), "_", " ")
}

func (s Status) valid() bool {
	return slices.Contains([]Status{Planned, Started, Done, Failed, Lost, StoppedByGuard, Stale}, s)
}

// Event is one line of the journal.
type Event struct {
	Time    time.Time `json:"time"`
	Run     string    `json:"run"`
	Cell    string    `json:"cell,omitempty"`    // of a planned run: the key of its cell
	Seed    *int64    `json:"seed,omitempty"`    // of a planned run
	Attempt int       `json:"attempt,omitempty"` // from 1; 0 where no attempt is meant (planned, stale)
	Event   Status    `json:"event"`
	Step    int       `json:"step,omitempty"`    // training steps finished
	Message string    `json:"message,omitempty"` // for people: why it failed, which precondition changed
}

func (e Event) check() error {
	if e.Run == "" {
		return errors.New("journal event without a run id")
	}
	if !e.Event.valid() {
		return fmt.Errorf("unknown journal event %q of run %s: was it written by a newer version?", e.Event, e.Run)
	}
	return nil
}

// Journal appends events to a study's journal.jsonl. Each event is on the disk before Append returns. Several
// processes may have the same journal open.
type Journal struct {
	lines *LineWriter
	now   func() time.Time
}

// OpenJournal opens or makes the journal file at path and repairs a torn last line.
func OpenJournal(path string) (*Journal, error) {
	lines, err := OpenLines(path, true)
	if err != nil {
		return nil, err
	}
	return &Journal{lines: lines, now: time.Now}, nil
}

// Append writes e, with the present time where e has none.
func (j *Journal) Append(e Event) error {
	if err := e.check(); err != nil {
		return err
	}
	if e.Time.IsZero() {
		e.Time = j.now().UTC()
	}
	return j.lines.Append(e)
}

// Close closes the file.
func (j *Journal) Close() error { return j.lines.Close() }

// ReadJournal reads all events in order. A missing file is an empty journal; a torn last line is skipped; any other
// damage is an error with file:line.
func ReadJournal(path string) ([]Event, error) {
	var events []Event
	err := readLines(path, func(_ int, data []byte) error {
		var e Event
		if err := decodeLine(data, &e); err != nil {
			return err
		}
		if err := e.check(); err != nil {
			return err
		}
		events = append(events, e)
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return events, err
}

// State is what the journal says of one run.
type State struct {
	Status  Status
	Attempt int // the newest attempt, 0 before the first
	Message string
	Step    int
	Time    time.Time // of the event that gave the status
	Cell    string    // key of the run's cell when it was planned
	Seed    *int64    // nil where no event says
}

// States reduces events, in order, to the state of each run by id. Events of an attempt older than the newest are
// ignored (a late word from a process that was given up), and planning a run again does not undo what it has done
// unless it was stale.
func States(events []Event) map[string]State {
	states := map[string]State{}
	for _, e := range events {
		old, known := states[e.Run]
		if e.Attempt > 0 && e.Attempt < old.Attempt {
			continue
		}
		if e.Event == Planned && known && old.Status != Stale {
			continue
		}
		states[e.Run] = State{
			Status:  e.Event,
			Attempt: max(e.Attempt, old.Attempt),
			Message: e.Message,
			Step:    e.Step,
			Time:    e.Time,
			Cell:    cmp.Or(e.Cell, old.Cell),
			Seed:    cmp.Or(e.Seed, old.Seed),
		}
	}
	return states
}
