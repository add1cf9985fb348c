package plan_test

import (
	"os"
	"strings"
	"testing"

	"github.com/forage-rl/forage/core/experiment"
	"github.com/forage-rl/forage/core/internal/cases"
	"github.com/forage-rl/forage/core/internal/testschemas"
	"github.com/forage-rl/forage/core/plan"
)

func base(t *testing.T) map[string]string {
	t.Helper()
	data, err := os.ReadFile("testdata/base.hcl")
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{"base.hcl": string(data)}
}

func inputs(c cases.Case) experiment.Inputs {
	in := experiment.Inputs{Vars: map[string]string{}}
	for _, flag := range c.Flags {
		name, value, _ := strings.Cut(flag, "=")
		in.Vars[name] = value
	}
	return in
}

// TestInvalid keeps every diagnostic of the language as a user sees it. Rewrite with -update.
func TestInvalid(t *testing.T) {
	cases.Run(t, "testdata/invalid/*.case", base(t), func(t *testing.T, c cases.Case) string {
		s, diags := experiment.Load(t.Context(), c.Dir, inputs(c), &testschemas.Source{})
		diags = append(diags, plan.Validate(s)...)
		if len(diags) == 0 {
			t.Error("expected diagnostics")
		}
		return printed(t, s, experiment.Tidy(diags))
	})
}
