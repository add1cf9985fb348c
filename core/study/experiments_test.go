package study

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"

	"github.com/forage-rl/forage/core/experiment"
	"github.com/forage-rl/forage/core/internal/vectors"
	"github.com/forage-rl/forage/core/plan"
)

const experiments = "../../experiments"

// studies are all studies of the repository with the variables that they need. Their data may be absent.
var studies = map[string]map[string]string{
	"minihop":  nil,
	"hotpotqa": {"data": "absent", "model": "absent"},

	"minihop-methods": nil,

	"papers/search_r1":          papers,
	"papers/search_r1/minihop":  nil,
	"papers/tree_grpo":          papers,
	"papers/tree_grpo/minihop":  nil,
	"papers/stepsearch":         papers,
	"papers/stepsearch/minihop": nil,
	"papers/david_grpo":         papers,
	"papers/david_grpo/minihop": nil,
	"papers/frugalrag":          papers,
	"papers/frugalrag/minihop":  nil,
	"papers/autocoa":            papers,
	"papers/autocoa/minihop":    nil,
	"papers/grasp":              {"data": "absent", "models": "absent"},
	"papers/grasp/minihop":      nil,
}

var papers = map[string]string{"data": "absent", "wiki": "absent.jsonl", "models": "absent"}

// TestExperimentsPlan: every study of the repository is valid and can be planned.
func TestExperimentsPlan(t *testing.T) {
	e := testEnv(t)
	var folders []string
	err := filepath.WalkDir(experiments, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Name() == "main.hcl" {
			folders = append(folders, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(folders) != len(studies) {
		t.Errorf("the repository has the studies %v, the test knows %d", folders, len(studies))
	}
	for name, vars := range studies {
		t.Run(name, func(t *testing.T) {
			s, diags := experiment.Load(t.Context(), filepath.Join(experiments, name), experiment.Inputs{Vars: vars}, Schemas(t.Context(), e.catalogue))
			diags = append(diags, plan.Validate(s)...)
			for _, d := range diags {
				if d.Severity == hcl.DiagError {
					t.Error(d)
				}
			}
			if diags.HasErrors() {
				t.FailNow()
			}
			for _, a := range s.Ablations {
				p, diags := plan.Make(s, a)
				if diags.HasErrors() {
					t.Fatalf("%s: %v", a.Name, diags)
				}
				if len(p.Runs) == 0 {
					t.Errorf("%s plans no run", a.Name)
				}
			}
		})
	}
}

// TestMethodFilesAreValid: the method files are valid in one study, so that any of them can be taken together.
func TestMethodFilesAreValid(t *testing.T) {
	e := testEnv(t)
	folder, err := filepath.Abs(filepath.Join(experiments, "methods"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.hcl"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	own := filepath.Join(t.TempDir(), "main.hcl")
	if err := os.WriteFile(own, fmt.Appendf(nil, "include {\n  files = [\"%s\"]\n}\n", strings.Join(files, `", "`)), 0o644); err != nil {
		t.Fatal(err)
	}
	s, diags := experiment.Load(t.Context(), own, experiment.Inputs{}, Schemas(t.Context(), e.catalogue))
	for _, d := range append(diags, plan.Validate(s)...) {
		if d.Severity == hcl.DiagError {
			t.Error(d)
		}
	}
}

// rawTitles is a study whose agent lays titles out as they are.
const rawTitles = `
include {
  files = [%q]
}

ablation "raw" {
  seeds    = [0]
  primary  = metric("test", "em")
  baseline = { arm = "search_r1" }

  set {
    policies = { main = policy.model }
    tools    = { search = tool.search }
    train    = dataset.train
    agent {
      observation = "%%{for i, hit in hits}Doc ${i + 1}(Title: ${hit.title}) ${hit.text}\n%%{endfor}"
    }
    evaluate "test" {
      dataset = dataset.test
    }
  }

  arm "search_r1" {
    experiment = experiment.search_r1
  }
}
`

// TestVectorSearchR1RenderDocs: the observation text of the method lays documents out as the reference does. The
// reference's corpus holds titles in quotes and prints the first line of a document as it stands; ours reads titles
// without their quotes and the method's text adds them. So documents whose first line is no quoted title (cases 003, 004,
// 006 and 010) come out otherwise with the method's own text; an agent that prints titles as they are gives the
// reference's text for them, and for all others where the titles keep their quotes.
func TestVectorSearchR1RenderDocs(t *testing.T) {
	e := testEnv(t)
	agentOf := func(path, ablation string) *experiment.Agent {
		t.Helper()
		p, err := e.plan(t.Context(), path, ablation, studies["hotpotqa"])
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range p.Runs {
			if r.Cell.Arm == "search_r1" {
				return r.Config.Stages[0].Agent
			}
		}
		t.Fatalf("%s has no arm search_r1", path)
		return nil
	}
	hotpot, err := filepath.Abs(filepath.Join(experiments, "hotpotqa", "main.hcl"))
	if err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(t.TempDir(), "main.hcl")
	if err := os.WriteFile(own, fmt.Appendf(nil, rawTitles, hotpot), 0o644); err != nil {
		t.Fatal(err)
	}
	method, raw := agentOf(filepath.Join(experiments, "hotpotqa"), "small"), agentOf(own, "raw")
	unquoted := []string{"render_docs-003", "render_docs-004", "render_docs-006", "render_docs-010"}
	for _, c := range vectors.Load(t, "search-r1", "render_docs").Cases {
		t.Run(c.ID, func(t *testing.T) {
			in := vectors.Decode[struct{ Contents []string }](t, c.Input)
			want := vectors.Decode[struct{ Rendered string }](t, c.Want()).Rendered
			var plain, quoted []any
			for _, contents := range in.Contents {
				title, body, _ := strings.Cut(contents, "\n")
				quoted = append(quoted, map[string]any{"title": title, "text": body})
				if len(title) >= 2 && strings.HasPrefix(title, `"`) && strings.HasSuffix(title, `"`) {
					plain = append(plain, map[string]any{"title": title[1 : len(title)-1], "text": body})
				}
			}
			render := func(agent *experiment.Agent, hits []any) string {
				pieces, err := agent.Observation.Render(map[string]any{"hits": hits})
				if err != nil {
					t.Fatal(err)
				}
				return whole(pieces)
			}
			if got := render(raw, quoted); got != want {
				t.Errorf("titles as they are: got %q, want %q", got, want)
			}
			if slices.Contains(unquoted, c.ID) {
				if len(plain) == len(quoted) {
					t.Error("its titles are quoted")
				}
				return
			}
			if got := render(method, plain); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// whole is the rendered pieces as one text.
func whole(pieces []experiment.Piece) string {
	var b strings.Builder
	for _, p := range pieces {
		b.WriteString(p.Text)
	}
	return b.String()
}
