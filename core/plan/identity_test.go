package plan_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclwrite"

	"github.com/forage-rl/forage/core/experiment"
	"github.com/forage-rl/forage/core/internal/testschemas"
	"github.com/forage-rl/forage/core/plan"
)

// section gives the text of a file in a case.
func section(t testing.TB, path, name string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(string(data), "-- "+name+" --\n")
	if !ok {
		t.Fatalf("%s has no section %s", path, name)
	}
	text, _, _ = strings.Cut(text, "\n-- ")
	return text + "\n"
}

// pipeline is a study that uses most of the language: one run.
func pipeline(t testing.TB) string {
	t.Helper()
	data, err := os.ReadFile("testdata/base.hcl")
	if err != nil {
		t.Fatal(err)
	}
	return string(data) + section(t, "testdata/plans/pipeline.case", "main.hcl")
}

// idsOf plans a single file; ok is false where it is not valid.
func idsOf(t testing.TB, source string, schemas *testschemas.Source) (ids []string, p *plan.Plan, ok bool) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "one.hcl")
	if err := os.WriteFile(path, []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	s, diags := experiment.Load(t.Context(), path, experiment.Inputs{}, schemas)
	if diags.HasErrors() {
		return nil, nil, false
	}
	a, diags := s.Ablation("")
	if diags.HasErrors() {
		return nil, nil, false
	}
	p, diags = plan.Make(s, a)
	if diags.HasErrors() {
		return nil, nil, false
	}
	for _, r := range p.Runs {
		ids = append(ids, r.ID)
	}
	return ids, p, true
}

func mustID(t testing.TB, source string) string {
	t.Helper()
	ids, _, ok := idsOf(t, source, &testschemas.Source{})
	if !ok || len(ids) != 1 {
		t.Fatalf("no single run: %v\n%s", ids, source)
	}
	return ids[0]
}

// TestIdentityKeeps makes edits that change no training.
func TestIdentityKeeps(t *testing.T) {
	source := pipeline(t)
	want := mustID(t, source)
	for name, edit := range map[string][]string{
		"description":                 {`"Explore, imitate, reinforce"`, `"Something else"`},
		"label of the experiment":     {`experiment "frugal"`, `experiment "renamed"`},
		"label of a dataset":          {`dataset "train"`, `dataset "questions"`, `dataset.train`, `dataset.questions`},
		"label of an index":           {`index "dense"`, `index "graph"`, `index.dense`, `index.graph`},
		"label of a policy block":     {`policy "big"`, `policy "large"`, `policy.big`, `policy.large`},
		"label of an agent":           {`agent "compact"`, `agent "short"`, `agent.compact`, `agent.short`},
		"comments and layout":         {"optimizer \"adamw\" {\n    learning_rate = 1e-6", "optimizer \"adamw\" {\n\n  # why\n  learning_rate    = 1e-6"},
		"spelling of a number":        {"learning_rate = 2e-5", "learning_rate = 0.00002"},
		"layout of an expression":     {"min(1, judge.value + 0.5 * outcome.value)", "min( 1,judge.value+(0.5*outcome.value) )"},
		"a default written down":      {"kl = 0.1", "kl         = 0.1\n      group_size = 5\n      estimator  = \"k3\""},
		"a constant through a local":  {"steps     = 400", "steps     = local.steps", "dataset \"explored\"", "locals {\n  steps = 4 * 100\n}\n\ndataset \"explored\""},
		"process settings":            {`timeout  = "90s"`, `timeout  = "10s"`, "replicas = 2", "replicas = 9"},
		"cadence of checkpoints":      {"every  = 50", "every  = 10"},
		"selection":                   {`select = best("dev", "em")`, `select = "last"`},
		"cadence of an evaluation":    {"every   = 50", "every   = 25"},
		"another evaluation":          {"evaluate \"dev\" {", "evaluate \"more\" {\n    dataset = dataset.test\n    samples = 3\n  }\n  evaluate \"dev\" {"},
		"data of an evaluation":       {"dev.jsonl", "dev2.jsonl"},
		"runtime":                     {"micro_batch_tokens = 8192", "micro_batch_tokens = 100"},
		"a warning guard":             {"guard \"collapse\" {", "guard \"other\" {\n    when = step > 3\n  }\n  guard \"collapse\" {"},
		"deterministic":               {"seeds       = [7]", "seeds       = [7]\n  deterministic = false"},
		"sampling that has no effect": {"sampling = { greedy = true }", "sampling = { greedy = true, temperature = 3 }"},
		"unused blocks":               {"dataset \"explored\"", "dataset \"idle\" {\n  path = \"x\"\n}\n\ndataset \"explored\""},
		"an empty reset":              {"kl = 0.1", "kl = 0.1\n group_size = null"},
	} {
		t.Run(name, func(t *testing.T) {
			edited := source
			for i := 0; i+1 < len(edit); i += 2 {
				if !strings.Contains(edited, edit[i]) {
					t.Fatalf("the study has no %q", edit[i])
				}
				edited = strings.ReplaceAll(edited, edit[i], edit[i+1])
			}
			if got := mustID(t, edited); got != want {
				t.Errorf("id changed from %s to %s", want, got)
			}
		})
	}
}

