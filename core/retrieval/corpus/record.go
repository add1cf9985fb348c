package corpus

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// record is the union of the shapes that a line, list item or row may have.
type record struct {
	ID            json.RawMessage `json:"id"`
	Title         *string         `json:"title"`
	Contents      *string         `json:"contents"`
	Text          *string         `json:"text"`
	Content       json.RawMessage `json:"content"`
	ParagraphText *string         `json:"paragraph_text"`
	Sentences     *[]string       `json:"sentences"`
	Paragraphs    json.RawMessage `json:"paragraphs"`
	Context       json.RawMessage `json:"context"`
	Contexts      json.RawMessage `json:"contexts"`
	Question      *string         `json:"question"`
	QuestionText  *string         `json:"question_text"`
}

// parseRecord gives the documents that one record holds: one for a document, those of its context for a question.
func parseRecord(data []byte) ([]Document, error) {
	var r record
	if err := decode(data, &r); err != nil {
		return nil, err
	}
	isQuestion := r.Question != nil || r.QuestionText != nil
	switch {
	case given(r.Context):
		return parseContext("context", r.Context)
	case given(r.Contexts):
		return parseContext("contexts", r.Contexts)
	case given(r.Paragraphs) && isQuestion:
		return parseContext("paragraphs", r.Paragraphs)
	case isQuestion && r.Text == nil && r.Contents == nil && r.Sentences == nil && !given(r.Content):
		return nil, nil
	}
	d, err := r.document()
	if err != nil {
		return nil, err
	}
	return []Document{d}, nil
}

// document reads the record as a document.
func (r record) document() (Document, error) {
	id, err := textOrNumber(r.ID)
	if err != nil {
		return Document{}, err
	}
	d := Document{ID: id}
	if r.Title != nil {
		d.Title = *r.Title
	}
	switch {
	case r.Contents != nil:
		if id == "" {
			return Document{}, errors.New(`missing field "id"`)
		}
		title, text := splitContents(*r.Contents)
		if r.Title == nil {
			d.Title = title
		}
		d.Paragraphs = splitParagraphs(text)
	case given(r.Paragraphs):
		if d.Paragraphs, err = parseParagraphs(r.Paragraphs); err != nil {
			return Document{}, err
		}
	case r.Sentences != nil:
		d.Paragraphs = []Paragraph{{Sentences: notNil(*r.Sentences)}}
	case r.Text != nil:
		d.Paragraphs = splitParagraphs(*r.Text)
	case r.ParagraphText != nil:
		d.Paragraphs = []Paragraph{{Text: *r.ParagraphText}}
	case given(r.Content):
		var text string
		if err := json.Unmarshal(r.Content, &text); err != nil {
			return Document{}, errors.New(`field "content" is not a text`)
		}
		d.Paragraphs = splitParagraphs(text)
	default:
		return Document{}, errors.New(`missing field "text": expected contents, content, text, sentences, paragraphs, or context of a question`)
	}
	if id == "" && d.Title == "" {
		return Document{}, errors.New(`missing field "title": a document without an id is named by its title`)
	}
	if d.Title == "" && strings.TrimSpace(d.Text()) == "" && !hasSentence(d) {
		return Document{}, errors.New("the document is empty: neither title nor text")
	}
	return d, nil
}

func hasSentence(d Document) bool {
	for _, p := range d.Paragraphs {
		if JoinSentences(p.Sentences) != "" {
			return true
		}
	}
	return false
}

// splitContents takes the "contents" of a wiki-18 passage apart: its first line is the title, in quotes or not.
func splitContents(contents string) (title, text string) {
	title, text, found := strings.Cut(contents, "\n")
	if !found {
		return "", contents
	}
	title = strings.TrimSpace(title)
	if len(title) >= 2 && title[0] == '"' && title[len(title)-1] == '"' {
		title = title[1 : len(title)-1]
	}
	return title, text
}

// splitParagraphs cuts a text at its blank lines.
func splitParagraphs(text string) []Paragraph {
	var paragraphs []Paragraph
	text = strings.ReplaceAll(text, "\r\n", "\n")
	var lines []string
	flush := func() {
		if joined := strings.TrimSpace(strings.Join(lines, "\n")); joined != "" {
			paragraphs = append(paragraphs, Paragraph{Text: joined})
		}
		lines = lines[:0]
	}
	for line := range strings.SplitSeq(text, "\n") {
		if strings.TrimSpace(line) == "" {
			flush()
			continue
		}
		lines = append(lines, line)
	}
	flush()
	if paragraphs == nil {
		paragraphs = []Paragraph{{}}
	}
	return paragraphs
}

// parseParagraphs reads the "paragraphs" of a document: texts, or objects with a text or sentences.
func parseParagraphs(data json.RawMessage) ([]Paragraph, error) {
	var items []json.RawMessage
	if err := decode(data, &items); err != nil {
		return nil, fmt.Errorf("paragraphs: %w", err)
	}
	paragraphs := make([]Paragraph, len(items))
	for i, item := range items {
		var text string
		if json.Unmarshal(item, &text) == nil {
			paragraphs[i].Text = text
			continue
		}
		var r record
		if err := decode(item, &r); err != nil {
			return nil, fmt.Errorf("paragraphs[%d]: %w", i, err)
		}
		switch {
		case r.Sentences != nil:
			paragraphs[i].Sentences = notNil(*r.Sentences)
		case r.Text != nil:
			paragraphs[i].Text = *r.Text
		default:
			return nil, fmt.Errorf(`paragraphs[%d]: missing field "text" or "sentences"`, i)
		}
	}
	return paragraphs, nil
}

