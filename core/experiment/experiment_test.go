package experiment_test

import (
	"bytes"
	"testing"

	"github.com/hashicorp/hcl/v2"

	"github.com/forage-rl/forage/core/experiment"
	"github.com/forage-rl/forage/core/internal/testschemas"
)

// load reads a study whose variables have values and fails on errors.
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

// resolve gives the run of an arm without axes.
func resolve(t testing.TB, s *experiment.Study, ablation, arm string, seed int64) *experiment.Run {
	t.Helper()
	a, diags := s.Ablation(ablation)
	failOn(t, s, diags)
	for _, x := range a.Arms {
		if x.Name == arm {
			run, diags := s.Resolve(a, x, nil, seed)
			failOn(t, s, diags)
			return run
		}
	}
	t.Fatalf("no arm %s", arm)
	return nil
}

func TestResolveExample(t *testing.T) {
	s := load(t, "testdata/low_budget")
	run := resolve(t, s, "low_budget", "david_grpo", 3)
	data, err := run.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s", data)
}
