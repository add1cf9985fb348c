package main

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/forage-rl/forage/core/policy/checkpoint"
	"github.com/forage-rl/forage/core/record"
)

// corpusStudy is a study that searches data/corpus.jsonl and asks data/questions.jsonl.
var corpusStudy = strings.NewReplacer(
	"  builtin = \"minihop\"\n  seed    = seed + 1\n}\nencoder", "  path = \"data/corpus.jsonl\"\n}\nencoder",
	"  builtin = \"minihop\"\n  split   = \"train\"\n  seed    = seed + 1", "  path = \"data/questions.jsonl\"",
	"  builtin = \"minihop\"\n  split   = \"test\"\n  seed    = seed + 1\n  limit   = 6", "  path = \"data/questions.jsonl\"",
).Replace(world) + method + comparison

const (
	goodCorpus = `{"id": "d1", "title": "Borford", "text": "Borford lies in Galdia."}
{"id": "d2", "title": "Galdia", "text": "Galdia pays in crowns."}
`
	goodQuestions = `{"id": "q1", "question": "what does Borford 's country pay in ?", "golden_answers": ["crowns"]}
{"id": "q2", "question": "where is Borford ?", "golden_answers": ["Galdia"]}
`
)

// TestBadInput: whatever is wrong is said with its place and what to do, with an exit code, and nothing is lost.
func TestBadInput(t *testing.T) {
	study := world + method + comparison
	changed := func(from, to string) string {
		if !strings.Contains(study, from) {
			t.Fatalf("the study has no %q", from)
		}
		return strings.Replace(study, from, to, 1)
	}
	data := func(corpus, questions string) map[string]string {
		return map[string]string{"study/main.hcl": corpusStudy, "study/data/corpus.jsonl": corpus, "study/data/questions.jsonl": questions}
	}
	cases := map[string]struct {
		files map[string]string
		setup func(t *testing.T, p *place)
		args  []string
		code  int
		want  []string // in what is printed to standard error
		not   []string // not there
	}{
		"unknown block": {
			files: map[string]string{"study/main.hcl": changed("encoder \"hashed\" {", "encoderr \"hashed\" {")},
			args:  []string{"validate", "study"}, code: 1,
			want: []string{"main.hcl line 6", "encoderr", `Did you mean "encoder"`},
		},
		"unknown attribute": {
			files: map[string]string{"study/main.hcl": changed("max_searches        = 2", "max_search          = 2")},
			args:  []string{"validate", "study"}, code: 1,
			want: []string{"main.hcl line", "max_search  ", "max_searches"},
		},
		"unknown attribute of a plugin": {
			files: map[string]string{"study/main.hcl": changed("group_size = 2", "groupsize = 2")},
			args:  []string{"validate", "study"}, code: 1,
			want: []string{"main.hcl line", "groupsize", "group_size"},
		},
		"wrong type": {
			files: map[string]string{"study/main.hcl": changed("k     = 2", "k     = \"two\"")},
			args:  []string{"validate", "study"}, code: 1,
			want: []string{"main.hcl line", `"two"`, "whole number"},
		},
		"wrong at the top and within a run": {
			files: map[string]string{"study/main.hcl": "bogus {}\n" + changed("max_searches        = 2", "max_search          = 2")},
			args:  []string{"validate", "study"}, code: 1,
			want: []string{"main.hcl line 1", "bogus", "max_search  ", "max_searches"},
		},
		"errors of syntax alone": {
			files: map[string]string{"study/main.hcl": study + "experiment \"late\" {{\n}\n"},
			args:  []string{"validate", "study"}, code: 1,
			want: []string{"An argument or block definition is required here"}, not: []string{"experiment.late needs"},
		},
		"index of another unit": {
			files: map[string]string{"study/main.hcl": changed("retriever \"dense\"", "retriever \"semantic_search\"")},
			args:  []string{"validate", "study"}, code: 1,
			want: []string{"main.hcl line", "index = index.dense", "finds documents", `unit = "sentence"`},
		},
		"hops under tags": {
			files: map[string]string{"study/main.hcl": changed("algorithm \"search-r1\" {\n      group_size = 2", "algorithm \"frugalrag\" {\n      group_size = 2")},
			args:  []string{"validate", "study"}, code: 1,
			want: []string{"main.hcl line", `algorithm "frugalrag"`, `protocol "fields"`},
		},
		"critic that nothing takes": {
			files: map[string]string{"study/main.hcl": changed("algorithm \"search-r1\" {", "critic {}\n    algorithm \"search-r1\" {")},
			args:  []string{"validate", "study"}, code: 0,
			want: []string{"main.hcl line", "critic has no effect", `"search-r1"`},
		},
		"no such verb of a group": {
			args: []string{"import", "onnx"}, code: 2,
			want: []string{`no "forage import onnx"`, "gguf", "--help"},
		},
		"missing folder of plugins": {
			args: []string{"plugin", "list", "--plugins", "nowhere"}, code: 1,
			want: []string{"--plugins", "nowhere", "no such file"},
		},
		"missing study": {
			args: []string{"run", "nowhere"}, code: 1,
			want: []string{"nowhere does not exist", "main.hcl"},
		},
		"missing file": {
			files: map[string]string{"study/main.hcl": corpusStudy},
			args:  []string{"run", "study"}, code: 1,
			want: []string{"corpus.world", "data/corpus.jsonl", "does not exist", "-var"},
		},
		"missing file, checked by plan": {
			files: map[string]string{"study/main.hcl": corpusStudy},
			args:  []string{"plan", "study", "-check"}, code: 1,
			want: []string{"dataset.train", "data/questions.jsonl", "does not exist"},
		},
		"empty corpus": {
			files: data("", goodQuestions), args: []string{"run", "study"}, code: 1,
			want: []string{"corpus.jsonl", "the file is empty", "corpus.world"},
		},
		"empty corpus line": {
			files: data(strings.Replace(goodCorpus, "\n", "\n\n", 1), goodQuestions), args: []string{"run", "study"}, code: 1,
			want: []string{"corpus.jsonl:2", "empty line"},
		},
		"malformed corpus line": {
			files: data(goodCorpus+"{\"id\": \"d3\", \n", goodQuestions), args: []string{"run", "study"}, code: 1,
			want: []string{"corpus.jsonl:3"},
		},
		"duplicate ids of documents": {
			files: data(goodCorpus+goodCorpus, goodQuestions), args: []string{"run", "study"}, code: 1,
			want: []string{"corpus.jsonl:3", `"d1"`},
		},
		"duplicate ids of questions": {
			files: data(goodCorpus, goodQuestions+goodQuestions), args: []string{"run", "study"}, code: 1,
			want: []string{"questions.jsonl:3", `"q1"`},
		},
		"malformed question": {
			files: data(goodCorpus, goodQuestions+"{\"id\": 7\n"), args: []string{"run", "study"}, code: 1,
			want: []string{"questions.jsonl:3"},
		},
		"question without its field": {
			files: data(goodCorpus, goodQuestions+"{\"id\": \"q3\", \"golden_answers\": [\"x\"]}\n"), args: []string{"run", "study"}, code: 1,
			want: []string{"questions.jsonl:3", `"question"`, "missing", "the line has golden_answers, id", "format = "},
		},
		"questions in other words": {
			files: data(goodCorpus, `{"id": "q", "question": "Welcher Fluss durchquert Galdia?", "golden_answers": ["crowns"]}`), args: []string{"run", "study"}, code: 1,
			want: []string{"dataset.train", "main.hcl:", "4 of 4 words looked at", "not in the vocabulary of policy.fresh", "vocabulary of bytes"},
		},
		"encoder and index of different dimensions": {
			files: map[string]string{"study/main.hcl": study, "other/main.hcl": changed("  kind = \"hashed\"", "  kind = \"hashed\"\n  dimensions = 64")},
			setup: swapIndexes, args: []string{"run", "study"}, code: 1,
			want: []string{"index.dense", "64 dimensions", "gives 128", "cache/indexes", "remove"},
		},
		"checkpoint without a tensor": {
			files: map[string]string{"study/main.hcl": pathPolicy(study)},
			setup: brokenModel(func(t *checkpoint.Tensor) bool { return t.Name != "model.layers.0.mlp.up_proj.weight" }),
			args:  []string{"run", "study"}, code: 1,
			want: []string{"model.layers.0.mlp.up_proj.weight", "model"},
		},
		"weights that are no numbers": {
			files: map[string]string{"study/main.hcl": pathPolicy(study)},
			setup: brokenModel(func(t *checkpoint.Tensor) bool {
				t.Data[0] = float32(math.NaN())
				return true
			}),
			args: []string{"run", "study"}, code: 1,
			want: []string{"two seed 0", "NaN", "its weights are damaged"}, not: []string{"fault of forage"},
		},
		"folder that holds no model": {
			files: map[string]string{"study/main.hcl": pathPolicy(study), "model/config.json": "{}"}, args: []string{"run", "study"}, code: 1,
			want: []string{"policy.fresh", "main.hcl:", "model", "it lacks model.safetensors", "tokenizer.json", "forage import gguf"},
		},
		"expert without an answer": {
			files: map[string]string{
				"study/main.hcl":      changed("    questions = 2\n", "    questions = 2\n    experts   = dataset.experts\n") + "dataset \"experts\" {\n  path = \"experts.jsonl\"\n}\n",
				"study/experts.jsonl": `{"id": "x", "question": "where is Borford ?", "answers": ["Galdia"], "gold_response": "I know it ."}` + "\n",
			},
			args: []string{"run", "study"}, code: 1,
			want: []string{"experts.jsonl:1", "question x", "must give an answer"},
		},
		"experts of other questions": {
			files: map[string]string{
				"study/main.hcl":      changed("    questions = 2\n", "    questions = 2\n    experts   = dataset.experts\n") + "dataset \"experts\" {\n  path = \"experts.jsonl\"\n}\n",
				"study/experts.jsonl": `{"id": "x", "question": "where is Borford ?", "answers": ["Galdia"], "gold_response": "<answer> Galdia </answer>"}` + "\n",
			},
			args: []string{"run", "study"}, code: 1,
			want: []string{`stage "main"`, "1 of 1 experts of dataset.experts", "dataset.train does not hold", `question "x"`, "experts.jsonl:1", "must be the same"},
		},
		"plugin that is not trusted": {
			files: map[string]string{"study/main.hcl": changed(`reward "em" {}`, `reward "fake/em" {}`)},
			setup: fakePlugin, args: []string{"validate", "study"}, code: 1,
			want: []string{"main.hcl line", "fake/em", "forage-fake", "sha256", "not trusted", "forage init"},
		},
		"plugin that is not a plugin": {
			files: map[string]string{"study/main.hcl": changed(`reward "em" {}`, `reward "fake/em" {}`)},
			setup: func(t *testing.T, p *place) {
				fakePlugin(t, p)
				p.ok("init", "--yes")
			},
			args: []string{"validate", "study"}, code: 1,
			want: []string{"main.hcl line", "fake/em", "forage-fake", "it is no plugin pack"},
		},
		"bundled pack that was changed": {
			files: map[string]string{"study/main.hcl": study},
			setup: changedPack, args: []string{"validate", "study"}, code: 1,
			want: []string{"main.hcl line", "forage-rewards", "SHA256SUMS", "has not been started", "make build"},
		},
		"unknown plugin": {
			args: []string{"plugin", "describe", "rewardz"}, code: 1,
			want: []string{"rewardz", "forage plugin list"},
		},
		"misspelt plugin": {
			args: []string{"plugin", "describe", "david-gpro"}, code: 1,
			want: []string{`did you mean "david-grpo"`},
		},
		"plugin of a pack that cannot be asked": {
			files: map[string]string{".forage/plugins/forage-broken": "#!/bin/sh\necho 'pack \"forage-broken\": version \"v1\"' >&2\nexit 1\n"},
			setup: func(t *testing.T, p *place) {
				if err := os.Chmod(p.path(".forage/plugins/forage-broken"), 0o755); err != nil {
					t.Fatal(err)
				}
				p.ok("init", "--yes")
			},
			args: []string{"plugin", "describe", "broken/reward"}, code: 1,
			want: []string{"forage-broken", "exit status 1", `version "v1"`},
		},
		"upgrade of no study": {
			args: []string{"init", "--upgrade"}, code: 2,
			want: []string{"forage init DIR --upgrade"},
		},
		"lock that pins another pack": {
			files: map[string]string{"study/main.hcl": study},
			setup: func(t *testing.T, p *place) {
				p.ok("init", "study")
				lock := p.read("study/forage.lock.hcl")
				i := strings.Index(lock, "linux_amd64 = \"") + len("linux_amd64 = \"")
				if i < 20 {
					t.Skip("written for linux on amd64")
				}
				p.write("study/forage.lock.hcl", lock[:i]+strings.Repeat("0", 64)+lock[i+64:])
			},
			args: []string{"run", "study"}, code: 1,
			want: []string{"study/forage.lock.hcl", "sha256", `"forage init study --upgrade"`},
		},
		"unknown ablation": {
			files: map[string]string{"study/main.hcl": study},
			args:  []string{"run", "study", "--ablation", "group"}, code: 1,
			want: []string{`"group"`, "groups"},
		},
		"unknown arm": {
			files: map[string]string{"study/main.hcl": study},
			args:  []string{"run", "study", "--only", "four"}, code: 2,
			want: []string{`"four"`, "three, two"},
		},
		"unknown run": {
			args: []string{"episodes", "abcdef"}, code: 1,
			want: []string{`"abcdef"`, "forage status"},
		},
		"unknown flag": {args: []string{"run", "--nonsense"}, code: 2, want: []string{"nonsense", "--help"}},
		"unknown verb": {args: []string{"walk"}, code: 2, want: []string{"walk", "--help"}},
		"no path":      {args: []string{"run"}, code: 2, want: []string{"forage run PATH", "got 0", "--help"}},
		"bad variable": {files: map[string]string{"study/main.hcl": study}, args: []string{"run", "study", "-var", "steps"}, code: 2, want: []string{"name=value"}},
		"GGUF that is none": {
			files: map[string]string{"m.gguf": "GIF89a"},
			args:  []string{"import", "gguf", "m.gguf", "out"}, code: 1,
			want: []string{"m.gguf"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, c.files)
			if c.setup != nil {
				c.setup(t, p)
			}
			stdout, stderr, code := p.try(c.args...)
			if code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			wantAll(t, stderr, c.want...)
			for _, text := range c.not {
				if strings.Contains(stderr, text) {
					t.Errorf("%q stands in\n%s", text, stderr)
				}
			}
			if strings.Contains(stdout+stderr, "panic") || strings.Contains(stdout+stderr, "goroutine") {
				t.Errorf("it crashed:\n%s%s", stdout, stderr)
			}
			if testing.Verbose() {
				t.Logf("\n%s", stderr)
			}
		})
	}
}