// parseContext reads a question's passages. They are known by their titles; each is one paragraph, as the datasets
// have them. Shapes: [[title, [sentence…]]…] and [{title, sentences|text|paragraph_text}…], the column form
// {title: […], sentences: [[…]…]}, and any of these once more as a string of JSON.
func parseContext(field string, data json.RawMessage) ([]Document, error) {
	trimmed := bytes.TrimSpace(data)
	switch trimmed[0] {
	case '"':
		var inner string
		if err := decode(trimmed, &inner); err != nil {
			return nil, fmt.Errorf("%s: %w", field, err)
		}
		if inner = strings.TrimSpace(inner); inner == "" || inner[0] != '[' && inner[0] != '{' {
			return nil, fmt.Errorf("%s: a text where passages with titles were expected", field)
		}
		return parseContext(field, json.RawMessage(inner))
	case '{':
		return parseColumns(field, trimmed)
	}
	var items []json.RawMessage
	if err := decode(trimmed, &items); err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	documents := make([]Document, 0, len(items))
	for i, item := range items {
		d, err := parsePassage(item)
		if err != nil {
			return nil, fmt.Errorf("%s[%d]: %w", field, i, err)
		}
		documents = append(documents, d)
	}
	return documents, nil
}

func parsePassage(item json.RawMessage) (Document, error) {
	if trimmed := bytes.TrimSpace(item); len(trimmed) > 0 && trimmed[0] == '[' {
		var pair []json.RawMessage
		if err := decode(trimmed, &pair); err != nil {
			return Document{}, err
		}
		if len(pair) != 2 {
			return Document{}, fmt.Errorf("%d items, expected [title, [sentences]]", len(pair))
		}
		var title string
		var sentences []string
		if err := decode(pair[0], &title); err != nil {
			return Document{}, fmt.Errorf("title: %w", err)
		}
		if err := decode(pair[1], &sentences); err != nil {
			return Document{}, fmt.Errorf("sentences: %w", err)
		}
		return passage(title, Paragraph{Sentences: notNil(sentences)})
	}
	var r record
	if err := decode(item, &r); err != nil {
		return Document{}, err
	}
	if r.Title == nil {
		return Document{}, errors.New(`missing field "title"`)
	}
	switch {
	case r.Sentences != nil:
		return passage(*r.Title, Paragraph{Sentences: notNil(*r.Sentences)})
	case r.Text != nil:
		return passage(*r.Title, Paragraph{Text: *r.Text})
	case r.ParagraphText != nil:
		return passage(*r.Title, Paragraph{Text: *r.ParagraphText})
	}
	return Document{}, errors.New(`missing field "sentences" or "text"`)
}

func parseColumns(field string, data []byte) ([]Document, error) {
	var columns struct {
		Title     []string   `json:"title"`
		Sentences [][]string `json:"sentences"`
		Content   [][]string `json:"content"`
	}
	if err := decode(data, &columns); err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	sentences := columns.Sentences
	if sentences == nil {
		sentences = columns.Content
	}
	if len(columns.Title) != len(sentences) {
		return nil, fmt.Errorf("%s: %d titles and %d lists of sentences", field, len(columns.Title), len(sentences))
	}
	documents := make([]Document, len(sentences))
	for i, title := range columns.Title {
		var err error
		if documents[i], err = passage(title, Paragraph{Sentences: notNil(sentences[i])}); err != nil {
			return nil, fmt.Errorf("%s[%d]: %w", field, i, err)
		}
	}
	return documents, nil
}

func passage(title string, p Paragraph) (Document, error) {
	if title == "" {
		return Document{}, errors.New("the title is empty")
	}
	return Document{Title: title, Paragraphs: []Paragraph{p}}, nil
}

// notNil tells a paragraph of no sentences from one that was not cut yet.
func notNil(sentences []string) []string {
	if sentences == nil {
		return []string{}
	}
	return sentences
}

func given(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

func textOrNumber(raw json.RawMessage) (string, error) {
	if !given(raw) {
		return "", nil
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		if text == "" {
			return "", errors.New("the id is empty")
		}
		return text, nil
	}
	var number json.Number
	if json.Unmarshal(raw, &number) == nil {
		return number.String(), nil
	}
	return "", fmt.Errorf("id %.40s: expected a text or a number", raw)
}

// decode is json.Unmarshal with errors in the terms of the file and not of the program.
func decode(data []byte, target any) error {
	err := json.Unmarshal(data, target)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		field := wrong.Field
		if field == "" {
			field = "record"
		}
		return fmt.Errorf("%s is a JSON %s, expected %s", field, wrong.Value, jsonName(wrong.Type.Kind().String()))
	}
	if err != nil {
		return fmt.Errorf("malformed JSON: %w", err)
	}
	return nil
}

func jsonName(kind string) string {
	switch kind {
	case "struct", "map":
		return "an object"
	case "slice":
		return "a list"
	}
	return "a " + kind
}
