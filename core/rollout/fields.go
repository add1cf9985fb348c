package rollout

import (
	"fmt"
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/forage-rl/forage/core/sdk/episode"
)

// Fields is the protocol of FrugalRAG (arXiv:2507.07634; ReAct as DSPy's chat adapter writes it): a turn is a thought,
// the name of a tool and its arguments, each under a marker line such as [[ ## next_thought ## ]]. Every turn answers a
// prompt of its own, in which all that happened so far is laid out anew, so an episode has a sequence per turn.
type Fields struct {
	Marker TagPair // around a field's name
	// Thought, Tool, Arguments and Completed are the names of a turn's fields, in the order in which they come. A turn
	// is stopped at the marker of Completed.
	Thought, Tool, Arguments, Completed string
	// FinishTool is the tool that ends the episode, "" for none. It needs no retriever. Its argument FinishArg is the
	// answer; with "" it gives none.
	FinishTool, FinishArg string
	// Inline makes a marker act wherever it stands, for tokenizers of words, which know no lines.
	Inline bool
}

// Check says what is wrong with the fields.
func (f *Fields) Check() error {
	if f.Marker.open() == "" || f.Marker.close() == "" {
		return fmt.Errorf("protocol fields: marker needs an open and a close text that are not blank")
	}
	seen := map[string]bool{}
	for _, name := range []string{f.Thought, f.Tool, f.Arguments, f.Completed} {
		if !word(name) {
			return fmt.Errorf("protocol fields: the field name %q must be one word of letters, digits and _", name)
		}
		if seen[name] {
			return fmt.Errorf("protocol fields: two fields are called %q", name)
		}
		seen[name] = true
	}
	if f.FinishArg != "" && f.FinishTool == "" {
		return fmt.Errorf("protocol fields: finish_argument needs a finish_tool")
	}
	return nil
}

// Line is the marker of a field.
func (f *Fields) Line(name string) string {
	return strings.TrimLeftFunc(f.Marker.Open, isSpace) + name + strings.TrimRightFunc(f.Marker.Close, isSpace)
}

// Stopped implements Protocol.
func (f *Fields) Stopped(text string, tail int) bool {
	return containsNear(text, f.Line(f.Completed), tail)
}

// Ends implements Protocol. The last field's marker says that the closing one is due.
func (f *Fields) Ends() []TagPair { return []TagPair{{f.Line(f.Arguments), f.Line(f.Completed)}} }

// Wrap implements Protocol: an observation is a part of the next prompt and has no marks of its own.
func (f *Fields) Wrap(observation []Piece) []Piece { return observation }

// Controls implements Protocol. The ends of a marker are enough to break up every marker.
func (f *Fields) Controls() []string { return []string{f.Marker.open(), f.Marker.close()} }

// section is what stands under a marker line, and the byte range of both.
type section struct {
	name, content string
	start, end    int
}

// sections cuts text at its markers; what comes before the first one is left out.
func (f *Fields) sections(text string) []section {
	var list []section
	body := 0
	for m := range f.markers(text) {
		if n := len(list); n > 0 {
			list[n-1].content, list[n-1].end = text[body:m.start], m.start
		}
		list = append(list, section{name: m.name, start: m.start})
		body = m.end
	}
	if n := len(list); n > 0 {
		list[n-1].content, list[n-1].end = text[body:], len(text)
	}
	for i := range list {
		list[i].content = strings.TrimFunc(list[i].content, isSpace)
	}
	return list
}

// markers finds the markers of a text: name and byte range.
func (f *Fields) markers(text string) iter.Seq[section] {
	return func(yield func(section) bool) {
		if f.Inline {
			f.inlineMarkers(text, yield)
			return
		}
		for start, end := range lines(text) {
			if name, ok := f.marker(text[start:end]); ok && !yield(section{name: name, start: start, end: end}) {
				return
			}
		}
	}
}