// TestIdentityOfOrder turns the order of all blocks around: that of stages is said by the attribute stages.
func TestIdentityOfOrder(t *testing.T) {
	_, p, ok := idsOf(t, pipeline(t), &testschemas.Source{})
	if !ok {
		t.Fatal("the pipeline is not valid")
	}
	f, diags := hclwrite.ParseConfig(p.Runs[0].HCL(), "config.hcl", hcl.InitialPos)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	var turn func(body *hclwrite.Body)
	turn = func(body *hclwrite.Body) {
		blocks := body.Blocks()
		for _, b := range blocks {
			turn(b.Body())
			body.RemoveBlock(b)
		}
		slices.Reverse(blocks)
		for _, b := range blocks {
			body.AppendBlock(b)
		}
	}
	turn(f.Body())
	if got := mustID(t, string(f.Bytes())); got != p.Runs[0].ID {
		t.Errorf("id changed from %s to %s\n%s", p.Runs[0].ID, got, f.Bytes())
	}
}

// TestIdentityOfPlugins: the major version counts, minor ones do not.
func TestIdentityOfPlugins(t *testing.T) {
	source := pipeline(t)
	want := mustID(t, source)
	for version, same := range map[string]bool{"1.2.0": true, "1.9.3": true, "v1.0.0": true, "2.0.0": false, "0.9.0": false} {
		ids, _, ok := idsOf(t, source, &testschemas.Source{Version: version})
		if !ok || (ids[0] == want) != same {
			t.Errorf("version %s: ids %v, that of 1.2.0 is %s", version, ids, want)
		}
	}
}

// neutral are the blocks in a written configuration whose content does not change training. dataset.dev and
// dataset.test are used by evaluations only.
var neutral = []string{"study", "evaluate", "checkpoint", "runtime", "process", `dataset "dev"`, `dataset "test"`}

// TestIdentityChanges takes the written configuration of runs, in which every setting of the language is spelled out,
// changes one value after the other, and expects another id whenever the change is valid.
func TestIdentityChanges(t *testing.T) {
	sources := map[string]string{}
	_, p, ok := idsOf(t, pipeline(t), &testschemas.Source{})
	if !ok {
		t.Fatal("the pipeline is not valid")
	}
	sources["pipeline"] = string(p.Runs[0].HCL())
	example := planOf(t, load(t, lowBudget), "")
	for _, i := range []int{0, 4} {
		sources[example.Runs[i].Cell.Key] = string(example.Runs[i].HCL())
	}
	for name, source := range sources {
		t.Run(name, func(t *testing.T) { changes(t, source) })
	}
}

