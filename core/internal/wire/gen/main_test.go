package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestGeneratedCodeIsCurrent regenerates into a temporary folder and compares with what is committed.
func TestGeneratedCodeIsCurrent(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the generators")
	}
	out := t.TempDir()
	if err := generate(t.Context(), out); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join("core", "internal", "wire", "foragev1")
	generated, err := os.ReadDir(filepath.Join(out, dir))
	if err != nil {
		t.Fatal(err)
	}
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	committed, err := os.ReadDir(filepath.Join(root, dir))
	if err != nil {
		t.Fatal(err)
	}
	if len(generated) != len(committed) || len(generated) == 0 {
		t.Errorf("%d files are generated and %d committed: run \"make proto\"", len(generated), len(committed))
	}
	for _, f := range generated {
		want, err := os.ReadFile(filepath.Join(out, dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(root, dir, f.Name()))
		if err != nil {
			t.Error(err)
			continue
		}
		if !bytes.Equal(want, got) {
			t.Errorf("%s is not what the proto files give: run \"make proto\"", f.Name())
		}
	}
}
