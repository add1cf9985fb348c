package main

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forage-rl/forage/core/generate"
	"github.com/forage-rl/forage/core/generate/modeltest"
	"github.com/forage-rl/forage/core/minihop"
)

// serveModel runs a service whose model reads the documents of a world.
func serveModel(t *testing.T, seed uint64) (*modeltest.Model, string) {
	t.Helper()
	w, err := minihop.NewWorld(seed, minihop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m := modeltest.New(w)
	server := httptest.NewServer(m)
	t.Cleanup(server.Close)
	return m, server.URL + "/v1"
}

// TestGenerate makes questions with a model behind a service, goes on after a failure, and runs a study on them.
func TestGenerate(t *testing.T) {
	model, url := serveModel(t, 1)
	p := newPlace(t, map[string]string{"main/main.hcl": world + `
dataset "generated" {
  path = "../q.jsonl"
}

policy "writer" {
  endpoint {
    url   = "` + url + `"
    model = "small"
  }
}

experiment "asked" {
  policies = { main = policy.fresh, writer = policy.writer }
  agent    = agent.searcher
  tools    = { search = tool.search }
  seeds    = [0]

  evaluate "generated" {
    dataset = dataset.generated
  }
}
`})
	args := []string{"generate", "--corpus", "minihop:1", "--writer", url, "--writer-model", "small", "--out", "q.jsonl", "--count", "8", "--mix", "2:0.5,3:0.5", "--top-k", "3", "--absent", "later", "--seed", "4"}
	model.FailAfter.Store(60)
	if _, stderr, code := p.try(args...); code != exitFailure || !strings.Contains(stderr, "out of memory") || !strings.Contains(stderr, url) {
		t.Errorf("a service that fails: code %d\n%s", code, stderr)
	}
	model.FailAfter.Store(0)
	asked := model.Asked()
	out := p.ok(args...)
	wantAll(t, spaced(out), "156 documents", "mentions of titles", "chains tried", "(i) format", "(ii) found", "(iii) closed_book", "(iv) subset", "(v) wrong", "questions 8 of 8", "of 2 hops 4", "of 3 hops 4", `path = "q.jsonl"`)
	if n := strings.Count(p.read("q.jsonl"), "\n"); n != 8 {
		t.Errorf("%d questions in the file", n)
	}
	var summary generate.Summary
	again := model.Asked()
	out = p.ok(append(args, "--json")...)
	decode(t, out[strings.Index(out, "{"):], &summary)
	if summary.Total() != 8 || summary.Resumed != summary.Chains || model.Asked() != again {
		t.Errorf("made again: %+v, %d requests", summary, model.Asked()-again)
	}
	// What was answered before the failure was kept: the same from the beginning asks as often in all.
	fresh := append(append([]string{}, args...), "--out", "fresh.jsonl")
	before := model.Asked()
	p.ok(fresh...)
	const atOnce = 8
	if whole, failed := model.Asked()-before, again-(model.Asked()-before); failed < 1 || failed > atOnce {
		t.Errorf("%d requests from the beginning, %d with a failure between, %d of them until it", whole, again, asked)
	}
	if p.read("fresh.jsonl") != p.read("q.jsonl") {
		t.Error("the questions are not those of an uninterrupted call")
	}
	wantAll(t, p.ok("run", "main"), "done")

	// The same model and corpus by their names in a study.
	p.ok("generate", "main", "--corpus", "corpus.world", "--writer", "writer", "--checker", "policy.writer", "--out", "study.jsonl", "--count", "2", "--mix", "2:1", "--top-k", "3", "--absent", "later", "--seed", "4")
	if n := strings.Count(p.read("study.jsonl"), "\n"); n != 2 {
		t.Errorf("%d questions in the file", n)
	}
	p.ok("generate", "--save-prompts", "prompts")
	if files, err := filepath.Glob(p.path("prompts/*.txt")); err != nil || len(files) != 4 {
		t.Errorf("%v, %v", files, err)
	}
}

// spaced is a text with single blanks.
func spaced(text string) string { return strings.Join(strings.Fields(text), " ") }

// TestGenerateWithFolder: a model in a folder is asked too; one that has learnt another task writes nothing of use, and
// the summary says what became of its texts.
func TestGenerateWithFolder(t *testing.T) {
	p := newPlace(t, map[string]string{"main/main.hcl": world + `
experiment "asked" {
  policies = { main = policy.fresh }
  agent    = agent.searcher
  tools    = { search = tool.search }
  seeds    = [0]

  evaluate "test" {
    dataset = dataset.test
  }
}
`})
	stdout, stderr, code := p.try("generate", "main", "--writer", "main", "--out", "q.jsonl", "--count", "2", "--mix", "2:1", "--attempts", "3", "--round", "2")
	if code != exitFailure {
		t.Errorf("exit code %d", code)
	}
	wantAll(t, spaced(stdout), "chains tried 3", "(i) format 3", "questions 0 of 2")
	wantAll(t, stderr, "used up", "--attempts", "q.jsonl.journal")
	if !strings.Contains(p.read("q.jsonl.journal"), `"fate":"format"`) {
		t.Error("the journal does not say what failed")
	}
}

func TestGenerateMisuse(t *testing.T) {
	p := newPlace(t, map[string]string{"docs.jsonl": `{"title": "A", "text": "Nothing."}` + "\n", "model/config.json": "{}"})
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--corpus", "docs.jsonl", "--writer", "model"}, exitUsage, "--out"},
		{[]string{"--corpus", "docs.jsonl", "--out", "q"}, exitUsage, "--writer"},
		{[]string{"--writer", "model", "--out", "q"}, exitUsage, "--corpus"},
		{[]string{"--corpus", "docs.jsonl", "--writer", "model", "--out", "q", "--mix", "2"}, exitUsage, "2:0.55"},
		{[]string{"--corpus", "docs.jsonl", "--writer", "model", "--out", "q", "--count", "0"}, exitUsage, "--count"},
		{[]string{"--corpus", "minihop:x", "--writer", "model", "--out", "q"}, exitUsage, "whole number"},
		{[]string{"--corpus", "minihop", "--writer", "http://127.0.0.1:1/v1", "--out", "q"}, exitUsage, "--writer-model"},
		{[]string{"--corpus", "minihop", "--writer", "model", "--writer-model", "x", "--out", "q"}, exitUsage, "--writer-model"},
		{[]string{"--corpus", "minihop", "--writer", "http://127.0.0.1:1/v1", "--writer-model", "m", "--key-env", "FORAGE_TEST_UNSET", "--out", "q"}, exitFailure, "FORAGE_TEST_UNSET"},
		{[]string{"--corpus", "minihop", "--writer", "model", "--out", "q"}, exitFailure, "model.safetensors"},
		{[]string{"--corpus", "none.jsonl", "--writer", "model", "--out", "q"}, exitFailure, "none.jsonl"},
		{[]string{"--corpus", "docs.jsonl", "--links", "none", "--writer", "model", "--out", "q"}, exitFailure, "none"},
		{[]string{"--corpus", "docs.jsonl", "--prompts", "model", "--writer", "model", "--out", "q"}, exitFailure, "phrase.txt"},
		{[]string{"--corpus", "docs.jsonl", "--writer", "http://127.0.0.1:1/v1", "--writer-model", "m", "--out", "q"}, exitFailure, "no document of the corpus mentions"},
	} {
		_, stderr, code := p.try(append([]string{"generate"}, test.args...)...)
		if code != test.code || !strings.Contains(stderr, test.want) {
			t.Errorf("%v: exit code %d, want %d and %q in:\n%s", test.args, code, test.code, test.want, stderr)
		}
	}
	if _, err := os.Stat(p.path("q")); err == nil {
		t.Error("a file of questions was made")
	}
}