// swapIndexes puts the index of 64 dimensions in the place of the one of 128.
func swapIndexes(t *testing.T, p *place) {
	p.ok("index", "study")
	first := onlyFile(t, p.path("cache/indexes/hnsw-*.forage"))
	if err := os.Rename(first, p.path("kept")); err != nil {
		t.Fatal(err)
	}
	p.ok("index", "other")
	second := onlyFile(t, p.path("cache/indexes/hnsw-*.forage"))
	if err := os.Rename(second, first); err != nil {
		t.Fatal(err)
	}
}

func onlyFile(t *testing.T, pattern string) string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) != 1 {
		t.Fatalf("%s: %v %v", pattern, files, err)
	}
	return files[0]
}

// pathPolicy makes the policy of a study one that is read from a folder beside it.
func pathPolicy(study string) string {
	before, rest, _ := strings.Cut(study, "  init {\n")
	_, after, _ := strings.Cut(rest, "  }\n")
	return before + "  path = \"../model\"\n" + after
}

// brokenModel makes a model folder of the tensors that change keeps, as it leaves them.
func brokenModel(change func(*checkpoint.Tensor) bool) func(t *testing.T, p *place) {
	return func(t *testing.T, p *place) { breakModel(t, p, change) }
}

func breakModel(t *testing.T, p *place, change func(*checkpoint.Tensor) bool) {
	p.write("made/main.hcl", world+method+comparison)
	p.ok("ask", "made", "where ?")
	from := onlyFile(t, p.path("cache/policies/init-*"))
	config, tensors, err := checkpoint.Load(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(p.path("model"), os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	var kept []checkpoint.Tensor
	for _, spec := range config.Expected() {
		if tensor := tensors[spec.Name]; change(&tensor) {
			kept = append(kept, tensor)
		}
	}
	if err := checkpoint.WriteTensors(p.path("model/model.safetensors"), kept, nil); err != nil {
		t.Fatal(err)
	}
}

// fakePlugin puts a program that is no plugin where plugins are looked for.
func fakePlugin(t *testing.T, p *place) {
	p.write("plugins/forage-fake", "#!/bin/sh\necho hello\n")
	if err := os.Chmod(p.path("plugins/forage-fake"), 0o755); err != nil {
		t.Fatal(err)
	}
	p.env = append(p.env, "FORAGE_PLUGIN_DIR="+p.path("plugins"))
}

// changedPack gives the user a forage of his own in which a pack is not the one that was built with it.
func changedPack(t *testing.T, p *place) {
	p.binary = p.path("bin/forage")
	for _, name := range []string{"forage", "plugins/forage-algorithms", "plugins/forage-retrievers", "plugins/SHA256SUMS"} {
		to := p.path("bin/" + name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Link(filepath.Join(filepath.Dir(binary), name), to); err != nil {
			t.Skipf("the folder of temporary files cannot hold links: %v", err)
		}
	}
	p.write("bin/plugins/forage-rewards", "#!/bin/sh\ntouch started\n")
	if err := os.Chmod(p.path("bin/plugins/forage-rewards"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := os.Stat(p.path("started")); err == nil {
			t.Error("the changed pack was started")
		}
	})
}

// TestFewQuestions: a step that must ask a question twice is told of.
func TestFewQuestions(t *testing.T) {
	p := newPlace(t, map[string]string{
		"study/main.hcl": strings.Replace(corpusStudy, "    questions = 2\n", "    questions = 3\n", 1), "study/data/corpus.jsonl": goodCorpus, "study/data/questions.jsonl": goodQuestions,
	})
	wantAll(t, p.ok("run", "study", "-var", "steps=1"), "dataset.train has only 2 of the 3 questions that a step takes")
}

// TestFullDisk: a disk that is full ends the runs with an error that says what to do, and what was recorded before stays.
func TestFullDisk(t *testing.T) {
	p := newPlace(t, map[string]string{"study/main.hcl": world + method + comparison})
	if err := os.Mkdir(p.path("small"), 0o755); err != nil {
		t.Fatal(err)
	}
	mount := `mount -t tmpfs -o size=96k tmpfs small || exit 77
"$0" run study --runs small/runs; code=$?
cat small/runs/*/journal.jsonl
exit $code`
	cmd := exec.CommandContext(t.Context(), "unshare", "-rm", "sh", "-c", mount, binary)
	cmd.Dir, cmd.Env = p.dir, p.env
	if _, err := exec.LookPath("unshare"); err != nil {
		t.Skip("a small disk needs unshare(1)")
	}
	stdout, stderr, code := p.finish(cmd)
	if code == 77 || strings.Contains(stderr, "unshare failed") {
		t.Skipf("a small disk needs the right to mount: %s", stderr)
	}
	if code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	wantAll(t, stderr, "no space left on device", "small/runs/", "--runs", "the same command")
	wantAll(t, stdout, `"event":"planned"`)
}

// TestSecondProcess: while one process executes a study, a second one is refused and changes nothing; an interrupt ends
// the first one cleanly, and the same command then goes on.
func TestSecondProcess(t *testing.T) {
	p := newPlace(t, map[string]string{"study/main.hcl": world + method + comparison})
	study := record.Study{Dir: p.path("runs/study-groups")}
	first := p.command("run", "study", "--only", "two", "-var", "steps=100000")
	lines := startAndWait(t, first, "main 1/")
	_, stderr, code := p.try("run", "study")
	if code != 1 {
		t.Errorf("exit code %d of the second process", code)
	}
	wantAll(t, stderr, "runs/study-groups", "locked", "wait until it ends")

	rest, code := interrupt(t, first, lines)
	if code != 1 {
		t.Errorf("exit code %d after an interrupt, want 1\n%s", code, rest)
	}
	wantAll(t, rest, "The same command goes on")
	states, err := study.States()
	if err != nil || len(states) == 0 {
		t.Fatalf("the journal after an interrupt: %v %v", states, err)
	}
	for id, s := range states {
		if s.Status != record.Lost {
			t.Errorf("run %s is %s after an interrupt", id, s.Status)
		}
	}
	for id := range states {
		shown := p.ok("status", "study-groups")
		if !slices.ContainsFunc(strings.Split(shown, "\n"), func(line string) bool {
			f := strings.Fields(line)
			return len(f) > 3 && slices.Equal(f[:4], []string{id, "two", "0", "interrupted"})
		}) {
			t.Errorf("the status of records alone does not say what run %s is:\n%s", id, shown)
		}
	}
	again := p.command("run", "study", "--only", "two", "-var", "steps=100000")
	lines = startAndWait(t, again, "attempt 2, from step")
	interrupt(t, again, lines)
}

// interrupt ends a command as Ctrl-C does.
func interrupt(t *testing.T, cmd *exec.Cmd, lines func() string) (rest string, code int) {
	t.Helper()
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	rest = lines()
	return rest, cmd.ProcessState.ExitCode()
}
