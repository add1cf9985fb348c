package run

import (
	"slices"
	"strings"
	"testing"
)

// TestSampleIsSpread: all of a short list, and of a long one some texts from all over it.
func TestSampleIsSpread(t *testing.T) {
	number := func(i int) string { return strings.Repeat("x", i) }
	if got := slices.Collect(sample(3, number)); !slices.Equal(got, []string{"", "x", "xx"}) {
		t.Errorf("got %q", got)
	}
	got := slices.Collect(sample(10*vocabularySample, number))
	if len(got) != vocabularySample || len(got[1]) != 10 || len(got[vocabularySample-1]) != 10*(vocabularySample-1) {
		t.Errorf("%d texts, the second is number %d", len(got), len(got[1]))
	}
	if len(slices.Collect(sample(0, number))) != 0 {
		t.Error("texts of nothing")
	}
}
