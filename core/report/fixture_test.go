package report

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/forage-rl/forage/core/internal/rng"
	"github.com/forage-rl/forage/core/record"
)

// simulated describes a cell whose runs the fixture makes up.
type simulated struct {
	key, arm, label string
	axes            map[string]string
	declared        []string
	skill           float64 // added to the log-odds of a right answer
	searches        float64
	digests         map[string]string
	tokens          int64
}

func demoCells() []simulated {
	return []simulated{
		{key: "search_r1", arm: "search_r1", label: WholeMethod, axes: map[string]string{"group": "5"}, searches: 1.1, tokens: 1_000_000},
		{key: "search_r1 group=8", arm: "search_r1", label: WholeMethod, axes: map[string]string{"group": "8"}, skill: 0.05, searches: 1.2, tokens: 1_600_000},
		{key: "tree_grpo", arm: "tree_grpo", label: WholeMethod, skill: 0.25, searches: 2.1, tokens: 1_100_000,
			digests: map[string]string{"index.dense": "sha256:other"}},
		{key: "david_grpo", arm: "david_grpo", label: WholeMethod, skill: 1.1, searches: 2.8, tokens: 1_050_000,
			declared: []string{"policy"}, digests: map[string]string{"policy.main": "sha256:declared", "dataset.experts": "sha256:only here"}},
		{key: "david_without_seeding", arm: "david_without_seeding", label: OnePart, skill: 0.3, searches: 2.2, tokens: 1_000_000},
	}
}

const demoQuestions = 120

// demoStudy writes the records of a small study and gives its folder and plan. One run has failed, one was stopped by a
// guard and one has diverged for some steps.
func demoStudy(t testing.TB, cells []simulated, seeds []int64) (string, Study) {
	t.Helper()
	dir := record.Study{Dir: filepath.Join(t.TempDir(), "low_budget")}
	journal, err := record.OpenJournal(dir.JournalPath())
	must(t, err)
	defer journal.Close()
	plan := Study{Name: "low_budget", Description: "The methods as their papers run them, on one retriever and one policy",
		Primary: Primary{Evaluations: []string{"test"}, Metric: "em"}, Baseline: cells[0].key, Assume: Assume{SeedSD: 0.02, Discordance: 0.3}}
	for c, cell := range cells {
		out := Cell{Key: cell.key, Arm: cell.arm, Axes: cell.axes, Label: cell.label, Declared: cell.declared}
		for _, seed := range seeds {
			run := dir.Run(fmt.Sprintf("%02d%02d", c, seed))
			out.Runs = append(out.Runs, RunResult{ID: run.ID, Seed: seed})
			must(t, journal.Append(record.Event{Run: run.ID, Event: record.Planned}))
			must(t, journal.Append(record.Event{Run: run.ID, Event: record.Started, Attempt: 1}))
			end := record.Event{Run: run.ID, Event: record.Done, Attempt: 1}
			switch {
			case cell.key == "tree_grpo" && seed == 3:
				end.Event, end.Message = record.Failed, "plugin forage-retrievers ended with signal 9"
			case cell.key == "search_r1" && seed == 2:
				end.Event, end.Message = record.StoppedByGuard, "collapse: episode/searches < 0.2"
			}
			writeRun(t, run, cell, seed, end.Event)
			must(t, journal.Append(end))
		}
		plan.Cells = append(plan.Cells, out)
	}
	return dir.Dir, plan
}

