package main

import (
	"strings"
	"testing"

	"github.com/forage-rl/forage/core/sdk/schema"
)

func TestPackDescribesItself(t *testing.T) {
	for _, p := range pack().Algorithms {
		if p.Description == "" {
			t.Errorf("plugin %q has no description", p.Name)
		}
		var check func(path string, s schema.Schema)
		check = func(path string, s schema.Schema) {
			for _, a := range s.Attributes {
				if a.Source == "" || !strings.HasSuffix(a.Description, ".") || a.Default == nil {
					t.Errorf("%s.%s: source %q, default %v, description %q", path, a.Name, a.Source, a.Default, a.Description)
				}
			}
			for _, b := range s.Blocks {
				if b.Description == "" {
					t.Errorf("%s.%s has no description", path, b.Type)
				}
				check(path+"."+b.Type, b.Schema)
			}
		}
		check(p.Name, p.Schema)
		if ds := p.Validate(nil); len(ds) != 0 {
			t.Errorf("%s: the defaults give %v", p.Name, ds)
		}
	}
}
