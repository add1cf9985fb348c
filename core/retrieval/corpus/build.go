package corpus

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"math"
	"slices"
	"strings"

	"github.com/forage-rl/forage/core/retrieval/internal/mapped"
)

const (
	fileKind     = "corpus"
	fileVersion  = 1
	fileSections = 11
)

// place says where a document came from.
type place struct{ file, line uint32 }

// blob is a list of texts in one buffer.
type blob struct {
	data []byte
	ends []uint64 // ends[i] is where text i begins, ends[i+1] where it ends
}

func newBlob() blob { return blob{ends: []uint64{0}} }

func (b *blob) add(s string) {
	b.data = append(b.data, s...)
	b.ends = append(b.ends, uint64(len(b.data)))
}

func (b *blob) at(i int) string { return string(b.bytes(i)) }

func (b *blob) bytes(i int) []byte { return b.data[b.ends[i]:b.ends[i+1]] }

// builder writes a corpus document by document. Texts are streamed to the target; ids, titles and bounds are held in
// memory until the end.
type builder struct {
	out *mapped.Writer
	// files are the names that places refer to.
	files []string
	limit int // of documents; 0: none

	ids, titles blob
	keyed       []bool // the document is named by its title
	places      []place
	contents    [][16]byte
	seen        map[[16]byte]struct{}

	textEnd    uint64
	paragraphs []uint64 // first paragraph of each document
	texts      []uint64 // begin of each paragraph's text
	sentences  []uint64 // first sentence of each paragraph
	spans      [3][]uint32
	digest     hash.Hash
}

func newBuilder(target mapped.Target) *builder {
	b := &builder{
		out: mapped.NewWriter(target, fileKind, fileVersion, fileSections),
		ids: newBlob(), titles: newBlob(),
		seen:       map[[16]byte]struct{}{},
		paragraphs: []uint64{0}, texts: []uint64{0}, sentences: []uint64{0},
		digest: sha256.New(),
	}
	b.out.Begin("texts", true)
	return b
}

// add appends a document; one named by its title is dropped if the same title and text were there before.
func (b *builder) add(d Document, at place) error {
	if d.ID == "" && d.Title == "" {
		return fmt.Errorf("a document needs an id or a title")
	}
	if len(b.keyed) == math.MaxUint32-1 {
		return fmt.Errorf("a corpus holds at most %d documents", math.MaxUint32-1)
	}
	texts := make([]string, len(d.Paragraphs))
	spans := make([][]span, len(d.Paragraphs))
	for i, p := range d.Paragraphs {
		if p.ID != "" && d.ID != "" && p.ID != ParagraphID(d.ID, i, len(d.Paragraphs)) {
			return fmt.Errorf("paragraph id %q: ids of paragraphs are derived, leave them empty", p.ID)
		}
		if len(p.Text) > math.MaxInt32 {
			return fmt.Errorf("paragraph %d holds %d bytes, the limit is %d", i, len(p.Text), math.MaxInt32)
		}
		var err error
		if texts[i], spans[i], err = layOut(p); err != nil {
			return err
		}
	}
	content := contentKey(d.Title, texts)
	if d.ID == "" {
		if _, twice := b.seen[content]; twice {
			return nil
		}
		b.seen[content] = struct{}{}
	}
	b.keyed = append(b.keyed, d.ID == "")
	b.contents = append(b.contents, content)
	b.places = append(b.places, at)
	b.ids.add(d.ID)
	b.titles.add(d.Title)
	b.hash([]byte(d.Title))
	for i, text := range texts {
		b.hash([]byte(text))
		for _, s := range spans[i] {
			var record [12]byte
			for j, n := range []uint32{s.start, s.length, s.number} {
				b.spans[j] = append(b.spans[j], n)
				binary.LittleEndian.PutUint32(record[4*j:], n)
			}
			b.digest.Write(record[:])
		}
		if _, err := b.out.Write(append([]byte(text), '\n')); err != nil {
			return err
		}
		b.textEnd += uint64(len(text)) + 1
		b.texts = append(b.texts, b.textEnd)
		b.sentences = append(b.sentences, uint64(len(b.spans[0])))
	}
	b.paragraphs = append(b.paragraphs, uint64(len(b.texts)-1))
	return nil
}

