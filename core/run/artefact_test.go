package run

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forage-rl/forage/core/experiment"
	"github.com/forage-rl/forage/core/record"
	"github.com/forage-rl/forage/core/sdk/episode"
)

func question(id string) episode.Question {
	return episode.Question{ID: id, Text: "who ?", Answers: []string{"x"}, Metadata: map[string]any{"own": 1.}}
}

// TestTableMerges: what later steps and later tables say of a question counts, and nothing else is lost.
func TestTableMerges(t *testing.T) {
	merged := mergeTable([]line{
		{Question: question("b"), Values: map[string]any{"tau": 1., "first": true}},
		{Question: question("a"), Values: map[string]any{"tau": 2.}},
		{Question: question("b"), Values: map[string]any{"tau": 3.}},
	})
	want := []line{
		{Question: question("a"), Values: map[string]any{"tau": 2.}},
		{Question: question("b"), Values: map[string]any{"tau": 3., "first": true}},
	}
	if diff := cmp.Diff(want, merged); diff != "" {
		t.Error(diff)
	}
	notes := annotations{"a": {"tau": 2.}}
	q := question("a")
	got := notes.add(q)
	if diff := cmp.Diff(map[string]any{"own": 1., "tau": 2.}, got.Metadata); diff != "" {
		t.Error(diff)
	}
	if len(q.Metadata) != 1 {
		t.Error("the dataset's own question was changed")
	}
	if got := notes.add(question("b")); len(got.Metadata) != 1 {
		t.Errorf("a question without annotations got %v", got.Metadata)
	}
}

// TestArtefactFiles: equal lines give equal bytes, and a file that was changed or cut is refused.
func TestArtefactFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "artefacts", "x.jsonl.zst")
	lines := []line{
		{Question: question("a"), Episode: &stored{Episode: episode.Episode{ID: "e"}, Tokens: [][]int32{{1, 2}}, LogProbs: [][]float32{{0, -.1}}}},
		{Question: question("b"), Values: map[string]any{"text": "<\u2028>", "tau": .1}},
	}
	digest, err := writeLines(path, lines)
	if err != nil {
		t.Fatal(err)
	}
	first, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got, err := readLines(path, digest)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(lines, got); diff != "" {
		t.Error(diff)
	}
	if again, err := writeLines(path, got); err != nil || again != digest {
		t.Errorf("written again: %v, digest %s, before %s", err, again, digest)
	}
	second, err := os.ReadFile(path)
	if err != nil || !slices.Equal(first, second) {
		t.Errorf("written again the bytes differ (%v)", err)
	}
	if _, err := readLines(path, "0"+digest[1:]); err == nil || !strings.Contains(err.Error(), "not what the run wrote") {
		t.Errorf("another file: %v", err)
	}
	if err := os.WriteFile(path, first[:len(first)-3], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readLines(path, digest); err == nil {
		t.Error("a cut file must be refused")
	}
	if _, err := writeLines(path, []line{{Question: question("n"), Values: map[string]any{"tau": math.NaN()}}}); err == nil || !strings.Contains(err.Error(), `question "n"`) {
		t.Errorf("a value that is no number: %v", err)
	}
}

// TestWeightsOf: a state right after a stage has that stage's weights.
func TestWeightsOf(t *testing.T) {
	for _, c := range []struct {
		state state
		want  int
	}{{state{}, -1}, {state{Stage: 0, Step: 3}, 0}, {state{Stage: 1}, 0}, {state{Stage: 2, Step: 1}, 2}} {
		if got := c.state.stage(); got != c.want {
			t.Errorf("%+v: stage %d, want %d", c.state, got, c.want)
		}
	}
}

// TestSeveralDatasets: a dataset of several has the questions of each, filtered and limited, and refuses ids that come
// twice, streams, and what no stage has written.
func TestSeveralDatasets(t *testing.T) {
	r := newResources(&experiment.Run{}, t.TempDir(), nil)
	r.artefact = (&runner{}).fromArtefact
	train := &experiment.Dataset{Handle: "dataset.train", Builtin: "minihop", Split: "train", Seed: new(int64)}
	test := &experiment.Dataset{Handle: "dataset.test", Builtin: "minihop", Split: "test", Seed: new(int64), Hops: []int{3}}
	seed := int64(4)
	open := func(d *experiment.Dataset) (*questions, error) { return r.questions(t.Context(), d, nil) }

	all, err := open(&experiment.Dataset{Handle: "dataset.all", Concat: []*experiment.Dataset{train, test}})
	if err != nil {
		t.Fatal(err)
	}
	first, err := open(train)
	if err != nil {
		t.Fatal(err)
	}
	if all.Len() <= first.Len() || all.Questions()[0].ID != first.Questions()[0].ID {
		t.Errorf("%d questions, %d of them of the first dataset", all.Len(), first.Len())
	}
	for _, q := range all.Questions()[first.Len():] {
		if q.Hops != 3 {
			t.Errorf("question %s of %d hops", q.ID, q.Hops)
		}
	}
	drawn, err := open(&experiment.Dataset{Handle: "dataset.drawn", Concat: []*experiment.Dataset{train, test}, Limit: 7, Seed: &seed})
	if err != nil || drawn.Len() != 7 || drawn.Questions()[0].ID == first.Questions()[0].ID {
		t.Errorf("7 drawn questions: %v", err)
	}
	stream := &experiment.Dataset{Handle: "dataset.stream", Builtin: "minihop", Split: "stream", World: &experiment.World{Phase: "habit", PerWorld: 8}}
	for want, parts := range map[string][]*experiment.Dataset{
		"ids must be unique":  {train, train},
		"a stream cannot be":  {train, stream},
		"no stage of the run": {train, {Handle: "artefact.x", Artefact: "x"}},
		"dataset.nowhere":     {{Handle: "dataset.nowhere", Path: "nowhere.jsonl"}},
		"holds no questions":  {{Handle: "dataset.none", Builtin: "minihop", Split: "train", Seed: new(int64), Hops: []int{9}}},
	} {
		if _, err := open(&experiment.Dataset{Handle: "dataset.wrong", Concat: parts}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if got := inputs(&experiment.Dataset{Concat: []*experiment.Dataset{train, {Artefact: "x"}}}); len(got) != 1 || got[0] != train {
		t.Errorf("what exists before the run: %v", got)
	}
}

// TestAttemptOf: the work of a step counts where it was not done again after resuming.
func TestAttemptOf(t *testing.T) {
	dir := record.OpenRun(t.TempDir())
	attempt := func(from *record.Checkpoint) record.Attempt {
		t.Helper()
		a, err := dir.NewAttempt(from, record.AttemptInfo{})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	if _, ok, err := dir.AttemptOf(1); ok || err != nil {
		t.Errorf("no attempt: %v %v", ok, err)
	}
	attempt(nil)
	attempt(&record.Checkpoint{Attempt: 1, Step: 4})
	attempt(&record.Checkpoint{Attempt: 2, Step: 6})
	for step, want := range map[int]int{1: 1, 4: 1, 5: 2, 6: 2, 7: 3, 9: 3} {
		if a, ok, err := dir.AttemptOf(step); err != nil || !ok || a.N != want {
			t.Errorf("step %d: attempt %d (%v), want %d", step, a.N, err, want)
		}
	}
}
