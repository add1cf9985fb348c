package plan_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forage-rl/forage/core/experiment"
	"github.com/forage-rl/forage/core/internal/cases"
	"github.com/forage-rl/forage/core/internal/testschemas"
	"github.com/forage-rl/forage/core/plan"
)

// TestPlans keeps whole plans, run ids included: an id that changes here makes every recorded run of the world new.
// Each run's written configuration must give the same run again.
func TestPlans(t *testing.T) {
	files := base(t)
	// A study's own files warn of what they do not use; an included one may hold more.
	files = map[string]string{"shared/base.hcl": files["base.hcl"], "include.hcl": "include {\n  files = [\"shared/base.hcl\"]\n}\n"}
	cases.Run(t, "testdata/plans/*.case", files, func(t *testing.T, c cases.Case) string {
		s, diags := experiment.Load(t.Context(), c.Dir, inputs(c), &testschemas.Source{})
		failOn(t, s, diags)
		failOn(t, s, plan.Validate(s))
		p := planOf(t, s, "")
		p.Study = "study" // the name of a temporary folder otherwise
		var b strings.Builder
		if err := p.Print(&b); err != nil {
			t.Fatal(err)
		}
		for _, r := range p.Runs {
			reload(t, r)
		}
		return b.String()
	})
}

// reload writes a run's configuration and reads it as a study of its own: identity and text must stay.
func reload(t *testing.T, r plan.Run) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.hcl")
	if err := os.WriteFile(path, r.HCL(), 0o644); err != nil {
		t.Fatal(err)
	}
	s, diags := experiment.Load(t.Context(), path, experiment.Inputs{}, &testschemas.Source{})
	failOn(t, s, diags)
	a, diags := s.Ablation("")
	failOn(t, s, diags)
	again, diags := plan.Make(s, a)
	failOn(t, s, diags)
	if len(again.Runs) != 1 || again.Runs[0].ID != r.ID {
		t.Fatalf("%s: reloading gave %v\n%s", r.ID, again.Runs, r.HCL())
	}
	if text := string(again.Runs[0].HCL()); body(text) != body(string(r.HCL())) {
		t.Errorf("%s: written again it differs:\n%s\n%s", r.ID, r.HCL(), text)
	}
	for i, e := range again.Runs[0].Config.Evaluations {
		old, err := r.Config.Evaluations[i].Key(r.Config, "sha256:x")
		if err != nil {
			t.Fatal(err)
		}
		if key, err := e.Key(again.Runs[0].Config, "sha256:x"); err != nil || key != old {
			t.Errorf("%s: evaluation %s has key %s, after reloading %s (%v)", r.ID, e.Name, old, key, err)
		}
	}
}

// body is a written configuration without the comment that says where it comes from.
func body(text string) string {
	lines := strings.Split(text, "\n")
	return strings.Join(lines[2:], "\n")
}
