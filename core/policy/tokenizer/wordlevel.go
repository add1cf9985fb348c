package tokenizer

import (
	"errors"
	"fmt"
)

// wordLevel gives one id to each word.
type wordLevel struct {
	ids     map[string]int32
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
	w := &wordLevel{ids: make(map[string]int32, len(m.Vocab)), unknown: unknown}
	for word, id := range m.Vocab {
		if !added[id] { // added tokens are found before the model runs, and only in trusted text
			w.ids[word] = id
		}
	}
	return w, nil
}

func (w *wordLevel) encode(dst []int32, word string, _ *scratch) []int32 {
	id, ok := w.ids[word]
	if !ok {
		id = w.unknown
	}
	return append(dst, id)
}

func (w *wordLevel) knows(word string) bool {
	_, ok := w.ids[word]
	return ok
}
