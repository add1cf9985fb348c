package run

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forage-rl/forage/core/dataset"
	"github.com/forage-rl/forage/core/experiment"
	"github.com/forage-rl/forage/core/host"
	"github.com/forage-rl/forage/core/internal/rng"
	"github.com/forage-rl/forage/core/internal/testschemas"
	"github.com/forage-rl/forage/core/policy/checkpoint"
	"github.com/forage-rl/forage/core/record"
	"github.com/forage-rl/forage/core/rollout"
	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
)

func trainQuestions(t *testing.T) *questions {
	t.Helper()
	data, err := dataset.Open(t.Context(), dataset.Spec{Builtin: "minihop", MiniHop: dataset.MiniHop{Split: "train", World: 1}})
	if err != nil {
		t.Fatal(err)
	}
	return &questions{Dataset: data, digest: data.Digest()}
}

func ids(list []drawn) []string {
	var out []string
	for _, q := range list {
		out = append(out, q.ID)
	}
	return out
}

// TestCursor: a pass asks every question once, the next one in another order, and the position alone brings a cursor
// to where it was.
func TestCursor(t *testing.T) {
	data := trainQuestions(t)
	open := func(shuffle bool, hops []int) *cursor {
		c, err := newCursor(data, hops, shuffle, rng.New(3))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	draw := func(c *cursor, n int) []string {
		list, err := c.draw(n)
		if err != nil {
			t.Fatal(err)
		}
		return ids(list)
	}
	n := data.Len()
	c := open(true, nil)
	first, second := draw(c, n), draw(c, n)
	if slices.Equal(first, second) {
		t.Error("every pass needs an order of its own")
	}
	for _, pass := range [][]string{first, second} {
		sorted := slices.Sorted(slices.Values(pass))
		if len(slices.Compact(sorted)) != n {
			t.Error("a pass must ask every question once")
		}
	}
	for _, position := range []int{0, 7, n - 1, n, n + 13} {
		again := open(true, nil)
		again.position = position
		if want := append(slices.Clone(first), second...)[position : position+5]; !slices.Equal(draw(again, 5), want) {
			t.Errorf("from position %d: other questions", position)
		}
	}
	if got := draw(open(false, nil), 3); got[0] != data.Questions()[0].ID {
		t.Errorf("the given order starts with %v", got)
	}
	c = open(true, []int{3})
	list, err := c.draw(40)
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range list {
		if q.Hops != 3 {
			t.Errorf("question %s has %d hops", q.ID, q.Hops)
		}
	}
	if _, err := newCursor(data, []int{9}, true, rng.New(1)); err == nil {
		t.Error("a filter that leaves nothing must be refused")
	}
}

func TestRowsFollowMemory(t *testing.T) {
	tiny := checkpoint.Config{Layers: 3, KVHeads: 4, HeadDim: 16}
	if got := rowsFor(tiny, 256, cacheBytes); got != mostRows {
		t.Errorf("a small model takes %d rows", got)
	}
	large := checkpoint.Config{Layers: 28, KVHeads: 8, HeadDim: 128}
	rows := rowsFor(large, 8192, cacheBytes)
	if bytes := rows * 2 * 28 * 8 * 128 * 4 * 8192; rows < 1 || rows > 1 && bytes > cacheBytes {
		t.Errorf("%d rows take %d bytes", rows, bytes)
	}
}

type scores []sdk.Score

func (s scores) Score(context.Context, sdk.ScoreRequest) (sdk.ScoreResponse, error) {
	return sdk.ScoreResponse{Scores: s}, nil
}

type failing struct{ error }

func (f failing) Score(context.Context, sdk.ScoreRequest) (sdk.ScoreResponse, error) {
	return sdk.ScoreResponse{}, f
}

// TestScoresAreChecked: what a reward gets wrong is an error that names it, the episode and the question.
func TestScoresAreChecked(t *testing.T) {
	ep := &rollout.Episode{ID: "e1", QuestionID: "q1", Turns: make([]episode.Turn, 2)}
	config := &experiment.Reward{Sources: []experiment.Source{{Name: "outcome", Plugin: &experiment.Plugin{Label: "em"}}}}
	for name, test := range map[string]struct {
		reward sdk.Reward
		want   []string
	}{
		"none":      {scores{}, []string{`reward "outcome" (em)`, "0 scores for 1 episodes"}},
		"too many":  {scores{{}, {}}, []string{"2 scores for 1 episodes"}},
		"nan":       {scores{{Value: math.NaN()}}, []string{`reward "outcome"`, "NaN to episode e1 of question q1"}},
		"infinite":  {scores{{Value: math.Inf(1)}}, []string{"+Inf"}},
		"component": {scores{{Components: map[string]float64{"format": math.NaN()}}}, []string{`component "format"`}},
		"turns":     {scores{{Turns: []float64{1}}}, []string{"1 scores of turns", "has 2 turns"}},
		"turn nan":  {scores{{Turns: []float64{1, math.NaN()}}}, []string{"turn 1 of episode e1"}},
		"failure":   {failing{errors.New("out of reach")}, []string{`reward "outcome": out of reach`}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &scorer{config: config, sources: []sdk.Reward{test.reward}}
			err := s.score(t.Context(), []*rollout.Episode{ep}, map[string]episode.Question{"q1": {ID: "q1"}}, false)
			for _, want := range test.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q", err, want)
				}
			}
		})
	}
	var none *scorer
	if err := none.score(t.Context(), []*rollout.Episode{ep}, nil, false); err != nil {
		t.Errorf("a stage without rewards: %v", err)
	}
}