// hash adds a text to the digest, its length before it so that neighbours cannot be confused.
func (b *builder) hash(text []byte) {
	var length [8]byte
	binary.LittleEndian.PutUint64(length[:], uint64(len(text)))
	b.digest.Write(length[:])
	b.digest.Write(text)
}

func contentKey(title string, texts []string) [16]byte {
	sum := sha256.Sum256([]byte(title + "\x00" + strings.Join(texts, "\n")))
	return [16]byte(sum[:16])
}

// finish names the documents and writes what is not a text.
func (b *builder) finish() error {
	n := len(b.keyed)
	if n == 0 {
		return fmt.Errorf("no document found")
	}
	byTitle := order(n, b.titles)
	b.nameByTitle(byTitle)
	byID := order(n, b.ids)
	for i := 1; i < n; i++ {
		if x, y := byID[i-1], byID[i]; bytes.Equal(b.ids.bytes(int(x)), b.ids.bytes(int(y))) {
			return fmt.Errorf("%s: duplicate document id %q, first given at %s", b.where(max(x, y)), b.ids.at(int(x)), b.where(min(x, y)))
		}
	}
	b.hash(b.ids.data)
	mapped.Put(b.out, "ids", b.ids.data)
	mapped.Put(b.out, "id bounds", b.ids.ends)
	mapped.Put(b.out, "titles", b.titles.data)
	mapped.Put(b.out, "title bounds", b.titles.ends)
	mapped.Put(b.out, "by id", byID)
	mapped.Put(b.out, "by title", byTitle)
	mapped.Put(b.out, "paragraphs", b.paragraphs)
	mapped.Put(b.out, "text bounds", b.texts)
	mapped.Put(b.out, "sentences", b.sentences)
	b.out.Begin("spans", false)
	for _, part := range b.spans {
		if _, err := b.out.Write(mapped.Bytes(part)); err != nil {
			return err
		}
	}
	return b.out.Finish([32]byte(b.digest.Sum(nil)))
}

// nameByTitle gives documents without an id their title, made distinct where it heads several texts.
func (b *builder) nameByTitle(byTitle []uint32) {
	names := make(map[uint32]string)
	for start := 0; start < len(byTitle); {
		title := b.titles.bytes(int(byTitle[start]))
		end := start
		var keyed []uint32
		for ; end < len(byTitle) && bytes.Equal(b.titles.bytes(int(byTitle[end])), title); end++ {
			if b.keyed[byTitle[end]] {
				keyed = append(keyed, byTitle[end])
			}
		}
		for _, i := range keyed {
			names[i] = string(title)
			if len(keyed) > 1 {
				names[i] += "~" + hex.EncodeToString(b.contents[i][:4])
			}
		}
		start = end
	}
	if len(names) == 0 {
		return
	}
	ids := newBlob()
	for i, keyed := range b.keyed {
		if keyed {
			ids.add(names[uint32(i)])
		} else {
			ids.add(b.ids.at(i))
		}
	}
	b.ids = ids
}

func (b *builder) where(document uint32) string {
	p := b.places[document]
	if int(p.file) >= len(b.files) {
		return fmt.Sprintf("document %d", document)
	}
	return fmt.Sprintf("%s:%d", b.files[p.file], p.line)
}

// order gives the numbers of n texts sorted by text, then number.
func order(n int, texts blob) []uint32 {
	numbers := make([]uint32, n)
	for i := range numbers {
		numbers[i] = uint32(i)
	}
	slices.SortFunc(numbers, func(x, y uint32) int {
		return cmp.Or(bytes.Compare(texts.bytes(int(x)), texts.bytes(int(y))), cmp.Compare(x, y))
	})
	return numbers
}
