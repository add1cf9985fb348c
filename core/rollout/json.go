package rollout

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
)

// JSON is the protocol of tool calls as JSON objects between tags, as Qwen2.5 writes them:
//
//	<tool_call>{"name": "search", "arguments": {"query": "…"}}</tool_call>
//
// A turn ends with the first closing tag of a call or of an answer, and what that tag closes is the action. A turn that
// holds neither, or a call that cannot be read, is an action with a [Action.Problem]: the agent reads what was wrong,
// and a turn is used up.
type JSON struct {
	Think, Call, Observation, Answer TagPair
	// NameKey and ArgumentsKey are the keys of a call.
	NameKey, ArgumentsKey string
	// FinishTool is a call that gives the answer, in its argument FinishArgument; "" for none. An answer between its
	// tags is understood all the same.
	FinishTool, FinishArgument string
}

// Check says what is wrong with the protocol.
func (j *JSON) Check() error {
	for name, pair := range map[string]TagPair{"call": j.Call, "observation": j.Observation, "answer": j.Answer} {
		if pair.open() == "" || pair.close() == "" {
			return fmt.Errorf("protocol json: %s needs an open and a close text that are not blank", name)
		}
	}
	if j.Call.close() == j.Answer.close() {
		return fmt.Errorf("protocol json: call and answer must close differently, both are %q", j.Call.close())
	}
	if j.NameKey == "" || j.ArgumentsKey == "" || j.NameKey == j.ArgumentsKey {
		return fmt.Errorf("protocol json: name_key and arguments_key must be two different keys, got %q and %q", j.NameKey, j.ArgumentsKey)
	}
	if j.FinishTool != "" && j.FinishArgument == "" {
		return errors.New("protocol json: finish_tool needs finish_argument, the argument that holds the answer")
	}
	return nil
}

// Stopped implements Protocol.
func (j *JSON) Stopped(text string, tail int) bool {
	return containsNear(text, j.Call.close(), tail) || containsNear(text, j.Answer.close(), tail)
}

// Ends implements Protocol.
func (j *JSON) Ends() []TagPair { return []TagPair{j.Call.bare(), j.Answer.bare()} }

// Parse implements Protocol.
func (j *JSON) Parse(text string) Action {
	a := Action{Kind: episode.ActionInvalid, Thought: j.thought(text)}
	call, answer := strings.Index(text, j.Call.close()), strings.Index(text, j.Answer.close())
	switch {
	case call < 0 && answer < 0:
		a.Problem = fmt.Sprintf("no action: expected %s%s%s or %s…%s", j.Call.open(), j.example(), j.Call.close(), j.Answer.open(), j.Answer.close())
		return a
	case call < 0 || answer >= 0 && answer < call:
		open := strings.LastIndex(text[:answer], j.Answer.open())
		if open < 0 {
			a.Problem = fmt.Sprintf("%s without %s before it", j.Answer.close(), j.Answer.open())
			return a
		}
		a.Kind, a.Start, a.End, a.Ends = episode.ActionAnswer, open, answer+len(j.Answer.close()), true
		a.Answer = strings.TrimFunc(text[open+len(j.Answer.open()):answer], isSpace)
		return a
	}
	a.End = call + len(j.Call.close())
	// A thought may mention the opening tag, and an argument may hold it: the first opening that begins an object counts.
	err := fmt.Errorf("%s without %s before it", j.Call.close(), j.Call.open())
	for at := 0; ; {
		i := strings.Index(text[at:call], j.Call.open())
		if i < 0 {
			a.Problem = err.Error()
			return a
		}
		a.Start = at + i
		at = a.Start + len(j.Call.open())
		var name string
		if name, a.Arguments, err = j.object(text[at:call]); err == nil {
			return j.called(a, name)
		}
	}
}

// called makes the action of a call that could be read.
func (j *JSON) called(a Action, name string) Action {
	if j.FinishTool == "" || name != j.FinishTool {
		a.Kind, a.Tool = episode.ActionCall, name
		return a
	}
	answer, ok := a.Arguments[j.FinishArgument].(string)
	if !ok {
		a.Problem = fmt.Sprintf("%s needs the argument %s, a string", j.FinishTool, j.FinishArgument)
		return a
	}
	a.Kind, a.Answer, a.Ends = episode.ActionAnswer, strings.TrimFunc(answer, isSpace), true
	return a
}

