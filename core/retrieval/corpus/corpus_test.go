package corpus

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/forage-rl/forage/core/internal/vectors"
	"github.com/forage-rl/forage/core/retrieval/internal/mapped"
	"github.com/forage-rl/forage/core/retrieval/internal/mapped/mappedtest"
	"github.com/klauspost/compress/gzip"
	"github.com/parquet-go/parquet-go"
)

func write(t testing.TB, dir, name, content string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func open(t testing.TB, path string, options Options) *Corpus {
	t.Helper()
	c, err := Open(t.Context(), []string{path}, options)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func units(t testing.TB, c *Corpus, level Level) []Unit {
	t.Helper()
	u, err := c.Unit(level)
	if err != nil {
		t.Fatal(err)
	}
	var all []Unit
	for i, unit := range u.All() {
		if at := u.At(i); at != unit {
			t.Fatalf("%s %d: %+v and %+v", level, i, at, unit)
		}
		start, end, ok := u.Resolve(unit.ID)
		if !ok || start != i || end != i+1 {
			t.Fatalf("%s id %q stands for units %d to %d (%t), expected %d", level, unit.ID, start, end, ok, i)
		}
		all = append(all, unit)
	}
	return all
}

func TestFormats(t *testing.T) {
	for name, test := range map[string]struct {
		file, content string
		want          []string // id|title|text of each document
	}{
		"wiki-18": {"a.jsonl", `{"id": "7", "contents": "\"Eva\"\nis a name. It is old."}` + "\n" + `{"id": 8, "contents": "\"\"Hot\" Rod\"\nText"}` + "\n",
			[]string{`7|Eva|is a name. It is old.`, `8|"Hot" Rod|Text`}},
		"FlashRAG title without quotes": {"a.jsonl", `{"id": "7", "contents": "Eva\nis a name."}`, []string{`7|Eva|is a name.`}},
		"id, title, text":               {"a.jsonl", `{"id":"x","title":"T","text":"One.\n \nTwo."}`, []string{"x|T|One.\nTwo."}},
		"id, title, content":            {"a.jsonl", `{"id":"x","title":"T","content":"One."}`, []string{"x|T|One."}},
		"title and sentences":           {"a.jsonl", `{"title":"T","sentences":["One."," Two.",""," Three."]}`, []string{"T|T|One. Two. Three."}},
		"paragraphs":                    {"a.jsonl", `{"id":"x","title":"T","paragraphs":["One.",{"text":"Two."},{"sentences":["Three."]}]}`, []string{"x|T|One.\nTwo.\nThree."}},
		"list of documents":             {"a.json", "[\n{\"title\":\"T\",\"text\":\"One.\"},\n{\"title\":\"U\",\"text\":\"Two.\"}]\n", []string{"T|T|One.", "U|U|Two."}},
		"question with context":         {"a.jsonl", `{"id":"q","question":"?","context":[{"title":"T","sentences":["One."],"is_gold":true},{"title":"U","text":"Two."}]}`, []string{"T|T|One.", "U|U|Two."}},
		"HotpotQA list":                 {"a.json", `[{"_id":"q","question":"?","context":[["T",["One."," Two."]]]}]`, []string{"T|T|One. Two."}},
		"columns of Hugging Face":       {"a.json", `[{"id":"q","question":"?","context":{"title":["T","U"],"sentences":[["One."],["Two."]]}}]`, []string{"T|T|One.", "U|U|Two."}},
		"context as text":               {"a.jsonl", `{"id":"q","question":"?","context":"[[\"T\",[\"One.\"]]]"}`, []string{"T|T|One."}},
		"MuSiQue":                       {"a.jsonl", `{"id":"q","question":"?","paragraphs":[{"idx":0,"title":"T","paragraph_text":"One."}]}`, []string{"T|T|One."}},
		"questions without context and the same passage twice": {"a.jsonl", `{"question":"?","context":[]}` + "\n" + `{"question":"?","context":[["T",["A"]],["T",["A"]]]}`, []string{"T|T|A"}},
		"mark of byte order, no last line end":                 {"a.json", "\ufeff" + `{"id":"x","title":"T","text":"One."}`, []string{"x|T|One."}},
	} {
		t.Run(name, func(t *testing.T) {
			c := open(t, write(t, t.TempDir(), test.file, test.content), Options{})
			var got []string
			for _, u := range units(t, c, DocumentLevel) {
				got = append(got, u.ID+"|"+u.Title+"|"+u.Text)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %q, expected %q", got, test.want)
			}
		})
	}
}

func TestUnits(t *testing.T) {
	c, err := FromDocuments([]Document{
		{ID: "d", Title: "D", Paragraphs: []Paragraph{{Text: "One. Two."}, {Sentences: []string{"Three.", " ", " Four."}}}},
		{Title: "E", Paragraphs: []Paragraph{{Text: "Five. Six.", Sentences: []string{"Five.", "Six."}}}},
		{ID: "none", Title: "only a title"},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []Unit{
		{"d#p0.s0", "d", "d#p0", "d#p0.s0", "D", "One."}, {"d#p0.s1", "d", "d#p0", "d#p0.s1", "D", "Two."},
		{"d#p1.s0", "d", "d#p1", "d#p1.s0", "D", "Three."}, {"d#p1.s2", "d", "d#p1", "d#p1.s2", "D", "Four."},
		{"E.s0", "E", "E", "E.s0", "E", "Five."}, {"E.s1", "E", "E", "E.s1", "E", "Six."},
	}
	if got := units(t, c, SentenceLevel); !slices.Equal(got, want) {
		t.Errorf("sentences: %+v", got)
	}
	if got := units(t, c, ParagraphLevel); len(got) != 3 || got[1] != (Unit{"d#p1", "d", "d#p1", "", "D", "Three. Four."}) {
		t.Errorf("paragraphs: %+v", got)
	}
	if got := units(t, c, DocumentLevel); len(got) != 3 || got[0].Text != "One. Two.\nThree. Four." || got[0].ParagraphID != "" || got[1].ParagraphID != "E" {
		t.Errorf("documents: %+v", got)
	}
	if title, p, ok := c.Paragraph("d#p1"); !ok || title != "D" || !slices.Equal(p.Sentences, []string{"Three.", "", "Four."}) {
		t.Errorf("paragraph d#p1: %q %+v %t", title, p, ok)
	}
	for _, id := range []string{"d#p2", "d#p01", "d#p-1", "E#p0", "x", "d", ""} {
		if _, _, ok := c.Paragraph(id); ok {
			t.Errorf("there is a paragraph %q", id)
		}
	}
	s, err := c.Unit(SentenceLevel)
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string][2]int{"d": {0, 4}, "d#p1": {2, 4}, "E": {4, 6}, "none": {6, 6}} {
		if start, end, ok := s.Resolve(id); !ok || start != want[0] || end != want[1] {
			t.Errorf("%q stands for sentences %d to %d (%t), expected %v", id, start, end, ok, want)
		}
	}
	for _, id := range []string{"d#p1.s1", "E.s2", "E.s", ".s0"} {
		if _, _, ok := s.Resolve(id); ok {
			t.Errorf("%q stands for something", id)
		}
	}
	d, ok := c.Document("E")
	if !ok || d.Title != "E" || d.Text() != "Five. Six." {
		t.Errorf("document E: %+v", d)
	}
	if _, err := c.Unit("chapter"); err == nil {
		t.Error("chapters are a unit")
	}
}

// Titles that head several texts get ids from their content, in whatever order the sources give them.
func TestIdsDoNotDependOnOrder(t *testing.T) {
	passages := []string{`["T",["A."]]`, `["T",["B."]]`, `["U",["C."]]`, `["T",["A."]]`}
	ids := func(order ...int) map[string]string {
		var list []string
		for _, i := range order {
			list = append(list, passages[i])
		}
		c := open(t, write(t, t.TempDir(), "a.json", `[{"question":"?","context":[`+strings.Join(list, ",")+`]}]`), Options{})
		byText := map[string]string{}
		for _, u := range units(t, c, DocumentLevel) {
			byText[u.Text] = u.ID
		}
		i, ok := c.ByContent("T", Paragraph{Sentences: []string{"B."}})
		if !ok || c.ID(i) != byText["B."] || len(c.ByTitle("T")) != 2 {
			t.Errorf("by content: %d %t, by title %v", i, ok, c.ByTitle("T"))
		}
		return byText
	}
	first, second := ids(0, 1, 2, 3), ids(2, 1, 3)
	if fmt.Sprint(first) != fmt.Sprint(second) {
		t.Errorf("%v and %v", first, second)
	}
	if len(first) != 3 || first["C."] != "U" || !strings.HasPrefix(first["A."], "T~") || first["A."] == first["B."] {
		t.Errorf("ids %v", first)
	}
}

func TestErrorsNameFileAndLine(t *testing.T) {
	ok := `{"id":"x","title":"T","text":"One."}` + "\n"
	for want, test := range map[string][2]string{
		"a.jsonl:2: empty line":                                         {"a.jsonl", ok + "\n" + ok},
		"a.jsonl:1: empty line":                                         {"a.jsonl", "\n" + ok},
		"a.jsonl: the file is empty":                                    {"a.jsonl", " "},
		"a.jsonl:2: malformed JSON":                                     {"a.jsonl", ok + `{"id":`},
		"a.jsonl:2: the line is not UTF-8":                              {"a.jsonl", ok + "{\"id\":\"y\",\"title\":\"\xff\",\"text\":\"\"}"},
		`a.jsonl:1: field "content" is not a text`:                      {"a.jsonl", `{"id":"x","title":"T","content":["One."]}`},
		`a.jsonl:2: missing field "text"`:                               {"a.jsonl", ok + `{"id":"y","title":"T"}`},
		`a.jsonl:2: missing field "title"`:                              {"a.jsonl", ok + `{"text":"One."}`},
		`a.jsonl:1: missing field "id"`:                                 {"a.jsonl", `{"contents":"T\nOne."}`},
		"a.jsonl:1: title is a JSON number, expected a string":          {"a.jsonl", `{"id":"x","title":5,"text":"One."}`},
		"a.jsonl:1: id [1]: expected a text or a number":                {"a.jsonl", `{"id":[1],"title":"T","text":"One."}`},
		"a.jsonl:1: the id is empty":                                    {"a.jsonl", `{"id":"","title":"T","text":"One."}`},
		"a.jsonl:1: the document is empty":                              {"a.jsonl", `{"id":"x","text":" "}`},
		"a.jsonl:2: record is a JSON number":                            {"a.jsonl", ok + "5"},
		`a.jsonl:3: duplicate document id "x", first given at`:          {"a.jsonl", ok + `{"id":"y","title":"T","text":"One."}` + "\n" + ok},
		"a.json:4: malformed JSON":                                      {"a.json", "[\n" + strings.TrimSpace(ok) + ",\n{\"id\":\n]"},
		`a.json:3: missing field "text"`:                                {"a.json", "[\n" + strings.TrimSpace(ok) + ",\n{\"id\":\"y\"}]"},
		"a.json:1: text after the list":                                 {"a.json", "[" + strings.TrimSpace(ok) + "] 5"},
		"a.json:1: malformed JSON: unexpected end":                      {"a.json", "[" + strings.TrimSpace(ok)},
		"a.json: no document found":                                     {"a.json", "[]"},
		"a.jsonl:1: context[1]: the title is empty":                     {"a.jsonl", `{"question":"?","context":[["T",["A"]],["",["B"]]]}`},
		"a.jsonl:1: context[0]: 1 items, expected [title, [sentences]]": {"a.jsonl", `{"question":"?","context":[["T"]]}`},
		"a.jsonl:1: context: a text where passages":                     {"a.jsonl", `{"question":"?","context":"some text"}`},
		"a.jsonl:1: context: 2 titles and 1 lists":                      {"a.jsonl", `{"question":"?","context":{"title":["T","U"],"sentences":[["A"]]}}`},
		"a.csv: unknown kind of file":                                   {"a.csv", "x"},
		"a.parquet":                                                     {"a.parquet", "PAR1 not really"},
	} {
		_, err := Open(t.Context(), []string{write(t, t.TempDir(), test[0], test[1])}, Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, expected an error with %q", err, want)
		}
	}
	dir := t.TempDir()
	write(t, dir, "a.jsonl", ok)
	write(t, dir, "b.jsonl", ok)
	_, err := Open(t.Context(), []string{dir}, Options{})
	if err == nil || !strings.Contains(err.Error(), "b.jsonl:1: duplicate") || !strings.Contains(err.Error(), "a.jsonl:1") {
		t.Errorf("got %v, expected an error that names both files", err)
	}
	if _, err := Open(t.Context(), []string{t.TempDir()}, Options{}); err == nil || !strings.Contains(err.Error(), "holds no .jsonl") {
		t.Errorf("empty folder: %v", err)
	}
	if _, err := FromDocuments([]Document{{Title: "T", Paragraphs: []Paragraph{{Text: "One.", Sentences: []string{"Two."}}}}}); err == nil {
		t.Error("a sentence that is not in the text was taken")
	}
}

// A folder with one file of each kind reads like the same records in one file.
func TestFolderAndContainers(t *testing.T) {
	type row struct {
		ID    string `parquet:"id"`
		Title string `parquet:"title"`
		Text  string `parquet:"text"`
	}
	dir := t.TempDir()
	line := func(i int) string { return fmt.Sprintf(`{"id":"%d","title":"T%d","text":"Text %d."}`+"\n", i, i, i) }
	write(t, dir, "1.jsonl", line(1))
	write(t, dir, "README.md", "not a source")
	write(t, dir, ".hidden.jsonl", "neither")
	write(t, dir, "2.json", "["+line(2)+"]")
	file, err := os.Create(filepath.Join(dir, "3.jsonl.gz"))
	if err != nil {
		t.Fatal(err)
	}
	packed := gzip.NewWriter(file)
	if _, err := packed.Write([]byte(line(3))); err != nil {
		t.Fatal(err)
	}
	if err := packed.Close(); err != nil {
		t.Fatal(err)
	}
	file.Close()
	if err := parquet.WriteFile(filepath.Join(dir, "4.parquet"), []row{{"4", "T4", "Text 4."}, {"5", "T5", "Text 5."}}); err != nil {
		t.Fatal(err)
	}
	c := open(t, dir, Options{})
	one := open(t, write(t, t.TempDir(), "all.jsonl", line(1)+line(2)+line(3)+line(4)+line(5)), Options{})
	if c.Len() != 5 || c.Digest() != one.Digest() {
		t.Errorf("%d documents, digests %s and %s", c.Len(), c.Digest(), one.Digest())
	}
}

func TestSeveralFiles(t *testing.T) {
	dir := t.TempDir()
	question := func(title string) string {
		return `{"context":[{"title":"` + title + `","text":"Text."},{"title":"Both","text":"Text."}]}` + "\n"
	}
	a, b := write(t, dir, "a.jsonl", question("A")), write(t, dir, "b.jsonl", question("B"))
	c, err := Open(t.Context(), []string{a, b}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if one := open(t, dir, Options{}); c.Len() != 3 || c.Digest() != one.Digest() {
		t.Errorf("%d documents, digests %s and %s", c.Len(), c.Digest(), one.Digest())
	}
	if _, err := Open(t.Context(), []string{a, filepath.Join(dir, "c.jsonl")}, Options{}); err == nil || !strings.Contains(err.Error(), "c.jsonl") {
		t.Errorf("a file that is missing: %v", err)
	}
	if _, err := Open(t.Context(), nil, Options{}); err == nil {
		t.Error("a corpus of no file must be refused")
	}
}

func TestParquetQuestions(t *testing.T) {
	type context struct {
		Title     []string   `parquet:"title,list"`
		Sentences [][]string `parquet:"sentences,list"`
	}
	type row struct {
		ID       string  `parquet:"id"`
		Question string  `parquet:"question"`
		Context  context `parquet:"context"`
	}
	path := filepath.Join(t.TempDir(), "a.parquet")
	if err := parquet.WriteFile(path, []row{{"q", "?", context{[]string{"T", "U"}, [][]string{{"One.", " Two."}, {"Three."}}}}}); err != nil {
		t.Fatal(err)
	}
	got := units(t, open(t, path, Options{}), DocumentLevel)
	if len(got) != 2 || got[0].ID != "T" || got[0].Text != "One. Two." || got[1].Text != "Three." {
		t.Errorf("got %+v", got)
	}
}

// TestLimit keeps the first documents, in memory and in the cache, and does not confuse the two sizes.
func TestLimit(t *testing.T) {
	var b strings.Builder
	for i := range 9 {
		fmt.Fprintf(&b, `{"id":"d%d","text":"Text %d."}`+"\n", i, i)
	}
	path := write(t, t.TempDir(), "a.jsonl", b.String())
	cache := t.TempDir()
	for _, options := range []Options{{Limit: 4}, {Limit: 4, CacheDir: cache, MapFrom: 1}} {
		c := open(t, path, options)
		if got := units(t, c, DocumentLevel); len(got) != 4 || got[3].ID != "d3" {
			t.Errorf("got %v", got)
		}
	}
	if c := open(t, path, Options{CacheDir: cache, MapFrom: 1}); c.Len() != 9 {
		t.Errorf("without a limit %d documents", c.Len())
	}
	if _, err := Open(t.Context(), []string{path}, Options{Limit: 10}); err == nil || !strings.Contains(err.Error(), "holds 9 documents") {
		t.Errorf("more than there are: %v", err)
	}
}

func TestMappedCorpusEqualsParsed(t *testing.T) {
	var b strings.Builder
	for i := range 500 {
		fmt.Fprintf(&b, `{"id":"d%d","title":"Title %d","text":"The first sentence, %d. A second one!\n\nAnother paragraph."}`+"\n", i, i%50, i)
	}
	path := write(t, t.TempDir(), "a.jsonl", b.String())
	parsed := open(t, path, Options{})
	cache := t.TempDir()
	options := Options{CacheDir: cache, MapFrom: 1}
	// Several at once: one makes the file, the others wait for it.
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			c, err := Open(t.Context(), []string{path}, options)
			if err != nil {
				t.Error(err)
				return
			}
			if c.Digest() != parsed.Digest() || !c.file.Mapped() {
				t.Errorf("digest %s, expected %s; mapped %t", c.Digest(), parsed.Digest(), c.file.Mapped())
			}
		})
	}
	group.Wait()
	files, err := filepath.Glob(filepath.Join(cache, "corpus-*.forage"))
	if err != nil || len(files) != 1 {
		t.Fatalf("cache holds %v, %v", files, err)
	}
	cached := open(t, path, options)
	for _, level := range []Level{DocumentLevel, ParagraphLevel, SentenceLevel} {
		if !slices.Equal(units(t, parsed, level), units(t, cached, level)) {
			t.Errorf("the %ss differ", level)
		}
	}
	// A damaged cache file is made again, a changed source gives another one.
	data, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(files[0], data[:len(data)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	if again := open(t, path, options); again.Digest() != parsed.Digest() {
		t.Error("after damage the corpus is another")
	}
	write(t, filepath.Dir(path), "a.jsonl", strings.Replace(b.String(), "second", "other", 1))
	if changed := open(t, path, options); changed.Digest() == parsed.Digest() {
		t.Error("a changed source gives the old corpus")
	}
}

func TestRealFiles(t *testing.T) {
	for file, want := range map[string][2]int{
		"hotpotqa_dev_distractor.jsonl": {4947, 21032}, "2wikimultihopqa_dev.jsonl": {3301, 11876}, "musique_train.jsonl": {1890, 0},
		"raw/search-r1/corpus.jsonl": {10, 0}, "raw/hotpotqa/hotpot_dev_distractor_v1.sample20.json": {182, 0},
		"raw/hotpotqa/hf_datasets_struct.sample5.json": {50, 0}, "raw/hotpotqa/ircot_processed.sample10.jsonl": {100, 0},
		"raw/musique/musique_ans_v1.0_dev.sample20.jsonl": {370, 0}, "raw/2wikimultihopqa/hipporag_2wikimultihopqa_corpus.json": {6119, 0},
	} {
		c := open(t, vectors.Shared(t, "data", filepath.FromSlash(file)), Options{})
		s, err := c.Unit(SentenceLevel)
		if err != nil {
			t.Fatal(err)
		}
		if c.Len() != want[0] || want[1] > 0 && s.Len() != want[1] {
			t.Errorf("%s: %d documents, %d sentences, expected %v", file, c.Len(), s.Len(), want)
		}
	}
}

func FuzzRecord(f *testing.F) {
	for _, seed := range []string{
		`{"id":"x","title":"T","text":"One. Two.\n\nThree."}`, `{"id":1,"contents":"\"T\"\ntext"}`,
		`{"question":"?","context":[["T",["A."," B."]]]}`, `{"question":"?","context":{"title":["T"],"sentences":[["A"]]}}`,
		`{"title":"T","paragraphs":["a",{"sentences":["b"]}]}`, `{"question":"?","context":"[]"}`, `[`, `{"context":""}`, `{"context":"\""}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		documents, err := parseRecord([]byte(line))
		if err != nil {
			return
		}
		c, err := FromDocuments(documents)
		if err != nil {
			return
		}
		for _, level := range []Level{DocumentLevel, ParagraphLevel, SentenceLevel} {
			u, err := c.Unit(level)
			if err != nil {
				t.Fatal(err)
			}
			for i, unit := range u.All() {
				if unit.DocumentID != c.ID(u.DocumentOf(i)) {
					t.Fatalf("unit %+v is in document %q", unit, c.ID(u.DocumentOf(i)))
				}
			}
		}
	})
}

// FuzzCorpusFile changes a good file: opening must refuse it or give a corpus of which everything can be read.
func FuzzCorpusFile(f *testing.F) {
	var buffer mapped.Buffer
	b := newBuilder(&buffer)
	for i := range 5 {
		d := Document{ID: fmt.Sprint(i), Title: "T", Paragraphs: []Paragraph{{Text: "One. Two."}, {Sentences: []string{"", "Three."}}}}
		if err := b.add(d, place{}); err != nil {
			f.Fatal(err)
		}
	}
	if err := b.finish(); err != nil {
		f.Fatal(err)
	}
	good := buffer.Bytes()
	f.Add(uint32(0), []byte{}, uint16(0), true)
	f.Add(uint32(1000), []byte{255, 255, 255, 255}, uint16(0), true)
	f.Fuzz(func(t *testing.T, at uint32, change []byte, cut uint16, sums bool) {
		data := bytes.Clone(good)
		copy(data[int(at)%len(data):], change)
		data = data[:len(data)-min(int(cut), len(data))]
		if sums {
			mappedtest.Resum(data)
		}
		file, err := mapped.Parse(data, fileKind, fileVersion)
		if err != nil {
			return
		}
		c, err := load(file)
		if err != nil {
			return
		}
		for i := range c.Len() {
			d := c.At(i)
			c.Document(d.ID)
			c.ByTitle(d.Title)
		}
		for _, level := range []Level{DocumentLevel, ParagraphLevel, SentenceLevel} {
			u, err := c.Unit(level)
			if err != nil {
				t.Fatal(err)
			}
			for _, unit := range u.All() {
				u.Resolve(unit.ID)
			}
		}
	})
}
