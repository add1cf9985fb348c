package metrics

import (
	"errors"
	"fmt"
	"time"

	"github.com/forage-rl/forage/core/record"
)

// Sink receives metrics by name ("episode/reward") after a number of finished training steps. Steps may repeat: an
// evaluation logs beside the training step. Sinks are not safe for concurrent use.
type Sink interface {
	Log(step int, values map[string]float64) error
	Sync() error // everything logged so far is on the disk
	Close() error
}

// Open makes the two sinks of an attempt: metrics.jsonl and a TensorBoard event file.
func Open(attempt record.Attempt) (Sink, error) {
	lines, err := NewJSONL(attempt.MetricsPath(), attempt.N)
	if err != nil {
		return nil, err
	}
	board, err := NewTensorBoard(attempt.TensorBoardDir())
	if err != nil {
		return nil, errors.Join(err, lines.Close())
	}
	return Multi{lines, board}, nil
}

// Multi logs to several sinks. An error of one does not keep the others from being served.
type Multi []Sink

// Log implements Sink.
func (m Multi) Log(step int, values map[string]float64) error {
	return m.each(func(s Sink) error { return s.Log(step, values) })
}

// Sync implements Sink.
func (m Multi) Sync() error { return m.each(Sink.Sync) }

// Close implements Sink.
func (m Multi) Close() error { return m.each(Sink.Close) }

func (m Multi) each(do func(Sink) error) error {
	var errs []error
	for _, s := range m {
		errs = append(errs, do(s))
	}
	return errors.Join(errs...)
}

// JSONL writes record.MetricsLine lines.
type JSONL struct {
	lines   *record.LineWriter
	attempt int
	now     func() time.Time
}

// NewJSONL opens path for appending and repairs the torn last line of a killed writer. attempt, counted from 1, is
// written into every line.
func NewJSONL(path string, attempt int) (*JSONL, error) {
	lines, err := record.OpenLines(path, false)
	if err != nil {
		return nil, err
	}
	return &JSONL{lines: lines, attempt: attempt, now: time.Now}, nil
}

// Log implements Sink.
func (j *JSONL) Log(step int, values map[string]float64) error {
	if err := check(step, values); err != nil {
		return err
	}
	return j.lines.Append(record.MetricsLine{Step: step, Attempt: j.attempt, Time: j.now().UTC(), Values: values})
}

// Sync implements Sink.
func (j *JSONL) Sync() error { return j.lines.Sync() }

// Close implements Sink.
func (j *JSONL) Close() error { return j.lines.Close() }

func check(step int, values map[string]float64) error {
	if step < 0 {
		return fmt.Errorf("log metrics: step is %d, expected at least 0", step)
	}
	if _, empty := values[""]; empty {
		return fmt.Errorf("log metrics at step %d: a value has no name", step)
	}
	return nil
}
