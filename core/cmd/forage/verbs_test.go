package main

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/forage-rl/forage/core/record"
	"github.com/forage-rl/forage/core/retrieval/index"
	"github.com/forage-rl/forage/core/run"
)

// TestVerbs takes a small study through every verb that a researcher uses, in order.
func TestVerbs(t *testing.T) {
	p := newPlace(t, map[string]string{"study/main.hcl": world + method + comparison})
	study := record.Study{Dir: p.path("runs/study-groups")}

	wantAll(t, p.ok("validate", "study"), "study is valid")
	var checked struct {
		Valid  bool
		Errors int
	}
	decode(t, p.ok("validate", "study", "-json"), &checked)
	if !checked.Valid || checked.Errors != 0 {
		t.Errorf("validate -json: %+v", checked)
	}

	wantAll(t, p.ok("plan", "study"), "2 runs", "two", "three", "baseline", "to do", "search-r1, 2 steps of 2 questions", "objective search-r1")
	planned := planOf(t, p, "study")
	if len(planned.Runs) != 2 || planned.Runs[0].Status != "" || planned.Baseline != "two" {
		t.Fatalf("plan -json: %+v", planned)
	}
	wantAll(t, p.ok("run", "study", "--dry-run"), "2 of 2 runs would be executed", study.Dir)
	if _, err := os.Stat(study.Dir); err == nil {
		t.Error("a dry run left records")
	}

	out := p.ok("run", "study")
	wantAll(t, out, "two seed 0: started", "two seed 0: main 1/2", "two seed 0: main 2/2", "reward", "searches", "loss", "step 2, test  em",
		"three seed 0: done at step 2", "Primary comparison", "not testable across seeds", "report.html")
	for _, file := range []string{"report.html", "report.md", "report.csv", "journal.jsonl"} {
		if info, err := os.Stat(filepath.Join(study.Dir, file)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", file, err)
		}
	}
	if again := p.ok("run", "study"); strings.Contains(again, "started") {
		t.Errorf("finished runs were executed again:\n%s", again)
	}
	for _, r := range planOf(t, p, "study").Runs {
		if r.Status != string(record.Done) {
			t.Errorf("run %s is %q after it ran", r.ID, r.Status)
		}
	}

	wantAll(t, p.ok("status"), "study-groups", "2 done")
	wantAll(t, p.ok("status", "study-groups"), planned.Runs[0].ID, "done")
	wantAll(t, p.ok("status", "study"), planned.Runs[1].ID, "three", "done")

	first, second := planned.Runs[0].ID, planned.Runs[1].ID
	p.ok("report", "study", "--no-times", "--csv", "a.csv", "--html", "a.html")
	p.ok("report", "study", "--no-times", "--csv", "b.csv", "--html", "b.html", "--markdown", "b.md")
	if p.read("a.csv") != p.read("b.csv") || p.read("a.html") != p.read("b.html") || p.read("b.md") == "" {
		t.Error("two reports of the same records differ")
	}
	wantAll(t, p.ok("compare", first, second[:6], "--csv", "c.csv"), first, second, "A − B", "Settings of the training that differ")
	if strings.Contains(p.ok("compare", first, second), "undeclared") {
		t.Error("runs of one program on the same data differ undeclared")
	}

	wantAll(t, p.ok("episodes", first), "step 2, stage main", "prompt: <q>", "1 policy:", "stop:", "reward:", "outcome")
	wantAll(t, p.ok("episodes", first, "--evaluation", "test", "--limit", "0"), "evaluation test", "answer:")
	var lines int
	for line := range strings.Lines(p.ok("episodes", first, "--step", "1", "--json")) {
		var e run.Recorded
		decode(t, line, &e)
		if e.Step != 1 || len(e.Tokens) == 0 || len(e.Turns) == 0 {
			t.Errorf("episode %+v", e)
		}
		lines++
	}
	if lines != 4 { // 2 questions, groups of 2
		t.Errorf("%d episodes of step 1, want 4", lines)
	}
	_, stderr, code := p.try("episodes", first, "--step", "9")
	if code != 1 {
		t.Errorf("exit code %d for a step that is not there", code)
	}
	wantAll(t, stderr, "steps 1 to 2")

	wantAll(t, p.ok("ask", "study", "what is Borford 's country ?", "--run", first, "--greedy"), "prompt: <q> what is Borford 's country ? </q>", "1 policy:", "stop:")
	wantAll(t, p.ok("ask", second, "what is Borford 's country ?"), "1 policy:")
	wantAll(t, p.ok("index", "study"), "index.dense", "hnsw", "156 documents", "KiB")
	testExport(t, p)
	testAddedEvaluation(t, p, study, planned.Runs[0])
}

