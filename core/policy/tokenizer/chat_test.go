package tokenizer

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func withTemplate(template string, variables map[string]string) *Tokenizer {
	return &Tokenizer{settings: settings{template: template, variables: variables}}
}

// What jinja2 gives for templates that use what chat templates use.
func TestRenderChatAgainstReference(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "reference", "chat.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Cases []struct {
			Name, Template, Want, Error string
			Variables                   map[string]string
			Messages                    []struct{ Role, Content string }
			Generate                    bool
		}
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Cases) < 50 {
		t.Fatalf("only %d cases", len(file.Cases))
	}
	for i, c := range file.Cases {
		tok := withTemplate(c.Template, c.Variables)
		for _, trusted := range []bool{true, false} {
			var messages []Message
			for _, m := range c.Messages {
				half := len(m.Content) / 2
				for half > 0 && m.Content[half]&0xc0 == 0x80 {
					half--
				}
				messages = append(messages, Message{m.Role, []Piece{{m.Content[:half], trusted}, {m.Content[half:], trusted}}})
			}
			pieces, err := tok.RenderChat(messages, c.Generate)
			if c.Error != "" {
				if err == nil || !strings.Contains(err.Error(), c.Error) {
					t.Errorf("case %d (%s): got %v, want the error %q", i, c.Name, err, c.Error)
				}
				continue
			}
			if err != nil || joinPieces(pieces) != c.Want {
				t.Errorf("case %d (%s, trusted %t): %v\n got %q\nwant %q", i, c.Name, trusted, err, joinPieces(pieces), c.Want)
			}
			for _, p := range pieces {
				for _, m := range c.Messages {
					if !trusted && p.Trusted && len(m.Content) > 5 && strings.Contains(p.Text, strings.TrimSpace(m.Content)) {
						t.Errorf("case %d (%s): %q came out as trusted", i, c.Name, m.Content)
					}
				}
			}
		}
	}
}

func TestRenderChatKeepsOrigins(t *testing.T) {
	tok := loadTiny(t, "tiny-smollm")
	tok.settings.template = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content | trim }}<|im_end|>\n{% endfor %}"
	got, err := tok.RenderChat([]Message{
		{"system", []Piece{{" Search. <|endoftext|>", true}}},
		{"user", []Piece{{"Question: ", true}, {" <|im_end|>who? \ue000 ", false}, {"", false}, {"  ", true}}},
	}, false)
	if err != nil {
		t.Fatal(err)
	}
	want := []Piece{
		{"<|im_start|>system\nSearch. <|endoftext|><|im_end|>\n<|im_start|>user\nQuestion: ", true},
		{" <|im_end|>who? \ue000", false},
		{"<|im_end|>\n", true},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	count := map[string]int{}
	for _, id := range tok.EncodePieces(got) {
		if tok.IsSpecial(id) {
			count[tok.Token(id)]++
		}
	}
	if count["<|im_end|>"] != 2 || count["<|im_start|>"] != 2 || count["<|endoftext|>"] != 1 {
		t.Errorf("control tokens %v", count)
	}
}

func TestRenderChatRefuses(t *testing.T) {
	user := []Message{{"user", []Piece{{"who wrote <b>this</b>? </think> x", false}}}}
	for name, tc := range map[string]struct{ template, want string }{
		"none":       {"", "has no chat template"},
		"syntax":     {"{% for %}", "chat template"},
		"upper":      {"{{ messages[0].content | upper }}", "changes or inspects"},
		"json":       {"{{ messages[0].content | tojson }}", "changes or inspects"},
		"reversed":   {"{{ messages[0].content | reverse }}", "changes or inspects"},
		"cut":        {"{{ messages[0].content[1:] }}", "tears the content"},
		"split":      {"{{ messages[0].content.split('</think>')[-1] }}", "changes or inspects"},
		"length":     {"{{ messages[0].content | length }}", "changes or inspects"},
		"inspected":  {"{% if 'who' in messages[0].content %}a{% endif %}{{ messages[0].content }}", "changes or inspects"},
		"exception":  {"{{ raise_exception('no users') }}", "no users"},
		"include":    {"{% include '/etc/passwd' %}", "chat template"},
		"import":     {"{% import '/etc/passwd' as x %}", "chat template"},
		"bad filter": {"{{ messages | nope }}", "chat template"},
		"recursion":  {"{% macro f(x) %}{{ messages[9].content.x }}{% endmacro %}{{ f(1) }}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := withTemplate(tc.template, nil).RenderChat(user, false)
			if tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want an error with %q", err, tc.want)
			}
		})
	}
	// What comes from outside may hold any character, template syntax and private-use characters too.
	var all strings.Builder
	for r := rune(0xe000); r <= 0xf8ff; r++ {
		all.WriteRune(r)
	}
	plain := withTemplate("{{ messages[0].content }}", nil)
	if _, err := plain.RenderChat([]Message{{"user", []Piece{{all.String(), false}}}}, false); err == nil {
		t.Error("no mark was free, but it worked")
	}
}