// object reads a call. Further objects after the first are passed over: one call a turn is carried out. Arguments may be
// an object, or a text that holds one.
func (j *JSON) object(text string) (name string, arguments map[string]any, err error) {
	var fields map[string]json.RawMessage
	decoder := json.NewDecoder(strings.NewReader(text))
	if err := decoder.Decode(&fields); err != nil || fields == nil {
		return "", nil, fmt.Errorf("the call is no JSON object; expected %s", j.example())
	}
	for {
		var more map[string]json.RawMessage
		if err := decoder.Decode(&more); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return "", nil, fmt.Errorf("text after the call's JSON object; expected only %s", j.example())
		}
	}
	if err := json.Unmarshal(fields[j.NameKey], &name); err != nil || name == "" {
		return "", nil, fmt.Errorf("the call needs %q, the name of a tool; expected %s", j.NameKey, j.example())
	}
	raw := fields[j.ArgumentsKey]
	var quoted string
	if json.Unmarshal(raw, &quoted) == nil && quoted != "" {
		raw = []byte(quoted)
	}
	if raw == nil || bytes.Equal(raw, []byte("null")) {
		return name, map[string]any{}, nil
	}
	if err := json.Unmarshal(raw, &arguments); err != nil {
		return "", nil, fmt.Errorf("%q of the call must be a JSON object; expected %s", j.ArgumentsKey, j.example())
	}
	return name, arguments, nil
}

func (j *JSON) example() string {
	return fmt.Sprintf(`{"%s": "…", "%s": {…}}`, j.NameKey, j.ArgumentsKey)
}

func (j *JSON) thought(text string) string {
	if j.Think.open() == "" {
		return ""
	}
	pair, _ := firstPair(text, j.Think)
	return pair.content
}

// Wrap implements Protocol.
func (j *JSON) Wrap(observation []Piece) []Piece { return wrap(observation, j.Observation) }

// Controls implements Protocol. Of marks of several words, such as those that end a chat message and begin another, each
// tag counts for itself too.
func (j *JSON) Controls() []string {
	var list []string
	for _, pair := range []TagPair{j.Think, j.Call, j.Observation, j.Answer} {
		for _, mark := range []string{pair.open(), pair.close()} {
			list = append(list, mark)
			for word := range strings.FieldsSeq(mark) {
				if strings.HasPrefix(word, "<") && strings.HasSuffix(word, ">") {
					list = append(list, word)
				}
			}
		}
	}
	slices.Sort(list)
	list = slices.Compact(list)
	return slices.DeleteFunc(list, func(s string) bool { return len(s) < 2 })
}

// splitTurn implements transcriber.
func (j *JSON) splitTurn(text string) (written, observation, rest string, err error) {
	if strings.TrimSpace(text) == "" {
		return "", "", "", errors.New("the transcript ends without an answer")
	}
	a := j.Parse(text)
	switch {
	case a.Problem != "":
		return "", "", "", errors.New(a.Problem)
	case a.Kind == episode.ActionAnswer:
		return text[:a.End], "", text[a.End:], nil
	}
	observation, rest, err = cutObservation(text[a.End:], j.Observation, text[a.Start:a.End])
	return text[:a.End], observation, rest, err
}

// stopsAtAnswer implements transcriber.
func (j *JSON) stopsAtAnswer() bool { return true }

// checkArguments says what is wrong with the arguments of a call.
func checkArguments(tool sdk.Tool, arguments map[string]any) error {
	for _, a := range tool.Arguments {
		v, given := arguments[a.Name]
		if !given || v == nil {
			if !a.Required {
				continue
			}
			return fmt.Errorf("%s needs the argument %s (%s), got %s", tool.Name, a.Name, a.Type, names(arguments))
		}
		if !hasType(v, a.Type) {
			return fmt.Errorf("the argument %s of %s must be %s, got %s", a.Name, tool.Name, a.Type, typeName(v))
		}
	}
	return nil
}

func names(arguments map[string]any) string {
	if len(arguments) == 0 {
		return "none"
	}
	return strings.Join(slices.Sorted(maps.Keys(arguments)), ", ")
}

// hasType says whether a JSON value is of a type that [sdk.Argument] names.
func hasType(v any, typ string) bool {
	switch v := v.(type) {
	case string:
		return typ == "string"
	case bool:
		return typ == "bool"
	case float64:
		return typ == "number" || typ == "int" && v == math.Trunc(v)
	case []any:
		return typ == "list(string)" && !slices.ContainsFunc(v, func(e any) bool { return !hasType(e, "string") })
	}
	return false
}

func typeName(v any) string {
	switch v.(type) {
	case string:
		return "string"
	case bool:
		return "bool"
	case float64:
		return "number"
	case []any:
		return "list"
	}
	return "object"
}
