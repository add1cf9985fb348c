package corpus

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"runtime"
	"sort"
	"strings"

	"github.com/forage-rl/forage/core/retrieval/internal/mapped"
)

// Corpus is a set of documents in a fixed order. It is read-only and may be used by many goroutines. The strings it
// gives are copies and stay valid without it.
type Corpus struct {
	file   *mapped.File
	digest string

	texts, ids, titles        []byte
	idBounds, titleBounds     []uint64
	byID, byTitle             []uint32
	paragraphs                []uint64 // first paragraph of document i
	textBounds                []uint64 // begin of paragraph i's text, which a line end closes
	sentences                 []uint64 // first sentence of paragraph i
	starts, lengths, numbered []uint32 // of each sentence: begin in the paragraph, bytes, number in the paragraph
}

// FromDocuments makes a corpus in memory.
func FromDocuments(documents []Document) (*Corpus, error) {
	var buffer mapped.Buffer
	b := newBuilder(&buffer)
	for i, d := range documents {
		if err := b.add(d, place{file: uint32(len(b.files)), line: uint32(i)}); err != nil {
			return nil, fmt.Errorf("document %d (%q): %w", i, cmp.Or(d.ID, d.Title), err)
		}
	}
	return b.inMemory(&buffer)
}

// inMemory finishes what the builder writes into a buffer and loads it from there.
func (b *builder) inMemory(buffer *mapped.Buffer) (*Corpus, error) {
	if err := b.finish(); err != nil {
		return nil, err
	}
	file, err := mapped.Parse(buffer.Bytes(), fileKind, fileVersion)
	if err != nil {
		return nil, err
	}
	return load(file)
}

// load takes a corpus from its file and checks that every bound lies where it must, so that no access can fail.
func load(file *mapped.File) (*Corpus, error) {
	digest := file.Digest()
	c := &Corpus{file: file, digest: hex.EncodeToString(digest[:])}
	var err error
	bytesOf := func(name string) []byte {
		section, e := mapped.Section[uint8](file, name)
		err = cmp.Or(err, e)
		return section
	}
	c.texts, c.ids, c.titles = bytesOf("texts"), bytesOf("ids"), bytesOf("titles")
	spans, e := mapped.Section[uint32](file, "spans")
	err = cmp.Or(err, e)
	byID, e := mapped.Section[uint32](file, "by id")
	err = cmp.Or(err, e)
	byTitle, e := mapped.Section[uint32](file, "by title")
	err = cmp.Or(err, e)
	if err != nil {
		return nil, err
	}
	c.byID, c.byTitle = byID, byTitle
	n := len(byID)
	if len(byTitle) != n || n == 0 || len(spans)%3 != 0 {
		return nil, fmt.Errorf("%w: %d documents by id, %d by title", mapped.ErrFormat, n, len(byTitle))
	}
	for i := range n {
		if byID[i] >= uint32(n) || byTitle[i] >= uint32(n) {
			return nil, fmt.Errorf("%w: document number out of range", mapped.ErrFormat)
		}
	}
	total := len(spans) / 3
	c.starts, c.lengths, c.numbered = spans[:total], spans[total:2*total], spans[2*total:]
	offsets := func(name string, count int, last uint64) []uint64 {
		items, e := mapped.Offsets(file, name, count, last)
		err = cmp.Or(err, e)
		return items
	}
	c.idBounds = offsets("id bounds", n, uint64(len(c.ids)))
	c.titleBounds = offsets("title bounds", n, uint64(len(c.titles)))
	texts, e := mapped.Section[uint64](file, "text bounds")
	if err = cmp.Or(err, e); err != nil {
		return nil, err
	}
	count := len(texts) - 1
	if count < 0 {
		return nil, fmt.Errorf("%w: no text bounds", mapped.ErrFormat)
	}
	c.textBounds = offsets("text bounds", count, uint64(len(c.texts)))
	c.paragraphs = offsets("paragraphs", n, uint64(count))
	c.sentences = offsets("sentences", count, uint64(total))
	if err != nil {
		return nil, err
	}
	for p := range count {
		size := c.textBounds[p+1] - c.textBounds[p]
		if size == 0 {
			return nil, fmt.Errorf("%w: paragraph %d has no end", mapped.ErrFormat, p)
		}
		for s := c.sentences[p]; s < c.sentences[p+1]; s++ {
			if uint64(c.starts[s])+uint64(c.lengths[s]) >= size {
				return nil, fmt.Errorf("%w: sentence %d lies outside its paragraph", mapped.ErrFormat, s)
			}
		}
	}
	return c, nil
}

