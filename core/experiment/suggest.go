package experiment

import (
	"fmt"
	"slices"

	"github.com/agext/levenshtein"
)

// didYouMean is " Did you mean \"x\"?" for the nearest of the known names, or "".
func didYouMean(got string, known []string) string {
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
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" Did you mean %q?", best)
}
