package dataset

import (
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"

	"github.com/forage-rl/forage/core/internal/vectors"
	"github.com/forage-rl/forage/core/retrieval/corpus"
	"github.com/forage-rl/forage/core/sdk/episode"
)

func open(t *testing.T, spec Spec) *Dataset {
	t.Helper()
	d, err := Open(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Counts of the published samples; gold and expert counts are totals.
func TestSharedFiles(t *testing.T) {
	for _, c := range []struct {
		file                    string
		n, golds, hops, experts int
	}{
		{"hotpotqa_dev_distractor.jsonl", 500, 1000, 1000, 0},
		{"hotpotqa_train_distractor.jsonl", 100, 200, 200, 0},
		{"2wikimultihopqa_dev.jsonl", 500, 370*2 + 130*4, 370*2 + 130*4, 0},
		{"2wikimultihopqa_train.jsonl", 500, 408*2 + 92*4, 408*2 + 92*4, 0},
		{"musique_train.jsonl", 100, 68*2 + 27*3 + 5*4, 68*2 + 27*3 + 5*4, 0},
		{"bamboogle.jsonl", 125, 0, 250, 0},
		{"david_grpo_hotpot_dev.jsonl", 400, 0, 0, 0},
		{"david_grpo_hotpot_warmup.jsonl", 4, 8, 8, 4},
		{"antileakbench_multihop_TRUNCATED.jsonl", 2, 4, -1, 0},
		{"strategyqa_dev.jsonl", 229, -1, -1, 0},
		{"raw/hotpotqa/hotpot_train_v1.1.sample20.json", 20, 40, 40, 0},
		{"raw/hotpotqa/hotpot_dev_fullwiki_v1.sample20.json", 20, 40, 40, 0},
		{"raw/hotpotqa/benchfortir_dev_distractor.sample5.jsonl", 5, 10, 10, 0},
		{"raw/hotpotqa/hf_datasets_struct.sample5.json", 5, 10, 10, 0},
		{"raw/hotpotqa/ircot_processed.sample10.jsonl", 10, 20, 20, 0},
		{"raw/hotpotqa/react_hotpot_dev_v1_simplified.sample20.json", 20, 0, 0, 0},
		{"raw/2wikimultihopqa/dev.sample20.json", 20, -1, -1, 0},
		{"raw/2wikimultihopqa/train.sample20_incl_bad_sent_ids.json", 20, -1, -1, 0},
		{"raw/2wikimultihopqa/trustmargin_dev_with_answer_aliases.json", 1000, 0, 0, 0},
		{"raw/musique/musique_ans_v1.0_dev.sample20.jsonl", 20, -1, -1, 0},
		{"raw/musique/hipporag_json_list_train.sample5.json", 5, -1, -1, 0},
		{"raw/bamboogle/flashrag_test.jsonl", 125, 0, 0, 0},
		{"raw/bamboogle/verl_test.parquet", 125, 0, 0, 0},
		{"raw/bamtwoogle/bamtwoogle.csv", 100, 0, 0, 0},
		{"raw/flashrag/nq_test_quickstart.jsonl", 17, 0, 0, 0},
		{"raw/flashrag/hotpotqa_dev_metadata.DERIVED.jsonl", 5, 10, 10, 0},
		{"raw/flashrag/musique_dev_metadata.DERIVED.jsonl", 5, -1, -1, 0},
		{"raw/search-r1/nq_search_test.parquet", 3610, 0, 0, 0},
		{"raw/graphrag-r2/hotpotqa_test.parquet", 200, 0, 0, 0},
		{"raw/graphrag-r2/2wikimultihop_test.parquet", 200, 0, 0, 0},
		{"raw/graphrag-r2/musique_test.parquet", 200, 0, 0, 0},
		{"raw/david-grpo/hotpot_qa_dev.parquet", 400, 0, 0, 0},
		{"raw/david-grpo/hotpot_qa_warmup.parquet", 4, 8, 8, 4},
		{"raw/strategyqa/dev.sample20.json", 20, -1, -1, 0},
		{"raw/r1-searcher/hotpotqa_500.jsonl", 500, 0, 0, 0},
		{"raw/r1-searcher/bamboogle.jsonl", 125, 0, 0, 0},
		{"raw/benchfortir/musique_200_qa_with_aliases.jsonl", 200, 0, 0, 0},
		{"raw/benchfortir/2wiki_200_qa_with_aliases.jsonl", 200, 0, 0, 0},
	} {
		t.Run(c.file, func(t *testing.T) {
			d := open(t, Spec{Path: vectors.Shared(t, append([]string{"data"}, strings.Split(c.file, "/")...)...)})
			golds, hops := 0, 0
			for _, q := range d.Questions() {
				golds += len(q.Gold)
				hops += q.Hops
				if q.ID == "" || q.Text != strings.TrimSpace(q.Text) || len(q.Answers) == 0 {
					t.Errorf("%+v", q)
				}
			}
			if d.Len() != c.n || c.golds >= 0 && golds != c.golds || c.hops >= 0 && hops != c.hops || d.Experts() != c.experts {
				t.Errorf("%d questions, %d golds, %d hops, %d experts; want %v", d.Len(), golds, hops, d.Experts(), c)
			}
		})
	}
}

// One published sample holds a record twice, on one line.
func TestSharedDuplicate(t *testing.T) {
	path := vectors.Shared(t, "data", "raw", "hotpotqa", "hotpot_dev_distractor_v1.sample20.json")
	_, err := Open(t.Context(), Spec{Path: path})
	if want := "sample20.json:1 (record "; err == nil || strings.Count(err.Error(), want) != 2 {
		t.Errorf("%v, want two places with %q", err, want)
	}
}

// Two published forms of one set give the same questions.
func TestSharedFormsAgree(t *testing.T) {
	shared := func(file string) string {
		return vectors.Shared(t, append([]string{"data"}, strings.Split(file, "/")...)...)
	}
	for _, pair := range [][2]string{
		{"david_grpo_hotpot_dev.jsonl", "raw/david-grpo/hotpot_qa_dev.parquet"},
		{"david_grpo_hotpot_warmup.jsonl", "raw/david-grpo/hotpot_qa_warmup.parquet"},
		{"hotpotqa_dev_distractor.jsonl", "raw/hotpotqa/benchfortir_dev_distractor.sample5.jsonl"},
		{"musique_train.jsonl", "raw/musique/hipporag_json_list_train.sample5.json"},
		{"2wikimultihopqa_dev.jsonl", "raw/2wikimultihopqa/dev.sample20.json"},
	} {
		a, b := open(t, Spec{Path: shared(pair[0])}), open(t, Spec{Path: shared(pair[1])})
		both := 0
		for i := range b.Len() {
			q, _ := b.At(i)
			at, ok := a.Find(q.ID)
			if !ok {
				continue
			}
			both++
			p, _ := a.At(at)
			if p.Text != q.Text || !slices.Equal(p.Answers, q.Answers) || !slices.Equal(p.Gold, q.Gold) || p.Type != "" && p.Type != q.Type && q.Type != "" {
				t.Errorf("%v: %+v differs from %+v", pair, p, q)
			}
			ea, _, _ := a.Expert(at)
			eb, _, _ := b.Expert(i)
			if strings.TrimSpace(ea.Text) != strings.TrimSpace(eb.Text) {
				t.Errorf("%v: expert of %s differs", pair, q.ID)
			}
		}
		if both == 0 {
			t.Errorf("%v share no id", pair)
		}
	}
	bamboogle := open(t, Spec{Path: shared("bamboogle.jsonl")})
	for _, file := range []string{"raw/bamboogle/flashrag_test.jsonl", "raw/bamboogle/verl_test.parquet", "raw/r1-searcher/bamboogle.jsonl"} {
		other := open(t, Spec{Path: shared(file)})
		for i := range 125 {
			p, _ := bamboogle.At(i)
			q, _ := other.At(i)
			if p.Text != q.Text || !slices.Equal(p.Answers, q.Answers) {
				t.Errorf("%s: %q %v, want %q %v", file, q.Text, q.Answers, p.Text, p.Answers)
			}
		}
	}
}

func TestSharedGoldResolution(t *testing.T) {
	for _, c := range []struct {
		file  string
		match GoldMatch
	}{
		{"hotpotqa_dev_distractor.jsonl", MatchDocument}, {"musique_train.jsonl", MatchDocument}, {"2wikimultihopqa_dev.jsonl", MatchDocument},
	} {
		path := vectors.Shared(t, "data", c.file)
		d := open(t, Spec{Path: path})
		docs, err := corpus.Open(t.Context(), []string{path}, corpus.Options{})
		if err != nil {
			t.Fatal(err)
		}
		resolved, r, err := ResolveGold(docs, d.Questions(), MatchAuto, MaxUnresolved)
		if err != nil || r.Match != c.match || r.Unresolved != 0 {
			t.Errorf("%s: %+v, %v", c.file, r, err)
		}
		for _, q := range resolved {
			for _, g := range q.Gold {
				if _, ok := docs.Find(g.DocumentID); !ok {
					t.Errorf("%s: %+v", c.file, g)
				}
			}
		}
		if _, _, err := ResolveGold(docs, open(t, Spec{Path: vectors.Shared(t, "data", "hotpotqa_train_distractor.jsonl")}).Questions(), MatchAuto, MaxUnresolved); err == nil {
			t.Errorf("%s: the golds of another set must not be found", c.file)
		}
	}
}

func TestFileErrors(t *testing.T) {
	ok := `{"id":"a","question":"q?","answers":["x"],"gold_titles":[]}`
	for name, c := range map[string]struct{ file, content, want string }{
		"no titles":    {"x.jsonl", ok + "\n" + `{"id":"b","question":"q?","answers":["x"],"gold_ids":["d"]}`, `x.jsonl:2: field "gold_titles" is missing; the line has answers, gold_ids, id, question`},
		"other answer": {"x.jsonl", ok + "\n" + `{"id":"b","question":"q?","answer":"x","gold_titles":[]}`, `x.jsonl:2: field "answers" is missing; the line has answer, gold_titles, id, question`},
		"missing":      {"x.jsonl", ok + "\n" + `{"id":"b","answers":["x"],"gold_titles":[]}`, `x.jsonl:2: field "question" is missing`},
		"wrong kind":   {"x.jsonl", `{"id":"b","question":["q"],"answers":["x"],"gold_titles":[]}`, `x.jsonl:1: field "question" is a list, want a text`},
		"answers":      {"x.jsonl", `{"id":"b","question":"q","answers":[{}],"gold_titles":[]}`, `x.jsonl:1: field "answers": entry 0 is a object`},
		"no answer":    {"x.jsonl", `{"id":"b","question":"q","answers":[" "],"gold_titles":[]}`, `no answer`},
		"duplicate":    {"x.jsonl", ok + "\n\n" + ok, `x.jsonl:3: id "a" was given before at `},
		"not JSON":     {"x.jsonl", ok + "\n{", `x.jsonl:2: not a whole JSON object`},
		"two objects":  {"x.jsonl", ok + ok, `x.jsonl:1: text after the JSON object`},
		"not object":   {"x.json", "[\n3]", `x.json:2: the record is a number, want an object`},
		"open list":    {"x.json", "[" + ok + ",\n" + ok, `x.json:2: unexpected end of JSON`},
		"after list":   {"x.json", "[" + ok + "]\n1", `text after the list`},
		"unknown":      {"x.jsonl", `{"text":"a"}`, `no known format has the fields text`},
		"utf-8":        {"x.jsonl", "{\"id\":\"\xff\"}", `not valid UTF-8`},
		"empty":        {"x.jsonl", "\n \n", `holds no questions`},
		"extension":    {"x.txt", ok, `unknown kind of file`},
		"parquet":      {"x.parquet", "PAR1 nonsense PAR1", `x.parquet`},
		"gzip":         {"x.jsonl.gz", ok, `gzip`},
		"zstd":         {"x.jsonl.zst", ok, `x.jsonl.zst`},
		"facts":        {"x.jsonl", `{"_id":"a","question":"q","answer":"x","supporting_facts":[["t"]]}`, `field "supporting_facts": entry 0 is not [title, sentence]`},
		"reward model": {"x.jsonl", `{"question":"q","reward_model":{"style":"rule"}}`, `has neither ground_truth`},
		"prompt":       {"x.jsonl", `{"prompt":"hello","reward_model":{"ground_truth":"x"}}`, `set question_after`},
	} {
		_, err := Open(t.Context(), Spec{Path: write(t, c.file, c.content)})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	path := write(t, "x.jsonl", ok)
	for _, spec := range []Spec{
		{}, {Path: path, Builtin: "minihop"}, {Builtin: "other"}, {Path: path, Limit: 2}, {Path: path, Limit: -1}, {Path: path, Format: "nope"},
		{Path: filepath.Dir(path)}, {Path: path + "x"}, {Builtin: "minihop"}, {Builtin: "minihop", Format: "qa"},
		{Builtin: "minihop", MiniHop: MiniHop{Split: "train", Phase: "skill"}}, {Builtin: "minihop", MiniHop: MiniHop{Split: "stream"}},
		{Builtin: "minihop", MiniHop: MiniHop{Split: "experts", K: 1000}}, {Builtin: "minihop", MiniHop: MiniHop{Split: "test"}, Limit: 151},
	} {
		if _, err := Open(t.Context(), spec); err == nil {
			t.Errorf("%+v must be refused", spec)
		}
	}
}

// One set in every container gives one digest.
func TestContainers(t *testing.T) {
	type row struct {
		ID       string `json:"id" parquet:"id"`
		Question string `json:"question" parquet:"question"`
		Answer   string `json:"answer" parquet:"answer"`
	}
	rows := []row{{"1", "who, then?", "A \"B\""}, {"2", strings.Repeat("long ", 40000) + "?", "ü"}}
	var lines, table bytes.Buffer
	w := csv.NewWriter(&table)
	if err := w.Write([]string{"\ufeffid", "question", "answer"}); err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		data, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		lines.Write(append(data, "\r\n"...))
		if err := w.Write([]string{r.ID, r.Question, r.Answer}); err != nil {
			t.Fatal(err)
		}
	}
	w.Flush()
	list, err := json.MarshalIndent(rows, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	var zipped, columns bytes.Buffer
	gz := gzip.NewWriter(&zipped)
	if _, err := gz.Write(lines.Bytes()); err != nil || gz.Close() != nil {
		t.Fatal(err)
	}
	zs, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := parquet.Write(&columns, rows); err != nil {
		t.Fatal(err)
	}
	want := open(t, Spec{Path: write(t, "x.jsonl", lines.String())})
	if want.Len() != 2 {
		t.Fatalf("%d questions", want.Len())
	}
	for name, content := range map[string]string{
		"bom.jsonl": "\ufeff" + lines.String(), "x.json": string(list), "lines.json": lines.String(), "x.csv": table.String(),
		"x.jsonl.gz": zipped.String(), "x.jsonl.zst": string(zs.EncodeAll(lines.Bytes(), nil)), "x.parquet": columns.String(),
	} {
		if got := open(t, Spec{Path: write(t, name, content)}); got.Digest() != want.Digest() {
			t.Errorf("%s: %+v, want %+v", name, got.Questions(), want.Questions())
		}
	}
}

func TestKeepsRawAndMetadata(t *testing.T) {
	d := open(t, Spec{Path: write(t, "set.dev.jsonl", `{"question":" who? ","answer":"George VI\n","level":"hard","n":3,"big":12345678901234567890,"expert":"<answer> x </answer>"}`+"\n"+
		`{"question":"is it?","answer":true}`)})
	q, _ := d.At(0)
	want := episode.Question{ID: "set-0", Text: "who?", Answers: []string{"George VI"}, Metadata: map[string]any{
		"raw_question": " who? ", "raw_answers": []any{"George VI\n"}, "level": "hard", "n": 3., "big": "12345678901234567890",
	}}
	if !reflect.DeepEqual(q, want) {
		t.Errorf("%+v, want %+v", q, want)
	}
	if e, ok, err := d.Expert(0); !ok || err != nil || e.Text != "<answer> x </answer>" || !strings.HasSuffix(e.Place, "set.dev.jsonl:1") {
		t.Errorf("expert %+v %v %v", e, ok, err)
	}
	if _, ok, _ := d.Expert(1); ok {
		t.Error("the second question has no expert")
	}
	if q, _ := d.At(1); q.Answers[0] != "yes" {
		t.Errorf("%+v", q)
	}
	if _, err := d.At(2); err == nil {
		t.Error("question 2 of 2")
	}
}

func TestLimitAndSeed(t *testing.T) {
	var b strings.Builder
	for i := range 50 {
		fmt.Fprintf(&b, "{\"id\":\"q%02d\",\"question\":\"%d?\",\"answer\":\"a\"}\n", i, i)
	}
	path := write(t, "x.jsonl", b.String())
	ids := func(spec Spec) (ids []string) {
		spec.Path = path
		d := open(t, spec)
		for _, q := range d.Questions() {
			ids = append(ids, q.ID)
		}
		return ids
	}
	if got := ids(Spec{Limit: 3}); !slices.Equal(got, []string{"q00", "q01", "q02"}) {
		t.Errorf("first three: %v", got)
	}
	one, two := uint64(1), uint64(2)
	a := ids(Spec{Limit: 20, Seed: &one})
	if !slices.Equal(a, ids(Spec{Limit: 20, Seed: &one})) || slices.Equal(a, ids(Spec{Limit: 20, Seed: &two})) {
		t.Error("a draw must be a function of its seed")
	}
	if !slices.Equal(a[:5], ids(Spec{Limit: 5, Seed: &one})) {
		t.Error("a smaller draw must be the beginning of a larger one")
	}
	slices.Sort(a)
	if len(slices.Compact(a)) != 20 {
		t.Error("a draw must be without replacement")
	}
	if d1, d2 := open(t, Spec{Path: path, Limit: 5}), open(t, Spec{Path: path, Limit: 6}); d1.Digest() == d2.Digest() || d1.Digest() != open(t, Spec{Path: path, Limit: 5}).Digest() {
		t.Error("digests")
	}
}

func TestMiniHop(t *testing.T) {
	train := open(t, Spec{Builtin: "minihop", MiniHop: MiniHop{Split: "train", World: 1}})
	test := open(t, Spec{Builtin: "minihop", MiniHop: MiniHop{Split: "test", World: 1}, Limit: 10})
	experts := open(t, Spec{Builtin: "minihop", MiniHop: MiniHop{Split: "experts", World: 1}})
	if train.Len() != 256 || test.Len() != 10 || experts.Len() != 100 || experts.Experts() != 100 || train.Experts() != 0 {
		t.Errorf("%d train, %d test, %d experts", train.Len(), test.Len(), experts.Len())
	}
	for i := range experts.Len() {
		q, _ := experts.At(i)
		if q.Hops != []int{2, 2, 3, 3}[i%4] {
			t.Errorf("expert %d has %d hops", i, q.Hops)
		}
		e, ok, err := experts.Expert(i)
		if !ok || err != nil || strings.Count(e.Text, "<search>") != q.Hops || !strings.Contains(e.Text, "<answer> "+q.Answers[0]+" </answer>") {
			t.Errorf("expert %d: %q", i, e.Text)
		}
		if _, ok := train.Find(q.ID); !ok {
			t.Errorf("%s is no training question", q.ID)
		}
	}
	stream := open(t, Spec{Builtin: "minihop", MiniHop: MiniHop{Split: "stream", Phase: "skill", World: 3}})
	q, err := stream.At(123456)
	if err != nil || !stream.Endless() || stream.Len() < 1<<30 {
		t.Errorf("stream: %v", err)
	}
	e, ok, err := stream.Expert(123456)
	if err != nil || !ok || strings.Count(e.Text, "<search>") != q.Hops {
		t.Errorf("%+v: %+v, %v", q, e, err)
	}
	if stream.Digest() == open(t, Spec{Builtin: "minihop", MiniHop: MiniHop{Split: "stream", Phase: "habit", World: 3}}).Digest() {
		t.Error("digests of streams")
	}
}

func TestResolveGold(t *testing.T) {
	c, err := corpus.FromDocuments([]corpus.Document{
		{ID: "1", Title: "A &amp; B", Paragraphs: []corpus.Paragraph{{Text: "one"}, {Text: "two"}}},
		{ID: "2", Title: "Twin", Paragraphs: []corpus.Paragraph{{Text: "left"}}},
		{ID: "3", Title: "Twin", Paragraphs: []corpus.Paragraph{{Text: "right"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	question := func(meta map[string]any, golds ...episode.Gold) []episode.Question {
		return []episode.Question{{ID: "q", Gold: golds, Metadata: meta}}
	}
	right := map[string]any{"support_docs": []any{map[string]any{"title": "Twin", "paragraph_text": "right"}}}
	for name, c2 := range map[string]struct {
		questions []episode.Question
		match     GoldMatch
		want      episode.Gold
		used      GoldMatch
	}{
		"paragraph":        {question(nil, episode.Gold{Title: "x", ParagraphID: "1#p1"}), MatchAuto, episode.Gold{Title: "x", ParagraphID: "1#p1"}, MatchParagraph},
		"document":         {question(nil, episode.Gold{Title: "x", DocumentID: "2"}), MatchAuto, episode.Gold{Title: "x", DocumentID: "2"}, MatchDocument},
		"normalised title": {question(nil, episode.Gold{Title: "a & b"}), MatchAuto, episode.Gold{Title: "a & b", DocumentID: "1"}, MatchDocument},
		"content":          {question(right, episode.Gold{Title: "Twin"}), MatchAuto, episode.Gold{Title: "Twin", DocumentID: "3"}, MatchDocument},
		"ambiguous title":  {question(nil, episode.Gold{Title: "Twin"}), MatchAuto, episode.Gold{Title: "Twin"}, MatchTitle},
		"forced title":     {question(nil, episode.Gold{Title: "Twin", DocumentID: "2"}), MatchTitle, episode.Gold{Title: "Twin"}, MatchTitle},
	} {
		got, r, err := ResolveGold(c, c2.questions, c2.match, MaxUnresolved)
		if err != nil || r.Match != c2.used || got[0].Gold[0] != c2.want {
			t.Errorf("%s: %+v %+v %v", name, got, r, err)
		}
	}
	if _, r, err := ResolveGold(c, question(nil, episode.Gold{Title: "nowhere"}), MatchAuto, MaxUnresolved); err == nil || r.Share() != 1 || !strings.Contains(err.Error(), `"nowhere" of question q`) {
		t.Errorf("%+v %v", r, err)
	}
	// Where golds may be missing, those that are there are found as ever.
	some := question(nil, episode.Gold{Title: "nowhere"}, episode.Gold{Title: "A &amp; B"})
	if got, r, err := ResolveGold(c, some, MatchAuto, .5); err != nil || r.Unresolved != 1 || got[0].Gold[0] != (episode.Gold{Title: "nowhere"}) || got[0].Gold[1].DocumentID != "1" {
		t.Errorf("%+v %+v %v", got, r, err)
	}
	if _, r, err := ResolveGold(c, some, MatchAuto, .49); err == nil || !strings.Contains(err.Error(), "max_unresolved") {
		t.Errorf("%+v %v", r, err)
	}
	if _, r, err := ResolveGold(c, question(nil), MatchAuto, MaxUnresolved); err != nil || r.Golds != 0 {
		t.Errorf("no golds: %+v %v", r, err)
	}
	if _, _, err := ResolveGold(c, question(nil), "titles", MaxUnresolved); err == nil {
		t.Error("unknown match must be refused")
	}
}

func FuzzOpen(f *testing.F) {
	for _, s := range []string{
		`{"id":"a","question":"q?","answers":["x"],"gold_titles":["t"],"context":[{"title":"t","sentences":["s"]}]}`,
		`[{"_id":"a","question":"q","answer":"x","supporting_facts":{"title":["t"],"sent_id":[0]},"context":[["t",["s"]]]}]`,
		`{"id":"2hop__1","question":"q","answer":"x","question_decomposition":[{}],"paragraphs":[{"title":"t","paragraph_text":"p","is_supporting":true}]}`,
		`{"reward_model":"{\"ground_truth\":{\"target\":[\"x\"]}}","prompt":[{"content":"Question: q"}]}`,
		"question,answer\nq,x\n", "\xef\xbb\xbf[]", "[{}", `{"question_text":"q","answers_objects":[{"spans":["x"]}]}`,
		`{"qid":"a","question":"q","answer":true,"evidence":[["T-1"]]}`, `{"question":"q","golden_answers":"x","metadata":{"supporting_facts":[]}}`,
	} {
		for kind := range byte(3) {
			f.Add(kind, []byte(s))
		}
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, kind byte, data []byte) {
		path := filepath.Join(dir, "x"+[]string{".jsonl", ".csv", ".parquet"}[kind%3])
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		d, err := Open(t.Context(), Spec{Path: path})
		if err != nil {
			return
		}
		for _, q := range d.Questions() {
			if q.ID == "" || q.Text == "" || len(q.Answers) == 0 || q.Answers[0] == "" {
				t.Errorf("%+v", q)
			}
		}
	})
}
