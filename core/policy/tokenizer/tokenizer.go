package tokenizer

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

//go:generate go run ./internal/maketest

// Tokenizer is what a tokenizer.json says, with the settings beside it. It is immutable: any number of goroutines may
// use it.
type Tokenizer struct {
	tokens     []string // by id, "" for an id that no token has
	ids        map[string]int32
	added      map[int32]addedToken
	raw        *matcher // added tokens looked for in the raw text
	normalized *matcher // added tokens looked for in the normalised text
	nfc        bool
	pre        preTokenizer
	model      model
	bytes      []text // what each id adds to decoded text
	settings   settings
	digest     string
}

type model interface {
	// encode appends the ids of a word. Those of added tokens may only come from trusted text.
	encode(dst []int32, word string, trusted bool, s *scratch) []int32
	// knows says whether the ids of a word can stand for all of it.
	knows(word string, trusted bool) bool
}

// text is what a token stands for.
type text struct {
	content string
	special bool
}

// Load reads a tokenizer.json, or the one in a folder, and what lies beside it: tokenizer_config.json,
// special_tokens_map.json, chat_template.jinja, generation_config.json and config.json, each where present.
func Load(path string) (*Tokenizer, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, "tokenizer.json")
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("load tokenizer: %w", err)
	}
	t, f, err := parse(path, data)
	if err != nil {
		return nil, fmt.Errorf("load tokenizer: %w", err)
	}
	if t.settings, err = readSettings(filepath.Dir(path), t); err != nil {
		return nil, fmt.Errorf("load tokenizer: %w", err)
	}
	t.digest = t.computeDigest(f)
	return t, nil
}

// parse builds a tokenizer without settings; name is for errors.
func parse(name string, data []byte) (*Tokenizer, fileJSON, error) {
	f, err := parseFile(name, data)
	if err != nil {
		return nil, f, err
	}
	t, err := build(f)
	if err != nil {
		return nil, f, fmt.Errorf("%s: %w", name, err)
	}
	return t, f, nil
}

func build(f fileJSON) (*Tokenizer, error) {
	t := &Tokenizer{ids: make(map[string]int32, len(f.Model.Vocab)+len(f.AddedTokens)), added: make(map[int32]addedToken)}
	var err error
	if t.nfc, err = buildNormalizer(f.Normalizer); err != nil {
		return nil, err
	}
	if t.pre, err = buildPreTokenizer(f.PreTokenizer); err != nil {
		return nil, err
	}
	if err := t.setVocabulary(f); err != nil {
		return nil, err
	}
	isAdded := make(map[int32]bool, len(t.added))
	var raw, normalized []addedToken
	for _, id := range slices.Sorted(maps.Keys(t.added)) {
		isAdded[id] = true
		a := t.added[id]
		if !a.Normalized {
			raw = append(raw, a)
			continue
		}
		a.Content = t.normalize(a.Content)
		normalized = append(normalized, a)
	}
	t.raw, t.normalized = newMatcher(raw), newMatcher(normalized)
	switch f.Model.Type {
	case "BPE":
		if !t.pre.byteLevel {
			return nil, errors.New("model BPE without pre_tokenizer ByteLevel is not supported: only byte-level BPE is")
		}
		if f.Decoder == nil || f.Decoder.Type != "ByteLevel" {
			return nil, fmt.Errorf("decoder %q is not supported for model BPE (supported: ByteLevel)", f.Decoder.name())
		}
		t.model, err = newBPE(f.Model, isAdded)
	case "WordLevel":
		if t.pre.byteLevel {
			return nil, errors.New("model WordLevel with pre_tokenizer ByteLevel is not supported (supported: WhitespaceSplit)")
		}
		if f.Decoder != nil {
			return nil, fmt.Errorf("decoder %q is not supported for model WordLevel (supported: null, words joined by one space)", f.Decoder.name())
		}
		t.model, err = newWordLevel(f.Model, isAdded)
	default:
		return nil, fmt.Errorf("model %q is not supported (supported: BPE on bytes, WordLevel)", f.Model.Type)
	}
	if err != nil {
		return nil, err
	}
	t.setTexts()
	return t, nil
}

func (c *componentJSON) name() string {
	if c == nil {
		return "null"
	}
	return c.Type
}