// TestEpisodeFiles: what is written is read, and a step that was done again after resuming is read from the attempt
// that counts.
func TestEpisodeFiles(t *testing.T) {
	dir := record.OpenRun(t.TempDir())
	write := func(a record.Attempt, step int, answer string) {
		t.Helper()
		ep := &rollout.Episode{ID: "e", QuestionID: "q", Answer: &answer, Tokens: [][]int32{{1, 2}}, LogProbs: [][]float32{{0, -1.5}}}
		if _, err := writeEpisodes(a.EpisodesDir(), step, "main", []*rollout.Episode{ep}, map[string]sdk.UsedReward{"e": {Value: 2}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	one, err := dir.NewAttempt(nil, record.AttemptInfo{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := one.WriteCheckpoint(1, func(string) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	write(one, 1, "first")
	write(one, 2, "lost")
	write(one, 3, "lost")
	two, err := dir.NewAttempt(&c, record.AttemptInfo{})
	if err != nil {
		t.Fatal(err)
	}
	write(two, 2, "again")
	for step, want := range map[int]string{1: "first", 2: "again"} {
		list, err := ReadEpisodes(dir, step)
		if err != nil {
			t.Fatal(err)
		}
		if len(list) != 1 || *list[0].Answer != want || *list[0].UsedReward != 2 || list[0].LogProbs[0][1] != -1.5 || list[0].Step != step {
			t.Errorf("step %d: got %+v", step, list)
		}
	}
	if _, err := ReadEpisodes(dir, 3); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("step 3 was lost: %v", err)
	}
	steps, err := Steps(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int{1, 2}, steps); diff != "" {
		t.Error(diff)
	}
}

// TestCallsOfContinuedEpisodes: calls in turns that an episode took over belong to the one it continues.
func TestCallsOfContinuedEpisodes(t *testing.T) {
	call := episode.Turn{Action: episode.ActionCall, Executed: true}
	turns := []episode.Turn{call, call, {Action: episode.ActionCall}, {Action: episode.ActionInvalid, Executed: true}, call}
	for _, test := range []struct {
		parent *episode.Branch
		want   int
	}{{nil, 3}, {&episode.Branch{AfterTurn: -1}, 3}, {&episode.Branch{AfterTurn: 0}, 2}, {&episode.Branch{AfterTurn: 2}, 1}, {&episode.Branch{AfterTurn: 4}, 0}} {
		if got := calls(&rollout.Episode{Turns: turns, Parent: test.parent}); got != test.want {
			t.Errorf("continued from %+v: %d calls, want %d", test.parent, got, test.want)
		}
	}
}

// TestTransport: a step has waited for its own calls, whatever those of earlier stages took, and for the slowest reward.
func TestTransport(t *testing.T) {
	stats := func(algorithm, first, second, earlier time.Duration) []host.Stats {
		return []host.Stats{
			{Instance: "algorithm", Kind: sdk.KindAlgorithm, Transport: algorithm}, {Instance: "first", Kind: sdk.KindReward, Transport: first},
			{Instance: "second", Kind: sdk.KindReward, Transport: second}, {Instance: "earlier", Kind: sdk.KindReward, Transport: earlier},
		}
	}
	if got := transport(stats(1, 7, 2, 100), stats(4, 9, 7, 100)); got != 3+5 {
		t.Errorf("waited %d, want 8", got)
	}
	if got := transport(nil, stats(1, 2, 3, 0)); got != 1+3 {
		t.Errorf("waited %d, want 4", got)
	}
}

// TestCallsDuringAStep: calls of an algorithm come one after the other, the end of its step waits for one that is under way,
// and afterwards there is nothing to call.
func TestCallsDuringAStep(t *testing.T) {
	h := &algorithmHost{}
	st := &step{metrics: map[string]float64{}}
	h.enter(st)
	if _, err := during(h, func(*step) (int, error) {
		if h.mu.TryLock() {
			t.Error("nothing keeps others from the step during a call")
		}
		return 0, nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := h.Metrics(t.Context(), map[string]float64{"a": 1}); err != nil || st.metrics["a"] != 1 {
		t.Errorf("metrics %v, error %v", st.metrics, err)
	}
	h.enter(nil)
	if err := h.Metrics(t.Context(), map[string]float64{"a": 2}); !errors.Is(err, sdk.ErrInvalidRequest) || st.metrics["a"] != 1 {
		t.Errorf("after the step: metrics %v, error %v", st.metrics, err)
	}
}

// TestPauseWithoutCheckpoint: a run that is asked to stop and cannot write its checkpoint has failed; it is not one that
// stopped and can go on.
func TestPauseWithoutCheckpoint(t *testing.T) {
	dir := record.OpenRun(t.TempDir())
	attempt, err := dir.NewAttempt(nil, record.AttemptInfo{})
	if err != nil {
		t.Fatal(err)
	}
	// A file where checkpoints go: nothing can be written there.
	if err := errors.Join(os.RemoveAll(attempt.Dir), os.WriteFile(attempt.Dir, nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	pause := make(chan struct{})
	close(pause)
	r := newRunner(Options{Config: &experiment.Run{}, Dir: dir, Pause: pause})
	r.attempt = attempt
	s := &stage{run: r, config: &experiment.Stage{Name: "main", Steps: 3}}
	if err := s.train(t.Context()); err == nil || errors.Is(err, ErrPaused) || !strings.Contains(err.Error(), "stopping on request") {
		t.Errorf("got %v", err)
	}
}

func TestChosenMetrics(t *testing.T) {
	got := chosen(map[string]float64{"em": 1, "em_hop2": 2, "f1": 3, "evidence_all": 4}, []string{"em", "evidence_all"})
	if diff := cmp.Diff(map[string]float64{"em": 1, "em_hop2": 2, "evidence_all": 4}, got); diff != "" {
		t.Error(diff)
	}
}

// TestUnmeasured: a metric that no evaluation measures is refused before the first run, and a near one is named.
func TestUnmeasured(t *testing.T) {
	if diags := unmeasured(&experiment.Evaluation{Name: "test", Metrics: experiment.DefaultMetrics}); len(diags) > 0 {
		t.Error(diags)
	}
	diags := unmeasured(&experiment.Evaluation{Name: "test", Metrics: []string{"em", "serches"}})
	if len(diags) != 1 || !strings.Contains(diags[0].Detail, `"serches", which no evaluation measures. Did you mean "searches"?`) {
		t.Errorf("got %v", diags)
	}
}

// TestSilence: a reward source that gave nothing but 0 in a whole stage, and a guard whose metric no step measured, are
// told of; those that did their work are not.
func TestSilence(t *testing.T) {
	dir := t.TempDir()
	study := `
policy "p" {
  path = "model"
}
dataset "d" {
  path = "questions.jsonl"
}
agent "a" {
  user = "${question.text}"
  protocol "tags" {
    call        = { open = "<search>", close = "</search>" }
    observation = { open = "<information>", close = "</information>" }
    answer      = { open = "<answer>", close = "</answer>" }
  }
}
experiment "e" {
  seeds    = [1]
  policies = { main = policy.p }
  agent    = agent.a
  train    = dataset.d
  optimizer "adamw" {
    learning_rate = 1
  }
  reward {
    source "keys" {
      reward "exact-match" {}
    }
    source "steps" {
      reward "exact-match" {}
    }
    source "answer" {
      reward "exact-match" {}
    }
    total = keys.value + answer.components["closed"]
  }
  stage "main" {
    algorithm "sft" {}
    steps     = 1
    questions = 1
  }
  guard "misspelt" {
    when = metrics["episode/serches"] < 1
  }
  guard "right" {
    when = metrics["episode/searches"] < 0
  }
}
`
	if err := os.WriteFile(filepath.Join(dir, "main.hcl"), []byte(study), 0o644); err != nil {
		t.Fatal(err)
	}
	loaded, diags := experiment.Load(t.Context(), dir, experiment.Inputs{}, &testschemas.Source{})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	ablation, diags := loaded.Ablation("")
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	config, diags := loaded.Resolve(ablation, ablation.Arms[0], nil, 1)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	r := &runner{config: config, log: slog.New(slog.DiscardHandler)}
	s := &stage{run: r, config: r.config.Stages[0]}
	episodes := func(leaves map[string]episode.Leaf) []*rollout.Episode {
		return []*rollout.Episode{{Episode: episode.Episode{Rewards: episode.Rewards{Leaves: leaves}}}}
	}
	s.noteScores(episodes(map[string]episode.Leaf{"keys": {Components: map[string]float64{"queries": 2}}, "steps": {Turns: []float64{0, 1}}, "answer": {Components: map[string]float64{"closed": 1, "em": 0}}}))
	s.noteScores(episodes(map[string]episode.Leaf{"keys": {}, "steps": {}, "answer": {}}))
	s.warnOfSilence()
	if w := r.state.Warnings; len(w) != 1 || !strings.Contains(w[0], `stage "main": the reward keys was 0 for every episode`) || !strings.Contains(w[0], "reward/exact-match") {
		t.Errorf("got %q", w)
	}
	r.state.Warnings, r.state.Scored = nil, nil
	s.noteScores(episodes(map[string]episode.Leaf{"answer": {Value: 1, Components: map[string]float64{"closed": 0}}}))
	s.warnOfSilence()
	if w := r.state.Warnings; len(w) != 1 || !strings.Contains(w[0], `the reward answer.components["closed"] was 0`) {
		t.Errorf("got %q", w)
	}
	if _, err := r.guards("main", map[string]float64{"episode/searches": 1}); err != nil {
		t.Fatal(err)
	}
	if w := r.unwatched(); len(w) != 1 || !strings.Contains(w[0], `never looked: no step measured all of episode/serches; did you mean "episode/searches"?`) {
		t.Errorf("got %q", w)
	}
}

// TestUnknownExperts: experts of questions that are not trained on are counted, and the first one's place is told.
func TestUnknownExperts(t *testing.T) {
	dir := t.TempDir()
	open := func(name, lines string) *dataset.Dataset {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(lines), 0o644); err != nil {
			t.Fatal(err)
		}
		d, err := dataset.Open(t.Context(), dataset.Spec{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	line := func(id, expert string) string {
		return fmt.Sprintf(`{"id": %q, "question": "who ?", "answers": ["x"], "expert": %q}`+"\n", id, expert)
	}
	train := open("train.jsonl", line("a", "")+line("b", ""))
	for _, test := range []struct {
		experts string
		want    unknown
	}{
		{line("a", "<answer> x </answer>") + line("b", "<answer> x </answer>"), unknown{of: 2}},
		{line("a", "<answer> x </answer>") + line("c", "") + line("d", "<answer> x </answer>") + line("e", "<answer> x </answer>"), unknown{2, 3, "d", "experts.jsonl:3"}},
	} {
		got, err := unknownExperts(open("experts.jsonl", test.experts), train)
		if err != nil {
			t.Fatal(err)
		}
		got.place = strings.TrimPrefix(got.place, dir+"/")
		if got != test.want {
			t.Errorf("got %+v, want %+v", got, test.want)
		}
	}
	if got, err := unknownExperts(train, train); err != nil || got != (unknown{}) {
		t.Errorf("a dataset that brings its own experts: %+v, %v", got, err)
	}
}

// TestEveryEpisodeHasItsOwnNumbers: episodes of a question differ from each other, and so do those that branch from one
// point, be it the root, and the same in another step.
func TestEveryEpisodeHasItsOwnNumbers(t *testing.T) {
	root, later := &episode.Branch{EpisodeID: "main.0.q.0", AfterTurn: -1}, &episode.Branch{EpisodeID: "main.0.q.0", AfterTurn: 0}
	seen := map[uint64]string{}
	for number := range 2 {
		st := &step{stage: &stage{config: &experiment.Stage{Name: "main"}}, number: number, key: rng.New(7).With(uint64(number)), draws: map[string]uint64{}}
		for _, q := range []string{"q", "r"} {
			for _, from := range []*episode.Branch{nil, nil, root, root, later, later} {
				id, key := st.identify(q, from)
				if other, taken := seen[key.Uint64(0)]; taken || other == id {
					t.Errorf("episode %s has the numbers of %s", id, other)
				}
				seen[key.Uint64(0)] = id
			}
		}
	}
	// The numbers depend on what was asked of the question alone.
	st := &step{stage: &stage{config: &experiment.Stage{Name: "main"}}, key: rng.New(7).With(0), draws: map[string]uint64{"q": 3}}
	if id, key := st.identify("r", nil); id != "main.0.r.0" || seen[key.Uint64(0)] != id {
		t.Errorf("%s has other numbers than before", id)
	}
}

// TestAbsurdRequest: more episodes than memory holds are refused before they are laid out.
func TestAbsurdRequest(t *testing.T) {
	for _, n := range []int{-1, 0, maxEpisodes + 1, 1 << 40} {
		_, err := (&step{}).jobs(t.Context(), sdk.RolloutRequest{RequestID: "a", QuestionID: "q", N: n})
		if !errors.Is(err, sdk.ErrInvalidRequest) || !strings.Contains(err.Error(), fmt.Sprintf("asks for %d episodes", n)) {
			t.Errorf("%d episodes: %v", n, err)
		}
	}
}