func writeRun(t testing.TB, run record.Run, cell simulated, seed int64, status record.Status) {
	t.Helper()
	attempt, err := run.NewAttempt(nil, record.AttemptInfo{})
	must(t, err)
	digests := map[string]string{"dataset.train": "sha256:train", "index.dense": "sha256:index", "policy.main": "sha256:policy", "core": "sha256:core"}
	maps.Copy(digests, cell.digests)
	must(t, run.WriteManifest(record.Manifest{Run: run.ID, Digests: digests, Backend: "go", GoVersion: "go1.27", Executors: 1}))
	r := rand.New(rng.New(uint64(seed)).WithString(cell.key).Source())
	seedEffect := 0.1 * r.NormFloat64()

	lines, err := record.OpenLines(attempt.MetricsPath(), false)
	must(t, err)
	for step := 1; step <= 60; step++ {
		progress := 1 - math.Exp(-float64(step)/20)
		values := record.Values{
			"episode/reward":   0.2 + (0.2+0.15*cell.skill)*progress + 0.02*r.NormFloat64(),
			"episode/searches": 1 + (cell.searches-1)*progress + 0.05*r.NormFloat64(),
			"train/loss":       0.3*math.Exp(-float64(step)/30) + 0.02*r.NormFloat64(),
		}
		if cell.key == "tree_grpo" && seed == 1 && step > 30 && step < 34 {
			values["train/loss"] = math.NaN()
		}
		if step%20 == 0 {
			values["eval/dev/em"] = 0.3 + 0.1*progress
		}
		must(t, lines.Append(record.MetricsLine{Step: step, Attempt: 1, Values: values}))
	}
	must(t, lines.Close())
	if status == record.Failed {
		return
	}
	var questions []record.QuestionResult
	sums := map[string]float64{}
	for i := range demoQuestions {
		hops := 1 + i%3
		difficulty := rng.New(77, uint64(i)).Float64(0)*4 - 2 + 0.5*float64(hops-2)
		p := 1 / (1 + math.Exp(-(cell.skill + seedEffect - 0.3 - difficulty)))
		em := 0.0
		if r.Float64() < p {
			em = 1
		}
		found := math.Min(1, 0.4+0.2*cell.searches*r.Float64())
		values := record.Values{"em": em, "f1": em + (1-em)*0.3*r.Float64(), "evidence_any": math.Round(found), "evidence_all": math.Round(found * 0.8),
			"searches": math.Round(cell.searches + r.NormFloat64()*0.5), "unnecessary_searches": math.Round(r.Float64()), "policy_tokens": 200 + math.Round(50*r.NormFloat64())}
		for k, v := range values {
			sums[k] += v / demoQuestions
		}
		questions = append(questions, record.QuestionResult{ID: fmt.Sprintf("q%03d", i), Gold: "gold" + strconv.Itoa(i), Hops: hops, Values: values})
	}
	path, err := run.WriteQuestions("test", questions)
	must(t, err)
	must(t, run.WriteResult(record.Result{Run: run.ID, Status: status, Arm: cell.arm, Axes: cell.axes, Cell: cell.key, Seed: seed, Attempts: 1,
		Evaluations: []record.Evaluation{{Name: "test", DatasetDigest: "sha256:test", N: demoQuestions, Metrics: sums, Questions: path}},
		Budgets: record.Budgets{SampledTokens: cell.tokens + seed*1000, DecodedTokens: cell.tokens * 11 / 10, TrainedTokens: cell.tokens, ToolCalls: 9000 + seed,
			OptimizerSteps: 60, WallSeconds: 3600 + 10*float64(seed)},
		Finished: time.Date(2026, 3, 1, 12, 0, int(seed), 0, time.UTC)}))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func seedsTo(n int64) []int64 {
	var out []int64
	for s := int64(1); s <= n; s++ {
		out = append(out, s)
	}
	return out
}

func build(t testing.TB, cells []simulated, seeds []int64, opt Options) *Report {
	t.Helper()
	dir, plan := demoStudy(t, cells, seeds)
	s, err := Load(dir, plan)
	must(t, err)
	r, err := Build(t.Context(), s, opt)
	must(t, err)
	return r
}

// golden compares with testdata/name, or writes it under -update.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		must(t, os.MkdirAll("testdata", 0o755))
		must(t, os.WriteFile(path, []byte(got), 0o644))
		return
	}
	want, err := os.ReadFile(path)
	must(t, err)
	if got == string(want) {
		return
	}
	g, w := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			t.Fatalf("%s:%d differs (run with -update if that is meant)\n got: %.300s\nwant: %.300s", path, i+1, g[i], w[i])
		}
	}
	t.Fatalf("%s: %d lines, want %d", path, len(g), len(w))
}

func containsAny(list []string, sub string) bool {
	return slices.ContainsFunc(list, func(s string) bool { return strings.Contains(s, sub) })
}
