package experiment_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forage-rl/forage/core/experiment"
	"github.com/forage-rl/forage/core/internal/testschemas"
)

// tree writes files and gives their folder.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// value reads what a study makes of an expression: it stands where a description does.
func value(t *testing.T, dir string, in experiment.Inputs) (text, problems string) {
	t.Helper()
	s, diags := experiment.Load(t.Context(), dir, in, &testschemas.Source{})
	problems = printed(t, s, diags)
	if len(s.Ablations) > 0 {
		text = s.Ablations[0].Description
	}
	return text, problems
}

const head = "ablation \"a\" {\n  seeds = [1]\n  arm \"x\" {\n    experiment = experiment.x\n  }\n  description = %s\n}\nexperiment \"x\" {}\n"

func described(expr string) string { return strings.Replace(head, "%s", expr, 1) }

func TestFileStaysInside(t *testing.T) {
	for expr, want := range map[string]string{
		`file("in.txt")`:                                "inside",
		`file("sub/in.txt")`:                            "below",
		`file("sub/../in.txt")`:                         "inside",
		`file("../methods/m.txt")`:                      "method", // an included file's folder
		`file("../secret.txt")`:                         "outside the study",
		`file("../study2/in.txt")`:                      "outside the study",
		`file("/etc/passwd")`:                           "absolute path",
		`file("link.txt")`:                              "path escapes",
		`file("away/secret.txt")`:                       "path escapes",
		`file("sub")`:                                   "not a regular file",
		`file("gone.txt")`:                              "there is no file",
		`file("latin1.txt")`:                            "not valid UTF-8",
		`file("big.txt")`:                               "larger than",
		`file(null)`:                                    "null",
		`file("in.txt") == "inside" ? "same" : "other"`: "same",
	} {
		root := tree(t, map[string]string{
			"study/main.hcl": "include {\n  files = [\"../methods/m.hcl\"]\n}\n" + described(expr), "study/in.txt": "inside", "study/sub/in.txt": "below",
			"study/latin1.txt": "\xe9", "study/big.txt": strings.Repeat("x", 1<<20+1), "methods/m.hcl": "", "methods/m.txt": "method", "secret.txt": "secret", "study2/in.txt": "other",
		})
		for link, target := range map[string]string{"link.txt": "../secret.txt", "away": ".."} {
			if err := os.Symlink(target, filepath.Join(root, "study", link)); err != nil {
				t.Fatal(err)
			}
		}
		text, problems := value(t, filepath.Join(root, "study"), experiment.Inputs{})
		if text != want && !strings.Contains(problems, want) || strings.Contains(text, "secret") {
			t.Errorf("%s: got %q\n%s\nwant %s", expr, text, problems, want)
		}
	}
}

// TestNoSurprises: nothing in the language can tell one moment, machine or user from another.
func TestNoSurprises(t *testing.T) {
	for _, expr := range []string{`timestamp()`, `uuid()`, `env("HOME")`, `bcrypt("x")`, `path.root`, `pathexpand("~")`} {
		if text, problems := value(t, tree(t, map[string]string{"main.hcl": described(expr)}), experiment.Inputs{}); problems == "" {
			t.Errorf("%s gave %q", expr, text)
		}
	}
}

func TestVariables(t *testing.T) {
	files := map[string]string{
		"main.hcl": `variable "v" {
  type    = string
  default = "default"
}
` + described(`var.v`),
		"first.vars":  `v = "first file"`,
		"second.vars": `v = "second file"`,
	}
	dir := tree(t, files)
	first, second := filepath.Join(dir, "first.vars"), filepath.Join(dir, "second.vars")
	env := []string{"FORAGE_VAR_v=environment", "FORAGE_VAR_other=x", "HOME=y"}
	for _, c := range []struct {
		in   experiment.Inputs
		want string
	}{
		{experiment.Inputs{}, "default"},
		{experiment.Inputs{Env: env}, "environment"},
		{experiment.Inputs{Env: env, VarFiles: []string{first}}, "first file"},
		{experiment.Inputs{Env: env, VarFiles: []string{first, second}}, "second file"},
		{experiment.Inputs{Env: env, VarFiles: []string{second}, Vars: map[string]string{"v": "${not} \"evaluated"}}, "${not} \"evaluated"},
	} {
		if text, problems := value(t, dir, c.in); text != c.want || problems != "" {
			t.Errorf("%+v: got %q, want %q\n%s", c.in, text, c.want, problems)
		}
	}
	if _, problems := value(t, dir, experiment.Inputs{VarFiles: []string{filepath.Join(dir, "gone.vars")}}); !strings.Contains(problems, "gone.vars") {
		t.Errorf("a missing file of variables gave %q", problems)
	}
}

