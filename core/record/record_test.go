package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestMain lets the test binary play a second process; see helper.
func TestMain(m *testing.M) {
	if what := os.Getenv("RECORD_TEST_HELPER"); what != "" {
		os.Exit(helperMain(what, os.Args[1:]))
	}
	os.Exit(m.Run())
}

func helperMain(what string, args []string) int {
	switch what {
	case "hold-lock":
		l, err := Lock(args[0])
		if err != nil {
			os.Stderr.WriteString(err.Error())
			return 1
		}
		os.Stdout.WriteString("held\n")
		stop := make(chan os.Signal, 1)
		signal.Notify(stop, os.Interrupt)
		<-stop // the test kills this process
		_ = l.Unlock()
		return 0
	case "write-on-full-disk":
		// A limit on the size of files makes write(2) fail part of the way, as a full disk does.
		signal.Ignore(syscall.SIGXFSZ)
		lim := unix.Rlimit{Cur: 1000, Max: 1000}
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &lim); err != nil {
			os.Stderr.WriteString(err.Error())
			return 2
		}
		if err := WriteFile(args[0], bytes.Repeat([]byte("n"), 5000)); err != nil {
			os.Stderr.WriteString(err.Error())
			return 1
		}
		return 0
	case "append-on-full-disk":
		signal.Ignore(syscall.SIGXFSZ)
		lim := unix.Rlimit{Cur: 300, Max: 300}
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &lim); err != nil {
			return 2
		}
		j, err := OpenJournal(args[0])
		if err != nil {
			return 2
		}
		for range 20 {
			if err := j.Append(Event{Run: "r", Event: Started, Attempt: 1, Message: strings.Repeat("m", 70)}); err != nil {
				os.Stderr.WriteString(err.Error())
				return 1
			}
		}
		return 0
	}
	return 3
}

func helper(t *testing.T, what string, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, args...)
	cmd.Env = append(os.Environ(), "RECORD_TEST_HELPER="+what)
	return cmd
}

func exitCode(err error) int {
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		return e.ExitCode()
	}
	return 0
}

func noLeftovers(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), tempPrefix) {
			t.Errorf("leftover %s", e.Name())
		}
	}
}

func TestWriteFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.json")
	for _, text := range []string{"one", "", "two"} {
		if err := WriteFile(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, _ := os.ReadFile(path); string(got) != text {
			t.Fatalf("got %q, want %q", got, text)
		}
	}
	noLeftovers(t, filepath.Dir(path))
	if err := WriteFile(filepath.Join(filepath.Dir(path), "absent", "x"), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("missing folder: %v", err)
	}
}

func TestWriteFileKeepsOldWhenDiskIsFull(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.json")
	if err := WriteFile(path, []byte("old")); err != nil {
		t.Fatal(err)
	}
	cmd := helper(t, "write-on-full-disk", path)
	out, err := cmd.CombinedOutput()
	if exitCode(err) != 1 || !strings.Contains(string(out), "unchanged") {
		t.Fatalf("expected a write error, got %v: %s", err, out)
	}
	if got, _ := os.ReadFile(path); string(got) != "old" {
		t.Fatalf("old content lost: %q", got)
	}
	noLeftovers(t, filepath.Dir(path))
}

func TestJournalStaysWholeWhenDiskIsFull(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	out, err := helper(t, "append-on-full-disk", path).CombinedOutput()
	if exitCode(err) != 1 {
		t.Fatalf("expected an append error, got %v: %s", err, out)
	}
	data, _ := os.ReadFile(path)
	events, err := ReadJournal(path)
	if err != nil || len(events) == 0 || !bytes.HasSuffix(data, []byte("\n")) {
		t.Fatalf("%d events, %v, file %q", len(events), err, data)
	}
}

