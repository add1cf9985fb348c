package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// readLines calls line for every whole line of a file of JSON lines, with its number from 1. A last line without its
// newline is taken if it is whole JSON and skipped otherwise: its writer died in the middle. Empty lines are skipped.
func readLines(path string, line func(n int, data []byte) error) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read record: %w", err)
	}
	for n := 1; len(data) > 0; n++ {
		text, rest, whole := bytes.Cut(data, []byte("\n"))
		data = rest
		if !whole && !json.Valid(text) {
			return nil
		}
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		if err := line(n, text); err != nil {
			return fmt.Errorf("%s:%d: %w", path, n, err)
		}
	}
	return nil
}

// decodeLine decodes one line; the caller adds file:line.
func decodeLine(data []byte, v any) error {
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("damaged line (%w): restore it from a copy or delete the line", err)
	}
	return nil
}

// LineWriter appends lines to a file. Each [LineWriter.Append] is one write, under a lock on the file, so several
// processes may append to the same file; a torn last line left by a dead writer is repaired first.
type LineWriter struct {
	f    *os.File
	sync bool
}

// OpenLines opens path for appending, making it and its folder if missing, and repairs a torn last line. With sync,
// every append reaches the disk before it returns.
func OpenLines(path string, sync bool) (*LineWriter, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("open record: %w", err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open record: %w", err)
	}
	w := &LineWriter{f: f, sync: sync}
	if err := w.locked(func() error { return repairTail(f) }); err != nil {
		return nil, errors.Join(fmt.Errorf("open record %s: %w", path, err), f.Close())
	}
	if sync {
		if err := syncDir(filepath.Dir(path)); err != nil {
			return nil, errors.Join(fmt.Errorf("open record %s: %w", path, err), f.Close())
		}
	}
	return w, nil
}

// Append writes v as one JSON line.
func (w *LineWriter) Append(v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("append to %s: %w", w.f.Name(), err)
	}
	err = w.locked(func() error {
		// Another process may have died between our appends.
		if err := repairTail(w.f); err != nil {
			return err
		}
		end, err := w.f.Seek(0, io.SeekEnd)
		if err != nil {
			return err
		}
		if _, err := w.f.Write(append(data, '\n')); err != nil {
			// A full disk leaves a part of the line: take it back, so that the file stays whole.
			return errors.Join(err, w.f.Truncate(end))
		}
		if w.sync {
			return w.f.Sync()
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("append to %s: %w", w.f.Name(), err)
	}
	return nil
}

// Sync makes everything appended so far survive a power loss.
func (w *LineWriter) Sync() error { return w.f.Sync() }

// Close syncs and closes the file.
func (w *LineWriter) Close() error { return errors.Join(w.f.Sync(), w.f.Close()) }

func (w *LineWriter) locked(do func() error) error {
	if err := flock(w.f, unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	return errors.Join(do(), flock(w.f, unix.LOCK_UN))
}

// repairTail makes the file end in a newline: a torn last line is cut off, a whole one gets the newline it lacks.
func repairTail(f *os.File) error {
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil || end == 0 {
		return err
	}
	last := make([]byte, 1)
	if _, err := f.ReadAt(last, end-1); err != nil {
		return err
	}
	if last[0] == '\n' {
		return nil
	}
	start, err := lastLineStart(f, end)
	if err != nil {
		return err
	}
	line := make([]byte, end-start)
	if _, err := f.ReadAt(line, start); err != nil {
		return err
	}
	if json.Valid(line) {
		_, err := f.Write([]byte("\n"))
		return err
	}
	return f.Truncate(start)
}

func lastLineStart(f *os.File, end int64) (int64, error) {
	buf := make([]byte, 4096)
	for end > 0 {
		start := max(0, end-int64(len(buf)))
		part := buf[:end-start]
		if _, err := f.ReadAt(part, start); err != nil {
			return 0, err
		}
		if i := bytes.LastIndexByte(part, '\n'); i >= 0 {
			return start + int64(i) + 1, nil
		}
		end = start
	}
	return 0, nil
}
