package tokenizer

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/nikolalohinski/gonja/v2/builtins"
	"github.com/nikolalohinski/gonja/v2/config"
	"github.com/nikolalohinski/gonja/v2/exec"
	"github.com/nikolalohinski/gonja/v2/loaders"
	"github.com/nikolalohinski/gonja/v2/parser"
)

// Message is one entry of a conversation. Role is "system", "user", "assistant" or what else the template knows.
type Message struct {
	Role    string
	Content []Piece
}

// RenderChat renders the model's chat template. The result is the template's text and the trusted pieces, trusted, and
// the untrusted pieces, untrusted: [Tokenizer.EncodePieces] gives its ids, in which no untrusted text has become a
// control token. The joined text is exactly what the template gives for the joined contents.
//
// To keep origins apart, the template is rendered a second time with a mark in place of each untrusted piece. A
// template may leave contents as they are or strip white space around them; one that changes them otherwise (or that
// decides by what an untrusted text says) is refused. There is no clock: strftime_now is not defined, so that a
// template with a date falls back on its fixed one. Templates cannot include other files.
func (t *Tokenizer) RenderChat(messages []Message, addGenerationPrompt bool) ([]Piece, error) {
	if t.settings.template == "" {
		return nil, errors.New("render chat: the model has no chat template (neither chat_template.jinja nor chat_template in tokenizer_config.json)")
	}
	plain := make([]string, len(messages))
	untrusted := false
	for i, m := range messages {
		for _, p := range m.Content {
			plain[i] += p.Text
			untrusted = untrusted || !p.Trusted && p.Text != ""
		}
	}
	c := chat{t: t, generate: addGenerationPrompt}
	var err error
	if c.template, err = compileTemplate(t.settings.template); err != nil {
		return nil, fmt.Errorf("render chat: chat template: %w", err)
	}
	want, err := c.render(messages, plain)
	if err != nil {
		return nil, fmt.Errorf("render chat: %w", err)
	}
	if !untrusted {
		return []Piece{{want, true}}, nil
	}
	mark, err := c.freeMark(messages)
	if err != nil {
		return nil, fmt.Errorf("render chat: %w", err)
	}
	pieces, err := c.renderMarked(messages, mark)
	if err == nil && joinPieces(pieces) == want {
		return pieces, nil
	}
	stripped, err := c.stripLikeTemplate(messages, mark)
	if err != nil {
		return nil, fmt.Errorf("render chat: %w", err)
	}
	if pieces, err = c.renderMarked(stripped, mark); err != nil {
		return nil, fmt.Errorf("render chat: %w", err)
	}
	if joinPieces(pieces) != want {
		return nil, errors.New("render chat: the chat template changes or inspects the text of a message that comes from outside " +
			"(only stripping white space is supported): turn chat_template off and write the prompt as a template of the agent")
	}
	return pieces, nil
}

// chat is one call of RenderChat. The compiled template is not shared: the engine does not promise that it may be.
type chat struct {
	t        *Tokenizer
	template *exec.Template
	generate bool
}

func joinPieces(pieces []Piece) string {
	var b strings.Builder
	for _, p := range pieces {
		b.WriteString(p.Text)
	}
	return b.String()
}

// freeMark finds a private-use character that occurs nowhere.
func (c chat) freeMark(messages []Message) (string, error) {
	used := make(map[rune]bool)
	note := func(s string) {
		for _, r := range s {
			if unicode.Is(unicode.Co, r) {
				used[r] = true
			}
		}
	}
	note(c.t.settings.template)
	for _, v := range c.t.settings.variables {
		note(v)
	}
	for _, m := range messages {
		note(m.Role)
		for _, p := range m.Content {
			note(p.Text)
		}
	}
	for r := rune(0xe000); r <= 0xf8ff; r++ {
		if !used[r] {
			return string(r), nil
		}
	}
	return "", errors.New("the messages use every private-use character of the basic plane")
}