// Len is the number of documents.
func (c *Corpus) Len() int { return len(c.byID) }

// Digest identifies the content: ids, titles, texts and sentence bounds, in order. 64 hexadecimal digits.
func (c *Corpus) Digest() string { return c.digest }

// Verify reads a memory-mapped corpus whole and compares it with its sums.
func (c *Corpus) Verify() error { return c.file.Verify() }

// At gives document i, 0 ≤ i < Len.
func (c *Corpus) At(i int) Document {
	defer runtime.KeepAlive(c.file)
	d := Document{ID: c.id(i), Title: c.title(i)}
	first, last := int(c.paragraphs[i]), int(c.paragraphs[i+1])
	for p := first; p < last; p++ {
		d.Paragraphs = append(d.Paragraphs, c.paragraph(ParagraphID(d.ID, p-first, last-first), p))
	}
	return d
}

func (c *Corpus) paragraph(id string, p int) Paragraph {
	paragraph := Paragraph{ID: id, Text: c.paragraphText(p)}
	for s := int(c.sentences[p]); s < int(c.sentences[p+1]); s++ {
		for len(paragraph.Sentences) < int(c.numbered[s]) && len(paragraph.Sentences) < 1<<16 {
			paragraph.Sentences = append(paragraph.Sentences, "")
		}
		paragraph.Sentences = append(paragraph.Sentences, c.sentenceText(p, s))
	}
	return paragraph
}

// Document finds a document by its id.
func (c *Corpus) Document(id string) (Document, bool) {
	i, ok := c.Find(id)
	if !ok {
		return Document{}, false
	}
	return c.At(i), true
}

// Find gives the number of the document with this id.
func (c *Corpus) Find(id string) (int, bool) {
	defer runtime.KeepAlive(c.file)
	at, ok := sort.Find(c.Len(), func(i int) int {
		return strings.Compare(id, string(within(c.ids, c.idBounds, int(c.byID[i]))))
	})
	if !ok {
		return 0, false
	}
	return int(c.byID[at]), true
}

// ByTitle gives the numbers of the documents with exactly this title, in ascending order.
func (c *Corpus) ByTitle(title string) []int {
	defer runtime.KeepAlive(c.file)
	at := sort.Search(c.Len(), func(i int) bool {
		return strings.Compare(string(within(c.titles, c.titleBounds, int(c.byTitle[i]))), title) >= 0
	})
	var found []int
	for ; at < c.Len() && string(within(c.titles, c.titleBounds, int(c.byTitle[at]))) == title; at++ {
		found = append(found, int(c.byTitle[at]))
	}
	return found
}

// ByContent gives the number of the first document with this title and this text (sentences given instead of a text are
// joined as the corpus joins them): how a dataset whose titles repeat finds its gold documents.
func (c *Corpus) ByContent(title string, p Paragraph) (int, bool) {
	text, _, err := layOut(p)
	if err != nil {
		return 0, false
	}
	for _, i := range c.ByTitle(title) {
		if c.documentText(i) == text {
			return i, true
		}
	}
	return 0, false
}

// ID gives the id of document i.
func (c *Corpus) ID(i int) string {
	defer runtime.KeepAlive(c.file)
	return c.id(i)
}

// Title gives the title of document i.
func (c *Corpus) Title(i int) string {
	defer runtime.KeepAlive(c.file)
	return c.title(i)
}

func (c *Corpus) id(i int) string    { return string(within(c.ids, c.idBounds, i)) }
func (c *Corpus) title(i int) string { return string(within(c.titles, c.titleBounds, i)) }

// documentText gives the paragraphs of document i with a line end between two.
func (c *Corpus) documentText(i int) string {
	defer runtime.KeepAlive(c.file)
	first, last := c.paragraphs[i], c.paragraphs[i+1]
	if first == last {
		return ""
	}
	return string(c.texts[c.textBounds[first] : c.textBounds[last]-1])
}

func (c *Corpus) paragraphText(p int) string {
	return string(c.texts[c.textBounds[p] : c.textBounds[p+1]-1])
}

func (c *Corpus) sentenceText(p, s int) string {
	start := c.textBounds[p] + uint64(c.starts[s])
	return string(c.texts[start : start+uint64(c.lengths[s])])
}

func within(data []byte, bounds []uint64, i int) []byte { return data[bounds[i]:bounds[i+1]] }
