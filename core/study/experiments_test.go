package study

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/forage-rl/forage/core/experiment"
	"github.com/forage-rl/forage/core/internal/vectors"
	"github.com/forage-rl/forage/core/plan"
)

const experiments = "../../experiments"

// studies are all studies of the repository with the variables that they need. Their data may be absent.
var studies = map[string]map[string]string{
	"minihop":  nil,
	"hotpotqa": {"data": "absent", "model": "absent"},
}

// TestExperimentsPlan: every study of the repository is valid and can be planned.
func TestExperimentsPlan(t *testing.T) {
	e := testEnv(t)
	folders, err := filepath.Glob(filepath.Join(experiments, "*", "main.hcl"))
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
				t.Error(d)
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

// TestVectorSearchR1RenderDocs: the observation text of the method lays documents out as the reference does.
func TestVectorSearchR1RenderDocs(t *testing.T) {
	e := testEnv(t)
	p, err := e.plan(t.Context(), filepath.Join(experiments, "hotpotqa"), "small", studies["hotpotqa"])
	if err != nil {
		t.Fatal(err)
	}
	var agent *experiment.Agent
	for _, r := range p.Runs {
		if r.Cell.Arm == "search_r1" {
			agent = r.Config.Stages[0].Agent
		}
	}
	for _, c := range vectors.Load(t, "search-r1", "render_docs").Cases {
		t.Run(c.ID, func(t *testing.T) {
			in := vectors.Decode[struct{ Contents []string }](t, c.Input)
			want := vectors.Decode[struct{ Rendered string }](t, c.Want()).Rendered
			var hits []any
			for _, contents := range in.Contents {
				title, body, _ := strings.Cut(contents, "\n")
				if !strings.HasPrefix(title, `"`) || !strings.HasSuffix(title, `"`) || len(title) < 2 {
					t.Skip("the reference's corpus quotes every title; ours adds the quotes when it lays the hit out")
				}
				hits = append(hits, map[string]any{"title": title[1 : len(title)-1], "text": body})
			}
			pieces, err := agent.Observation.Render(map[string]any{"hits": hits})
			if err != nil {
				t.Fatal(err)
			}
			if got := experiment.Text(pieces); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}
