package main

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/schollz/progressbar/v3"

	"github.com/forage-rl/forage/core/run"
)

// painter shows what is going on: on a terminal one line with a bar per running task, below everything else that is
// printed; elsewhere plain lines, seldom enough to read. It is safe for concurrent use.
type painter struct {
	out      io.Writer
	terminal bool
	width    int
	now      func() time.Time

	mu      sync.Mutex
	tasks   []*task // running, in order of their start
	painted int     // lines at the bottom of the terminal
	drawn   time.Time
	closed  bool
}

// task is a line of the painter.
type task struct {
	id, name string

	what        string // phase
	done, total int
	note        string // figures after the bar
	bar         *progressbar.ProgressBar

	counts map[string]*count // by phase: training goes on after an evaluation
	spoken time.Time         // of the last plain line
}

// count is a count of a phase that goes on.
type count struct {
	begun time.Time
	from  int // where it stood then
	last  int
	said  int // where it stood at the last plain line, -1 before the first
}

const (
	repaint   = 100 * time.Millisecond
	quietTime = 15 * time.Second // a plain line is due after it, whatever the count
	lines     = 20               // plain lines about one count
)

func newPainter(a *app) *painter {
	return &painter{out: a.out, terminal: a.terminal, width: a.width, now: time.Now}
}

// name gives a task the name that people see.
func (p *painter) name(id, name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.find(id).name = name
}

func (p *painter) find(id string) *task {
	for _, t := range p.tasks {
		if t.id == id {
			return t
		}
	}
	t := &task{id: id, name: id}
	p.tasks = append(p.tasks, t)
	return t
}

// task tells how far a task is; a total of 0 means that there is nothing to count.
func (p *painter) task(id, what string, done, total int) { p.update(id, what, done, total, "") }

// progress tells how far a run is.
func (p *painter) progress(runID string, pr run.Progress) {
	switch {
	case pr.Phase == "training":
		p.update(runID, pr.Stage, pr.Step, pr.Of, figures(pr.Metrics))
	case strings.HasPrefix(pr.Phase, run.Evaluated):
		p.mu.Lock()
		name := p.find(runID).name
		p.mu.Unlock()
		p.say("%s: step %d, %s  %s", name, pr.Step, strings.TrimPrefix(pr.Phase, run.Evaluated+" "), evaluationFigures(pr.Metrics))
	default:
		p.update(runID, pr.Phase, pr.Done, pr.Total, "")
	}
}

func (p *painter) update(id, what string, done, total int, note string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	now := p.now()
	t := p.find(id)
	if t.what != what || t.total != total {
		t.what, t.total, t.bar = what, total, nil
	}
	t.done, t.note = done, note
	c := t.counts[what]
	switch {
	case c == nil:
		c = &count{begun: now, from: done, said: -1}
		if t.counts == nil {
			t.counts = map[string]*count{}
		}
		t.counts[what] = c
	case done < c.last:
		c.begun, c.from = now, done // it starts over
	}
	c.last = done
	if p.terminal {
		if now.Sub(p.drawn) >= repaint {
			p.paint("")
		}
		return
	}
	if t.due(now) {
		c.said, t.spoken = done, now
		fmt.Fprintln(p.out, t.line(now))
	}
}

// due says whether a plain line is: the first of a phase, then those at even shares of its count, and whenever there is
// something new after a long silence. Counts without figures are worth a line only when they take long.
func (t *task) due(now time.Time) bool {
	c := t.counts[t.what]
	if c.said < 0 {
		return true
	}
	if now.Sub(t.spoken) >= quietTime {
		return t.done != c.said || t.total == 0
	}
	if t.total == 0 || t.note == "" || t.done == c.said {
		return false
	}
	every := max(1, t.total/lines)
	return t.done == t.total || t.done/every > c.said/every
}

// line is the task as a plain line.
func (t *task) line(now time.Time) string {
	text := t.name + ": " + t.what
	if t.total > 0 {
		text += fmt.Sprintf(" %d/%d", t.done, t.total)
	}
	if t.note != "" {
		text += "  " + t.note
	}
	return text + t.eta(now)
}

