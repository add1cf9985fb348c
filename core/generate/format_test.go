package generate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestParsePhrase(t *testing.T) {
	for written, want := range map[string]string{
		"the town of <SOURCE>":                            "the town of <SOURCE>",
		"Phrase: \"the town of <SOURCE>.\"\nIt is a town": "the town of <SOURCE>",
		"<think>hm</think> the town of <SOURCE>":          "the town of <SOURCE>",
		"the town":                                        "",
		"":                                                "",
		"<SOURCE>":                                        "",
		"the town of <SOURCE> by <SOURCE>":                "",
		"the PORT of <SOURCE>":                            "",
		"the town of the <SOURCE>":                        "the town of the <SOURCE>", // a small word of the title does not tell
		"the town <b>of</b> <SOURCE>":                     "",
		"the " + strings.Repeat("very ", 30) + "old <SOURCE>": "",
	} {
		got, err := parsePhrase(written, "The Port of Merrin")
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v; want %q", written, got, err, want)
		}
	}
	if _, err := parsePhrase("the thing of <SOURCE>", "The The"); err == nil {
		t.Error("a title of small words is given away")
	}
}

func TestParseLeaf(t *testing.T) {
	d := Document{"Harrow Mill", "Harrow Mill was built in 1787 by Ann Lee for twelve guilders. It stands on the Tove."}
	good := `{"question": "Who built <TITLE>?", "answer": "Ann Lee", "answer_type": "entity"}`
	for written, fault := range map[string]string{
		good: "", "```json\n" + good + "\n```": "", "<think>{}</think>" + good: "",
		`{"question": "When was <TITLE> built?", "answer": "1787", "answer_type": "date"}`:                      "",
		`{"question": "For how many guilders was <TITLE> built?", "answer": "twelve", "answer_type": "number"}`: "",
		"no":                    "JSON",
		`{"question": "Who`:     "JSON",
		`{"question": ["Who"]}`: "JSON",
		`} {`:                   "JSON",
		`{"question": "Who built it?", "answer": "Ann Lee", "answer_type": "entity"}`:                            "<TITLE>",
		`{"question": "Who built <TITLE>, <TITLE>?", "answer": "Ann Lee", "answer_type": "entity"}`:              "2 times",
		`{"question": "Who built <TITLE>", "answer": "Ann Lee", "answer_type": "entity"}`:                        "question mark",
		`{"question": "Who built <TITLE> for {x}?", "answer": "Ann Lee", "answer_type": "entity"}`:               "marks",
		`{"question": "Who built <TITLE>?", "answer": "Ann Lee", "answer_type": "person"}`:                       "type",
		`{"question": "Who built <TITLE>?", "answer": " ", "answer_type": "entity"}`:                             "empty",
		`{"question": "Who built <TITLE>?", "answer": "the", "answer_type": "entity"}`:                           "empty",
		`{"question": "Who built <TITLE>?", "answer": "Ann Lee for twelve guilders. It", "answer_type": "span"}`: "6 words",
		`{"question": "Who built <TITLE>?", "answer": "ann lee", "answer_type": "entity"}`:                       "stand in the document",
		`{"question": "Who built <TITLE>?", "answer": "Ann Le", "answer_type": "entity"}`:                        "stand in the document",
		`{"question": "What is <TITLE>?", "answer": "Harrow Mill", "answer_type": "entity"}`:                     "title",
		`{"question": "Who built Harrow Mill, <TITLE>?", "answer": "Ann Lee", "answer_type": "entity"}`:          "names",
		`{"question": "Is <TITLE> old?", "answer": "Ann Lee", "answer_type": "entity"}`:                          "question word",
		`{"question": "Who built <TITLE>?", "answer": "1787", "answer_type": "date"}`:                            "who",
		`{"question": "When was <TITLE> built?", "answer": "Ann Lee", "answer_type": "entity"}`:                  "time",
		`{"question": "How many guilders did <TITLE> take?", "answer": "Tove", "answer_type": "entity"}`:         "number",
	} {
		l, err := parseLeaf(written, d)
		if fault == "" && (err != nil || l.Question == "" || l.Answer == "") {
			t.Errorf("%s: %v", written, err)
		}
		if fault != "" && (err == nil || !strings.Contains(err.Error(), fault)) {
			t.Errorf("%s: got %v, want %q", written, err, fault)
		}
	}
}