func TestVariableTypes(t *testing.T) {
	source := `variable "v" {
  type = object({ a = number, b = optional(list(string), ["x"]) })
}
` + described(`"${var.v.a} ${join(",", var.v.b)}"`)
	dir := tree(t, map[string]string{"main.hcl": source})
	for given, want := range map[string]string{`{ a = 1 }`: "1 x", `{ a = "2", b = ["p", "q"] }`: "2 p,q", `{}`: "attribute \"a\" is required", `[`: "is of type object", `{ a = x }`: "is of type object"} {
		text, problems := value(t, dir, experiment.Inputs{Vars: map[string]string{"v": given}})
		if text != want && !strings.Contains(problems, want) {
			t.Errorf("%s: got %q, want %q\n%s", given, text, want, problems)
		}
	}
}

func TestLocate(t *testing.T) {
	dir := tree(t, map[string]string{"study/main.hcl": described(`"main"`), "study/ignored.txt": "?", "study/.hidden.hcl": "?", "study/forage.lock.hcl": "?", "empty/other.hcl": described(`"alone"`)})
	for path, want := range map[string]string{
		"study": "main", "study/main.hcl": "main", "empty/other.hcl": "alone", "empty": "no main.hcl", "gone": "does not exist",
	} {
		text, problems := value(t, filepath.Join(dir, path), experiment.Inputs{})
		if text != want && !strings.Contains(problems, want) {
			t.Errorf("%s: got %q, want %q\n%s", path, text, want, problems)
		}
	}
}

func TestDiagnosticsJSON(t *testing.T) {
	dir := tree(t, map[string]string{"main.hcl": described(`5`)})
	_, diags := experiment.Load(t.Context(), dir, experiment.Inputs{}, &testschemas.Source{})
	data, err := experiment.DiagnosticsJSON(diags)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Valid       bool
		Errors      int
		Diagnostics []struct {
			Severity, Summary, Detail string
			Range                     struct {
				File  string
				Start struct{ Line, Column int }
			}
		}
	}
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if got.Valid || got.Errors != 1 || len(got.Diagnostics) != 1 {
		t.Fatalf("%s", data)
	}
	if d := got.Diagnostics[0]; d.Severity != "error" || d.Range.File != filepath.Join(dir, "main.hcl") || d.Range.Start.Line != 6 || !strings.Contains(d.Detail, "must be a text") {
		t.Errorf("%s", data)
	}
	if data, err = experiment.DiagnosticsJSON(nil); err != nil || !strings.Contains(string(data), `"valid": true`) || !strings.Contains(string(data), `"diagnostics": []`) {
		t.Errorf("without diagnostics: %s, %v", data, err)
	}
}

func TestFormat(t *testing.T) {
	got := string(experiment.Format([]byte("a  \"b\"   {\nc=1 # why\nlonger = 2\n}\n")))
	if want := "a \"b\" {\n  c      = 1 # why\n  longer = 2\n}\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestSeedPerRun: blocks that use the seed differ per run, and a value that does not is the same object's.
func TestSeedPerRun(t *testing.T) {
	source, err := os.ReadFile("testdata/low_budget/main.hcl")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(source), "seed  = 42", "seed  = local.draw")
	methods, err := filepath.Abs("testdata/methods")
	if err != nil {
		t.Fatal(err)
	}
	text = strings.ReplaceAll(text, "../methods", methods) + "\nlocals {\n  draw = 100 + seed\n}\n"
	s := load(t, tree(t, map[string]string{"main.hcl": text}))
	for seed := range int64(3) {
		run := resolve(t, s, "low_budget", "search_r1", seed)
		if got := *run.Datasets["dataset.dev"].Seed; got != 100+seed {
			t.Errorf("seed %d: the draw has seed %d, want %d", seed, got, 100+seed)
		}
		if run.Datasets["dataset.train"].Seed != nil || run.Seed != seed {
			t.Errorf("seed %d: %+v", seed, run.Datasets["dataset.train"])
		}
	}
}