func (f *Fields) inlineMarkers(text string, yield func(section) bool) {
	open, closing := strings.TrimLeftFunc(f.Marker.Open, isSpace), strings.TrimRightFunc(f.Marker.Close, isSpace)
	for at := 0; ; {
		i := strings.Index(text[at:], open)
		if i < 0 {
			return
		}
		start, from := at+i, at+i+len(open)
		at = from
		name, _, ok := strings.Cut(text[from:], closing)
		if !ok || !word(name) {
			continue
		}
		at = from + len(name) + len(closing)
		if !yield(section{name: name, start: start, end: at}) {
			return
		}
	}
}

// marker gives the field that a line is the marker of.
func (f *Fields) marker(line string) (string, bool) {
	rest, ok := strings.CutPrefix(strings.TrimFunc(line, isSpace), strings.TrimLeftFunc(f.Marker.Open, isSpace))
	if !ok {
		return "", false
	}
	name, ok := strings.CutSuffix(rest, strings.TrimRightFunc(f.Marker.Close, isSpace))
	return name, ok && word(name)
}

func word(name string) bool {
	for _, r := range name {
		if r != '_' && !unicode.IsLetter(r) && !unicode.IsNumber(r) {
			return false
		}
	}
	return name != ""
}

// lines gives the byte ranges of a text's lines, ends of lines left out, as Python's str.splitlines cuts them.
func lines(text string) iter.Seq2[int, int] {
	return func(yield func(int, int) bool) {
		start := 0
		for at := 0; at < len(text); {
			r, size := utf8.DecodeRuneInString(text[at:])
			switch r {
			case '\n', '\v', '\f', 0x1c, 0x1d, 0x1e, 0x85, 0x2028, 0x2029:
			case '\r':
				if strings.HasPrefix(text[at+1:], "\n") {
					size = 2
				}
			default:
				at += size
				continue
			}
			if !yield(start, at) {
				return
			}
			at += size
			start = at
		}
		if start < len(text) {
			yield(start, len(text))
		}
	}
}

// Parse implements Protocol. The first section of each field counts; the three fields must be there in their order, and
// the arguments must be an object, in JSON or as Python writes one.
func (f *Fields) Parse(text string) Action {
	invalid := Action{Kind: episode.ActionInvalid}
	var first []section
	seen := map[string]bool{}
	for _, s := range f.sections(text) {
		if s.name == f.Completed {
			break
		}
		if !seen[s.name] && (s.name == f.Thought || s.name == f.Tool || s.name == f.Arguments) {
			seen[s.name] = true
			first = append(first, s)
		}
	}
	if len(first) > 0 && first[0].name == f.Thought {
		invalid.Thought = first[0].content
	}
	if len(first) != 3 || first[0].name != f.Thought || first[1].name != f.Tool {
		return invalid
	}
	name := toolName(first[1].content)
	arguments, ok := object(first[2].content)
	if name == "" || !ok {
		return invalid
	}
	a := Action{
		Kind: episode.ActionCall, Thought: first[0].content, Tool: name, Arguments: arguments,
		Start: first[1].start, End: first[2].end,
	}
	if f.FinishTool == "" || !strings.Contains(strings.ToLower(name), strings.ToLower(f.FinishTool)) {
		return a
	}
	a.Kind, a.Tool, a.Ends, a.Silent = episode.ActionAnswer, f.FinishTool, true, f.FinishArg == ""
	if f.FinishArg != "" {
		if a.Answer, ok = arguments[f.FinishArg].(string); !ok {
			return invalid
		}
		a.Answer = strings.TrimFunc(a.Answer, isSpace)
	}
	return a
}

// toolName takes the quotes off a tool's name.
func toolName(text string) string {
	if v, ok := literal(text); ok {
		if s, ok := v.(string); ok {
			text = s
		}
	}
	return strings.TrimFunc(text, isSpace)
}

// tool gives the one of the tools that a written name means: that name, else the only one that occurs in it, whatever
// the case.
func (f *Fields) tool(name string, tools []string) string {
	found := ""
	for _, t := range tools {
		if t == name {
			return t
		}
		if strings.Contains(strings.ToLower(name), strings.ToLower(t)) {
			if found != "" {
				return name
			}
			found = t
		}
	}
	if found == "" {
		return name
	}
	return found
}
