// Package vectors lets tests of plugins read golden vectors: inputs with the numbers that a reference implementation
// gave for them, kept under testdata/vectors/<topic>/<name>.json of the package under test. The environment variable
// FORAGE_VECTORS points the same tests at another folder of that layout.
package vectors

import (
	"encoding/json"
	"testing"

	"github.com/forage-rl/forage/core/internal/vectors"
)

// File is one vector file, Case one input with its expected result, Tolerance the difference that passes, Float a
// number that may be written as "NaN", "Inf" or "-Inf".
type (
	File      = vectors.File
	Case      = vectors.Case
	Tolerance = vectors.Tolerance
	Float     = vectors.Float
)

// Load reads a vector file of the calling package; a missing or empty file fails the test.
func Load(t testing.TB, topic, name string) File {
	t.Helper()
	return vectors.Load(t, topic, name)
}

// Decode unmarshals raw into a T.
func Decode[T any](t testing.TB, raw json.RawMessage) T {
	t.Helper()
	return vectors.Decode[T](t, raw)
}

// Shared gives the path of a file under the folder of real data that FORAGE_SHARED names (by default "shared" beside the
// module root), and skips the test where it is absent.
func Shared(t testing.TB, elem ...string) string {
	t.Helper()
	return vectors.Shared(t, elem...)
}