func TestAtomicDir(t *testing.T) {
	parent := t.TempDir()
	final := filepath.Join(parent, "deep", "step-000001")
	boom := errors.New("boom")
	err := AtomicDir(final, func(tmp string) error {
		if err := os.WriteFile(filepath.Join(tmp, "half"), nil, 0o644); err != nil {
			return err
		}
		return boom
	})
	if !errors.Is(err, boom) {
		t.Fatalf("got %v", err)
	}
	if _, err := os.Stat(final); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal("half folder is visible")
	}
	noLeftovers(t, filepath.Dir(final))
	write := func(text string) error {
		return AtomicDir(final, func(tmp string) error {
			if err := os.Mkdir(filepath.Join(tmp, "sub"), 0o755); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(tmp, "sub", "f"), []byte(text), 0o644)
		})
	}
	if err := write("one"); err != nil {
		t.Fatal(err)
	}
	if err := write("two"); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("second write: %v", err)
	}
	if got, _ := os.ReadFile(filepath.Join(final, "sub", "f")); string(got) != "one" {
		t.Fatalf("content %q", got)
	}
	noLeftovers(t, filepath.Dir(final))

	// Two writers at once: the folder exists for neither at the start, one of them gets the name.
	race := filepath.Join(parent, "race")
	err = AtomicDir(race, func(tmp string) error {
		if err := os.WriteFile(filepath.Join(tmp, "a"), nil, 0o644); err != nil {
			return err
		}
		return AtomicDir(race, func(tmp string) error { return os.WriteFile(filepath.Join(tmp, "b"), nil, 0o644) })
	})
	if !errors.Is(err, fs.ErrExist) {
		t.Fatalf("loser of the race: %v", err)
	}
	if _, err := os.Stat(filepath.Join(race, "b")); err != nil {
		t.Fatal("winner's folder is gone")
	}
	if err := RemoveDir(race); err != nil {
		t.Fatal(err)
	}
	if err := RemoveDir(race); err != nil {
		t.Fatalf("removing an absent folder: %v", err)
	}
}

func TestRemoveTemp(t *testing.T) {
	dir := t.TempDir()
	for _, p := range []string{"a/.tmp-x-1/f", "a/keep", ".tmp-file"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, p)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, p), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := RemoveTemp(dir); err != nil {
		t.Fatal(err)
	}
	noLeftovers(t, dir)
	noLeftovers(t, filepath.Join(dir, "a"))
	if _, err := os.Stat(filepath.Join(dir, "a", "keep")); err != nil {
		t.Fatal(err)
	}
}

func TestReadJSONNamesTheLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "manifest.json")
	if err := os.WriteFile(path, []byte("{\n  \"run\": \"x\",\n  \"executors\": \"two\"\n}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	var m Manifest
	if err := ReadJSON(path, &m); err == nil || !strings.Contains(err.Error(), "manifest.json:3:") {
		t.Fatalf("got %v", err)
	}
}

func TestLockBetweenProcesses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "study", "lock")
	cmd := helper(t, "hold-lock", path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	_, err = Lock(path)
	var locked *LockedError
	if !errors.As(err, &locked) || locked.Holder.PID != cmd.Process.Pid || locked.Holder.Host == "" {
		t.Fatalf("got %v", err)
	}
	if !strings.Contains(err.Error(), "kill") {
		t.Fatalf("no remedy in %q", err)
	}
	if _, held, err := Locked(path); err != nil || !held {
		t.Fatalf("Locked: %v %v", held, err)
	}
	// Death by SIGKILL frees the lock.
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	l, err := Lock(path)
	if err != nil {
		t.Fatalf("after death: %v", err)
	}
	if _, err := Lock(path); !errors.As(err, &locked) || locked.Holder.PID != os.Getpid() {
		t.Fatalf("second lock in the same process: %v", err)
	}
	if err := l.Unlock(); err != nil {
		t.Fatal(err)
	}
	if _, held, err := Locked(path); err != nil || held {
		t.Fatalf("after unlock: %v %v", held, err)
	}
	if _, held, err := Locked(filepath.Join(t.TempDir(), "absent")); err != nil || held {
		t.Fatalf("absent lock: %v %v", held, err)
	}
}

func openJournal(t *testing.T, path string) *Journal {
	t.Helper()
	j, err := OpenJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	j.now = func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }
	t.Cleanup(func() { j.Close() })
	return j
}

func TestJournalTornLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s", "journal.jsonl")
	if events, err := ReadJournal(path); err != nil || events != nil {
		t.Fatalf("missing journal: %v %v", events, err)
	}
	j := openJournal(t, path)
	for _, e := range []Event{{Run: "a", Event: Planned}, {Run: "a", Event: Started, Attempt: 1}} {
		if err := j.Append(e); err != nil {
			t.Fatal(err)
		}
	}
	whole, _ := os.ReadFile(path)
	// Cut the file at every length: the reader gives the whole lines, the writer repairs and goes on.
	for cut := range len(whole) + 1 {
		p := filepath.Join(t.TempDir(), "journal.jsonl")
		if err := os.WriteFile(p, whole[:cut], 0o644); err != nil {
			t.Fatal(err)
		}
		before, err := ReadJournal(p)
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		jj := openJournal(t, p)
		if err := jj.Append(Event{Run: "b", Event: Failed, Attempt: 1, Message: "x"}); err != nil {
			t.Fatal(err)
		}
		after, err := ReadJournal(p)
		if err != nil || len(after) != len(before)+1 || after[len(after)-1].Run != "b" {
			t.Fatalf("cut at %d: %v then %v, %v", cut, before, after, err)
		}
	}
}

func TestJournalDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	good := `{"time":"2026-01-02T03:04:05Z","run":"a","event":"planned"}` + "\n"
	for name, text := range map[string]string{
		"middle":        good + "{\"time\"\n" + good,
		"unknown event": good + `{"run":"a","event":"exploded"}` + "\n",
		"no run":        good + `{"event":"done"}` + "\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadJournal(path); err == nil || !strings.Contains(err.Error(), "journal.jsonl:2:") {
			t.Errorf("%s: %v", name, err)
		}
	}
	j := openJournal(t, filepath.Join(t.TempDir(), "j"))
	if err := j.Append(Event{Run: "a", Event: "exploded"}); err == nil {
		t.Error("unknown event written")
	}
}

