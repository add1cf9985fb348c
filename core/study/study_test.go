package study

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forage-rl/forage/core/experiment"
	"github.com/forage-rl/forage/core/host"
	"github.com/forage-rl/forage/core/plan"
	"github.com/forage-rl/forage/core/policy"
	"github.com/forage-rl/forage/core/record"
	"github.com/forage-rl/forage/core/report"
	"github.com/forage-rl/forage/core/run"
)

// packs is the folder of the plugin packs, built once for all tests.
var packs string

// childDir, set in the environment, makes the test program run a study in that folder and tell each step.
const (
	childDir      = "FORAGE_TEST_STUDY_DIR"
	childStudy    = "FORAGE_TEST_STUDY"
	childAblation = "FORAGE_TEST_STUDY_ABLATION"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		if err := child(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(testMain(m))
}

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "forage-study")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	packs = filepath.Join(dir, "plugins")
	for _, pack := range []string{"algorithms", "retrievers", "rewards"} {
		build := exec.Command("go", "build", "-o", filepath.Join(packs, "forage-"+pack), "github.com/forage-rl/forage/plugins/"+pack)
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build pack %s: %v\n%s", pack, err, out)
			return 1
		}
	}
	if err := host.WriteBundle(packs); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// env is what executing a study needs.
type env struct {
	catalogue *host.Catalogue
	backend   *policy.Backend
	cache     string
}

func open(ctx context.Context, packs, cache string) (env, error) {
	catalogue, err := host.Discover(ctx, host.Options{
		BundleDir: packs, PluginDir: filepath.Join(cache, "third"), WorkDir: cache, CacheDir: filepath.Join(cache, "schemas"), TrustFile: filepath.Join(cache, "trusted"), Env: map[string]string{},
	})
	if err != nil {
		return env{}, err
	}
	backend, err := policy.OpenBackend("")
	return env{catalogue, backend, cache}, err
}

func (e env) close() error { return errors.Join(e.catalogue.Close(), e.backend.Close()) }

func (e env) plan(ctx context.Context, path, ablation string, vars map[string]string) (*plan.Plan, error) {
	s, diags := experiment.Load(ctx, path, experiment.Inputs{Vars: vars}, Schemas(ctx, e.catalogue))
	if diags.HasErrors() {
		return nil, diags
	}
	a, diags := s.Ablation(ablation)
	if diags.HasErrors() {
		return nil, diags
	}
	p, diags := plan.Make(s, a)
	if diags.HasErrors() {
		return nil, diags
	}
	return p, nil
}

func (e env) options(p *plan.Plan, dir string) Options {
	return Options{Plan: p, Dir: record.Study{Dir: dir}, Catalogue: e.catalogue, CacheDir: e.cache, Backend: e.backend}
}