// eta is how long the count will go on, "" where nothing tells.
func (t *task) eta(now time.Time) string {
	c := t.counts[t.what]
	if t.total <= 0 || t.done <= c.from || t.done >= t.total {
		return ""
	}
	each := now.Sub(c.begun) / time.Duration(t.done-c.from)
	return "  ETA " + duration(each*time.Duration(t.total-t.done))
}

// duration is a time for people.
func duration(d time.Duration) string {
	switch {
	case d < time.Minute:
		return d.Round(time.Second).String()
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
}

// say prints a line above the bars.
func (p *painter) say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := printable(fmt.Sprintf(format, args...))
	if !p.terminal {
		fmt.Fprintln(p.out, text)
		return
	}
	p.paint(text + "\n")
}

// Write prints whole lines above the bars: what a logger writes.
func (p *painter) Write(data []byte) (int, error) {
	p.say("%s", bytes.TrimRight(data, "\n"))
	return len(data), nil
}

// end takes a task off.
func (p *painter) end(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tasks = slices.DeleteFunc(p.tasks, func(t *task) bool { return t.id == id })
	if p.terminal {
		p.paint("")
	}
}

// close takes all bars away; only lines that were said stay.
func (p *painter) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.closed, p.tasks = true, nil
	if p.terminal {
		p.paint("")
	}
}

// paint replaces the bars by text and the bars as they are now.
func (p *painter) paint(text string) {
	var b strings.Builder
	if p.painted > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", p.painted)
	}
	b.WriteString("\r\x1b[J" + text)
	for _, t := range p.tasks {
		b.WriteString(cut(t.painted(p.now()), p.width-1) + "\n")
	}
	p.painted, p.drawn = len(p.tasks), p.now()
	_, _ = io.WriteString(p.out, b.String()) // a picture that cannot be drawn must not stop the work
}

// painted is the task as a line with a bar.
func (t *task) painted(now time.Time) string {
	if t.total <= 0 {
		return t.name + ": " + t.what
	}
	if t.bar == nil {
		t.bar = progressbar.NewOptions(t.total, progressbar.OptionSetWriter(io.Discard), progressbar.OptionSetWidth(24),
			progressbar.OptionSetDescription(t.name+": "+t.what), progressbar.OptionShowCount(),
			progressbar.OptionSetPredictTime(false), progressbar.OptionSetElapsedTime(false), progressbar.OptionSetTheme(
				progressbar.Theme{Saucer: "█", SaucerHead: "█", SaucerPadding: "░"}))
	}
	// Neither can fail: the count lies within the total and nothing is written.
	_ = t.bar.Set(min(t.done, t.total))
	_ = t.bar.RenderBlank()
	return strings.TrimSpace(t.bar.String()) + t.eta(now) + "  " + t.note
}

// cut shortens a line to a number of characters.
func cut(line string, width int) string {
	if width <= 0 || utf8.RuneCountInString(line) <= width {
		return line
	}
	return string([]rune(line)[:width])
}

// figures are what people watch of a training step.
func figures(metrics map[string]float64) string {
	var parts []string
	add := func(label, key, format string) {
		if v, ok := metrics[key]; ok {
			parts = append(parts, fmt.Sprintf("%s "+format, label, v))
		}
	}
	add("reward", "episode/reward", "%.3f")
	add("em", "episode/em", "%.3f")
	add("searches", "episode/searches", "%.2f")
	var losses []string // names of objectives
	for _, key := range sortedKeys(metrics) {
		if name, ok := strings.CutPrefix(key, "train/"); ok {
			if objective, ok := strings.CutSuffix(name, "/loss"); ok && !strings.Contains(objective, "/") {
				losses = append(losses, objective)
			}
		}
	}
	for _, objective := range losses {
		label := "loss"
		if len(losses) > 1 {
			label += " of " + objective
		}
		add(label, "train/"+objective+"/loss", "%.4f")
	}
	return strings.Join(parts, "  ")
}

// evaluationFigures are what people watch of an evaluation.
func evaluationFigures(metrics map[string]float64) string {
	var parts []string
	for _, name := range []string{"em", "f1", "evidence_all", "searches"} {
		if v, ok := metrics[name]; ok {
			parts = append(parts, fmt.Sprintf("%s %.3f", name, v))
		}
	}
	return strings.Join(parts, "  ")
}