// renderMarked renders with mark+number+mark for each untrusted piece and puts the pieces back.
func (c chat) renderMarked(messages []Message, mark string) ([]Piece, error) {
	contents := make([]string, len(messages))
	var held []string
	for i, m := range messages {
		for _, p := range m.Content {
			switch {
			case p.Trusted:
				contents[i] += p.Text
			case p.Text != "": // an empty text stays empty: templates ask whether there is content
				contents[i] += mark + strconv.Itoa(len(held)) + mark
				held = append(held, p.Text)
			}
		}
	}
	rendered, err := c.render(messages, contents)
	if err != nil {
		return nil, err
	}
	var pieces []Piece
	for i, part := range strings.Split(rendered, mark) {
		piece := Piece{part, true}
		if i%2 == 1 {
			n, err := strconv.Atoi(part)
			if err != nil || n < 0 || n >= len(held) {
				return nil, errors.New("the chat template tears the content of a message apart")
			}
			piece = Piece{held[n], false}
		}
		if piece.Text != "" {
			pieces = append(pieces, piece)
		}
	}
	return pieces, nil
}

// stripLikeTemplate strips white space around the contents where the template does: it renders each content as a mark
// with white space on both sides and looks what is left of that.
func (c chat) stripLikeTemplate(messages []Message, mark string) ([]Message, error) {
	const space = "\n \t "
	probes := make([]string, len(messages))
	for i := range messages {
		probes[i] = space + mark + strconv.Itoa(i) + mark + space
	}
	rendered, err := c.render(messages, probes)
	if err != nil {
		return nil, err
	}
	out := make([]Message, len(messages))
	for i, m := range messages {
		probe := mark + strconv.Itoa(i) + mark
		left := !strings.Contains(rendered, space+probe)
		right := !strings.Contains(rendered, probe+space)
		out[i] = Message{m.Role, stripPieces(m.Content, left, right)}
	}
	return out, nil
}

// stripPieces strips white space at the ends of the joined text.
func stripPieces(pieces []Piece, left, right bool) []Piece {
	out := make([]Piece, len(pieces))
	copy(out, pieces)
	for i := 0; left && i < len(out); i++ {
		if out[i].Text = strings.TrimLeftFunc(out[i].Text, unicode.IsSpace); out[i].Text != "" {
			break
		}
	}
	for i := len(out) - 1; right && i >= 0; i-- {
		if out[i].Text = strings.TrimRightFunc(out[i].Text, unicode.IsSpace); out[i].Text != "" {
			break
		}
	}
	return out
}

// render renders with one string as the content of each message.
func (c chat) render(messages []Message, contents []string) (rendered string, err error) {
	defer func() {
		// A template is a program from outside and its interpreter another's: a crash of one is a bad template.
		if r := recover(); r != nil {
			err = fmt.Errorf("chat template: %v", r)
		}
	}()
	list := make([]any, len(messages))
	for i, m := range messages {
		list[i] = map[string]any{"role": m.Role, "content": contents[i]}
	}
	data := map[string]any{
		"messages": list, "add_generation_prompt": c.generate, "tools": nil, "documents": nil,
	}
	for name, token := range c.t.settings.variables {
		data[name] = token
	}
	rendered, err = c.template.ExecuteToString(exec.NewContext(data))
	if err != nil {
		return "", fmt.Errorf("chat template: %w", err)
	}
	return rendered, nil
}

// compileTemplate parses a chat template with the settings of the transformers library: blocks leave no white space
// behind, break and continue work, and nothing outside the template can be reached.
func compileTemplate(source string) (_ *exec.Template, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	settings := config.New()
	settings.TrimBlocks, settings.LeftStripBlocks = true, true
	structures := make(map[string]parser.ControlStructureParser)
	for _, name := range []string{"if", "for", "set", "macro", "call", "filter", "with", "raw", "do", "break", "continue"} {
		parse, ok := builtins.ControlStructures.Get(name)
		if !ok {
			return nil, fmt.Errorf("the template engine lacks %q", name)
		}
		structures[name] = parse
	}
	globals := exec.EmptyContext()
	for _, name := range []string{"range", "dict", "namespace", "joiner", "cycler"} {
		f, ok := builtins.GlobalFunctions.Get(name)
		if !ok {
			return nil, fmt.Errorf("the template engine lacks %q", name)
		}
		globals.Set(name, f)
	}
	globals.Set("raise_exception", func(_ *exec.Evaluator, args *exec.VarArgs) (string, error) {
		return "", fmt.Errorf("the template refuses the conversation: %s", args.First().String())
	})
	const name = "/chat_template"
	loader, err := loaders.NewMemoryLoader(map[string]string{name: source})
	if err != nil {
		return nil, err
	}
	return exec.NewTemplate(name, settings, loader, &exec.Environment{
		Context: globals, Filters: builtins.Filters, Tests: builtins.Tests, Methods: builtins.Methods,
		ControlStructures: exec.NewControlStructureSet(structures),
	})
}