func testEnv(t *testing.T) env {
	t.Helper()
	e, err := open(t.Context(), packs, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// child runs a study and prints a line per training step.
func child(dir string) error {
	ctx := context.Background()
	e, err := open(ctx, os.Getenv("FORAGE_TEST_PACKS"), os.Getenv("FORAGE_TEST_CACHE"))
	if err != nil {
		return err
	}
	p, err := e.plan(ctx, os.Getenv(childStudy), os.Getenv(childAblation), nil)
	if err != nil {
		return err
	}
	o := e.options(p, dir)
	o.Progress = func(id string, p run.Progress) {
		if p.Metrics != nil {
			fmt.Println("step", id, p.Step)
		}
	}
	_, err = Execute(ctx, o)
	return err
}

// killed runs an ablation of the small study in a process of its own and kills it when it has told n steps.
func killed(t *testing.T, dir, cache, ablation string, n int) {
	t.Helper()
	killedIn(t, "testdata/small", dir, cache, ablation, n)
}

// killedIn is killed for another study.
func killedIn(t *testing.T, study, dir, cache, ablation string, n int) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childDir+"="+dir, childStudy+"="+study, childAblation+"="+ablation, "FORAGE_TEST_PACKS="+packs, "FORAGE_TEST_CACHE="+cache)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	steps := 0
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "step ") {
			if steps++; steps == n {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if err := cmd.Wait(); err == nil || steps < n {
		t.Fatalf("the study ended by itself after %d steps (%v); it was to be killed at %d", steps, err, n)
	}
}

func text(t *testing.T, e env, p *plan.Plan, dir string) string {
	t.Helper()
	s, err := Results(p, record.Study{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	r, err := report.Build(t.Context(), s, report.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := errors.Join(r.Text(&out, 160), r.CSV(&out)); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestKilledStudyResumes: a study of 2 arms and 3 seeds that is killed twice, in the middle of runs, and then goes on
// gives the same report, times aside, and the same episodes as one left alone.
func TestKilledStudyResumes(t *testing.T) {
	if testing.Short() {
		t.Skip("runs two whole studies")
	}
	e := testEnv(t)
	p, err := e.plan(t.Context(), "testdata/small", "small", nil)
	if err != nil {
		t.Fatal(err)
	}
	whole, broken := t.TempDir(), t.TempDir()
	if _, err := Execute(t.Context(), e.options(p, whole)); err != nil {
		t.Fatal(err)
	}
	killed(t, broken, e.cache, "small", 5)
	killed(t, broken, e.cache, "small", 6)
	summary, err := Execute(t.Context(), e.options(p, broken))
	if err != nil {
		t.Fatal(err)
	}
	if summary.Done != 6 || summary.Failed != 0 {
		t.Fatalf("got %+v", summary)
	}
	if diff := cmp.Diff(text(t, e, p, whole), text(t, e, p, broken)); diff != "" {
		t.Errorf("the resumed study reports otherwise:\n%s", diff)
	}
	resumed := 0
	for _, r := range p.Runs {
		a, _, err := record.Study{Dir: whole}.Run(r.ID).ReadResult()
		if err != nil {
			t.Fatal(err)
		}
		b, _, err := record.Study{Dir: broken}.Run(r.ID).ReadResult()
		if err != nil {
			t.Fatal(err)
		}
		if a.EpisodesDigest != b.EpisodesDigest || a.Checkpoint.Digest != b.Checkpoint.Digest {
			t.Errorf("run %s (%s, seed %d): episodes or weights differ after resuming", r.ID, r.Cell.Key, r.Seed)
		}
		if b.Attempts > 1 {
			resumed++
		}
		if b.ResumedInexact {
			t.Errorf("run %s is marked inexact", r.ID)
		}
	}
	if resumed == 0 {
		t.Error("no run was resumed: the test killed nothing")
	}
	// What is done is not done again.
	again := e.options(p, broken)
	again.Progress = func(id string, p run.Progress) { t.Errorf("run %s was executed again", id) }
	if _, err := Execute(t.Context(), again); err != nil {
		t.Fatal(err)
	}
}

// TestKilledRunWithCriticResumes: a run of PPO that is killed in its first stage and in its second, which keeps the
// critic, ends with the same episodes, policy, critic and warnings as one left alone. While the critic warms up, the policy stays.
func TestKilledRunWithCriticResumes(t *testing.T) {
	e := testEnv(t)
	p, err := e.plan(t.Context(), "testdata/small", "critic", nil)
	if err != nil {
		t.Fatal(err)
	}
	whole, broken := t.TempDir(), t.TempDir()
	o := e.options(p, whole)
	running := map[string]int{} // processes in the training steps of a stage
	o.Progress = func(_ string, p run.Progress) {
		if p.Phase == "training" {
			running[p.Stage] = max(running[p.Stage], children())
		}
	}
	if _, err := Execute(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if running["second"] > running["first"] {
		t.Errorf("%v processes run: those of a stage are to end with it", running)
	}
	killed(t, broken, e.cache, "critic", 2)
	killed(t, broken, e.cache, "critic", 3)
	var before struct{ Budgets record.Budgets }
	last, ok, err := record.Study{Dir: broken}.Run(p.Runs[0].ID).LatestCheckpoint()
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	if err := record.ReadJSON(filepath.Join(last.Dir, "state.json"), &before); err != nil {
		t.Fatal(err)
	}
	if summary, err := Execute(t.Context(), e.options(p, broken)); err != nil || summary.Done != 1 {
		t.Fatalf("%v, %+v", err, summary)
	}
	var results []record.Result
	var critics [][]byte
	for _, dir := range []string{whole, broken} {
		r := record.Study{Dir: dir}.Run(p.Runs[0].ID)
		result, ok, err := r.ReadResult()
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		last, ok, err := r.LatestCheckpoint()
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		critic, err := os.ReadFile(filepath.Join(last.Dir, "critic", "trainer.safetensors"))
		if err != nil {
			t.Fatal(err)
		}
		results, critics = append(results, result), append(critics, critic)
	}
	if a, b := results[0], results[1]; a.EpisodesDigest != b.EpisodesDigest || a.Checkpoint.Digest != b.Checkpoint.Digest || b.ResumedInexact || b.Attempts != 3 {
		t.Errorf("after %d attempts (inexact: %v) episodes or weights differ:\n%s", b.Attempts, b.ResumedInexact, cmp.Diff(a, b))
	}
	if diff := cmp.Diff(results[0].Warnings, results[1].Warnings); diff != "" || !slices.ContainsFunc(results[0].Warnings, func(w string) bool {
		return strings.Contains(w, "also reaches tokens of observations") // of the first stage
	}) {
		t.Errorf("warnings %q; after resuming in the second stage:\n%s", results[0].Warnings, diff)
	}
	if spent := before.Budgets.WallSeconds; spent <= 0 || results[1].Budgets.WallSeconds <= spent {
		t.Errorf("the run took %v seconds in all, of which %v before it was killed", results[1].Budgets.WallSeconds, spent)
	}
	if !bytes.Equal(critics[0], critics[1]) {
		t.Error("the critic or its optimizer differs after resuming")
	}
	lines, err := record.ReadMetrics(record.Study{Dir: whole}.Run(p.Runs[0].ID))
	if err != nil {
		t.Fatal(err)
	}
	steps := map[int]map[string]float64{}
	for _, l := range lines {
		if _, ok := l.Values["train/search-r1-critic/loss"]; ok {
			steps[l.Step] = l.Values
		}
	}
	if len(steps) != 5 {
		t.Fatalf("the critic was trained in %d steps, want 5", len(steps))
	}
	for step, values := range steps {
		if _, trained := values["train/search-r1/loss"]; trained != (step > 1) {
			t.Errorf("step %d trained the policy: %v", step, trained)
		}
		rate := 1e-3
		if step > 3 {
			rate = 5e-4 // of the second stage
		}
		if got := values["train/search-r1-critic/learning_rate"]; got != rate {
			t.Errorf("step %d: the critic's learning rate is %v, want %v", step, got, rate)
		}
	}
}

// children counts the processes that this one has started and that still run, 0 where the system does not tell.
func children() (n int) {
	lists, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		return 0
	}
	for _, list := range lists {
		if data, err := os.ReadFile(list); err == nil { // a thread may be gone
			n += len(strings.Fields(string(data)))
		}
	}
	return n
}

// TestMethodsLearn trains both methods of the demo for 20 steps from the base that seldom searches. The margins are
// wide: only what holds for any seed is asserted. David-GRPO learns to search and to answer; plain GRPO finds the
// reward of guessing first and stops searching.
func TestMethodsLearn(t *testing.T) {
	if testing.Short() {
		t.Skip("trains two policies")
	}
	e := testEnv(t)
	p, err := e.plan(t.Context(), filepath.Join(experiments, "minihop"), "demo", map[string]string{"steps": "20", "seeds": "[1]"})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	o := e.options(p, dir)
	o.Parallel = 2
	summary, err := Execute(t.Context(), o)
	if err != nil || summary.Failed > 0 {
		t.Fatalf("%v, %+v", err, summary)
	}
	metrics := map[string]record.Values{}
	conditions := run.NewPreconditions(e.catalogue, e.cache, e.backend)
	for _, r := range p.Runs {
		// Copying experts trains on all of their text, and only the arm that does so may say it.
		manifest, _, err := record.Study{Dir: dir}.Run(r.ID).ReadManifest()
		if err != nil || manifest.TrainsObservations != (r.Cell.Arm == "david_grpo") {
			t.Errorf("%s: the manifest says trains_observations = %v (%v)", r.Cell.Arm, manifest.TrainsObservations, err)
		}
		if changes, err := conditions.Changes(t.Context(), r.Config, record.Study{Dir: dir}.Run(r.ID)); err != nil || len(changes) > 0 {
			t.Errorf("%s: changed since it ran: %v (%v)", r.Cell.Arm, changes, err)
		}
		result, ok, err := record.Study{Dir: dir}.Run(r.ID).ReadResult()
		if err != nil || !ok {
			t.Fatalf("run %s: %v", r.ID, err)
		}
		for _, ev := range result.Evaluations {
			if ev.Name == "test" {
				metrics[r.Cell.Arm] = ev.Metrics
			}
		}
	}
	david, grpo := metrics["david_grpo"], metrics["search_r1"]
	t.Logf("david_grpo: em %.2f, searches %.2f; search_r1: em %.2f, searches %.2f", david["em"], david["searches"], grpo["em"], grpo["searches"])
	if david["searches"] < 1.8 || david["em"] < .45 {
		t.Errorf("David-GRPO must search and answer: %.2f searches, em %.2f", david["searches"], david["em"])
	}
	if grpo["searches"] > .2 || grpo["em"] > .38 {
		t.Errorf("plain GRPO stops searching: %.2f searches, em %.2f", grpo["searches"], grpo["em"])
	}
	if david["em"]-grpo["em"] < .2 {
		t.Errorf("the difference is %.2f", david["em"]-grpo["em"])
	}
}

// thirdParty is an environment with a pack that is built from a folder of testdata and trusted.
func thirdParty(t *testing.T, name string) env {
	t.Helper()
	dir := t.TempDir()
	third := filepath.Join(dir, "third")
	build := exec.Command("go", "build", "-o", filepath.Join(third, "forage-"+name), "./testdata/"+name)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	e := discover(t, third, dir)
	e.trust(t)
	return e
}

// discover makes an environment with a folder of plugins, with the trust record and caches in dir.
func discover(t *testing.T, plugins, dir string) env {
	t.Helper()
	catalogue, err := host.Discover(t.Context(), host.Options{
		BundleDir: packs, PluginDir: plugins, WorkDir: dir, CacheDir: filepath.Join(dir, "schemas"), TrustFile: filepath.Join(dir, "trusted"), Env: map[string]string{},
	})
	if err != nil {
		t.Fatal(err)
	}
	backend, err := policy.OpenBackend("")
	if err != nil {
		t.Fatal(err)
	}
	e := env{catalogue, backend, dir}
	t.Cleanup(func() {
		if err := e.close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// trust trusts all packs that do not come with the program.
func (e env) trust(t *testing.T) {
	t.Helper()
	for _, pack := range e.catalogue.Packs() {
		if !pack.Bundled {
			if err := e.catalogue.Trust(pack); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestServicesAndBadUpdates: an algorithm in a process of its own gets every service of the host, its state travels
// through a checkpoint, and whatever is wrong with what it sends back fails its run with a message that says so.
func TestServicesAndBadUpdates(t *testing.T) {
	e := thirdParty(t, "probe")
	p, err := e.plan(t.Context(), "testdata/probe", "probe", nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	summary, err := Execute(t.Context(), e.options(p, dir))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range p.Runs {
		want := map[string]string{
			"objective": `objective "nothing"`, "episode": `episode "nobody": unknown episode`, "field": `lacks the field "weight"`,
			"nan": `is NaN at token 0`, "length": "numbers, its response has", "used": `reward of episode "nobody"`, "mask": "does not declare that it trains observations",
		}[r.Cell.Arm]
		switch got := summary.Errors[r.ID]; {
		case want == "" && got != nil:
			t.Errorf("%s: %v", r.Cell.Arm, got)
		case want != "" && (got == nil || !strings.Contains(got.Error(), want)):
			t.Errorf("%s: got %v, want %q", r.Cell.Arm, got, want)
		}
	}
	var sound plan.Run
	for _, r := range p.Runs {
		if r.Cell.Arm == "nothing" {
			sound = r
		}
	}
	lines, err := record.ReadMetrics(record.Study{Dir: dir}.Run(sound.ID))
	if err != nil {
		t.Fatal(err)
	}
	seen := 0.
	for _, l := range lines {
		seen += l.Values["probe/seen"]
	}
	if seen != 3 {
		t.Errorf("the algorithm's metrics of 3 steps are in %v lines", seen)
	}
}

// TestGuardStops: a guard that stops ends the training of its run, which counts as finished and says why.
func TestGuardStops(t *testing.T) {
	e := thirdParty(t, "probe")
	p, err := e.plan(t.Context(), "testdata/probe", "probe", map[string]string{"stop": "true"})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	o := e.options(p, dir)
	o.Only = []string{"nothing"}
	checkpoints := map[int]int{} // by step
	o.Progress = func(_ string, p run.Progress) {
		if p.Phase == "writing a checkpoint" {
			checkpoints[p.Step]++
		}
	}
	if summary, err := Execute(t.Context(), o); err != nil || summary.Done != 1 {
		t.Fatalf("%v, %+v", err, summary)
	}
	// An earlier one at that step would not know of the stop: a run that was killed then would train on.
	if checkpoints[2] != 1 {
		t.Errorf("%d checkpoints at the step that the guard stopped at, want that of the end alone", checkpoints[2])
	}
	for _, r := range p.Runs {
		if r.Cell.Arm != "nothing" {
			continue
		}
		result, ok, err := record.Study{Dir: dir}.Run(r.ID).ReadResult()
		if err != nil || !ok {
			t.Fatal(err)
		}
		if result.Status != record.StoppedByGuard || result.Checkpoint.Step != 2 || len(result.Warnings) == 0 {
			t.Errorf("got %+v", result)
		}
	}
}

// TestFreshStartTakesTheResultAway: a run that is started afresh and does not end has no result, not that of before.
func TestFreshStartTakesTheResultAway(t *testing.T) {
	e := thirdParty(t, "probe")
	p, err := e.plan(t.Context(), "testdata/probe", "probe", map[string]string{"stop": "true"})
	if err != nil {
		t.Fatal(err)
	}
	o := e.options(p, t.TempDir())
	o.Only = []string{"nothing"}
	if summary, err := Execute(t.Context(), o); err != nil || summary.Done != 1 {
		t.Fatalf("%v, %+v", err, summary)
	}
	pause := make(chan struct{})
	o.Fresh, o.Pause = true, pause
	o.Event = func(e record.Event) {
		if e.Event == record.Started {
			close(pause)
		}
	}
	if _, err := Execute(t.Context(), o); !errors.Is(err, run.ErrPaused) {
		t.Fatalf("got %v", err)
	}
	for _, r := range p.Runs {
		if result, ok, err := o.Dir.Run(r.ID).ReadResult(); ok || err != nil {
			t.Errorf("run %s has the result of attempt %d (%v)", r.ID, result.Attempts, err)
		}
	}
}

// TestCellsSayWhatTheyAre: the report tells how many parts an arm changes, as the plan names them.
func TestCellsSayWhatTheyAre(t *testing.T) {
	e := testEnv(t)
	p, err := e.plan(t.Context(), "testdata/small", "small", nil)
	if err != nil {
		t.Fatal(err)
	}
	results, err := Results(p, record.Study{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{}
	for _, c := range results.Cells {
		labels[c.Arm] = c.Label
	}
	if labels["search_r1"] != "2 parts changed" || labels["david_grpo"] != "10 parts changed" {
		t.Errorf("got %q", labels)
	}
}

// TestPauseStartsNoMore: who asks to stop does not wait for runs that were next in line.
func TestPauseStartsNoMore(t *testing.T) {
	e := testEnv(t)
	p, err := e.plan(t.Context(), "testdata/small", "small", nil)
	if err != nil {
		t.Fatal(err)
	}
	o := e.options(p, t.TempDir())
	pause, started := make(chan struct{}), 0
	o.Pause = pause
	o.Event = func(event record.Event) {
		if event.Event != record.Started {
			return
		}
		if started++; started == 1 {
			close(pause)
		}
	}
	if summary, err := Execute(t.Context(), o); !errors.Is(err, run.ErrPaused) || summary.Failed != 0 {
		t.Fatalf("%v, %+v", err, summary)
	}
	if started != 1 || len(p.Runs) < 2 {
		t.Errorf("%d of %d runs were started", started, len(p.Runs))
	}
}

func TestSecondProcessIsRefused(t *testing.T) {
	e := testEnv(t)
	p, err := e.plan(t.Context(), "testdata/small", "small", nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := record.Study{Dir: t.TempDir()}
	lock, err := record.Lock(dir.LockPath())
	if err != nil {
		t.Fatal(err)
	}
	var locked *record.LockedError
	if _, err := Execute(t.Context(), e.options(p, dir.Dir)); !errors.As(err, &locked) || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Errorf("got %v, want an error that names the holder", err)
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
}

// BenchmarkPluginOverhead runs the David-GRPO arm of the demo and reports the share of the steps' time
// that calls to plugins cost beyond the work of either side: conversion, serialisation, sockets and waiting. Rewards
// are asked at the same time, so the slowest of them counts.
func BenchmarkPluginOverhead(b *testing.B) {
	e, err := open(b.Context(), packs, b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	defer e.close()
	p, err := e.plan(b.Context(), filepath.Join(experiments, "minihop"), "demo", map[string]string{"seeds": "[1]"})
	if err != nil {
		b.Fatal(err)
	}
	var transport, total float64
	for b.Loop() {
		o := e.options(p, b.TempDir())
		o.Only = []string{"david_grpo"}
		o.Progress = func(_ string, pr run.Progress) {
			transport += pr.Metrics["time/transport"]
			total += pr.Metrics["time/step"]
		}
		if summary, err := Execute(b.Context(), o); err != nil || summary.Done != 1 {
			b.Fatalf("%v, %+v", err, summary)
		}
	}
	b.ReportMetric(100*transport/total, "transport-%")
}
