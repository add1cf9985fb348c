package plan_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/forage-rl/forage/core/experiment"
	"github.com/forage-rl/forage/core/plan"
	"github.com/forage-rl/forage/core/record"
)

// TestMark plans against a real journal with a run in every state.
func TestMark(t *testing.T) {
	p := planOf(t, load(t, lowBudget), "")
	study := record.Study{Dir: t.TempDir()}
	journal, err := record.OpenJournal(study.JournalPath())
	if err != nil {
		t.Fatal(err)
	}
	note := func(i int, events ...record.Event) {
		for _, e := range events {
			e.Run = p.Runs[i].ID
			if err := journal.Append(e); err != nil {
				t.Fatal(err)
			}
		}
	}
	started := record.Event{Event: record.Started, Attempt: 1}
	note(0, record.Event{Event: record.Planned}, started, record.Event{Event: record.Done, Attempt: 1, Step: 304})
	note(1, started, record.Event{Event: record.Failed, Attempt: 1, Step: 3, Message: "out of memory\nat great length"})
	note(2, started) // nobody holds its lock: lost
	note(3, started, record.Event{Event: record.Done, Attempt: 1})
	note(4, record.Event{Event: record.Planned})
	note(5, started, record.Event{Event: record.StoppedByGuard, Attempt: 1, Step: 21})
	for _, i := range []int{6, 7} { // kept although something changed; for one of them, something else by now
		note(i, started, record.Event{Event: record.Done, Attempt: 1, Message: plan.Accepted([]string{"plugin.x changed"})})
	}
	if err := journal.Close(); err != nil {
		t.Fatal(err)
	}
	source := &changed{plan.Journal{Study: study}, map[string][]string{
		p.Runs[3].ID: {"dataset.train changed"}, p.Runs[6].ID: {"plugin.x changed"}, p.Runs[7].ID: {"dataset.train changed", "plugin.x changed"},
	}}
	if err := p.Mark(t.Context(), source); err != nil {
		t.Fatal(err)
	}
	want := []record.Status{record.Done, record.Failed, record.Lost, record.Stale, record.Planned, record.StoppedByGuard, record.Done, record.Stale, ""}
	for i, status := range want {
		if p.Runs[i].Status != status {
			t.Errorf("run %d is %q, want %q", i, p.Runs[i].Status, status)
		}
	}
	var b bytes.Buffer
	if err := p.Print(&b); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"STALE             dataset.train changed", "failed            out of memory\n", "interrupted", "done\n", "done              accepted although plugin.x changed\n", "stopped by guard\n", "to do\n"} {
		if !strings.Contains(b.String(), line) {
			t.Errorf("the plan does not say %q:\n%s", line, b.String())
		}
	}
	b.Reset()
	if err := p.PrintJSON(&b); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Baseline string
		Runs     []struct {
			ID, Cell, Status string
			Reasons          []string
		}
	}
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Baseline != "search_r1,group=5" || len(got.Runs) != 30 || got.Runs[3].Status != "stale" || len(got.Runs[3].Reasons) != 1 || got.Runs[0].ID != p.Runs[0].ID {
		t.Errorf("%s", b.String())
	}
}

// changed is a journal with what changed since, by run.
type changed struct {
	plan.Journal
	reasons map[string][]string
}

func (c *changed) State(ctx context.Context, r plan.Run) (record.State, []string, bool, error) {
	state, _, ok, err := c.Journal.State(ctx, r)
	return state, c.reasons[r.ID], ok, err
}

type brokenSource struct{}

func (brokenSource) State(context.Context, plan.Run) (record.State, []string, bool, error) {
	return record.State{}, nil, false, errors.New("disk is gone")
}

func TestMarkFails(t *testing.T) {
	p := planOf(t, load(t, lowBudget), "")
	if err := p.Mark(t.Context(), brokenSource{}); err == nil || !strings.Contains(err.Error(), p.Runs[0].ID) || !strings.Contains(err.Error(), "disk is gone") {
		t.Errorf("got %v", err)
	}
}

// TestCheckInputs: relative paths start at the study's folder; what is there is not marked.
func TestCheckInputs(t *testing.T) {
	data, err := os.ReadFile("testdata/base.hcl")
	if err != nil {
		t.Fatal(err)
	}
	dir := write(t, strings.Replace(string(data), `experiment "base" {`, "experiment \"base\" {\n  seeds = [1, 2]", 1))
	for _, name := range []string{"corpus.jsonl", "train.jsonl"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	p := planOf(t, load2(t, dir), "base")
	if err := p.CheckInputs(); err != nil {
		t.Fatal(err)
	}
	var roles []string
	for _, in := range p.Absent() {
		roles = append(roles, in.Role+"="+strings.TrimPrefix(in.Path, dir+"/"))
	}
	if got := strings.Join(roles, " "); got != "dataset.test=test.jsonl policy.small=model" {
		t.Errorf("absent: %s", got)
	}
	var b bytes.Buffer
	if err := p.Print(&b); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "absent  dataset.test, policy.small") {
		t.Errorf("the plan does not show what is absent:\n%s", b.String())
	}
}

