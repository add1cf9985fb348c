package rollout

import (
	"strings"
	"unicode/utf8"
)

// neutralise breaks up every control string of the joined pieces that is not wholly trusted, by a space after the
// first untrusted character in it, so that no document or question can act. The pieces' texts may change, their
// number and trust do not.
func neutralise(pieces []Piece, controls []string) []Piece {
	out := append([]Piece(nil), pieces...)
	for _, control := range controls {
		if utf8.RuneCountInString(control) < 2 {
			continue // a single character cannot be broken, and acts only as part of a longer tag
		}
		// Breaking one occurrence leaves at most those that were there before, so a round per byte is ample; should
		// a control be made so that spaces complete it, the text from outside goes.
		for rounds := length(out); breakOne(out, control); rounds-- {
			if rounds == 0 {
				for i := range out {
					if !out[i].Trusted {
						out[i].Text = ""
					}
				}
				break
			}
		}
	}
	return out
}

func joined(pieces []Piece) string {
	var b strings.Builder
	for _, p := range pieces {
		b.WriteString(p.Text)
	}
	return b.String()
}

func length(pieces []Piece) (n int) {
	for _, p := range pieces {
		n += len(p.Text)
	}
	return n
}

// breakOne breaks the first occurrence of control that touches untrusted text, and reports whether there was one.
func breakOne(pieces []Piece, control string) bool {
	text := joined(pieces)
	for at := 0; ; {
		i := strings.Index(text[at:], control)
		if i < 0 {
			return false
		}
		start := at + i
		if breakWithin(pieces, start, start+len(control)) {
			return true
		}
		at = start + 1
	}
}

// breakWithin puts a space into the first untrusted text that overlaps bytes [start, end) of the joined pieces.
func breakWithin(pieces []Piece, start, end int) bool {
	offset := 0
	for i, p := range pieces {
		from, to := max(start, offset), min(end, offset+len(p.Text))
		if !p.Trusted && from < to {
			cut := from - offset
			_, size := utf8.DecodeRuneInString(p.Text[cut:])
			if from == start || from+size < end {
				cut += size // after the character, so that the string's start is kept readable
			}
			pieces[i].Text = p.Text[:cut] + " " + p.Text[cut:]
			return true
		}
		offset += len(p.Text)
	}
	return false
}

// trimPieces removes white space at both ends of the joined pieces.
func trimPieces(pieces []Piece) []Piece {
	out := append([]Piece(nil), pieces...)
	for i := range out {
		out[i].Text = strings.TrimLeftFunc(out[i].Text, isSpace)
		if out[i].Text != "" {
			break
		}
	}
	for i := len(out) - 1; i >= 0; i-- {
		out[i].Text = strings.TrimRightFunc(out[i].Text, isSpace)
		if out[i].Text != "" {
			break
		}
	}
	return out
}
