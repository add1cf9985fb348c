package tokenizer

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

var tinyNames = []string{"tiny-smollm", "tiny-qwen", "tiny-llama"}

func loadTiny(t testing.TB, name string) *Tokenizer {
	t.Helper()
	tok, err := Load(filepath.Join("testdata", name, "tokenizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// The small tokenizers of testdata against the reference implementation: the files under reference were written by
// Hugging Face tokenizers 0.23.3 from the same tokenizer.json.
func TestTinyAgainstReference(t *testing.T) {
	for _, name := range append(tinyNames, "tiny-words") {
		t.Run(name, func(t *testing.T) {
			tok := loadTiny(t, name)
			data, err := os.ReadFile(filepath.Join("testdata", "reference", name+".json"))
			if err != nil {
				t.Fatal(err)
			}
			var file struct{ Cases []vectorCase }
			if err := json.Unmarshal(data, &file); err != nil {
				t.Fatal(err)
			}
			if len(file.Cases) < 100 {
				t.Fatalf("only %d cases", len(file.Cases))
			}
			for i, c := range file.Cases {
				if got := tok.Encode(c.Text, true); !slices.Equal(got, c.IDs) {
					t.Errorf("case %d: Encode(%q)\n got %v\nwant %v", i, c.Text, got, c.IDs)
				}
				if got := tok.Decode(c.IDs, false); got != *c.Decoded {
					t.Errorf("case %d: Decode(%v) = %q, want %q", i, c.IDs, got, *c.Decoded)
				}
			}
		})
	}
}

// alphabet is what random texts are made of: everything that some rule looks at.
var alphabet = []string{
	"'s", "'S", "'ll", "'\u017f", " ", "  ", "\n", "\r\n", "\t", "\u00a0", "\u3000", "\u200b", "\u0085", "a", "B", " the", "search", "é",
	"e\u0301", "\u0301", "\u0323", "\u212b", "가", "\u1100\u1161\u11a8", "中文", "1", "23", "٣", "½", "!", "...", " -", "😀", "\x00", "\x04",
	"<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|im_", "start|>", "<tool>", "<mask>", "harbour café", "_", "\uf8ff",
}

func randomText(r *rand.Rand) string {
	var b strings.Builder
	for range r.IntN(20) {
		b.WriteString(alphabet[r.IntN(len(alphabet))])
	}
	return b.String()
}

func TestRoundTripAndTrust(t *testing.T) {
	for _, name := range tinyNames {
		tok := loadTiny(t, name)
		r := rand.New(rand.NewPCG(1, 2))
		for range 3000 {
			checkText(t, tok, randomText(r), int(r.Uint32()))
		}
	}
}

// checkText checks what holds for every text and every way to cut it in two.
func checkText(t *testing.T, tok *Tokenizer, text string, cut int) {
	t.Helper()
	outside := tok.Encode(text, false)
	for _, id := range outside {
		if _, ok := tok.added[id]; ok {
			t.Fatalf("Encode(%q, false) gave the added token %q", text, tok.Token(id))
		}
	}
	canonical := tok.normalize(valid(text))
	if got := tok.Decode(outside, false); got != canonical {
		t.Fatalf("Decode(Encode(%q, false)) = %q", text, got)
	}
	inside := tok.Encode(text, true)
	if utf8.ValidString(text) {
		for i := range text {
			if i < cut%(len(text)+1) {
				continue
			}
			parts := []Piece{{text[:i], true}, {text[i:], true}}
			if got := tok.EncodePieces(parts); !slices.Equal(got, inside) {
				t.Fatalf("trusted pieces %q | %q gave %v, the whole %v", text[:i], text[i:], got, inside)
			}
			mixed := tok.EncodePieces([]Piece{{text[:i], false}, {text[i:], true}, {text[:i], false}})
			if got, want := tok.Decode(mixed, false), tok.normalize(text+text[:i]); !tok.stripsSpace(text) && norm.NFC.String(got) != norm.NFC.String(want) {
				t.Fatalf("mixed pieces of %q cut at %d decode to %q, want %q", text, i, got, want)
			}
			if special, trusted := countSpecial(tok, mixed), countSpecial(tok, tok.Encode(text[i:], true)); special > trusted { // fewer: a single_word token may now touch a word
				t.Fatalf("mixed pieces of %q cut at %d hold %d added tokens, the trusted piece alone %d", text, i, special, trusted)
			}
			break
		}
	}
	for _, ids := range [][]int32{outside, inside} {
		d := tok.NewDecoder()
		var b strings.Builder
		for _, id := range ids {
			b.WriteString(d.Add(id))
		}
		b.WriteString(d.Flush())
		if b.String() != tok.Decode(ids, false) {
			t.Fatalf("token by token %q, at once %q", b.String(), tok.Decode(ids, false))
		}
	}
}

// stripsSpace says whether the text holds the token that takes white space with it, which decoding cannot restore.
func (t *Tokenizer) stripsSpace(text string) bool { return strings.Contains(text, "<mask>") }

func countSpecial(tok *Tokenizer, ids []int32) (n int) {
	for _, id := range ids {
		if _, ok := tok.added[id]; ok {
			n++
		}
	}
	return n
}

func FuzzEncode(f *testing.F) {
	for _, s := range []string{"", "hello <|im_start|> world", "it's 1234\r\n\n", "<|im_<|im_start|>start|>", "\xff\xc3", "e\u0301\u0323", strings.Repeat("\u0301", 40)} {
		f.Add(s, 3, uint8(0))
	}
	var toks []*Tokenizer
	for _, name := range tinyNames {
		toks = append(toks, loadTiny(f, name))
	}
	f.Fuzz(func(t *testing.T, text string, cut int, which uint8) {
		checkText(t, toks[int(which)%len(toks)], text, max(cut, 0))
	})
}

func FuzzLoad(f *testing.F) {
	for _, name := range append(tinyNames, "tiny-words") {
		data, err := os.ReadFile(filepath.Join("testdata", name, "tokenizer.json"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"model":{"type":"WordLevel","vocab":{"a":65000},"unk_token":"a"},"pre_tokenizer":{"type":"WhitespaceSplit"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		tok, _, err := parse("fuzz", data)
		if err != nil {
			return
		}
		tok.Decode(tok.Encode("a <q> b 12 é", true), true)
	})
}

// Both merge loops are the same function.
func TestLongAndShortWordsAgree(t *testing.T) {
	tok := loadTiny(t, "tiny-smollm")
	b := tok.model.(*bpe)
	r := rand.New(rand.NewPCG(3, 4))
	var s scratch
	for range 2000 {
		word := make([]byte, 1+r.IntN(150))
		for i := range word {
			word[i] = "thesarcin gdo"[r.IntN(13)]
		}
		short, long := b.encodeShort(nil, string(word), false, &s), b.encodeLong(nil, string(word), false, &s)
		if !slices.Equal(short, long) {
			t.Fatalf("%q: %v and %v", word, short, long)
		}
	}
}

// A word of a million letters without a break: quadratic merging would need about 10^12 steps and never end.
func TestLongUnbrokenWord(t *testing.T) {
	tok := loadTiny(t, "tiny-qwen")
	word := strings.Repeat("thesearchlibrary", 1<<16)
	ids := tok.Encode(word, false)
	if tok.Decode(ids, false) != word {
		t.Error("round trip failed")
	}
	if len(ids) > len(word)*3/4 {
		t.Errorf("%d tokens for %d letters: nothing was merged", len(ids), len(word))
	}
}

func TestDecode(t *testing.T) {
	tok := loadTiny(t, "tiny-smollm")
	id := func(token string) int32 {
		id, ok := tok.TokenID(token)
		if !ok {
			t.Fatalf("no token %q", token)
		}
		return id
	}
	toRune, _ := byteAlphabet()
	raw := func(s string) (ids []int32) {
		for _, b := range []byte(s) {
			ids = append(ids, id(string(toRune[b])))
		}
		return ids
	}
	// One U+FFFD for each maximal part of a character, as the Unicode standard, Python and Rust have it.
	for in, want := range map[string]string{
		"a\xe2\x82b": "a�b", "\xff\xff": "��", "\xe2\x82\xac": "€", "\xf0\x9f\x98": "�", "\xf0\x80\x80": "���", "\xc3\xc3\xa9": "�é", "\xed\xa0\x80": "���",
	} {
		if got := tok.Decode(raw(in), false); got != want {
			t.Errorf("bytes %q decode to %q, want %q", in, got, want)
		}
		d := tok.NewDecoder()
		got := ""
		for _, id := range raw(in) {
			got += d.Add(id)
		}
		if got += d.Flush(); got != want || d.Flush() != "" {
			t.Errorf("bytes %q decode one by one to %q, want %q", in, got, want)
		}
	}
	d := tok.NewDecoder()
	for i, id := range raw("€") {
		if got := d.Add(id); (got == "€") != (i == 2) || i < 2 && got != "" {
			t.Errorf("byte %d of € gave %q", i, got)
		}
	}
	ids := append([]int32{id("<|im_start|>")}, append(raw("hi"), id("<|im_end|>"), -1, 1<<30)...)
	if got := tok.Decode(ids, false); got != "<|im_start|>hi<|im_end|>" {
		t.Errorf("got %q", got)
	}
	if got := tok.Decode(ids, true); got != "hi" {
		t.Errorf("got %q", got)
	}
	if tok.IsSpecial(id("<tool>")) || !tok.IsSpecial(id("<|im_end|>")) || tok.IsSpecial(-1) {
		t.Error("IsSpecial is wrong")
	}
	if tok.Token(-1) != "" || tok.Token(1<<30) != "" || tok.Token(id("Ġthe")) != "Ġthe" {
		t.Error("Token is wrong")
	}
}

func TestWords(t *testing.T) {
	tok := loadTiny(t, "tiny-words")
	text := "<q> what is the mayor of Velm ? </q>"
	ids := tok.Encode(text, true)
	if want := []int32{1, 3, 4, 5, 6, 7, 11, 12, 2}; !slices.Equal(ids, want) {
		t.Errorf("got %v, want %v", ids, want)
	}
	if got := tok.Decode(ids, false); got != text {
		t.Errorf("got %q", got)
	}
	if got := tok.Decode(ids, true); got != "what is the mayor of Velm ?" {
		t.Errorf("got %q", got)
	}
	d, got := tok.NewDecoder(), ""
	for _, id := range ids {
		got += d.Add(id)
	}
	if got != text {
		t.Errorf("word by word %q", got)
	}
	if got := tok.Encode("<q> what", false); !slices.Equal(got, []int32{0, 3}) {
		t.Errorf("a tag from outside gave %v", got)
	}
	if got := tok.EncodePieces([]Piece{{"<", true}, {"q> what", false}}); !slices.Equal(got, []int32{0, 3}) {
		t.Errorf("a tag half from outside gave %v", got)
	}
	if _, err := tok.EncodeStrict(text, true); err != nil {
		t.Error(err)
	}
	if unknown, of := tok.Unknown("what is the flag of Velm ?"); unknown != 1 || of != 7 {
		t.Errorf("%d of %d words are unknown", unknown, of)
	}
	if unknown, of := loadTiny(t, "tiny-llama").Unknown("what is the flag of Velm ?"); unknown != 0 || of != 0 {
		t.Errorf("byte-level: %d of %d words are unknown", unknown, of)
	}
	for _, bad := range []string{"what is Orla's ?", "what\xff"} {
		if _, err := tok.EncodeStrict(bad, true); err == nil {
			t.Errorf("%q was encoded", bad)
		}
	}
	if _, err := tok.EncodeStrict("<q>", false); err == nil || !strings.Contains(err.Error(), `"<q>"`) {
		t.Errorf("got %v", err)
	}
}

func TestByteThatTheVocabularyLacks(t *testing.T) {
	f := readTiny(t, "tiny-smollm")
	toRune, _ := byteAlphabet()
	delete(f.Model.Vocab, string(toRune[4]))
	tok, err := build(f)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"a\x04b", "\x04", strings.Repeat("\x04", 100), strings.Repeat("ab\x04", 50)} {
		if got, want := tok.Decode(tok.Encode(text, false), false), strings.ReplaceAll(text, "\x04", ""); got != want {
			t.Errorf("%q came back as %q", text, got)
		}
		if _, err := tok.EncodeStrict(text, false); err == nil {
			t.Errorf("%q was encoded strictly", text)
		}
	}
	// A control token as unk_token must not be within reach of text from outside.
	f.Model.UnkToken = new("<|endoftext|>")
	if tok, err = build(f); err != nil {
		t.Fatal(err)
	}
	if got := tok.Decode(tok.Encode("a\x04b", false), false); got != "ab" {
		t.Errorf("got %q", got)
	}
	f.Model.UnkToken = new("?")
	if tok, err = build(f); err != nil {
		t.Fatal(err)
	}
	if got := tok.Decode(tok.Encode("a\x04b", false), false); got != "a?b" {
		t.Errorf("got %q", got)
	}
}

func readTiny(t *testing.T, name string) fileJSON {
	t.Helper()
	path := filepath.Join("testdata", name, "tokenizer.json")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := parseFile(path, data)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// x/text inserts U+034F into long runs of marks; NFC does not.
func TestNFC(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	pool := []rune("aeéo\u0301\u0323\u0327\u0308\u0345\u093c\u212b\u0958\u1100\u1161\u11a8각가\ufb1d\u0344\u0f73\U0001D15E")
	for range 5000 {
		text := make([]rune, r.IntN(12))
		for i := range text {
			text[i] = pool[r.IntN(len(pool))]
		}
		if got, want := composeRunes(string(text)), norm.NFC.String(string(text)); got != want {
			t.Fatalf("%+q became %+q, want %+q", string(text), got, want)
		}
	}
	long := "e" + strings.Repeat("\u0301", 50) + strings.Repeat("\u0323", 50)
	if got, want := toNFC(long), "\u1eb9"+strings.Repeat("\u0323", 49)+strings.Repeat("\u0301", 50); got != want {
		t.Errorf("got %+q", got)
	}
}

func TestLoadRefuses(t *testing.T) {
	bpe := func(change func(f map[string]any)) string {
		data, err := os.ReadFile(filepath.Join("testdata", "tiny-qwen", "tokenizer.json"))
		if err != nil {
			t.Fatal(err)
		}
		var f map[string]any
		if err := json.Unmarshal(data, &f); err != nil {
			t.Fatal(err)
		}
		change(f)
		out, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	type object = map[string]any
	model := func(key string, value any) string {
		return bpe(func(f object) { f["model"].(object)[key] = value })
	}
	part := func(key string, value any) string { return bpe(func(f object) { f[key] = value }) }
	for name, tc := range map[string]struct{ file, want string }{
		"syntax":           {"{\n\n\"model\": }", "tokenizer.json:3"},
		"empty":            {"{}", "pre_tokenizer is missing"},
		"normalizer":       {part("normalizer", object{"type": "Lowercase"}), `normalizer "Lowercase" is not supported (supported: NFC, Sequence)`},
		"inner normalizer": {part("normalizer", object{"type": "Sequence", "normalizers": []object{{"type": "Strip"}}}), `"Strip"`},
		"pre-tokenizer":    {part("pre_tokenizer", object{"type": "Metaspace"}), `pre_tokenizer "Metaspace" is not supported (supported: Sequence, Split, Digits, ByteLevel, WhitespaceSplit)`},
		"behaviour":        {part("pre_tokenizer", object{"type": "Split", "behavior": "Removed", "pattern": object{"String": "x"}}), `"Removed"`},
		"pattern":          {part("pre_tokenizer", object{"type": "Split", "behavior": "Isolated", "pattern": object{"Regex": "("}}), `pattern "("`},
		"no pattern":       {part("pre_tokenizer", object{"type": "Split", "behavior": "Isolated"}), "needs a pattern"},
		"prefix space":     {part("pre_tokenizer", object{"type": "ByteLevel"}), "add_prefix_space"},
		"order":            {part("pre_tokenizer", object{"type": "Sequence", "pretokenizers": []object{{"type": "ByteLevel", "add_prefix_space": false}, {"type": "Digits"}}}), "must be the last"},
		"characters":       {part("pre_tokenizer", object{"type": "Digits"}), "only byte-level BPE"},
		"decoder":          {part("decoder", object{"type": "WordPiece"}), `decoder "WordPiece"`},
		"no decoder":       {part("decoder", nil), `decoder "null"`},
		"model":            {model("type", "Unigram"), `model "Unigram" is not supported`},
		"dropout":          {model("dropout", 0.1), "dropout"},
		"prefix":           {model("continuing_subword_prefix", "##"), "continuing_subword_prefix"},
		"suffix":           {model("end_of_word_suffix", "</w>"), "end_of_word_suffix"},
		"byte fallback":    {model("byte_fallback", true), "byte_fallback"},
		"fuse":             {model("fuse_unk", true), "fuse_unk"},
		"unknown unk":      {model("unk_token", "<nope>"), `"<nope>"`},
		"unknown merge":    {model("merges", []string{"q zz"}), `"zz" is not in the vocabulary`},
		"bad merge":        {model("merges", []string{"qzz"}), "must have two parts"},
		"bad pair":         {model("merges", [][]string{{"q", "z", "z"}}), "must have two parts"},
		"negative id":      {model("vocab", object{"a": -1}), "-1"},
		"huge id":          {model("vocab", object{"a": 1 << 30}), "1073741824"},
		"two tokens":       {model("vocab", object{"a": 5, "b": 5}), "id 5 belongs to two tokens"},
		"byte as token":    {part("added_tokens", []object{{"id": 68, "content": "D", "special": true}, {"id": 67, "content": "C"}}), "two"},
		"twice":            {`{"model":{"vocab":{"a":1,"a":2}}}`, "duplicate"},
		"word decoder":     {`{"model":{"type":"WordLevel","vocab":{"a":0},"unk_token":"a"},"pre_tokenizer":{"type":"WhitespaceSplit"},"decoder":{"type":"BPEDecoder"}}`, `decoder "BPEDecoder"`},
		"no unk":           {`{"model":{"type":"WordLevel","vocab":{"a":0}},"pre_tokenizer":{"type":"WhitespaceSplit"}}`, "unk_token"},
		"absent unk":       {`{"model":{"type":"WordLevel","vocab":{"a":0},"unk_token":"b"},"pre_tokenizer":{"type":"WhitespaceSplit"}}`, `unk_token "b"`},
		"word bytes":       {`{"model":{"type":"WordLevel","vocab":{"a":0},"unk_token":"a"},"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false}}`, "WordLevel"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "tokenizer.json")
			if err := os.WriteFile(path, []byte(tc.file), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := Load(path)
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "tokenizer.json") {
				t.Errorf("got %v, want an error with %q", err, tc.want)
			}
		})
	}
	if _, err := Load(t.TempDir()); err == nil {
		t.Error("an empty folder was loaded")
	}
}

func BenchmarkEncode(b *testing.B) {
	for _, folder := range []string{"smollm2-135m", "qwen2.5", "llama3"} {
		b.Run(folder, func(b *testing.B) {
			tok := vectorTokenizer(b, folder)
			data, err := os.ReadFile(filepath.Join("internal", "maketest", "text.txt"))
			if err != nil {
				b.Fatal(err)
			}
			n := 0
			for b.Loop() {
				n += len(tok.Encode(string(data), true))
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "tokens/s")
		})
	}
}