func TestJournalManyWriters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	var wg sync.WaitGroup
	for w := range 8 {
		j := openJournal(t, path)
		wg.Go(func() {
			for i := range 20 {
				if err := j.Append(Event{Run: string(rune('a' + w)), Event: Started, Attempt: i + 1}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	events, err := ReadJournal(path)
	if err != nil || len(events) != 160 {
		t.Fatalf("%d events, %v", len(events), err)
	}
	for run, s := range States(events) {
		if s.Attempt != 20 {
			t.Errorf("run %s: attempt %d", run, s.Attempt)
		}
	}
}

func TestStates(t *testing.T) {
	ev := func(run string, s Status, attempt int) Event {
		return Event{Run: run, Event: s, Attempt: attempt, Step: attempt}
	}
	seed := int64(7)
	states := States([]Event{
		{Run: "e", Event: Planned, Cell: "arm,axis=1", Seed: &seed}, ev("e", Started, 1),
		ev("a", Planned, 0), ev("a", Started, 1), ev("a", Failed, 1), ev("a", Planned, 0),
		ev("b", Started, 1), ev("b", Started, 2), ev("b", Failed, 1),
		ev("c", Done, 1), ev("c", Stale, 0), ev("c", Planned, 0),
		ev("d", Started, 1), ev("d", StoppedByGuard, 1),
	})
	want := map[string]State{
		"a": {Status: Failed, Attempt: 1, Step: 1},
		"b": {Status: Started, Attempt: 2, Step: 2},
		"c": {Status: Planned, Attempt: 1},
		"d": {Status: StoppedByGuard, Attempt: 1, Step: 1},
		"e": {Status: Started, Attempt: 1, Step: 1, Cell: "arm,axis=1", Seed: &seed},
	}
	if !reflect.DeepEqual(states, want) {
		t.Fatalf("got %+v", states)
	}
}

func TestStudyStatesFindsLostRuns(t *testing.T) {
	s := Study{Dir: t.TempDir()}
	j := openJournal(t, s.JournalPath())
	for _, id := range []string{"alive", "dead"} {
		if err := j.Append(Event{Run: id, Event: Started, Attempt: 1}); err != nil {
			t.Fatal(err)
		}
	}
	l, err := Lock(s.Run("alive").LockPath())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.Unlock(); err != nil {
			t.Error(err)
		}
	}()
	states, err := s.States()
	if err != nil || states["alive"].Status != Started || states["dead"].Status != Lost {
		t.Fatalf("%+v %v", states, err)
	}
}

func TestManifestDiff(t *testing.T) {
	a := Manifest{Digests: map[string]string{"dataset.train": "1", "index.x": "2", "gone": "3"}, Backend: "go",
		CPUFeatures: []string{"avx2", "fma"}, GoVersion: "go1.27", Executors: 1}
	b := a
	b.Digests = map[string]string{"dataset.train": "9", "index.x": "2", "new": "4"}
	b.CPUFeatures = []string{"fma", "avx2"} // the order is not a change
	b.Executors = 2
	var got []string
	for _, c := range Diff(a, b) {
		got = append(got, c.String())
	}
	want := []string{"dataset.train changed (now 9)", "gone is gone", "new is new", "executors changed (2, was 1)"}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("got %q", got)
	}
	if d := Diff(a, a); d != nil {
		t.Fatalf("same manifests differ: %v", d)
	}
	run := Run{Dir: t.TempDir()}
	if _, ok, err := run.ReadManifest(); ok || err != nil {
		t.Fatal(ok, err)
	}
	if err := run.WriteManifest(a); err != nil {
		t.Fatal(err)
	}
	back, ok, err := run.ReadManifest()
	if err != nil || !ok || !reflect.DeepEqual(a, back) {
		t.Fatalf("%+v %v", back, err)
	}
}

func writeMetrics(t *testing.T, a Attempt, from, to int) {
	t.Helper()
	w, err := OpenLines(a.MetricsPath(), false)
	if err != nil {
		t.Fatal(err)
	}
	for step := from; step <= to; step++ {
		if err := w.Append(MetricsLine{Step: step, Attempt: a.N, Values: Values{"loss": float64(step)}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

func checkpoint(t *testing.T, a Attempt, step int) Checkpoint {
	t.Helper()
	c, err := a.WriteCheckpoint(step, func(dir string) error {
		return os.WriteFile(filepath.Join(dir, "weights"), []byte{1}, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestDeletedAttempt: where parts of an attempt were deleted, the error says what to do.
func TestDeletedAttempt(t *testing.T) {
	run := Study{Dir: t.TempDir()}.Run("r1")
	a, err := run.NewAttempt(nil, AttemptInfo{})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(a.Dir, "attempt.json")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := run.LatestCheckpoint(); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "delete "+run.Dir+" too") {
		t.Errorf("got %v", err)
	}
}

func TestAttempts(t *testing.T) {
	study := Study{Dir: t.TempDir()}
	run := study.Run("r1")
	if _, ok, err := run.LatestCheckpoint(); ok || err != nil {
		t.Fatal("no folder yet", ok, err)
	}
	newAttempt := func(from *Checkpoint) Attempt {
		a, err := run.NewAttempt(from, AttemptInfo{})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	// 1: steps 1..5, checkpoints 2 and 4. 2: resumes from 4, dies at 7, checkpoint 6. 3: resumes from 6.
	a1 := newAttempt(nil)
	writeMetrics(t, a1, 1, 5)
	checkpoint(t, a1, 2)
	c4 := checkpoint(t, a1, 4)
	a2 := newAttempt(&c4)
	writeMetrics(t, a2, 5, 7)
	c6 := checkpoint(t, a2, 6)
	// What a killed writer leaves must not be seen.
	if err := os.MkdirAll(filepath.Join(a2.CheckpointsDir(), ".tmp-step-000008-1-1"), 0o755); err != nil {
		t.Fatal(err)
	}
	a3 := newAttempt(&c6)
	writeMetrics(t, a3, 7, 8)

	lines, err := ReadMetrics(run)
	if err != nil {
		t.Fatal(err)
	}
	var got [][2]int
	for _, l := range lines {
		got = append(got, [2]int{l.Step, l.Attempt})
	}
	want := [][2]int{{1, 1}, {2, 1}, {3, 1}, {4, 1}, {5, 2}, {6, 2}, {7, 3}, {8, 3}}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("metrics %v", got)
	}
	last, ok, err := run.LatestCheckpoint()
	if err != nil || !ok || last != c6 {
		t.Fatalf("latest %+v, %v", last, err)
	}
	if err := run.PruneCheckpoints(1, 2); err != nil {
		t.Fatal(err)
	}
	steps := func() (out []int) {
		all, err := run.Checkpoints()
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range all {
			out = append(out, c.Step)
		}
		return out
	}
	if s := steps(); !reflect.DeepEqual(s, []int{2, 6}) {
		t.Fatalf("after pruning: %v", s)
	}
	if run.PruneCheckpoints(0) == nil {
		t.Fatal("keep = 0 accepted")
	}
	// A fresh start drops all of the earlier history.
	a4 := newAttempt(nil)
	writeMetrics(t, a4, 1, 1)
	if lines, err := ReadMetrics(run); err != nil || len(lines) != 1 || lines[0].Attempt != 4 {
		t.Fatalf("%v %v", lines, err)
	}
	if s := steps(); s != nil {
		t.Fatalf("after a fresh start: %v", s)
	}
	if err := run.WriteManifest(Manifest{Run: "r1"}); err != nil {
		t.Fatal(err)
	}
	if runs, err := study.Runs(); err != nil || len(runs) != 1 || runs[0].ID != "r1" {
		t.Fatalf("%v %v", runs, err)
	}
}

func TestValuesRoundTrip(t *testing.T) {
	in := Values{"nan": math.NaN(), "inf": math.Inf(1), "minus": math.Inf(-1), "x": 0.1, "big": 1e300}
	data, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var out Values
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	if !math.IsNaN(out["nan"]) || !math.IsInf(out["inf"], 1) || !math.IsInf(out["minus"], -1) || out["x"] != 0.1 || out["big"] != 1e300 {
		t.Fatalf("%s -> %v", data, out)
	}
	for _, bad := range []string{`{"a":"seven"}`, `{"a":null}`, `{"a":[1]}`, `[1]`} {
		if json.Unmarshal([]byte(bad), &out) == nil {
			t.Errorf("accepted %s", bad)
		}
	}
}

func TestResultAndQuestions(t *testing.T) {
	run := Run{Dir: t.TempDir(), ID: "r"}
	qs := []QuestionResult{
		{ID: "q2", Gold: "g2", Hops: 2, Values: Values{"em": 0, "f1": 0.5}},
		{ID: "q1", Gold: "g1", Hops: 1, Values: Values{"em": 1, "f1": 1}, Answer: "a\nb"},
	}
	rel, err := run.WriteQuestions("test", qs)
	if err != nil {
		t.Fatal(err)
	}
	back, err := ReadQuestions(filepath.Join(run.Dir, rel))
	if err != nil || len(back) != 2 || back[0].ID != "q1" || !reflect.DeepEqual(back[1], qs[0]) {
		t.Fatalf("%v %v", back, err)
	}
	if _, err := run.WriteQuestions("test", append(qs, qs[0])); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("twice the same question: %v", err)
	}
	for _, bad := range []string{"", "../x", "a/b", ".hidden"} {
		if _, err := run.WriteQuestions(bad, qs); err == nil {
			t.Errorf("evaluation name %q accepted", bad)
		}
	}
	if _, ok, err := run.ReadResult(); ok || err != nil {
		t.Fatal(ok, err)
	}
	res := Result{Run: "r", Status: Done, Arm: "a", Axes: map[string]string{"group": "3"}, Cell: "a group=3", Seed: 1,
		Evaluations: []Evaluation{{Name: "test", N: 2, Metrics: Values{"em": 0.5}, Questions: rel}},
		Budgets:     Budgets{SampledTokens: 10}.Add(Budgets{SampledTokens: 5, WallSeconds: 1}), Attempts: 1}
	if err := run.WriteResult(res); err != nil {
		t.Fatal(err)
	}
	got, ok, err := run.ReadResult()
	if err != nil || !ok || !reflect.DeepEqual(got, res) {
		t.Fatalf("%+v %v", got, err)
	}
}

func FuzzReadJournal(f *testing.F) {
	good := `{"time":"2026-01-02T03:04:05Z","run":"a","event":"started","attempt":1}` + "\n"
	for _, s := range []string{"", good, good + good[:20], good + "\x00\x00", "\n\n" + good, `{"run":1}` + "\n", good[:len(good)-1]} {
		f.Add([]byte(s))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(dir, "journal.jsonl")
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		before, err := ReadJournal(path)
		if err != nil {
			return
		}
		// What the reader accepts, the writer can continue without losing an event.
		j, err := OpenJournal(path)
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		if err := j.Append(Event{Run: "z", Event: Done, Attempt: 1}); err != nil {
			t.Fatal(err)
		}
		after, err := ReadJournal(path)
		if err != nil || len(after) != len(before)+1 {
			t.Fatalf("%d events before, %d after, %v", len(before), len(after), err)
		}
	})
}
