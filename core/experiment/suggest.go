package experiment

import (
	"fmt"

	"github.com/forage-rl/forage/core/internal/suggest"
)

// didYouMean is " Did you mean \"x\"?" for the nearest of the known names, or "".
func didYouMean(got string, known []string) string {
	best := suggest.Nearest(got, known)
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" Did you mean %q?", best)
}
