package tokenizer

import (
	"unicode"
	"unicode/utf8"
)

// matcher finds added tokens: leftmost first, longest among those that start at the same place.
type matcher struct {
	tokens []addedToken
	root   *trieNode
}

type trieNode struct {
	next  map[byte]*trieNode
	token int // index into tokens, -1: none ends here
}

func newMatcher(tokens []addedToken) *matcher {
	m := &matcher{tokens: tokens, root: &trieNode{token: -1}}
	for i, t := range tokens {
		n := m.root
		for _, b := range []byte(t.Content) {
			child := n.next[b]
			if child == nil {
				if n.next == nil {
					n.next = make(map[byte]*trieNode)
				}
				child = &trieNode{token: -1}
				n.next[b] = child
			}
			n = child
		}
		n.token = i
	}
	return m
}

// match is an added token at text[start:end], stripped white space included.
type match struct {
	start, end int
	id         int32
}

// find gives the matches that lie wholly within text[from:to]. What is around them is only looked at for single_word.
func (m *matcher) find(text string, from, to int) []match {
	if len(m.tokens) == 0 {
		return nil
	}
	var found []match
	done := from
	for at := from; at < to; {
		token, end := m.longest(text[:to], at)
		if token < 0 {
			at++
			continue
		}
		t, start := m.tokens[token], at
		at = end // also behind a match that is discarded below, as the reference implementation does
		if t.SingleWord && (endsWithWord(text[:start]) || startsWithWord(text[end:])) {
			continue
		}
		if t.LStrip {
			start = max(done, len(trimRightSpace(text[:start])))
		}
		if t.RStrip {
			end = to - len(trimLeftSpace(text[end:to]))
		}
		found = append(found, match{start, end, t.ID})
		// The reference implementation would look on within the stripped white space, and give it out twice or crash.
		done, at = end, max(at, end)
	}
	return found
}

func (m *matcher) longest(text string, at int) (token, end int) {
	token = -1
	n := m.root
	for i := at; i < len(text); i++ {
		if n = n.next[text[i]]; n == nil {
			break
		}
		if n.token >= 0 {
			token, end = n.token, i+1
		}
	}
	return token, end
}

func trimRightSpace(s string) string {
	for s != "" {
		r, n := utf8.DecodeLastRuneInString(s)
		if !unicode.IsSpace(r) {
			break
		}
		s = s[:len(s)-n]
	}
	return s
}

func trimLeftSpace(s string) string {
	for s != "" {
		r, n := utf8.DecodeRuneInString(s)
		if !unicode.IsSpace(r) {
			break
		}
		s = s[n:]
	}
	return s
}

func endsWithWord(s string) bool {
	r, _ := utf8.DecodeLastRuneInString(s)
	return s != "" && isWord(r)
}

func startsWithWord(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	return s != "" && isWord(r)
}

// isWord is \w of Unicode Technical Standard 18.
func isWord(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsMark(r) || unicode.In(r, unicode.Nd, unicode.Nl, unicode.Pc, unicode.Other_Alphabetic, unicode.Join_Control)
}
