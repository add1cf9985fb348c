package rollout

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/forage-rl/forage/core/sdk/episode"
)

// Action is what a turn's text asks for.
type Action struct {
	Kind      episode.Action
	Tool      string // "" means the agent's default tool
	Arguments map[string]any
	Answer    string
	Thought   string
	// Start and End are byte offsets of the action in the turn's text.
	Start, End int
	// Ends is true when the protocol ends the episode here, whatever the kind.
	Ends bool
	// Problem says what is wrong with an invalid action, for the agent to read: the episode goes on.
	Problem string
	// Plain says that Arguments hold one text, as query, that belongs to the tool's first argument.
	Plain bool
	// Silent is true when the action ends the episode without giving an answer, although its kind is answer.
	Silent bool
}

// Protocol is the language in which a policy acts.
type Protocol interface {
	// Stopped says whether text, a turn so far, holds a complete action; tail is the length of what came last.
	Stopped(text string, tail int) bool
	// Ends lists the pairs whose closing text ends a turn, for services that are told it beforehand. Open is "" where
	// nothing in the turn says that the closing text is due.
	Ends() []TagPair
	// Parse reads the action of a finished turn.
	Parse(text string) Action
	// Wrap puts an observation between the protocol's marks.
	Wrap(observation []Piece) []Piece
	// Controls lists the strings that act; they are broken up where they occur in text from outside.
	Controls() []string
}

// TagPair is a pair of strings around something. White space at their outer ends is written but not looked for.
type TagPair struct{ Open, Close string }

func (p TagPair) open() string  { return strings.TrimSpace(p.Open) }
func (p TagPair) close() string { return strings.TrimSpace(p.Close) }
func (p TagPair) bare() TagPair { return TagPair{p.open(), p.close()} }

// Tags is the protocol of Search-R1 (Jin et al. 2025) and David-GRPO: plain text with tags.
type Tags struct {
	// Call may be blank where Calls is not empty.
	Think, Call, Observation, Answer TagPair
	// Calls gives tools tags of their own; what stands between Call's goes to the agent's default tool.
	Calls map[string]TagPair
	// StopAtAnswer ends a turn at the answer's closing tag, and an answer in any turn ends the episode: the first
	// complete pair of call or answer is the action. Without it (David-GRPO) a turn is stopped by calls and the end of
	// sequence only, a turn without a call ends the episode, and the answer is the last pair after the last closing
	// think tag.
	StopAtAnswer bool
	// CallsInThink ignores calls after the turn's first closing think tag, and calls without a query.
	CallsInThink bool
}

// Check says what is wrong with the tags.
func (t *Tags) Check() error {
	calls := t.calls()
	if len(calls) == 0 {
		calls = append(calls, toolTags{pair: t.Call})
	}
	check := func(name string, pair TagPair) error {
		if pair.open() == "" || pair.close() == "" {
			return fmt.Errorf("protocol tags: %s needs an open and a close text that are not blank", name)
		}
		return nil
	}
	opened := map[string]string{}
	for _, c := range calls {
		name := "call"
		if c.tool != "" {
			name = "calls." + c.tool
		}
		if err := check(name, c.pair); err != nil {
			return err
		}
		if c.pair.close() == t.Answer.close() {
			return fmt.Errorf("protocol tags: %s and answer must close differently, both are %q", name, c.pair.close())
		}
		if other := opened[c.pair.open()]; other != "" {
			return fmt.Errorf("protocol tags: %s and %s must open differently, both are %q", other, name, c.pair.open())
		}
		opened[c.pair.open()] = name
	}
	return errors.Join(check("observation", t.Observation), check("answer", t.Answer))
}

// toolTags are the tags of calls to a tool, "" for the agent's default.
type toolTags struct {
	tool string
	pair TagPair
}

// calls lists the tags of all calls.
func (t *Tags) calls() []toolTags {
	var list []toolTags
	if t.Call.open() != "" || t.Call.close() != "" {
		list = append(list, toolTags{"", t.Call})
	}
	for _, tool := range slices.Sorted(maps.Keys(t.Calls)) {
		list = append(list, toolTags{tool, t.Calls[tool]})
	}
	return list
}

// firstCall finds the call that begins first.
func (t *Tags) firstCall(text string) (first found, tool string, ok bool) {
	for _, c := range t.calls() {
		if f, called := firstPair(text, c.pair); called && (!ok || f.start < first.start) {
			first, tool, ok = f, c.tool, true
		}
	}
	return first, tool, ok
}

// Stopped implements Protocol.
func (t *Tags) Stopped(text string, tail int) bool {
	for _, c := range t.calls() {
		if containsNear(text, c.pair.close(), tail) {
			return true
		}
	}
	return t.StopAtAnswer && containsNear(text, t.Answer.close(), tail)
}