func TestCompose(t *testing.T) {
	l := leaf{Question: "When was <TITLE> founded?", Answer: "1901"}
	got := compose(l, []string{"the author of <SOURCE>", "the employer of <SOURCE>", "the seat of <SOURCE>"}, "Salt <SOURCE>")
	if want := "When was the seat of the employer of the author of Salt <SOURCE> founded?"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for question, fault := range map[string]string{
		"When was the seat of Salt founded?": "", "When was 1901 founded?": "answer", "When was merrin, the seat of Salt, founded?": "names", "Merrinish 19012?": "",
	} {
		if err := checkQuestion(question, "1901", []string{"Merrin"}); (err != nil) != (fault != "") || err != nil && !strings.Contains(err.Error(), fault) {
			t.Errorf("%q: %v, want %q", question, err, fault)
		}
	}
}

func TestCorrect(t *testing.T) {
	for written, want := range map[string]bool{
		"Ann Lee": true, "ann lee.": true, "The Ann Lee": true, "Answer: Ann Lee": true, "It was Ann Lee": true, "It was built by Ann Lee\nor not": true,
		"unknown": false, "Ann": false, "Joann Lee": false, "": false, "Ann Leeds": false, "Bob\nAnn Lee": false,
		"It may have been Bob or Cid or Dan or Ann Lee": false, "<think>Ann Lee</think> Bob": false,
	} {
		if got := correct(written, "Ann Lee"); got != want {
			t.Errorf("%q: %v", written, got)
		}
	}
}

func TestPromptFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "prompts")
	if err := SavePrompts(dir); err != nil {
		t.Fatal(err)
	}
	if err := SavePrompts(dir); err == nil {
		t.Error("files were overwritten")
	}
	bundled, err := LoadPrompts("")
	if err != nil {
		t.Fatal(err)
	}
	same, err := LoadPrompts(dir)
	if err != nil || same.digest != bundled.digest {
		t.Errorf("saved prompts are others: %v", err)
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("closed_book.txt", "Q {{.Question}}")
	changed, err := LoadPrompts(dir)
	if err != nil || changed.digest == bundled.digest {
		t.Fatalf("a changed prompt: %v", err)
	}
	if text, err := changed.render("closed_book", promptData{Question: "<a> & {{b}}"}); err != nil || text != "Q <a> & {{b}}" {
		t.Errorf("%q, %v", text, err)
	}
	write("closed_book.txt", "\n{{.Qestion}}")
	if _, err := LoadPrompts(dir); err == nil || !strings.Contains(err.Error(), "closed_book.txt:2") {
		t.Errorf("a wrong name: %v", err)
	}
	write("closed_book.txt", "{{if}}")
	if _, err := LoadPrompts(dir); err == nil {
		t.Error("a wrong template was read")
	}
	write("closed_book.txt", "x")
	write("more.txt", "x")
	if _, err := LoadPrompts(dir); err == nil || !strings.Contains(err.Error(), "more.txt") {
		t.Errorf("an unknown file: %v", err)
	}
	if _, err := LoadPrompts(t.TempDir()); err == nil {
		t.Error("an empty folder was taken")
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`{"question": "Who built <TITLE>?", "answer": "Ann", "answer_type": "entity"}`, "Ann built it", "the <SOURCE>")
	f.Add("\xff{}", "ü", "é")
	f.Fuzz(func(t *testing.T, written, text, part string) {
		if l, err := parseLeaf(written, Document{"T", text}); err == nil && (!strings.Contains(text, l.Answer) || strings.Count(l.Question, titlePlace) != 1) {
			t.Errorf("%q gives %+v", written, l)
		}
		if phrase, err := parsePhrase(written, part); err == nil && strings.Count(phrase, sourcePlace) != 1 {
			t.Errorf("%q gives %q", written, phrase)
		}
		if standsIn(part, text) && !strings.Contains(text, part) {
			t.Errorf("%q is not in %q", part, text)
		}
		if utf8.ValidString(text) && len([]rune(cut(text, 3))) > 3 {
			t.Errorf("%q is cut to %q", text, cut(text, 3))
		}
		correct(written, text)
	})
}
