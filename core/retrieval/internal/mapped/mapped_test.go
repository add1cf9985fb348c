package mapped

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func written(t testing.TB) []byte {
	t.Helper()
	var buffer Buffer
	w := NewWriter(&buffer, "test", 3, 4)
	Put(w, "numbers", []uint64{0, 2, 5})
	w.Begin("texts", true)
	if _, err := w.Write([]byte("ab")); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("cde")); err != nil {
		t.Fatal(err)
	}
	Put(w, "floats", []float32{1.5, -2})
	Put(w, "nothing", []uint32(nil))
	if err := w.Finish([32]byte{7}); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

func TestRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, written(t), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path, "test", 3)
	if err != nil {
		t.Fatal(err)
	}
	texts, err := Section[uint8](f, "texts")
	if err != nil || string(texts) != "abcde" {
		t.Errorf("texts %q, %v", texts, err)
	}
	floats, err := Section[float32](f, "floats")
	if err != nil || !slices.Equal(floats, []float32{1.5, -2}) {
		t.Errorf("floats %v, %v", floats, err)
	}
	if nothing, err := Section[uint32](f, "nothing"); err != nil || len(nothing) != 0 {
		t.Errorf("nothing %v, %v", nothing, err)
	}
	if bounds, err := Offsets(f, "numbers", 2, 5); err != nil || !slices.Equal(bounds, []uint64{0, 2, 5}) {
		t.Errorf("bounds %v, %v", bounds, err)
	}
	for name, attempt := range map[string]func() error{
		"missing":  func() error { _, err := Section[uint8](f, "other"); return err },
		"multiple": func() error { _, err := Section[uint32](f, "texts"); return err },
		"count":    func() error { _, err := Offsets(f, "numbers", 3, 5); return err },
		"last":     func() error { _, err := Offsets(f, "numbers", 2, 6); return err },
	} {
		if err := attempt(); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if f.Digest() != [32]byte{7} || f.Verify() != nil || !f.Mapped() {
		t.Errorf("digest %v, verify %v, mapped %t", f.Digest(), f.Verify(), f.Mapped())
	}
}

// Every change of a byte and every cut is found.
func TestDamageIsFound(t *testing.T) {
	good := written(t)
	f, err := Parse(good, "test", 3)
	if err != nil {
		t.Fatal(err)
	}
	padding := make([]bool, len(good))
	for i := range padding {
		padding[i] = i >= headerSize+4*entrySize+4
	}
	for _, e := range f.sections {
		for i := range e.length {
			padding[e.offset+i] = false
		}
	}
	for i := range good {
		if _, err := Parse(good[:i], "test", 3); !errors.Is(err, ErrFormat) {
			t.Fatalf("cut at %d: %v", i, err)
		}
		if padding[i] {
			continue
		}
		bad := bytes.Clone(good)
		bad[i] ^= 0x10
		f, err := Parse(bad, "test", 3)
		if err == nil {
			err = f.Verify()
		}
		if !errors.Is(err, ErrFormat) {
			t.Fatalf("byte %d changed: %v", i, err)
		}
	}
	if _, err := Parse(good, "other", 3); err == nil || !strings.Contains(err.Error(), `it holds "test", expected "other"`) {
		t.Errorf("another kind: %v", err)
	}
	if _, err := Parse(good, "test", 4); err == nil || !strings.Contains(err.Error(), "version 3, this program reads version 4") {
		t.Errorf("another version: %v", err)
	}
	if _, err := Open(t.TempDir(), "test", 3); !errors.Is(err, ErrFormat) {
		t.Errorf("a folder: %v", err)
	}
}

func TestWriterReportsMisuse(t *testing.T) {
	for name, use := range map[string]func(*Writer){
		"too many":  func(w *Writer) { Put(w, "a", []uint8{1}); Put(w, "b", []uint8{1}) },
		"twice":     func(w *Writer) { Put(w, "a", []uint8{1}); Put(w, "a", []uint8{1}) },
		"long name": func(w *Writer) { Put(w, "a name of more than sixteen", []uint8{1}) },
		"outside":   func(w *Writer) { _, _ = w.Write([]byte{1}) },
	} {
		w := NewWriter(&Buffer{}, "test", 1, 1)
		use(w)
		if w.Finish([32]byte{}) == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