// Ends implements Protocol.
func (t *Tags) Ends() []TagPair {
	var pairs []TagPair
	for _, c := range t.calls() {
		pairs = append(pairs, c.pair.bare())
	}
	if t.StopAtAnswer {
		pairs = append(pairs, t.Answer.bare())
	}
	return pairs
}

// containsNear looks for what only where the last tail bytes of text can have completed it.
func containsNear(text, what string, tail int) bool {
	return strings.Contains(text[max(0, len(text)-tail-len(what)):], what)
}

// Cut ends text at its first closing call tag, else at its first closing answer tag (Search-R1: the call's wins even
// where the answer's comes first). Sampling stops at the first of the two, so only text made elsewhere needs it.
func (t *Tags) Cut(text string) string {
	end := -1
	for _, c := range t.calls() {
		if i := strings.Index(text, c.pair.close()); i >= 0 && (end < 0 || i+len(c.pair.close()) < end) {
			end = i + len(c.pair.close())
		}
	}
	if end >= 0 {
		return text[:end]
	}
	if i := strings.Index(text, t.Answer.close()); i >= 0 && t.StopAtAnswer {
		return text[:i+len(t.Answer.close())]
	}
	return text
}

// Parse implements Protocol.
func (t *Tags) Parse(text string) Action {
	a := Action{Kind: episode.ActionInvalid, Thought: t.thought(text)}
	scope := text
	if t.CallsInThink {
		if i := strings.Index(text, t.Think.close()); i >= 0 {
			scope = text[:i]
		}
	}
	call, tool, called := t.firstCall(scope)
	if called && t.CallsInThink && call.content == "" {
		called = false
	}
	if t.StopAtAnswer {
		answer, answered := firstPair(text, t.Answer)
		if answered && (!called || answer.start < call.start) {
			a.Kind, a.Answer, a.Start, a.End, a.Ends = episode.ActionAnswer, answer.content, answer.start, answer.end, true
			return a
		}
	}
	if called {
		a.Kind, a.Tool, a.Arguments, a.Plain = episode.ActionCall, tool, map[string]any{"query": call.content}, true
		a.Start, a.End = call.start, call.end
		return a
	}
	if !t.StopAtAnswer {
		a.Ends = true
		after := 0
		if i := strings.LastIndex(text, t.Think.close()); i >= 0 && t.Think.close() != "" {
			after = i + len(t.Think.close())
		}
		if answer, answered := lastPair(text[after:], t.Answer); answered {
			a.Kind, a.Answer, a.Start, a.End = episode.ActionAnswer, answer.content, after+answer.start, after+answer.end
		}
	}
	return a
}

func (t *Tags) thought(text string) string {
	if t.Think.open() == "" {
		return ""
	}
	pair, _ := firstPair(text, t.Think)
	return pair.content
}

type found struct {
	content    string
	start, end int
}

// firstPair finds the first opening tag that a closing tag follows, and the nearest such closing tag.
func firstPair(text string, pair TagPair) (found, bool) {
	open, closing := pair.open(), pair.close()
	start := strings.Index(text, open)
	if start < 0 {
		return found{}, false
	}
	length := strings.Index(text[start+len(open):], closing)
	if length < 0 {
		return found{}, false
	}
	from := start + len(open)
	return found{strings.TrimFunc(text[from:from+length], isSpace), start, from + length + len(closing)}, true
}

// lastPair finds the last of the pairs that firstPair finds one after the other.
func lastPair(text string, pair TagPair) (last found, ok bool) {
	for at := 0; ; {
		f, more := firstPair(text[at:], pair)
		if !more {
			return last, ok
		}
		last, ok = found{f.content, at + f.start, at + f.end}, true
		at += f.end
	}
}

// isSpace is Python's str.isspace, by which the reference implementations strip.
func isSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }

// Wrap implements Protocol.
func (t *Tags) Wrap(observation []Piece) []Piece { return wrap(observation, t.Observation) }

func wrap(observation []Piece, marks TagPair) []Piece {
	wrapped := []Piece{{Text: marks.Open, Trusted: true}}
	wrapped = append(wrapped, observation...)
	return append(wrapped, Piece{Text: marks.Close, Trusted: true})
}

// Controls implements Protocol.
func (t *Tags) Controls() []string {
	var controls []string
	pairs := []TagPair{t.Think}
	for _, c := range t.calls() {
		pairs = append(pairs, c.pair)
	}
	for _, pair := range append(pairs, t.Observation, t.Answer) {
		for _, tag := range []string{pair.open(), pair.close()} {
			// A single character such as the } of \boxed{} cannot act alone and is common in text.
			if len(tag) > 1 {
				controls = append(controls, tag)
			}
		}
	}
	return controls
}
