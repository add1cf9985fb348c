// Package vectors reads golden vectors: inputs and the numbers that reference implementations gave for them.
//
// A file is one JSON object with source, tolerance {abs, rel}, an optional context shared by all cases, and cases
// of {id, input, expected}. A package keeps the files it tests under testdata/vectors/<topic>/<name>.json; the
// environment variable FORAGE_VECTORS points the same tests at another folder of the same layout.
package vectors

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"
)

// File is one vector file.
type File struct {
	Source    string          `json:"source"`
	Tolerance Tolerance       `json:"tolerance"`
	Note      string          `json:"note"`
	Context   json.RawMessage `json:"context"`
	Cases     []Case          `json:"cases"`
}

// Tolerance is the allowed difference: |got-want| <= Abs + Rel*|want|.
type Tolerance struct {
	Abs float64 `json:"abs"`
	Rel float64 `json:"rel"`
}

// Case is one input with its expected result. ExpectedOurs and ExpectedExact, where present, take precedence over
// Expected: see [Case.Want].
type Case struct {
	ID            string          `json:"id"`
	Input         json.RawMessage `json:"input"`
	Expected      json.RawMessage `json:"expected"`
	ExpectedOurs  json.RawMessage `json:"expected_ours"`
	ExpectedExact json.RawMessage `json:"expected_exact"`
	Quirk         json.RawMessage `json:"upstream_quirk"`
}

// Load reads testdata/vectors/<topic>/<name>.json of the calling package, or FORAGE_VECTORS/<topic>/<name>.json.
func Load(t testing.TB, topic, name string) File {
	t.Helper()
	dir := os.Getenv("FORAGE_VECTORS")
	if dir == "" {
		dir = filepath.Join("testdata", "vectors")
	}
	path := filepath.Join(dir, topic, name+".json")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("read vectors: %v", err)
	}
	var f File
	if err := json.Unmarshal(data, &f); err != nil {
		t.Fatalf("read vectors %s: %v", path, err)
	}
	if len(f.Cases) == 0 {
		t.Fatalf("vectors %s hold no cases", path)
	}
	return f
}

// Want is what an exact implementation must give: ExpectedOurs, else ExpectedExact, else Expected.
func (c Case) Want() json.RawMessage {
	switch {
	case present(c.ExpectedOurs):
		return c.ExpectedOurs
	case present(c.ExpectedExact):
		return c.ExpectedExact
	}
	return c.Expected
}

// HasQuirk says whether the reference's value is marked as surprising.
func (c Case) HasQuirk() bool { return present(c.Quirk) }

func present(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// Decode unmarshals raw into a T.
func Decode[T any](t testing.TB, raw json.RawMessage) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("decode %.200s: %v", raw, err)
	}
	return v
}

// Close says whether got passes for want.
func (tol Tolerance) Close(got, want float64) bool {
	if math.IsNaN(want) || math.IsInf(want, 0) {
		return (math.IsNaN(want) && math.IsNaN(got)) || got == want
	}
	return math.Abs(got-want) <= tol.Abs+tol.Rel*math.Abs(want)
}

// Float is a number that may be written as "NaN", "Inf" or "-Inf".
type Float float64

// UnmarshalJSON implements json.Unmarshaler.
func (f *Float) UnmarshalJSON(data []byte) error {
	switch string(data) {
	case `"NaN"`:
		*f = Float(math.NaN())
	case `"Inf"`:
		*f = Float(math.Inf(1))
	case `"-Inf"`:
		*f = Float(math.Inf(-1))
	default:
		var v float64
		if err := json.Unmarshal(data, &v); err != nil {
			return fmt.Errorf("not a number: %s", data)
		}
		*f = Float(v)
	}
	return nil
}

// Shared gives the path of a file under the shared folder of real data (FORAGE_SHARED, by default ../shared beside
// the module root) and skips the test where it is absent.
func Shared(t testing.TB, elem ...string) string {
	t.Helper()
	root := os.Getenv("FORAGE_SHARED")
	if root == "" {
		dir, err := os.Getwd()
		if err != nil {
			t.Fatal(err)
		}
		for {
			if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
				break
			}
			parent := filepath.Dir(dir)
			if parent == dir {
				t.Skip("no module root above the working directory")
			}
			dir = parent
		}
		root = filepath.Join(filepath.Dir(dir), "shared")
	}
	path := filepath.Join(append([]string{root}, elem...)...)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("needs %s (set FORAGE_SHARED to the folder that holds it)", path)
	}
	return path
}
