package corpus

import (
	"fmt"
	"strconv"
	"strings"
)

// Document is a titled text.
type Document struct {
	// ID is unique in its corpus. Given empty to [FromDocuments], it becomes the title (see the package comment).
	ID         string
	Title      string
	Paragraphs []Paragraph
}

// Paragraph is a part of a document. As input to [FromDocuments] it needs Text, which is then split into sentences, or
// Sentences, which are then joined with blanks; with both, the sentences must follow one another in the text.
type Paragraph struct {
	// ID is derived: leave it empty in input.
	ID   string
	Text string
	// Sentences holds sentence i of id SentenceID(ID, i); one that is empty keeps its number.
	Sentences []string
}

// Text is the whole text of the document without its title: the paragraphs, a line end between two.
func (d Document) Text() string {
	texts := make([]string, len(d.Paragraphs))
	for i, p := range d.Paragraphs {
		texts[i] = p.Text
	}
	return strings.Join(texts, "\n")
}

// ParagraphID gives the id of paragraph i of a document with count paragraphs.
func ParagraphID(document string, i, count int) string {
	if count == 1 {
		return document
	}
	return document + "#p" + strconv.Itoa(i)
}

// SentenceID gives the id of sentence i of a paragraph.
func SentenceID(paragraph string, i int) string { return paragraph + ".s" + strconv.Itoa(i) }

// JoinSentences gives the text that a list of sentences makes: trimmed, the empty ones left out, a blank between two.
func JoinSentences(sentences []string) string {
	var b strings.Builder
	for _, s := range sentences {
		if s = strings.TrimSpace(s); s == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(s)
	}
	return b.String()
}

// span is a sentence within its paragraph's text, in bytes.
type span struct{ start, length, number uint32 }

// layOut gives a paragraph's text and where its sentences lie in it.
func layOut(p Paragraph) (string, []span, error) {
	if p.Sentences == nil {
		text := strings.TrimSpace(p.Text)
		var spans []span
		for start, s := range splitSentences(text) {
			spans = append(spans, span{uint32(start), uint32(len(s)), uint32(len(spans))})
		}
		return text, spans, nil
	}
	text := strings.TrimSpace(p.Text)
	if text == "" {
		text = JoinSentences(p.Sentences)
	}
	spans := make([]span, 0, len(p.Sentences))
	at := 0
	for i, s := range p.Sentences {
		if s = strings.TrimSpace(s); s == "" {
			continue
		}
		found := strings.Index(text[at:], s)
		if found < 0 {
			return "", nil, fmt.Errorf("sentence %d (%.60q) does not follow in the paragraph's text", i, s)
		}
		spans = append(spans, span{uint32(at + found), uint32(len(s)), uint32(i)})
		at += found + len(s)
	}
	return text, spans, nil
}
