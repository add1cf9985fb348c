package tokenizer

import (
	"container/heap"
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

// bpe is byte-pair encoding over bytes: Sennrich et al. 2016 (Neural Machine Translation of Rare Words with Subword
// Units, section 3.2), on the byte alphabet of Radford et al. 2019 (GPT-2, section 2.2).
type bpe struct {
	bytes  [256]int32 // noByte: the byte is left out
	has    [256]bool  // the vocabulary has a token for the byte
	merges map[[2]int32]mergeRule
	whole  map[string]mergeRule // ignore_merges: a piece that is a token needs no merging; nil otherwise
}

const noByte = -1

type mergeRule struct {
	rank  int32
	id    int32
	added bool // the product is an added token
}

// byteAlphabet maps every byte to the printable character that stands for it in a vocabulary, and back.
func byteAlphabet() (toRune [256]rune, toByte map[rune]byte) {
	toByte = make(map[rune]byte, 256)
	next := rune(256)
	for b := range 256 {
		r := rune(b)
		if printable := b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae; !printable {
			r = next
			next++
		}
		toRune[b] = r
		toByte[r] = byte(b)
	}
	return toRune, toByte
}

// newBPE checks the model part of a file. A vocabulary may list added tokens too, and merges that make them.
func newBPE(m modelJSON, added map[int32]bool) (*bpe, error) {
	switch {
	case m.Dropout != nil && *m.Dropout != 0:
		return nil, fmt.Errorf("BPE dropout %g is not supported: ids would be random", *m.Dropout)
	case m.ContinuingSubwordPrefix != nil && *m.ContinuingSubwordPrefix != "":
		return nil, fmt.Errorf("BPE continuing_subword_prefix %q is not supported", *m.ContinuingSubwordPrefix)
	case m.EndOfWordSuffix != nil && *m.EndOfWordSuffix != "":
		return nil, fmt.Errorf("BPE end_of_word_suffix %q is not supported", *m.EndOfWordSuffix)
	case m.FuseUnk:
		return nil, errors.New("BPE fuse_unk is not supported")
	case m.ByteFallback:
		return nil, errors.New("BPE byte_fallback is not supported: only byte-level BPE is")
	}
	// Bytes that the vocabulary lacks (control characters, mostly) become the unk_token, or nothing without one. Where
	// that is a control token (SmolLM2 names <|endoftext|>), text from outside must not be able to make it: nothing.
	unknown := int32(noByte)
	if m.UnkToken != nil {
		id, ok := m.Vocab[*m.UnkToken]
		if !ok {
			return nil, fmt.Errorf("BPE unk_token %q is not in the vocabulary", *m.UnkToken)
		}
		if !added[id] {
			unknown = id
		}
	}
	toRune, toByte := byteAlphabet()
	b := &bpe{merges: make(map[[2]int32]mergeRule, len(m.Merges))}
	for i, r := range toRune {
		id, ok := m.Vocab[string(r)]
		if !ok {
			id = unknown
		}
		if ok && added[id] {
			return nil, fmt.Errorf("added token %q (id %d) is one byte of the alphabet: ordinary text could not be told from it", string(r), id)
		}
		b.bytes[i], b.has[i] = id, ok
	}
	for rank, pair := range m.Merges {
		var ids [3]int32
		for i, token := range []string{pair[0], pair[1], pair[0] + pair[1]} {
			id, ok := m.Vocab[token]
			if !ok {
				return nil, fmt.Errorf("merge %d (%q %q): token %q is not in the vocabulary", rank, pair[0], pair[1], token)
			}
			ids[i] = id
		}
		key := [2]int32{ids[0], ids[1]}
		b.merges[key] = mergeRule{int32(rank), ids[2], added[ids[2]]}
	}
	if m.IgnoreMerges {
		b.whole = make(map[string]mergeRule, len(m.Vocab))
		for token, id := range m.Vocab {
			if raw, ok := rawBytes(token, toByte); ok {
				b.whole[raw] = mergeRule{id: id, added: added[id]}
			}
		}
	}
	return b, nil
}

// rawBytes undoes the byte alphabet; ok is false where a character is not in it.
func rawBytes(token string, toByte map[rune]byte) (raw string, ok bool) {
	var s strings.Builder
	s.Grow(utf8.RuneCountInString(token))
	for _, r := range token {
		b, ok := toByte[r]
		if !ok {
			return "", false
		}
		s.WriteByte(b)
	}
	return s.String(), true
}

// knows says whether every byte of word has a token.
func (b *bpe) knows(word string, _ bool) bool {
	for i := range len(word) {
		if !b.has[word[i]] {
			return false
		}
	}
	return true
}

// scratch holds the buffers of one encoding, so that a tokenizer can be used by many goroutines.
type scratch struct {
	ids   []int32
	ranks []int32
	nodes []node
	queue mergeQueue
}

// shortWord is the length up to which looking through the whole word for the best merge beats a heap.
const shortWord = 64

func (b *bpe) encode(dst []int32, word string, trusted bool, s *scratch) []int32 {
	if rule, ok := b.whole[word]; ok && (trusted || !rule.added) {
		return append(dst, rule.id)
	}
	if len(word) <= shortWord {
		return b.encodeShort(dst, word, trusted, s)
	}
	return b.encodeLong(dst, word, trusted, s)
}

// merge is the rule for two neighbours; text from outside knows no rule that makes an added token.
func (b *bpe) merge(left, right int32, trusted bool) (mergeRule, bool) {
	rule, ok := b.merges[[2]int32{left, right}]
	return rule, ok && (trusted || !rule.added)
}

const noRank = math.MaxInt32

// encodeShort applies the merge of lowest rank, leftmost first, until there is none: quadratic.
func (b *bpe) encodeShort(dst []int32, word string, trusted bool, s *scratch) []int32 {
	ids, ranks := s.ids[:0], s.ranks[:0]
	for i := range len(word) {
		if id := b.bytes[word[i]]; id != noByte {
			ids = append(ids, id)
		}
	}
	rank := func(i int) int32 {
		if i < 0 || i+1 >= len(ids) {
			return noRank
		}
		if rule, ok := b.merge(ids[i], ids[i+1], trusted); ok {
			return rule.rank
		}
		return noRank
	}
	for i := range ids {
		ranks = append(ranks, rank(i))
	}
	for {
		best := 0
		for i, r := range ranks {
			if r < ranks[best] {
				best = i
			}
		}
		if len(ranks) == 0 || ranks[best] == noRank {
			break
		}
		ids[best] = b.merges[[2]int32{ids[best], ids[best+1]}].id
		ids = append(ids[:best+1], ids[best+2:]...)
		ranks = append(ranks[:best+1], ranks[best+2:]...)
		ranks[best] = rank(best)
		if best > 0 {
			ranks[best-1] = rank(best - 1)
		}
	}
	s.ids, s.ranks = ids, ranks
	return append(dst, ids...)
}

// node is a symbol of a doubly linked list; a symbol that was merged into its left neighbour has id -1.
type node struct {
	id         int32
	prev, next int32
}

// candidate is a merge of the symbols at left and its successor, valid while they still are what they were.
type candidate struct {
	rank    int32
	left    int32
	pair    [2]int32
	product int32
}

type mergeQueue []candidate

func (q mergeQueue) Len() int { return len(q) }
func (q mergeQueue) Less(i, j int) bool {
	return q[i].rank < q[j].rank || q[i].rank == q[j].rank && q[i].left < q[j].left
}
func (q mergeQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *mergeQueue) Push(x any)   { *q = append(*q, x.(candidate)) }
func (q *mergeQueue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// encodeLong gives the same as encodeShort in n log n.
func (b *bpe) encodeLong(dst []int32, word string, trusted bool, s *scratch) []int32 {
	nodes, queue := s.nodes[:0], s.queue[:0]
	for i := range len(word) {
		if id := b.bytes[word[i]]; id != noByte {
			at := int32(len(nodes))
			nodes = append(nodes, node{id, at - 1, at + 1})
		}
	}
	if len(nodes) == 0 {
		return dst
	}
	nodes[len(nodes)-1].next = -1
	candidateAt := func(left int32) (candidate, bool) {
		if left < 0 || nodes[left].next < 0 {
			return candidate{}, false
		}
		pair := [2]int32{nodes[left].id, nodes[nodes[left].next].id}
		rule, ok := b.merge(pair[0], pair[1], trusted)
		return candidate{rule.rank, left, pair, rule.id}, ok
	}
	for i := range nodes {
		if c, ok := candidateAt(int32(i)); ok {
			queue = append(queue, c)
		}
	}
	heap.Init(&queue)
	for len(queue) > 0 {
		c := heap.Pop(&queue).(candidate)
		left := &nodes[c.left]
		if left.id != c.pair[0] || left.next < 0 || nodes[left.next].id != c.pair[1] {
			continue
		}
		right := nodes[left.next]
		nodes[left.next].id = -1
		left.id, left.next = c.product, right.next
		if right.next >= 0 {
			nodes[right.next].prev = c.left
		}
		for _, at := range []int32{left.prev, c.left} {
			if c, ok := candidateAt(at); ok {
				heap.Push(&queue, c)
			}
		}
	}
	for at := int32(0); at >= 0; at = nodes[at].next {
		dst = append(dst, nodes[at].id)
	}
	s.nodes, s.queue = nodes, queue
	return dst
}
