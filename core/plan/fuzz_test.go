package plan_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forage-rl/forage/core/experiment"
	"github.com/forage-rl/forage/core/internal/testschemas"
	"github.com/forage-rl/forage/core/plan"
)

// FuzzStudy: whatever a file holds, reading and checking it ends with diagnostics and without a panic, and each run of
// a valid study is written so that it is read as the same run.
func FuzzStudy(f *testing.F) {
	cases, err := filepath.Glob("testdata/*/*.case")
	if err != nil || len(cases) == 0 {
		f.Fatal(err, "no cases to start from")
	}
	base, err := os.ReadFile("testdata/base.hcl")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(base))
	for _, path := range cases {
		f.Add(section(f, path, "main.hcl"))
	}
	f.Fuzz(func(t *testing.T, source string) {
		if len(source) > 1<<14 {
			return
		}
		dir := t.TempDir()
		path := filepath.Join(dir, "main.hcl")
		if err := os.WriteFile(path, []byte(source), 0o644); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(source, "policy \"small\"") {
			if err := os.WriteFile(filepath.Join(dir, "base.hcl"), base, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		s, diags := experiment.Load(t.Context(), dir, experiment.Inputs{}, &testschemas.Source{})
		found := plan.Validate(s)
		if _, err := experiment.DiagnosticsJSON(append(diags, found...)); err != nil {
			t.Fatal(err)
		}
		if diags.HasErrors() || found.HasErrors() {
			return
		}
		for _, name := range s.Targets() {
			a, diags := s.Ablation(name)
			failOn(t, s, diags)
			p, _ := plan.Make(s, a)
			for _, r := range p.Runs[:min(len(p.Runs), 3)] {
				reload(t, r)
			}
		}
	})
}