// setVocabulary fills the tables of ids, tokens and added tokens.
func (t *Tokenizer) setVocabulary(f fileJSON) error {
	if len(f.Model.Vocab) == 0 {
		return errors.New("model.vocab is missing or empty")
	}
	// Ids may have holes, but not so many that a small file makes a large table.
	limit := min(maxID, 4*(len(f.Model.Vocab)+len(f.AddedTokens))+1<<16)
	set := func(token string, id int32) error {
		if id < 0 || int(id) >= limit {
			return fmt.Errorf("token %q has id %d: expected 0 to %d", token, id, limit-1)
		}
		if int(id) >= len(t.tokens) {
			t.tokens = append(t.tokens, make([]string, int(id)+1-len(t.tokens))...)
		}
		if before := t.tokens[id]; before != "" && before != token {
			return fmt.Errorf("id %d belongs to two tokens, %q and %q", id, before, token)
		}
		if other, ok := t.ids[token]; ok && other != id {
			return fmt.Errorf("token %q has two ids, %d and %d", token, other, id)
		}
		t.tokens[id], t.ids[token] = token, id
		return nil
	}
	for token, id := range f.Model.Vocab {
		if token == "" {
			return fmt.Errorf("the token with id %d is empty", id)
		}
		if err := set(token, id); err != nil {
			return err
		}
	}
	for _, a := range f.AddedTokens {
		if a.Content == "" {
			return fmt.Errorf("the added token with id %d is empty", a.ID)
		}
		if err := set(a.Content, a.ID); err != nil {
			return err
		}
		t.added[a.ID] = a
	}
	return nil
}

// setTexts works out what each id adds to decoded text.
func (t *Tokenizer) setTexts() {
	_, toByte := byteAlphabet()
	t.bytes = make([]text, len(t.tokens))
	for id, token := range t.tokens {
		a, added := t.added[int32(id)]
		t.bytes[id] = text{content: token, special: a.Special}
		if raw, ok := rawBytes(token, toByte); ok && !added && t.pre.byteLevel {
			t.bytes[id].content = raw
		}
	}
}

// Encode gives the ids of text. Where special is true, added and special tokens that occur in text become their ids;
// where it is false they are ordinary text, and no id of an added token can result (but a
// WordLevel unk_token). Nothing
// is added at either end.
//
// Bytes that are not UTF-8 are read as U+FFFD. Words outside a WordLevel vocabulary become its unk_token. Bytes that a
// byte-level vocabulary lacks (SmolLM2's lacks some control characters) become its unk_token too, or nothing where it
// has none. [Tokenizer.EncodeStrict] makes all of these errors.
func (t *Tokenizer) Encode(text string, special bool) []int32 {
	return t.EncodePieces([]Piece{{Text: text, Trusted: special}})
}

// EncodeStrict is Encode, but text that the vocabulary cannot express is an error that names the word.
func (t *Tokenizer) EncodeStrict(text string, special bool) ([]int32, error) {
	if !utf8.ValidString(text) {
		return nil, fmt.Errorf("text %.100q is not UTF-8", text)
	}
	e := encoder{t: t, strict: true}
	e.encode([]Piece{{Text: text, Trusted: special}})
	return e.ids, e.err
}

// Unknown counts the words of a text from outside that a WordLevel vocabulary lacks, and all its words. A byte-level
// vocabulary lacks no words: of is 0.
func (t *Tokenizer) Unknown(text string) (unknown, of int) {
	words, ok := t.model.(*wordLevel)
	if !ok {
		return 0, 0
	}
	for _, id := range t.Encode(text, false) {
		of++
		if id == words.unknown {
			unknown++
		}
	}
	return unknown, of
}

func valid(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return string([]rune(s))
}

func (t *Tokenizer) normalize(s string) string {
	if t.nfc {
		return toNFC(s)
	}
	return s
}

// Piece is a span of text with where it came from.
type Piece struct {
	Text    string
	Trusted bool // a template's own text; false: interpolated from outside
}

// EncodePieces gives the ids of the pieces' texts joined. Added and special tokens are found only within runs of
// trusted pieces; the text between them is tokenised as a whole, across pieces. So trusted pieces alone give the ids
// of Encode(whole, true), and an untrusted text never gives the id of an added token, not even together with trusted
// text around it.
func (t *Tokenizer) EncodePieces(pieces []Piece) []int32 {
	e := encoder{t: t}
	e.encode(pieces)
	return e.ids
}

type encoder struct {
	t       *Tokenizer
	ids     []int32
	scratch scratch
	strict  bool // err becomes the first word that the vocabulary cannot express
	err     error
}

