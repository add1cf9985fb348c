package generate

import (
	"context"
	"errors"
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/forage-rl/forage/core/internal/rng"
	"github.com/forage-rl/forage/core/retrieval/corpus"
)

// mostTitleWords is the length in words up to which titles are looked for in texts.
const mostTitleWords = 10

// DefaultMaxOut bounds the links of a document where nothing else is said.
const DefaultMaxOut = 64

// Graph is the links between the documents of a corpus. It holds two numbers for each document and one for each link.
type Graph struct {
	corpus  *corpus.Corpus
	first   []uint32 // of document i: its links are targets[first[i]:first[i+1]]
	targets []uint32
	kind    string
}

// Documents is the number of documents.
func (g *Graph) Documents() int { return len(g.first) - 1 }

// Links is the number of links.
func (g *Graph) Links() int { return len(g.targets) }

// Kind says where the links come from: the mentions of titles, or a file.
func (g *Graph) Kind() string { return g.kind }

// Out lists the documents that document i links to, in ascending order of where it does.
func (g *Graph) Out(i int) []uint32 { return g.targets[g.first[i]:g.first[i+1]] }

// Mentions makes the graph in which a document links to those whose titles stand in its text, word for word and in the
// same case, punctuation aside; where titles overlap the longest counts. Titles that several documents have, of more
// than ten words, without a letter, of fewer than three characters, or of one word in lower case are not looked for.
// Of a document's links the first maxOut are kept (0: 64). While it works it holds some twenty bytes for each title
// beside the graph. Progress may be nil.
func Mentions(ctx context.Context, c *corpus.Corpus, maxOut int, progress func(done, total int)) (*Graph, error) {
	if maxOut <= 0 {
		maxOut = DefaultMaxOut
	}
	titles := newTitles(c)
	g := &Graph{corpus: c, first: make([]uint32, 1, c.Len()+1), kind: "mentions of titles"}
	for i := range c.Len() {
		if i%1024 == 0 {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if progress != nil {
				progress(i, c.Len())
			}
		}
		var out []uint32
		seen := map[uint32]bool{uint32(i): true}
		for target := range titles.in(c.At(i).Text()) {
			if !seen[target] {
				seen[target] = true
				if out = append(out, target); len(out) == maxOut {
					break
				}
			}
		}
		if err := g.add(out); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// add appends the links of the next document.
func (g *Graph) add(out []uint32) error {
	if uint64(len(g.targets))+uint64(len(out)) > 1<<32-1 {
		return errors.New("the corpus has more links than can be held; lower the links of a document")
	}
	g.targets = append(g.targets, out...)
	g.first = append(g.first, uint32(len(g.targets)))
	return nil
}

// titles finds the titles of a corpus in texts.
type titles struct {
	corpus  *corpus.Corpus
	byHash  map[uint64]uint32 // of a title's words; several is the mark of one that several documents have
	longest map[uint64]uint8  // words of the longest title that begins with this word
}

// several marks a title that does not tell one document.
const several = 1<<32 - 1

func newTitles(c *corpus.Corpus) *titles {
	t := &titles{c, make(map[uint64]uint32, c.Len()), map[uint64]uint8{}}
	for i := range c.Len() {
		title := c.Title(i)
		words := wordsOf(title)
		if len(words) == 0 {
			continue
		}
		// One that may not be looked for still makes another document's equal title ambiguous.
		hash := hashWords(words)
		if _, taken := t.byHash[hash]; taken {
			t.byHash[hash] = several
			continue
		}
		if !mentionable(title, words) {
			continue
		}
		t.byHash[hash] = uint32(i)
		first := hashWords(words[:1])
		t.longest[first] = max(t.longest[first], uint8(len(words)))
	}
	return t
}

func mentionable(title string, words []string) bool {
	if len(words) > mostTitleWords || utf8.RuneCountInString(title) < 3 || !strings.ContainsFunc(title, unicode.IsLetter) {
		return false
	}
	return len(words) > 1 || strings.ToLower(words[0]) != words[0]
}

// in gives the documents whose titles stand in a text, in order.
func (t *titles) in(text string) iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		words := wordsOf(text)
		for at := 0; at < len(words); {
			length := min(int(t.longest[hashWords(words[at:at+1])]), len(words)-at)
			for ; length > 0; length-- {
				if target, ok := t.byHash[hashWords(words[at:at+length])]; ok && target != several && t.is(target, words[at:at+length]) {
					if !yield(target) {
						return
					}
					break
				}
			}
			at += max(1, length)
		}
	}
}

// is says whether a document has these words as its title: different words may have the same hash.
func (t *titles) is(document uint32, words []string) bool {
	title := wordsOf(t.corpus.Title(int(document)))
	if len(title) != len(words) {
		return false
	}
	for i := range title {
		if title[i] != words[i] {
			return false
		}
	}
	return true
}

// wordsOf cuts a text into its stretches of letters, marks and digits.
func wordsOf(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsMark(r) && !unicode.IsNumber(r) })
}

// hashWords is FNV-1a over the words with a byte that no word holds between them.
func hashWords(words []string) uint64 {
	h := uint64(0xcbf29ce484222325)
	for i, w := range words {
		if i > 0 {
			h = (h ^ 0xff) * 0x100000001b3
		}
		for j := range len(w) {
			h = (h ^ uint64(w[j])) * 0x100000001b3
		}
	}
	return h
}

// walks is how often a chain is tried before a graph is taken to have none of the length.
const walks = 2000

// Chain walks along links over a number of documents, none of them twice: from a document drawn uniformly, each time
// along one of its links drawn uniformly. Only documents with a text and with a title that no other has are taken. The
// same key gives the same chain. ok is false where no walk out of many came to an end.
func (g *Graph) Chain(key rng.Key, documents int) (chain []int, ok bool) {
	for try := range uint64(walks) {
		draw := key.With(try)
		chain = append(chain[:0], int(draw.Uint64(0)%uint64(g.Documents())))
		for i := 1; i < documents; i++ {
			var next []uint32
		targets:
			for _, t := range g.Out(chain[i-1]) {
				for _, before := range chain {
					if uint32(before) == t {
						continue targets
					}
				}
				next = append(next, t)
			}
			if len(next) == 0 {
				break
			}
			chain = append(chain, int(next[draw.Uint64(uint64(i))%uint64(len(next))]))
		}
		if len(chain) == documents && g.usable(chain) {
			return chain, true
		}
	}
	return nil, false
}

func (g *Graph) usable(chain []int) bool {
	for _, i := range chain {
		if title := g.corpus.Title(i); strings.TrimSpace(title) == "" || len(g.corpus.ByTitle(title)) != 1 || strings.TrimSpace(g.corpus.At(i).Text()) == "" {
			return false
		}
	}
	return true
}
