package study

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/forage-rl/forage/core/plan"
	"github.com/forage-rl/forage/core/record"
)

// crashing plans the study of the algorithm that dies as often as the variables say.
func crashing(t *testing.T, e env, vars map[string]string) (*plan.Plan, plan.Run) {
	t.Helper()
	p, err := e.plan(t.Context(), "testdata/crash", "crash", vars)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(p.Runs, func(r plan.Run) bool { return r.Cell.Arm == "crashing" })
	return p, p.Runs[i]
}

// TestKilledAlgorithmGoesOn: an algorithm's process that is killed in the middle of a step is started again at the last
// checkpoint, and the run ends as it would have undisturbed: same weights, same episodes, same answers.
func TestKilledAlgorithmGoesOn(t *testing.T) {
	e := thirdParty(t, "crash")
	count := filepath.Join(t.TempDir(), "count")
	p, r := crashing(t, e, map[string]string{"record": count, "times": "2"})
	killed, quiet := record.Study{Dir: t.TempDir()}, record.Study{Dir: t.TempDir()}
	for _, dir := range []record.Study{killed, quiet} { // the second one finds that it was killed often enough
		o := e.options(p, dir.Dir)
		o.Only = []string{"crashing"}
		summary, err := Execute(t.Context(), o)
		if err != nil || summary.Done != 1 || summary.Failed != 0 {
			t.Fatalf("%+v, %v", summary, err)
		}
	}
	if times, err := os.ReadFile(count); err != nil || len(times) != 2 {
		t.Fatalf("killed %d times (%v)", len(times), err)
	}
	got, ok, err := killed.Run(r.ID).ReadResult()
	if err != nil || !ok {
		t.Fatal(err)
	}
	want, ok, err := quiet.Run(r.ID).ReadResult()
	if err != nil || !ok {
		t.Fatal(err)
	}
	if got.Attempts != 3 || len(got.Warnings) != len(want.Warnings)+2 {
		t.Errorf("%d attempts, warnings %q", got.Attempts, got.Warnings)
	}
	for i := range 2 {
		warning := fmt.Sprintf(`stage "main": the algorithm's process died in step 2 (signal: killed); the run went on from its last checkpoint (restart %d of 3)`, i+1)
		if !slices.Contains(got.Warnings, warning) {
			t.Errorf("no warning %q in %q", warning, got.Warnings)
		}
	}
	if shown := text(t, e, p, killed.Dir); !strings.Contains(shown, "the algorithm's process died in step 2") {
		t.Errorf("the report does not say that the process was killed:\n%s", shown)
	}
	same := cmp.Options{
		cmpopts.IgnoreFields(record.Result{}, "Attempts", "Warnings", "Finished"),
		cmpopts.IgnoreFields(record.CheckpointRef{}, "Attempt"),
		cmpopts.IgnoreFields(record.Budgets{}, "WallSeconds"),
		cmpopts.IgnoreMapEntries(func(name string, _ float64) bool { return strings.HasPrefix(name, "time/") }),
	}
	if diff := cmp.Diff(want, got, same); diff != "" {
		t.Errorf("the killed run gives something else:\n%s", diff)
	}
	if want.Checkpoint.Digest == "" || want.EpisodesDigest == "" {
		t.Error("the results hold no digests to compare")
	}
	events, err := record.ReadJournal(killed.JournalPath())
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, event := range events {
		if event.Run == r.ID {
			told = append(told, fmt.Sprintf("%s %d %d", event.Event, event.Attempt, event.Step))
		}
		if event.Event == record.Lost && !strings.Contains(event.Message, "out of luck at step 2, time") {
			t.Errorf("the journal does not hold what the plugin last said: %q", event.Message)
		}
	}
	if diff := cmp.Diff([]string{"planned 0 0", "started 1 0", "lost 1 2", "started 2 2", "lost 2 2", "started 3 2", "done 3 4"}, told); diff != "" {
		t.Errorf("journal:\n%s", diff)
	}
}

// TestCrashFailsOneRun: an algorithm of a third party dies in one arm again and again; that run fails with what it last
// said once its restarts are used up, the other arm finishes, and the failed run is executed again only when asked for.
func TestCrashFailsOneRun(t *testing.T) {
	e := thirdParty(t, "crash")
	count := filepath.Join(t.TempDir(), "count")
	p, r := crashing(t, e, map[string]string{"record": count, "times": "100", "exit": "true"})
	o := e.options(p, t.TempDir())
	summary, err := Execute(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if summary.Done != 1 || summary.Failed != 1 {
		t.Fatalf("got %+v", summary)
	}
	failure := fmt.Sprint(summary.Errors[r.ID])
	for _, want := range []string{"stage.main.algorithm", "forage-crash", "exit status 3", "it went back to its last checkpoint 3 times already", "out of luck at step 2, time 4"} {
		if !strings.Contains(failure, want) {
			t.Errorf("the error lacks %q: %s", want, failure)
		}
	}
	if summary, err = Execute(t.Context(), o); err != nil || summary.Skipped != 1 || summary.Failed != 0 {
		t.Errorf("a failed run must be passed over: %+v, %v", summary, err)
	}
	o.RetryFailed = true
	if summary, err = Execute(t.Context(), o); err != nil || summary.Failed != 1 {
		t.Errorf("a failed run must be retried when asked for: %+v, %v", summary, err)
	}
}