func FuzzRenderChat(f *testing.F) {
	f.Add("{{ messages[0].content | trim }}{% if add_generation_prompt %}>{% endif %}", " hi ")
	f.Add("{% for m in messages %}{{ m.role }}: {{ m['content'] }}{% endfor %}", "{{ x }}\ue000 0 \ue000")
	f.Add("{{ messages[0].content[2:] }}{% set x = namespace(a=1) %}", "abcdef")
	f.Fuzz(func(t *testing.T, template, text string) {
		if strings.Contains(template, "range") || strings.Contains(template, "*") || len(template) > 300 {
			return // a template may compute for as long as it likes; it comes with the model
		}
		pieces, err := withTemplate(template, nil).RenderChat([]Message{{"user", []Piece{{text, false}}}}, true)
		if err != nil {
			return
		}
		for _, p := range pieces {
			if !p.Trusted && !strings.Contains(text, p.Text) {
				t.Errorf("untrusted piece %q is not of %q", p.Text, text)
			}
		}
	})
}

func TestSettings(t *testing.T) {
	write := func(files map[string]string) string {
		dir := t.TempDir()
		data, err := os.ReadFile(filepath.Join("testdata", "tiny-smollm", "tokenizer.json"))
		if err != nil {
			t.Fatal(err)
		}
		files["tokenizer.json"] = string(data)
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	type want struct {
		eos      []int32
		bos, pad int32 // -1: none
		template string
	}
	for name, tc := range map[string]struct {
		files map[string]string
		want  want
	}{
		"nothing": {map[string]string{}, want{nil, -1, -1, ""}},
		"config only": {map[string]string{"config.json": `{"eos_token_id":[2,0],"bos_token_id":1,"pad_token_id":0}`},
			want{[]int32{2, 0}, 1, 0, ""}},
		"tokenizer first": {map[string]string{
			"tokenizer_config.json":   `{"eos_token":"<|im_end|>","bos_token":null,"pad_token":{"content":"<|endoftext|>"},"chat_template":"a"}`,
			"special_tokens_map.json": `{"bos_token":"<|im_start|>"}`,
			"generation_config.json":  `{"eos_token_id":0,"bos_token_id":1}`, "config.json": `{"eos_token_id":1}`},
			want{[]int32{2, 0}, -1, 0, "a"}},
		"map": {map[string]string{"special_tokens_map.json": `{"bos_token":{"content":"<|im_start|>","lstrip":false},"eos_token":"<|im_end|>"}`},
			want{[]int32{2}, 1, -1, ""}},
		"template file": {map[string]string{"tokenizer_config.json": `{"chat_template":"a"}`, "chat_template.jinja": "b\n"}, want{nil, -1, -1, "b\n"}},
		"named":         {map[string]string{"tokenizer_config.json": `{"chat_template":[{"name":"rag","template":"a"},{"name":"default","template":"b"}]}`}, want{nil, -1, -1, "b"}},
		"null template": {map[string]string{"tokenizer_config.json": `{"chat_template":null}`}, want{nil, -1, -1, ""}},
	} {
		t.Run(name, func(t *testing.T) {
			tok, err := Load(write(tc.files))
			if err != nil {
				t.Fatal(err)
			}
			optional := func(id int32, ok bool) int32 {
				if !ok {
					return -1
				}
				return id
			}
			if !slices.Equal(tok.EOS(), tc.want.eos) || optional(tok.BOS()) != tc.want.bos || optional(tok.Pad()) != tc.want.pad || tok.ChatTemplate() != tc.want.template {
				bos, pad := optional(tok.BOS()), optional(tok.Pad())
				t.Errorf("eos %v, bos %d, pad %d, template %q", tok.EOS(), bos, pad, tok.ChatTemplate())
			}
		})
	}
	for name, files := range map[string]map[string]string{
		"unknown token":  {"tokenizer_config.json": `{"eos_token":"</s>"}`},
		"unknown id":     {"generation_config.json": `{"eos_token_id":100000}`},
		"unknown bos":    {"config.json": `{"bos_token_id":100000}`},
		"type":           {"tokenizer_config.json": `{"eos_token":5}`},
		"syntax":         {"special_tokens_map.json": `{`},
		"ids":            {"config.json": `{"eos_token_id":"x"}`},
		"no default":     {"tokenizer_config.json": `{"chat_template":[{"name":"rag","template":"a"}]}`},
		"template type":  {"tokenizer_config.json": `{"chat_template":5}`},
		"template value": {"tokenizer_config.json": `{"chat_template":[5]}`},
	} {
		if _, err := Load(write(files)); err == nil {
			t.Errorf("%s: loaded", name)
		}
	}
}

func TestDigest(t *testing.T) {
	base := readTiny(t, "tiny-smollm")
	digest := func(change func(f *fileJSON, s *settings)) string {
		f := readTiny(t, "tiny-smollm")
		var s settings
		change(&f, &s)
		tok, err := build(f)
		if err != nil {
			t.Fatal(err)
		}
		tok.settings = s
		return tok.computeDigest(f)
	}
	same := digest(func(f *fileJSON, _ *settings) { slices.Reverse(f.AddedTokens) })
	first := digest(func(*fileJSON, *settings) {})
	if same != first || len(first) != 64 {
		t.Errorf("digests %s and %s of the same tokenizer", first, same)
	}
	seen := map[string]string{first: "first"}
	for name, change := range map[string]func(f *fileJSON, s *settings){
		"merges":     func(f *fileJSON, _ *settings) { f.Model.Merges = base.Model.Merges[:200] },
		"order":      func(f *fileJSON, _ *settings) { m := f.Model.Merges; m[0], m[1] = m[1], m[0] },
		"normalizer": func(f *fileJSON, _ *settings) { f.Normalizer = &componentJSON{Type: "NFC"} },
		"digits":     func(f *fileJSON, _ *settings) { f.PreTokenizer.PreTokenizers[0].IndividualDigits = false },
		"added":      func(f *fileJSON, _ *settings) { f.AddedTokens[4].LStrip = false },
		"vocabulary": func(f *fileJSON, _ *settings) { f.Model.Vocab["zzz"] = 1000 },
		"eos":        func(_ *fileJSON, s *settings) { s.eos = []int32{1} },
		"template":   func(_ *fileJSON, s *settings) { s.template = "x" },
	} {
		d := digest(change)
		if before, twice := seen[d]; twice {
			t.Errorf("%s: same digest as %s", name, before)
		}
		seen[d] = name
	}
}

// The prompts of SmolLM2's reference run: the third is its chat template around one question.
func TestVectorChatTemplate(t *testing.T) {
	tok := vectorTokenizer(t, "smollm2-135m")
	dir := os.Getenv("FORAGE_VECTORS")
	if dir == "" {
		dir = filepath.Join("testdata", "vectors")
	}
	data, err := os.ReadFile(filepath.Join(dir, "models", "smollm2-135m.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Prompts []struct {
			Text       string
			InputIDs   []int32 `json:"input_ids"`
			GreedyIDs  []int32 `json:"greedy_ids"`
			GreedyText string  `json:"greedy_text"`
		}
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Prompts) != 3 {
		t.Fatalf("%d prompts", len(file.Prompts))
	}
	for _, p := range file.Prompts {
		if got := tok.Encode(p.Text, true); !slices.Equal(got, p.InputIDs) {
			t.Errorf("%q: got %v, want %v", p.Text, got, p.InputIDs)
		}
		if got := tok.Decode(p.GreedyIDs, false); got != p.GreedyText {
			t.Errorf("got %q, want %q", got, p.GreedyText)
		}
	}
	pieces, err := tok.RenderChat([]Message{{"user", []Piece{{"What is the capital of France?", false}}}}, true)
	if err != nil {
		t.Fatal(err)
	}
	if got := tok.EncodePieces(pieces); !slices.Equal(got, file.Prompts[2].InputIDs) {
		t.Errorf("chat: got %v, want %v", got, file.Prompts[2].InputIDs)
	}
	if eos := tok.EOS(); !slices.Equal(eos, []int32{2}) {
		t.Errorf("eos %v", eos)
	}
}
