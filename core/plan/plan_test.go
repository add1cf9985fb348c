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

func schemas() *testschemas.Source { return &testschemas.Source{} }

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

// TestExample is the study of the documentation: four arms, one axis, five seeds.
func TestExample(t *testing.T) {
	p := planOf(t, load(t, lowBudget), "")
	for _, r := range p.Runs {
		reload(t, r)
	}
	var b bytes.Buffer
	if err := p.Print(&b); err != nil {
		t.Fatal(err)
	}
	golden := "testdata/low_budget.txt"
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(golden, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}
