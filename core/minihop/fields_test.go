package minihop

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/forage-rl/forage/core/policy/tokenizer"
)

func fieldsStream(t testing.TB, phase Phase) *Stream {
	t.Helper()
	s, err := NewStream(StreamOptions{Seed: 3, Phase: phase, Protocol: ProtocolFields}, func(w *World) (Retrieval, error) {
		return w.Retrieval(ProtocolFields, 0, 0)
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func isSearch(turn Turn) bool { return strings.Contains(turn.Policy, MarkNextTool+" "+WordSearch+" ") }
func isFinish(turn Turn) bool { return strings.Contains(turn.Policy, MarkNextTool+" "+WordFinish+" ") }

// complete gives the turn after which an episode has seen all gold documents, or -1.
func complete(golds []string, tr Transcript) int {
	left := slices.Clone(golds)
	for i, turn := range tr.Turns {
		left = slices.DeleteFunc(left, func(title string) bool { return strings.Contains(turn.Observation, "( "+title+" )") })
		if len(left) == 0 {
			return i
		}
	}
	return -1
}

// TestFieldsExperts: an expert searches with the question, then for what is missing, and finishes when nothing is; no
// document comes twice.
func TestFieldsExperts(t *testing.T) {
	searches, n := 0, 0
	for seed := range uint64(3) {
		w := world(t, seed+1, Options{})
		r, err := w.Retrieval(ProtocolFields, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, q := range questions(t, w, "test") {
			tr, err := w.ExpertIn(ProtocolFields, q, r)
			if err != nil {
				t.Fatal(err)
			}
			if n == 0 {
				t.Log(q.Text, "\n", tr.Text())
			}
			var golds []string
			for _, g := range q.Gold {
				golds = append(golds, g.Title)
			}
			last := len(tr.Turns) - 1
			if tr.Turns[0].Policy != "" || !isFinish(tr.Turns[last]) || slices.ContainsFunc(tr.Turns[1:last], isFinish) {
				t.Errorf("%s: %s", q.ID, tr.Text())
			}
			if at := complete(golds, tr); at != last-1 && !(at < 0 && last-1 == FieldsTurns) {
				t.Errorf("%s: complete after turn %d, finishes in turn %d: %s", q.ID, at, last, tr.Text())
			}
			for _, d := range w.Documents() {
				if strings.Count(tr.Text(), d.Text) > 1 {
					t.Errorf("%s: %s comes twice", q.ID, d.ID)
				}
			}
			searches += last
			n++
		}
	}
	if mean := float64(searches) / float64(n); mean < 2 || mean > 4 {
		t.Errorf("%.2f searches in the mean", mean)
	} else {
		t.Logf("%.2f searches in the mean", mean)
	}
}

// TestFieldsStream: half of the examples have no tool to finish; the others finish in time in the phase skill, and in
// the phase habit mostly too early.
func TestFieldsStream(t *testing.T) {
	for phase, want := range map[Phase]float64{PhaseSkill: 1, PhaseHabit: .35} {
		s := fieldsStream(t, phase)
		const n = 400
		noFinish, remind, inTime, longest := 0, 0, 0, 0
		for i := range n {
			example, err := s.At(i)
			if err != nil {
				t.Fatal(err)
			}
			again, err := s.At(i)
			if err != nil || again.Transcript.Text() != example.Transcript.Text() {
				t.Fatalf("example %d differs: %v", i, err)
			}
			tr, q := example.Transcript, example.Question
			last := tr.Turns[len(tr.Turns)-1]
			var golds []string
			for _, g := range q.Gold {
				golds = append(golds, g.Title)
			}
			if q.Metadata["remind"] == true {
				remind++
			}
			if q.Metadata["tools"] == WordSearch {
				noFinish++
				if slices.ContainsFunc(tr.Turns, isFinish) || len(tr.Turns)-1 < len(golds) || len(tr.Turns)-1 > FieldsTurns {
					t.Errorf("%s: %s", q.ID, tr.Text())
				}
			} else if !isFinish(last) || q.Metadata["tools"] != WordSearch+" "+WordFinish {
				t.Errorf("%s: %v: %s", q.ID, q.Metadata["tools"], tr.Text())
			} else if complete(golds, tr) >= 0 {
				inTime++
			}
			// The prompt of the last turn, with the question twice, and a turn of 14 tokens.
			length := 2*(1+count(q.Text)) + 3 + 14
			for _, turn := range tr.Turns[:len(tr.Turns)-1] {
				length += 2 + 1 + 2 + count(turn.Observation)
			}
			longest = max(longest, length)
			for _, turn := range tr.Turns[1:] {
				if !isSearch(turn) && !isFinish(turn) {
					t.Errorf("%s: turn %q", q.ID, turn.Policy)
				}
			}
		}
		if noFinish < n/2-60 || noFinish > n/2+60 || remind < n/2-60 || remind > n/2+60 {
			t.Errorf("%s: %d of %d cannot finish, %d are reminded", phase, noFinish, n, remind)
		}
		share := float64(inTime) / float64(n-noFinish)
		if share < want-.1 {
			t.Errorf("%s: %.2f finish in time, want %.2f", phase, share, want)
		}
		if longest > fieldsMaxTokens {
			t.Errorf("%s: %d tokens", phase, longest)
		}
		t.Logf("%s: %.2f finish in time; at most %d tokens", phase, share, longest)
	}
}

// TestFieldsVocabulary: the words of the protocol are single tokens, its tags special ones, and the world's words have
// the ids that they have in the protocol of tags.
func TestFieldsVocabulary(t *testing.T) {
	dir := t.TempDir()
	files, err := PolicyFiles(false, ProtocolFields)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tok, err := tokenizer.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i, word := range plainWords(false) {
		if ids := tok.EncodePieces([]tokenizer.Piece{{Text: word}}); !slices.Equal(ids, []int32{int32(i)}) {
			t.Errorf("%q has the ids %v, want %d", word, ids, i)
		}
	}
	for _, tag := range fieldsTags() {
		ids := tok.EncodePieces([]tokenizer.Piece{{Text: tag, Trusted: true}})
		if len(ids) != 1 || !tok.IsSpecial(ids[0]) {
			t.Errorf("%q has the ids %v", tag, ids)
		}
		if ids := tok.EncodePieces([]tokenizer.Piece{{Text: tag}}); slices.ContainsFunc(ids, tok.IsSpecial) {
			t.Errorf("from outside, %q acts: %v", tag, ids)
		}
	}
	for _, frame := range fieldsFrames() {
		if ids := tok.EncodePieces([]tokenizer.Piece{{Text: frame}}); len(ids) != 1 {
			t.Errorf("%q has the ids %v", frame, ids)
		}
	}
}
