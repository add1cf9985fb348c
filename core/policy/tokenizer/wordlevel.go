package tokenizer

import (
	"errors"
	"fmt"
)

// wordLevel gives one id to each word.
type wordLevel struct {
	ids     map[string]int32
	added   map[int32]bool
	unknown int32
}

func newWordLevel(m modelJSON, added map[int32]bool) (*wordLevel, error) {
	if m.UnkToken == nil {
		return nil, errors.New("WordLevel without unk_token is not supported: words outside the vocabulary would be lost")
	}
	unknown, ok := m.Vocab[*m.UnkToken]
	if !ok {
		return nil, fmt.Errorf("WordLevel unk_token %q is not in the vocabulary: add it, words outside the vocabulary become it", *m.UnkToken)
	}
	return &wordLevel{m.Vocab, added, unknown}, nil
}

func (w *wordLevel) encode(dst []int32, word string, trusted bool, _ *scratch) []int32 {
	if id, ok := w.ids[word]; ok && (trusted || !w.added[id]) {
		return append(dst, id)
	}
	return append(dst, w.unknown)
}

func (w *wordLevel) knows(word string, trusted bool) bool {
	id, ok := w.ids[word]
	return ok && (trusted || !w.added[id])
}
