package study

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forage-rl/forage/core/record"
)

// TestAlgorithmOutsideTheRepository: an algorithm in a module of its own, with an objective that nothing in the
// repository has, is built with the go tool as its author would, is refused until it is trusted, and then trains the
// policy in a study beside an algorithm of the repository.
func TestAlgorithmOutsideTheRepository(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a module and runs a study")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	module := filepath.Join(t.TempDir(), "cispo")
	if err := os.CopyFS(module, os.DirFS("testdata/cispo")); err != nil {
		t.Fatal(err)
	}
	// What go mod tidy would find in the network stands in the repository's own sums.
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(module, "go.sum"), sums, 0o644); err != nil {
		t.Fatal(err)
	}
	tool := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("go", args...)
		cmd.Dir = module
		cmd.Env = append(os.Environ(), "GOPROXY=off", "GOWORK=off")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	tool("mod", "edit", "-replace", "github.com/forage-rl/forage="+root)
	for line := range strings.Lines(tool("list", "-mod=mod", "-test", "-f", "{{range .Imports}}{{println .}}{{end}}{{range .TestImports}}{{println .}}{{end}}", ".")) {
		path := strings.TrimSpace(line)
		if strings.HasPrefix(path, "github.com/forage-rl/forage") && !strings.HasPrefix(path, "github.com/forage-rl/forage/core/sdk") {
			t.Errorf("it imports %s", path)
		}
	}
	tool("test", "-mod=mod", ".")
	plugins := filepath.Join(t.TempDir(), "plugins")
	tool("build", "-mod=mod", "-o", filepath.Join(plugins, "forage-cispo"), ".")

	home := t.TempDir()
	e := discover(t, plugins, home)
	if _, err := e.plan(t.Context(), "testdata/cispo", "cispo", nil); err == nil || !strings.Contains(err.Error(), "trust") {
		t.Fatalf("before it is trusted: %v", err)
	}
	e.trust(t)
	e = discover(t, plugins, home) // as the next command of the user: the record is what counts
	p, err := e.plan(t.Context(), "testdata/cispo", "cispo", nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := record.Study{Dir: t.TempDir()}
	summary, err := Execute(t.Context(), e.options(p, dir.Dir))
	if err := errors.Join(err, errorsOf(summary)); err != nil {
		t.Fatal(err)
	}
	digests := map[string]string{}
	for _, r := range p.Runs {
		result, ok, err := dir.Run(r.ID).ReadResult()
		if err != nil || !ok {
			t.Fatalf("%s: %v", r.Cell.Arm, err)
		}
		digests[r.Cell.Arm] = result.Checkpoint.Digest
		if result.Budgets.OptimizerSteps == 0 || len(result.Evaluations) != 1 || result.Evaluations[0].N != 150 {
			t.Errorf("%s: %+v", r.Cell.Arm, result)
		}
		lines, err := record.ReadMetrics(dir.Run(r.ID))
		if err != nil {
			t.Fatal(err)
		}
		weights := 0
		for _, l := range lines {
			if w, ok := l.Values["train/cispo/weight"]; ok {
				weights++
				if w < .5 || w > 2 {
					t.Errorf("step %d: importance weights of %v on average", l.Step, w)
				}
			}
		}
		if want := 3; (weights == want) != (r.Cell.Arm == "cispo") {
			t.Errorf("%s: the objective's metric is in %d of %d steps", r.Cell.Arm, weights, want)
		}
	}
	if digests["cispo"] == digests["grpo"] {
		t.Error("both algorithms gave the same weights")
	}
}

func errorsOf(s Summary) error {
	var list []error
	for _, err := range s.Errors {
		list = append(list, err)
	}
	return errors.Join(list...)
}
