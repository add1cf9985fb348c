package plan_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forage-rl/forage/core/experiment"
	"github.com/forage-rl/forage/core/internal/testschemas"
	"github.com/forage-rl/forage/core/plan"
)

// large writes a study of 10 arms, 3 axes of 3 values and 5 seeds: 270 cells, 1350 runs.
func large(t testing.TB) string {
	var b strings.Builder
	source, err := os.ReadFile(filepath.Join(lowBudget, "main.hcl"))
	if err != nil {
		t.Fatal(err)
	}
	methods, err := filepath.Abs("../experiment/testdata/methods")
	if err != nil {
		t.Fatal(err)
	}
	head, _, _ := strings.Cut(string(source), "ablation \"low_budget\"")
	b.WriteString(strings.ReplaceAll(head, "../methods", methods))
	b.WriteString(`
ablation "large" {
  seeds    = [1, 2, 3, 4, 5]
  primary  = metric("test", "em")
  baseline = { arm = "arm0" }
  set {
    policies = { main = policy.qwen }
    tools    = { search = tool.search }
    train    = dataset.train
    evaluate "dev" {
      dataset = dataset.dev
      every   = 20
    }
  }
  axis "group" {
    path   = stage.main.algorithm.group_size
    values = [3, 5, 8]
  }
  axis "lr" {
    path   = stage.main.optimizer.learning_rate
    values = [1e-6, 3e-6, 1e-5]
  }
  axis "k" {
    path   = tools.search.k
    values = [1, 3, 5]
  }
`)
	for i := range 10 {
		fmt.Fprintf(&b, "  arm \"arm%d\" {\n    experiment = experiment.david_grpo\n    stage \"main\" {\n      questions = %d\n    }\n  }\n", i, 10+i)
	}
	b.WriteString("}\n")
	return write(t, b.String())
}

func BenchmarkValidateLarge(b *testing.B) {
	path := large(b)
	for b.Loop() {
		s, diags := experiment.Load(b.Context(), path, experiment.Inputs{Vars: map[string]string{"data": "/data"}}, &testschemas.Source{})
		failOn(b, s, diags)
		if diags := plan.Validate(s); diags.HasErrors() {
			b.Fatal(printed(b, s, diags))
		}
	}
}

func TestLargePlan(t *testing.T) {
	s := load(t, large(t))
	a, diags := s.Ablation("large")
	failOn(t, s, diags)
	start := time.Now()
	p, diags := plan.Make(s, a)
	failOn(t, s, diags)
	if len(p.Cells) != 270 || len(p.Runs) != 1350 {
		t.Errorf("got %d cells and %d runs, want 270 and 1350", len(p.Cells), len(p.Runs))
	}
	t.Log(time.Since(start))
}
