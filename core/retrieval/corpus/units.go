package corpus

import (
	"fmt"
	"iter"
	"runtime"
	"sort"
	"strconv"
	"strings"
)

// Level says into what pieces a corpus is cut for an index.
type Level string

// The levels.
const (
	DocumentLevel  Level = "document"
	ParagraphLevel Level = "paragraph"
	SentenceLevel  Level = "sentence"
)

// Unit is what an index finds. ParagraphID is empty for a document of several paragraphs, SentenceID for everything
// but a sentence.
type Unit struct {
	ID          string
	DocumentID  string
	ParagraphID string
	SentenceID  string
	Title       string
	Text        string
}

// Units is a corpus cut at one level, in order. It may be used by many goroutines.
type Units struct {
	corpus *Corpus
	level  Level
}

// Unit cuts the corpus at a level: "document", "paragraph" or "sentence".
func (c *Corpus) Unit(level Level) (Units, error) {
	switch level {
	case DocumentLevel, ParagraphLevel, SentenceLevel:
		return Units{c, level}, nil
	}
	return Units{}, fmt.Errorf("unknown unit %q: expected document, paragraph or sentence", level)
}

// Level is the level of the cut.
func (u Units) Level() Level { return u.level }

// Corpus is what was cut.
func (u Units) Corpus() *Corpus { return u.corpus }

// Len is the number of units.
func (u Units) Len() int {
	switch u.level {
	case DocumentLevel:
		return u.corpus.Len()
	case ParagraphLevel:
		return len(u.corpus.textBounds) - 1
	}
	return len(u.corpus.starts)
}

// At gives unit i, 0 ≤ i < Len.
func (u Units) At(i int) Unit {
	c := u.corpus
	defer runtime.KeepAlive(c.file)
	if u.level == DocumentLevel {
		unit := Unit{ID: c.id(i), Title: c.title(i), Text: c.documentText(i)}
		unit.DocumentID = unit.ID
		if c.paragraphs[i+1]-c.paragraphs[i] == 1 {
			unit.ParagraphID = unit.ID
		}
		return unit
	}
	p := i
	if u.level == SentenceLevel {
		p = holder(c.sentences, i)
	}
	d := holder(c.paragraphs, p)
	first, last := int(c.paragraphs[d]), int(c.paragraphs[d+1])
	unit := Unit{DocumentID: c.id(d), Title: c.title(d)}
	unit.ParagraphID = ParagraphID(unit.DocumentID, p-first, last-first)
	if u.level == ParagraphLevel {
		unit.ID, unit.Text = unit.ParagraphID, c.paragraphText(p)
		return unit
	}
	unit.SentenceID = SentenceID(unit.ParagraphID, int(c.numbered[i]))
	unit.ID, unit.Text = unit.SentenceID, c.sentenceText(p, i)
	return unit
}

// DocumentOf gives the number of the document that holds unit i.
func (u Units) DocumentOf(i int) int {
	defer runtime.KeepAlive(u.corpus.file)
	switch u.level {
	case SentenceLevel:
		i = holder(u.corpus.sentences, i)
		fallthrough
	case ParagraphLevel:
		return holder(u.corpus.paragraphs, i)
	}
	return i
}

// All iterates over the units.
func (u Units) All() iter.Seq2[int, Unit] {
	return func(yield func(int, Unit) bool) {
		for i := range u.Len() {
			if !yield(i, u.At(i)) {
				return
			}
		}
	}
}

// holder gives the owner of item i where owner o holds the items from firsts[o] to firsts[o+1]-1.
func holder(firsts []uint64, i int) int {
	return sort.Search(len(firsts)-1, func(o int) bool { return firsts[o+1] > uint64(i) })
}

// Resolve gives the units [start, end) that an id stands for: those of a document, of a paragraph, or one sentence's. A
// coarser unit holds a finer id: at document level a sentence's id stands for its document.
func (u Units) Resolve(id string) (start, end int, ok bool) {
	c := u.corpus
	if d, found := c.Find(id); found {
		start, end = u.inDocument(d)
		return start, end, true
	}
	if d, p, found := c.findParagraph(id); found {
		start, end = u.inParagraph(d, p)
		return start, end, true
	}
	paragraph, number, found := cutNumber(id, ".s")
	if !found {
		return 0, 0, false
	}
	d, p, found := c.findParagraph(paragraph)
	if !found {
		return 0, 0, false
	}
	for s := int(c.sentences[p]); s < int(c.sentences[p+1]); s++ {
		if int(c.numbered[s]) == number {
			if u.level == SentenceLevel {
				return s, s + 1, true
			}
			start, end = u.inParagraph(d, p)
			return start, end, true
		}
	}
	return 0, 0, false
}

func (u Units) inDocument(d int) (int, int) {
	c := u.corpus
	first, last := c.paragraphs[d], c.paragraphs[d+1]
	switch u.level {
	case DocumentLevel:
		return d, d + 1
	case ParagraphLevel:
		return int(first), int(last)
	}
	return int(c.sentences[first]), int(c.sentences[last])
}

func (u Units) inParagraph(d, p int) (int, int) {
	switch u.level {
	case DocumentLevel:
		return d, d + 1
	case ParagraphLevel:
		return p, p + 1
	}
	return int(u.corpus.sentences[p]), int(u.corpus.sentences[p+1])
}

// Paragraph finds a paragraph by its id and gives its document's title with it.
func (c *Corpus) Paragraph(id string) (title string, p Paragraph, ok bool) {
	defer runtime.KeepAlive(c.file)
	d, at, ok := c.findParagraph(id)
	if !ok {
		return "", Paragraph{}, false
	}
	return c.title(d), c.paragraph(id, at), true
}

func (c *Corpus) findParagraph(id string) (document, paragraph int, ok bool) {
	if d, found := c.Find(id); found {
		if c.paragraphs[d+1]-c.paragraphs[d] == 1 {
			return d, int(c.paragraphs[d]), true
		}
		return 0, 0, false
	}
	name, number, found := cutNumber(id, "#p")
	if !found {
		return 0, 0, false
	}
	d, found := c.Find(name)
	if !found {
		return 0, 0, false
	}
	count := int(c.paragraphs[d+1] - c.paragraphs[d])
	if number >= count || count == 1 {
		return 0, 0, false
	}
	return d, int(c.paragraphs[d]) + number, true
}

// cutNumber takes "<name><mark><number>" apart; the number must be written as the id functions write it.
func cutNumber(id, mark string) (name string, number int, ok bool) {
	name, digits, ok := strings.CutLast(id, mark)
	if !ok {
		return "", 0, false
	}
	number, err := strconv.Atoi(digits)
	if err != nil || number < 0 || strconv.Itoa(number) != digits {
		return "", 0, false
	}
	return name, number, true
}
