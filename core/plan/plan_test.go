package plan_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/hcl/v2"

	"github.com/forage-rl/forage/core/experiment"
	"github.com/forage-rl/forage/core/internal/testschemas"
	"github.com/forage-rl/forage/core/plan"
)

const lowBudget = "../experiment/testdata/low_budget"

func load(t testing.TB, path string) *experiment.Study {
	t.Helper()
	s, diags := experiment.Load(t.Context(), path, experiment.Inputs{Vars: map[string]string{"data": "/data"}}, &testschemas.Source{})
	failOn(t, s, diags)
	return s
}

func failOn(t testing.TB, s *experiment.Study, diags hcl.Diagnostics) {
	t.Helper()
	if len(diags) > 0 {
		t.Fatal(printed(t, s, diags))
	}
}

func printed(t testing.TB, s *experiment.Study, diags hcl.Diagnostics) string {
	t.Helper()
	var b bytes.Buffer
	if err := s.WriteDiagnostics(&b, diags, 0, false); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// planOf makes the plan of an ablation and fails on any diagnostic.
func planOf(t testing.TB, s *experiment.Study, ablation string) *plan.Plan {
	t.Helper()
	a, diags := s.Ablation(ablation)
	failOn(t, s, diags)
	p, diags := plan.Make(s, a)
	failOn(t, s, diags)
	return p
}

// write makes a study of one main.hcl.
func write(t testing.TB, source string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.hcl"), []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestReload writes each run's configuration and reads it as a study of its own: the id must stay.
func TestReload(t *testing.T) {
	p := planOf(t, load(t, lowBudget), "")
	for _, r := range p.Runs {
		path := filepath.Join(t.TempDir(), "config.hcl")
		if err := os.WriteFile(path, r.HCL(), 0o644); err != nil {
			t.Fatal(err)
		}
		s, diags := experiment.Load(t.Context(), path, experiment.Inputs{}, &testschemas.Source{})
		failOn(t, s, diags)
		again := planOf(t, s, "")
		if len(again.Runs) != 1 || again.Runs[0].ID != r.ID {
			t.Errorf("%s: reloading gave %v\n%s", r.ID, again.Runs, r.HCL())
		}
		if !bytes.Equal(again.Runs[0].HCL(), r.HCL()) {
			t.Errorf("%s: written again it differs:\n%s\n%s", r.ID, r.HCL(), again.Runs[0].HCL())
		}
	}
}

func TestPrintExample(t *testing.T) {
	p := planOf(t, load(t, lowBudget), "")
	var b bytes.Buffer
	if err := p.Print(&b); err != nil {
		t.Fatal(err)
	}
	t.Log(b.String())
}
