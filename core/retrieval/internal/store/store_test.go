package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

func TestEnsureBuildsOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "folder")
	var built atomic.Int32
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			path, err := Ensure(t.Context(), dir, "a", func(file *os.File) error {
				built.Add(1)
				_, err := file.WriteString("content")
				return err
			})
			if err != nil {
				t.Error(err)
				return
			}
			if data, err := os.ReadFile(path); err != nil || string(data) != "content" {
				t.Errorf("read %q, %v", data, err)
			}
		})
	}
	group.Wait()
	if built.Load() != 1 {
		t.Errorf("built %d times", built.Load())
	}
}

func TestEnsureLeavesNothingHalfWritten(t *testing.T) {
	dir := t.TempDir()
	broken := errors.New("broken")
	_, err := Ensure(t.Context(), dir, "a", func(file *os.File) error {
		if _, err := file.WriteString("half"); err != nil {
			return err
		}
		return broken
	})
	if !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	for _, name := range []string{"a", "a.partial"} {
		if _, err := os.Stat(filepath.Join(dir, name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is there: %v", name, err)
		}
	}
	// What a dead process left is written over.
	if err := os.WriteFile(filepath.Join(dir, "a.partial"), []byte("a long text of a dead process"), 0o600); err != nil {
		t.Fatal(err)
	}
	path, err := Ensure(t.Context(), dir, "a", func(file *os.File) error { _, err := file.WriteString("new"); return err })
	if err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "new" {
		t.Errorf("read %q, %v", data, err)
	}
	if err := errors.Join(Discard(path), Discard(path)); err != nil {
		t.Error(err)
	}
}

func TestEnsureStopsWaiting(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	_, err := Ensure(t.Context(), dir, "a", func(*os.File) error {
		cancel()
		_, err := Ensure(ctx, dir, "a", func(*os.File) error { return nil })
		return err
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