func (e *encoder) encode(pieces []Piece) {
	t := e.t
	e.split(spansOf(pieces), t.raw, func(gap []span) {
		e.split(t.normalizeSpans(gap), t.normalized, func(gap []span) {
			trusted := len(gap) == 1 && gap[0].trusted
			// The spans are normalised; where they meet, marks of one may still combine with letters of another.
			for word := range t.pre.words(t.normalize(join(gap))) {
				if e.strict && e.err == nil && !t.model.knows(word, trusted) {
					e.err = fmt.Errorf("word %q cannot be expressed in the vocabulary of %d tokens", word, len(t.ids))
				}
				e.ids = t.model.encode(e.ids, word, trusted, &e.scratch)
			}
		})
	})
}

func join(spans []span) string {
	if len(spans) == 1 {
		return spans[0].text
	}
	var b strings.Builder
	for _, s := range spans {
		b.WriteString(s.text)
	}
	return b.String()
}

// span is a run of text of one origin; neighbours in a list differ in trusted.
type span struct {
	text    string
	trusted bool
}

func spansOf(pieces []Piece) []span {
	var spans []span
	for i := 0; i < len(pieces); {
		j, size := i, 0
		for j < len(pieces) && pieces[j].Trusted == pieces[i].Trusted {
			size += len(pieces[j].Text)
			j++
		}
		joined := pieces[i].Text
		if j > i+1 {
			var b strings.Builder
			b.Grow(size)
			for _, p := range pieces[i:j] {
				b.WriteString(p.Text)
			}
			joined = b.String()
		}
		if joined != "" {
			spans = append(spans, span{valid(joined), pieces[i].Trusted})
		}
		i = j
	}
	return spans
}

// normalizeSpans normalises each span by itself, so that origins stay known.
func (t *Tokenizer) normalizeSpans(spans []span) []span {
	out := make([]span, len(spans))
	for i, s := range spans {
		out[i] = span{t.normalize(s.text), s.trusted}
	}
	return out
}

// split finds m's tokens in the trusted spans, appends their ids, and gives each stretch of text between them to gap.
func (e *encoder) split(spans []span, m *matcher, gap func([]span)) {
	if len(m.tokens) == 0 || !slices.ContainsFunc(spans, func(s span) bool { return s.trusted }) {
		if len(spans) > 0 {
			gap(spans)
		}
		return
	}
	whole := join(spans)
	var open []span // the stretch since the last token
	at := 0
	for _, s := range spans {
		from, to := at, at+len(s.text)
		at = to
		if s.trusted {
			for _, found := range m.find(whole, from, to) {
				if found.start > from {
					open = append(open, span{whole[from:found.start], true})
				}
				if len(open) > 0 {
					gap(open)
					open = nil
				}
				e.ids = append(e.ids, found.id)
				from = found.end
			}
		}
		if from < to {
			open = append(open, span{whole[from:to], s.trusted})
		}
	}
	if len(open) > 0 {
		gap(open)
	}
}

// VocabSize is one more than the largest id. A model may have more rows than that, never fewer.
func (t *Tokenizer) VocabSize() int { return len(t.tokens) }

// TokenID is the id of a token, written as in the file (byte-level vocabularies write a leading space as "Ġ").
func (t *Tokenizer) TokenID(token string) (int32, bool) {
	id, ok := t.ids[token]
	return id, ok
}

// Token is the token with this id, written as in the file; "" for an id that no token has.
func (t *Tokenizer) Token(id int32) string {
	if id < 0 || int(id) >= len(t.tokens) {
		return ""
	}
	return t.tokens[id]
}

// IsSpecial says whether id is that of a control token, which decoding with skipSpecial leaves out.
func (t *Tokenizer) IsSpecial(id int32) bool { return t.added[id].Special }

// EOS gives every id that ends a sequence: the tokenizer's eos_token first, then those of generation_config.json or,
// without that file, of config.json. Empty where nothing says so.
func (t *Tokenizer) EOS() []int32 { return slices.Clone(t.settings.eos) }

// BOS is the id of the token that begins a sequence, where there is one. Encode does not add it.
func (t *Tokenizer) BOS() (int32, bool) { return t.settings.bos.get() }

// Pad is the id that fills up batches, where the files name one.
func (t *Tokenizer) Pad() (int32, bool) { return t.settings.pad.get() }

// ChatTemplate is the Jinja source of the chat template, "" where the model has none.
func (t *Tokenizer) ChatTemplate() string { return t.settings.template }

// Digest is the SHA-256, in hexadecimal, of what changes ids: normalizer, pre-tokenizer, vocabulary, merges, added
// tokens, BOS, EOS, padding and the chat template. The layout of the file does not count.
func (t *Tokenizer) Digest() string { return t.digest }