// testExport: a graph is written for the other library as a whole, and names that are wrong are answered with what
// there is.
func testExport(t *testing.T, p *place) {
	t.Helper()
	wantAll(t, p.ok("export", "hnsw", "study", "index.dense", "dense.graph"), "156 documents of 128 dimensions")
	f, err := os.Open(p.path("dense.graph"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	graph, keys, err := index.ImportCoder(f, false)
	if err != nil || len(keys) != 156 || graph.Dimensions() != 128 {
		t.Fatalf("the exported graph holds %d vectors: %v", len(keys), err)
	}
	_, stderr, code := p.try("export", "hnsw", "study", "index.words", "words.graph")
	if code != 1 {
		t.Errorf("exit code %d", code)
	}
	wantAll(t, stderr, "index.words", "it has index.dense")
	if _, err := os.Stat(p.path("words.graph")); err == nil {
		t.Error("a failed export left a file")
	}
}

// testAddedEvaluation: a test set that is added later is evaluated without training anything.
func testAddedEvaluation(t *testing.T, p *place, study record.Study, r plannedRun) {
	before, err := record.ReadJournal(study.JournalPath())
	if err != nil {
		t.Fatal(err)
	}
	p.write("study/main.hcl", strings.Replace(world+method+comparison, "evaluate \"test\"", "evaluate \"more\" {\n    dataset = dataset.train\n    samples = 2\n    agent {\n      max_searches = 1\n    }\n  }\n  evaluate \"test\"", 1))
	if now := planOf(t, p, "study").Runs[0]; now.ID != r.ID || now.Status != string(record.Done) {
		t.Errorf("a new evaluation makes another run: %+v", now)
	}
	wantAll(t, p.ok("eval", "study"), "step 2, more  em")
	wantAll(t, p.ok("eval", "study"), "two seed 0: nothing is missing")
	result, ok, err := study.Run(r.ID).ReadResult()
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	var names []string
	for _, e := range result.Evaluations {
		names = append(names, e.Name)
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{"more", "test"}) {
		t.Errorf("the result holds evaluations %v", names)
	}
	after, err := record.ReadJournal(study.JournalPath())
	if err != nil {
		t.Fatal(err)
	}
	if len(after) != len(before) {
		t.Errorf("the evaluation left %d new events in the journal", len(after)-len(before))
	}
}

// TestStaleRun: when data changes under a finished run, plan says which, and run neither reuses nor repeats it unasked.
func TestStaleRun(t *testing.T) {
	p := newPlace(t, map[string]string{"study/main.hcl": corpusStudy, "study/data/corpus.jsonl": goodCorpus, "study/data/questions.jsonl": goodQuestions})
	p.ok("run", "study")
	p.write("study/data/questions.jsonl", strings.Replace(goodQuestions, "crowns", "thalers", 1))
	wantAll(t, p.ok("plan", "study"), "STALE", "dataset.train changed")
	_, stderr, code := p.try("run", "study")
	if code != 1 {
		t.Errorf("exit code %d with stale runs", code)
	}
	wantAll(t, stderr, "dataset.train changed", "--accept", "--fresh")
	if strings.Contains(stderr, "--retry") {
		t.Errorf("a stale run is no failed one:\n%s", stderr)
	}
	if out := p.ok("run", "study", "--accept"); strings.Contains(out, "started") {
		t.Errorf("accepted runs were executed:\n%s", out)
	}
	wantAll(t, p.ok("plan", "study"), "accepted although dataset.train changed")
	wantAll(t, p.ok("run", "study"), "accepted although dataset.train changed") // it stays so, and the report tells
	p.write("study/data/questions.jsonl", strings.Replace(goodQuestions, "crowns", "florins", 1))
	if _, _, code := p.try("run", "study"); code != 1 {
		t.Errorf("exit code %d after another change", code)
	}
	wantAll(t, p.ok("run", "study", "--fresh"), "started", "attempt 2", "done at step 2")
	if strings.Contains(p.ok("plan", "study"), "STALE") {
		t.Error("a run done again is still stale")
	}
}

// TestPlanTellsWhatCanBeFound: the smallest difference that a study can tell from noise is part of its plan.
func TestPlanTellsWhatCanBeFound(t *testing.T) {
	seeds := strings.Replace(comparison, "seeds    = [0]", "seeds    = [0, 1, 2, 3, 4]\n  assume {\n    seed_sd = 0.02\n  }", 1)
	p := newPlace(t, map[string]string{"study/main.hcl": world + method + seeds})
	// √2 · 0.02 · t(4; 0.975) / √5, and with t(4; 0.8) on top.
	wantAll(t, p.ok("plan", "study"), "10 runs", "smallest difference told from noise: 0.035 observed, 0.047 to find it", "assumed seed_sd = 0.02")
}

// TestGuardIsTold: a warning of a guard reaches the user while the run goes on, and the report.
func TestGuardIsTold(t *testing.T) {
	guarded := strings.Replace(method, "evaluate \"test\"", "guard \"always\" {\n    when = step > 0\n  }\n  evaluate \"test\"", 1)
	p := newPlace(t, map[string]string{"study/main.hcl": world + strings.Replace(guarded, "experiment \"grpo\" {", "experiment \"grpo\" {\n  seeds = [7]", 1)})
	out := p.ok("run", "study")
	wantAll(t, out, `Warning: guard "always" at step 1`, "grpo seed 7: done")
}

// TestInit: the starting study is valid and formatted, and a lock pins what it uses.
func TestInit(t *testing.T) {
	p := newPlace(t, nil)
	wantAll(t, p.ok("init", "mine"), "mine/main.hcl", "forage.lock.hcl: 3 packs")
	if out := p.ok("validate", "mine"); out != "mine is valid.\n" {
		t.Error(out)
	}
	p.ok("fmt", "-check", "mine")
	wantAll(t, p.ok("plan", "mine"), "6 runs")
	before := p.read("mine/main.hcl") + p.read("mine/forage.lock.hcl")
	p.ok("init", "mine")
	if p.read("mine/main.hcl")+p.read("mine/forage.lock.hcl") != before {
		t.Error("a second init changes the study")
	}

	fakePlugin(t, p)
	_, stderr, code := p.try("init")
	if code != 1 {
		t.Errorf("exit code %d when nobody answers", code)
	}
	wantAll(t, stderr, "nobody answered", "--yes")
	for _, answer := range []string{"n\n", "\n", "yes\n"} {
		cmd := p.command("init")
		cmd.Stdin = strings.NewReader(answer)
		out, errs, code := p.finish(cmd)
		if code != 0 {
			t.Errorf("answer %q: exit code %d\n%s", answer, code, errs)
		}
		wantAll(t, out, p.path("plugins/forage-fake"), "sha256", "[y/N]")
		if strings.Contains(out, "Trusted.") != (answer == "yes\n") {
			t.Errorf("answer %q:\n%s", answer, out)
		}
	}
	wantAll(t, p.read("home/.forage/trusted"), p.path("plugins/forage-fake"))
}

func TestFmt(t *testing.T) {
	p := newPlace(t, map[string]string{"a/x.hcl": "locals {\na=1\n   bc = 2\n}\n", "a/b/y.hcl": "locals {\n  a = 1\n}\n", "a/bad.txt": "{"})
	stdout, _, code := p.try("fmt", "-check", "a")
	if code != 1 || strings.TrimSpace(stdout) != "a/x.hcl" {
		t.Errorf("fmt -check: %d %q", code, stdout)
	}
	if p.read("a/x.hcl") != "locals {\na=1\n   bc = 2\n}\n" {
		t.Error("fmt -check changed the file")
	}
	p.ok("fmt", "a")
	if got := p.read("a/x.hcl"); got != "locals {\n  a  = 1\n  bc = 2\n}\n" {
		t.Errorf("formatted to %q", got)
	}
	p.ok("fmt", "-check", "a")
	p.write("a/bad.hcl", "locals {")
	_, stderr, code := p.try("fmt", "a")
	if code != 1 {
		t.Errorf("exit code %d for a file that is no HCL", code)
	}
	wantAll(t, stderr, "a/bad.hcl line 1")
}

func TestPluginVerbs(t *testing.T) {
	p := newPlace(t, nil)
	wantAll(t, p.ok("plugin", "list"), "algorithm", "david-grpo", "retriever", "dense", "reward", "em")
	var list []struct{ Label, PackVersion string }
	decode(t, p.ok("plugin", "list", "--json"), &list)
	if len(list) < 10 {
		t.Errorf("plugin list --json gives %d plugins", len(list))
	}
	wantAll(t, p.ok("plugin", "describe", "search-r1"), "group_size", "int", "from 1", "[Search-R1", "trains the policy", "loss = ", "as of stage_start")
	if both := p.ok("plugin", "describe", "frugalrag"); strings.Count(both, "Source: FrugalRAG") != 2 {
		t.Errorf("describe frugalrag gives not both kinds:\n%s", both)
	}
	if one := p.ok("plugin", "describe", "reward/frugalrag"); !strings.HasPrefix(one, "reward \"frugalrag\"") || strings.Contains(one, "algorithm \"") {
		t.Errorf("describe reward/frugalrag gives not that alone:\n%s", one)
	}
	wantAll(t, p.ok("--version"), "v9.9.9-test")
	wantAll(t, p.ok("doctor", "--quick"), "v9.9.9-test", "backend", "pack", "cache", "free", "Nothing is wrong")
}

// TestReferenceIsComplete holds the maintained part of the reference against the attributes that the language reads.
func TestReferenceIsComplete(t *testing.T) {
	p := newPlace(t, nil)
	p.ok("docs", "-o", "REFERENCE.md")
	committed, err := os.ReadFile(filepath.Join("..", "..", "..", "experiments", "REFERENCE.md"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.ReplaceAll(string(committed), "\r\n", "\n") != p.read("REFERENCE.md") {
		t.Error("experiments/REFERENCE.md is not what forage docs writes: run make docs")
	}
	text := p.read("REFERENCE.md")
	wantAll(t, text, "### algorithm \"search-r1\"", "| `group_size` | int | `5` | from 1 |", "default (not in the paper)", "### retriever \"dense\"", "### reward \"em\"")
	names := languageNames(t)
	if len(names) < 80 {
		t.Fatalf("only %d attributes and blocks found in the sources of the language", len(names))
	}
	for _, name := range names {
		if !strings.Contains(text, name) {
			t.Errorf("the reference does not mention %q", name)
		}
	}
}

type plannedRun struct{ ID, Status, Arm string }

type planned struct {
	Baseline string
	Runs     []plannedRun
}

func planOf(t *testing.T, p *place, study string) planned {
	t.Helper()
	var out planned
	decode(t, p.ok("plan", study, "-json"), &out)
	return out
}

func decode(t *testing.T, text string, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), v); err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
}

// sortedNames lists a set.
func sortedNames(set map[string]bool) []string { return slices.Sorted(maps.Keys(set)) }