// TestIdentityOfToollessAgent: an agent that may use no tools is not one that may use them all, and it stays so when
// its configuration is written and read again.
func TestIdentityOfToollessAgent(t *testing.T) {
	all := pipeline(t)
	none := strings.Replace(all, "  max_turns   = 4\n", "  max_turns   = 4\n  tools       = []\n", 1)
	if none == all {
		t.Fatal("the base has another agent by now")
	}
	ids, p, ok := idsOf(t, none, &testschemas.Source{})
	if !ok {
		t.Fatal("an agent without tools is not valid")
	}
	if ids[0] == mustID(t, all) {
		t.Error("with and without tools are the same run")
	}
	if again := mustID(t, string(p.Runs[0].HCL())); again != ids[0] {
		t.Errorf("written and read again it is run %s, before it was %s", again, ids[0])
	}
}

func changes(t *testing.T, source string) {
	want := mustID(t, source)
	lines := strings.Split(source, "\n")
	var stack []string
	changed := 0
	for i, line := range lines {
		text := strings.TrimSpace(line)
		switch {
		case strings.HasSuffix(text, "{"):
			stack = append(stack, strings.TrimSuffix(text, " {"))
			continue
		case text == "}":
			stack = stack[:len(stack)-1]
			continue
		}
		key, value, ok := strings.Cut(text, "=")
		if !ok {
			continue
		}
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		isNeutral := slices.ContainsFunc(stack, func(header string) bool {
			return slices.ContainsFunc(neutral, func(n string) bool { return header == n || strings.HasPrefix(header, n+" ") })
		})
		// How many texts an encoder takes at a time; the experiment's sampling, which every stage sets again.
		isNeutral = isNeutral || key == "batch" || len(stack) == 2 && stack[1] == "sampling"
		for _, other := range alternatives(value) {
			edited := slices.Clone(lines)
			edited[i] = key + " = " + other
			ids, _, valid := idsOf(t, strings.Join(edited, "\n"), &testschemas.Source{})
			if !valid {
				continue
			}
			if (ids[0] == want) != isNeutral {
				t.Errorf("in %v: %s = %s in place of %s gives id %s, before it was %s", stack, key, other, value, ids[0], want)
			}
			changed++
			break
		}
	}
	if changed < 40 {
		t.Errorf("only %d settings could be changed", changed)
	}
	t.Logf("%d settings changed", changed)
}

// alternatives are other values to try in place of one.
func alternatives(value string) []string {
	var list []string
	switch n, err := strconv.ParseFloat(value, 64); {
	case err == nil:
		list = append(list, fmt.Sprint(n+1), fmt.Sprint(n/2), fmt.Sprint(n*2))
	case value == "true":
		list = append(list, "false")
	case value == "false":
		list = append(list, "true")
	case strings.HasPrefix(value, `"`):
		for _, word := range []string{"shuffled", "given", "cls", "mean", "cosine", "keep", "fresh", "k1", "document", "sentence", "bfloat16", "float32", "stop", "close", "v0.1", "main", "seed", "reinforce"} {
			if value != quoted(word) {
				list = append(list, quoted(word))
			}
		}
		list = append([]string{strings.TrimSuffix(value, `"`) + `x"`}, list...)
	case strings.HasPrefix(value, "{ open"):
		list = append(list, strings.Replace(value, `open = "`, `open = "x`, 1))
	case strings.HasPrefix(value, "["):
		list = append(list, strings.Replace(value, "0.9", "0.8", 1), strings.Replace(value, `["title"`, `["name"`, 1))
		list = slices.DeleteFunc(list, func(s string) bool { return s == value })
	case strings.Contains(value, ".value"):
		list = append(list, "2 * ("+value+")")
	}
	return list
}

func quoted(s string) string { return strconv.Quote(s) }
