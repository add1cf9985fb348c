package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forage-rl/forage/core/run"
)

func testPainter(terminal bool) (*painter, *bytes.Buffer, *time.Time) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	out := &bytes.Buffer{}
	return &painter{out: out, terminal: terminal, width: 100, now: func() time.Time { return now }}, out, &now
}

// TestPlainProgress: without a terminal, lines come at even shares of the steps, with the figures and the time left.
func TestPlainProgress(t *testing.T) {
	p, out, now := testPainter(false)
	p.name("r1", "grpo seed 0")
	p.progress("r1", run.Progress{Phase: "reading corpus.wiki", Done: 0, Total: 9})
	p.progress("r1", run.Progress{Phase: "reading corpus.wiki", Done: 9, Total: 9})
	for step := 1; step <= 60; step++ {
		*now = now.Add(time.Second)
		p.progress("r1", run.Progress{Phase: "training", Stage: "main", Step: step, Of: 60, Metrics: map[string]float64{
			"episode/reward": .5, "episode/em": .25, "episode/searches": 1.5, "train/grpo/loss": .125, "train/grpo/grad_norm": 3,
		}})
	}
	p.progress("r1", run.Progress{Phase: "evaluated test", Step: 60, Metrics: map[string]float64{"em": .5, "searches": 2}})
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 1+21+1 { // the first step, every third, the evaluation
		t.Errorf("%d lines:\n%s", len(lines), out)
	}
	want := []string{
		"grpo seed 0: reading corpus.wiki 0/9",
		"grpo seed 0: main 1/60  reward 0.500  em 0.250  searches 1.50  loss 0.1250",
		"grpo seed 0: main 3/60  reward 0.500  em 0.250  searches 1.50  loss 0.1250  ETA 57s",
		"grpo seed 0: main 60/60  reward 0.500  em 0.250  searches 1.50  loss 0.1250",
		"grpo seed 0: step 60, test  em 0.500  searches 2.000",
	}
	got := append(lines[:3:3], lines[len(lines)-2:]...)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestProgressAcrossPhases: an evaluation between training steps neither starts the training's time anew nor is told each
// time.
func TestProgressAcrossPhases(t *testing.T) {
	p, out, now := testPainter(false)
	for step := 1; step <= 4; step++ {
		*now = now.Add(time.Second)
		p.progress("a", run.Progress{Phase: "training", Stage: "main", Step: step, Of: 4, Metrics: map[string]float64{"episode/em": 1}})
		*now = now.Add(3 * time.Second)
		p.progress("a", run.Progress{Phase: "evaluating test", Done: 0, Total: 10})
	}
	want := "a: main 1/4  em 1.000\na: evaluating test 0/10\na: main 2/4  em 1.000  ETA 8s\na: main 3/4  em 1.000  ETA 4s\na: main 4/4  em 1.000\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

// TestSlowProgress: steps that take long are told one by one.
func TestSlowProgress(t *testing.T) {
	p, out, now := testPainter(false)
	for step := 1; step <= 5; step++ {
		*now = now.Add(time.Minute)
		p.task("r1", "main", step, 1000)
	}
	if n := strings.Count(out.String(), "\n"); n != 5 {
		t.Errorf("%d lines of 5 slow steps:\n%s", n, out)
	}
	wantAll(t, out.String(), "main 5/1000  ETA 16h35m")
}

// TestBars: on a terminal each running task has one line at the bottom, which is painted over; what is said stays above.
func TestBars(t *testing.T) {
	p, out, now := testPainter(true)
	screen := newScreen()
	step := func(f func()) []string {
		*now = now.Add(time.Second)
		f()
		screen.write(t, out.String())
		out.Reset()
		return screen.lines
	}
	step(func() { p.task("a", "main", 1, 10) })
	got := step(func() { p.task("b", "main", 5, 10) })
	if len(got) != 2 || !strings.HasPrefix(got[0], "a: main  10%") || !strings.HasPrefix(got[1], "b: main  50%") {
		t.Errorf("two tasks: %q", got)
	}
	got = step(func() { p.say("hello") })
	if len(got) != 3 || got[0] != "hello" {
		t.Errorf("a line above: %q", got)
	}
	got = step(func() { p.task("a", "main", 2, 10) })
	if len(got) != 3 || !strings.Contains(got[1], "(2/10)") || !strings.Contains(got[1], "ETA 24s") {
		t.Errorf("painted over: %q", got)
	}
	got = step(func() { p.end("a") })
	if len(got) != 2 || !strings.HasPrefix(got[1], "b:") {
		t.Errorf("after the end of one: %q", got)
	}
	got = step(p.close)
	if diff := cmp.Diff([]string{"hello"}, got); diff != "" {
		t.Error(diff)
	}
	p.task("b", "main", 6, 10)
	if out.Len() > 0 {
		t.Errorf("a closed painter wrote %q", out)
	}
	p, out, now = testPainter(true)
	*now = now.Add(time.Second)
	p.task("a", strings.Repeat("long ", 50), 1, 10)
	for line := range strings.Lines(out.String()) {
		if n := len([]rune(strings.TrimPrefix(line, "\r\x1b[J"))); n > 100 {
			t.Errorf("a line of %d characters on a terminal of 100", n)
		}
	}
}

// screen is a terminal that knows what the painter uses: going up, erasing below, ends of lines.
type screen struct {
	lines []string
	row   int
}

func newScreen() *screen { return &screen{} }

func (s *screen) write(t *testing.T, text string) {
	t.Helper()
	for text != "" {
		var up int
		switch {
		case strings.HasPrefix(text, "\x1b[J"):
			s.lines = s.lines[:s.row]
			text = text[3:]
		case strings.HasPrefix(text, "\x1b["):
			if n, err := fmt.Sscanf(text, "\x1b[%dA", &up); n != 1 || err != nil {
				t.Fatalf("unknown escape in %q", text)
			}
			s.row -= up
			text = text[strings.IndexByte(text, 'A')+1:]
		case text[0] == '\r':
			text = text[1:]
		default:
			line, rest, ended := strings.Cut(text, "\n")
			if !ended {
				t.Fatalf("a line without an end: %q", text)
			}
			s.lines = append(s.lines[:s.row], line)
			s.row++
			text = rest
		}
	}
}

func TestFiguresNameTheirLosses(t *testing.T) {
	one := map[string]float64{"episode/reward": 1, "train/grpo/loss": .5, "train/grpo/kl/loss": 3}
	if got := figures(one); got != "reward 1.000  loss 0.5000" {
		t.Errorf("one objective: %q", got)
	}
	two := map[string]float64{"train/ppo/loss": .5, "train/critic/loss": .25}
	if got := figures(two); got != "loss of critic 0.2500  loss of ppo 0.5000" {
		t.Errorf("two objectives: %q", got)
	}
}
