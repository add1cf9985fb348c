package experiment

import (
	"testing"

	"github.com/hashicorp/hcl/v2"
)

// TestAround: an attribute that another file or another arm gave does not lie within the block that it was merged into.
func TestAround(t *testing.T) {
	at := func(file string, from, to int) hcl.Range {
		return hcl.Range{Filename: file, Start: hcl.Pos{Byte: from}, End: hcl.Pos{Byte: to}}
	}
	block := at("a.hcl", 10, 50)
	for _, c := range []struct {
		name string
		at   hcl.Range
		want bool
	}{
		{"within", at("a.hcl", 20, 30), true},
		{"before", at("a.hcl", 2, 8), false},
		{"after", at("a.hcl", 60, 70), false},
		{"another file", at("b.hcl", 20, 30), false},
	} {
		if got := around(block, c.at); got != c.want {
			t.Errorf("%s: %t, want %t", c.name, got, c.want)
		}
	}
}