// TestKeysAreInputs: a key that no environment variable holds is absent like a file.
func TestKeysAreInputs(t *testing.T) {
	const env = "FORAGE_TEST_PLAN_KEY"
	data, err := os.ReadFile("testdata/base.hcl")
	if err != nil {
		t.Fatal(err)
	}
	dir := write(t, strings.NewReplacer(
		`experiment "base" {`, "experiment \"base\" {\n  seeds = [1]",
		"{ main = policy.small }", "{ main = policy.small, judge = policy.big }",
		`path = "bigger"`, "endpoint {\n    url     = \"http://127.0.0.1:8000/v1\"\n    model   = \"m\"\n    key_env = \""+env+"\"\n  }",
	).Replace(string(data)))
	p := planOf(t, load2(t, dir), "base")
	for _, value := range []string{"", " ", "secret"} {
		t.Setenv(env, value)
		if err := p.CheckInputs(); err != nil {
			t.Fatal(err)
		}
		told := slices.ContainsFunc(p.Absent(), func(in experiment.Input) bool { return in.Role == "policy.big" && in.Env == env })
		if want := value != "secret"; told != want {
			t.Errorf("with the value %q: absent %v, want %v", value, told, want)
		}
		var text, data bytes.Buffer
		if err := errors.Join(p.Print(&text), p.PrintJSON(&data)); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(text.String(), "policy.big: environment variable "+env) != told || strings.Contains(data.String(), `"env": "`+env+`"`) != told {
			t.Errorf("with the value %q the plan says:\n%s%s", value, text.String(), data.String())
		}
	}
}

// TestCorpusOfSeveralFiles: each file is an input of its own, the order counts, and what is written reads the same.
func TestCorpusOfSeveralFiles(t *testing.T) {
	data, err := os.ReadFile("testdata/base.hcl")
	if err != nil {
		t.Fatal(err)
	}
	one := strings.Replace(string(data), `experiment "base" {`, "experiment \"base\" {\n  seeds = [1]", 1)
	source := func(paths string) string {
		out := strings.Replace(one, `path = "corpus.jsonl"`, "path = "+paths, 1)
		if out == one && paths != `"corpus.jsonl"` {
			t.Fatal("the study has no corpus.jsonl")
		}
		return out
	}
	dir := write(t, source(`["a.jsonl", "b.jsonl"]`))
	p := planOf(t, load2(t, dir), "base")
	run := p.Runs[0]
	var roles []string
	for _, in := range run.Config.Inputs() {
		roles = append(roles, in.Role+"="+strings.TrimPrefix(in.Path, dir+"/"))
	}
	if got := strings.Join(roles[:2], " "); got != "corpus.wiki=a.jsonl corpus.wiki=b.jsonl" {
		t.Errorf("inputs %s", got)
	}
	ids := map[string]string{run.ID: "as written"}
	for _, paths := range []string{`"corpus.jsonl"`, `["b.jsonl", "a.jsonl"]`, `["a.jsonl"]`} {
		id := mustID(t, source(paths))
		if other, known := ids[id]; known {
			t.Errorf("%s has the id of %s", paths, other)
		}
		ids[id] = paths
	}
	if id := mustID(t, source(`"a.jsonl"`)); ids[id] != `["a.jsonl"]` {
		t.Errorf("a list of one is not that one")
	}
	if id := mustID(t, string(run.HCL())); id != run.ID {
		t.Errorf("the written configuration has another id:\n%s", run.HCL())
	}
}

// load2 reads a study without variables.
func load2(t *testing.T, dir string) *experiment.Study {
	t.Helper()
	s, diags := experiment.Load(t.Context(), dir, experiment.Inputs{}, schemas())
	failOn(t, s, diags)
	return s
}

// TestMethodAlone: a file of methods is checked by itself, without the data and policies that a study brings.
func TestMethodAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "method.hcl")
	source := `agent "a" {
  user = "${question.text}"
  protocol "tags" {
    call        = { open = "<search>", close = "</search>" }
    observation = { open = "<information>", close = "</information>" }
    answer      = { open = "<answer>", close = "</answer>" }
  }
}

experiment "m" {
  agent = agent.a
  stage "main" {
    optimizer "adamw" {
      learning_rate = 1
    }
    algorithm "grpo" {
      group_size = GROUP
    }
    steps     = 1
    questions = 1
  }
}
`
	for group, want := range map[string]string{"5": "", "1": "must be at least 2"} {
		if err := os.WriteFile(path, []byte(strings.Replace(source, "GROUP", group, 1)), 0o644); err != nil {
			t.Fatal(err)
		}
		s := load2(t, path)
		if got := printed(t, s, plan.Validate(s)); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("group_size = %s gives %s", group, got)
		}
	}
}

// TestSchemasAreAskedOnce: a plan of thirty runs asks each plugin once per configuration.
func TestSchemasAreAskedOnce(t *testing.T) {
	source := schemas()
	s, diags := experiment.Load(t.Context(), lowBudget, experiment.Inputs{Vars: map[string]string{"data": "/data"}}, source)
	failOn(t, s, diags)
	planOf(t, s, "")
	// search-r1, exact-match, three rewards of David-GRPO, grpo with three group sizes, tree-grpo, david-grpo twice, dense
	if source.Calls != 12 {
		t.Errorf("plugins were asked %d times, want 12", source.Calls)
	}
}
