// Package suggest finds what somebody who mistyped a name may have meant.
package suggest

import (
	"slices"

	"github.com/agext/levenshtein"
)

// Nearest is the known name that few typing mistakes turn into got: up to a third of its letters, at least two, one in
// a name of up to three letters. Of several the nearest wins, then the first in the alphabet. It is "" where none is
// near.
func Nearest(got string, known []string) string {
	allowed := max(2, len(got)/3)
	if len(got) <= 3 {
		allowed = 1
	}
	best, distance := "", allowed+1
	for _, name := range slices.Sorted(slices.Values(known)) {
		if d := levenshtein.Distance(got, name, nil); d < distance && d < len(name) {
			best, distance = name, d
		}
	}
	return best
}
