package minihop

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/forage-rl/forage/core/policy/tokenizer"
)

func sentences(t testing.TB, w *World) Retrieval {
	t.Helper()
	r, err := w.Retrieval(ProtocolJSON, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Every call of a scripted episode is JSON that names a tool and its argument, and what it returns holds the fact that
// the next step rests on.
func TestJSONExperts(t *testing.T) {
	used := map[string]int{}
	turns, long := 0, 0
	for seed := range uint64(3) {
		w := world(t, seed+1, Options{})
		r := sentences(t, w)
		for _, q := range questions(t, w, "train") {
			tr, err := w.ExpertIn(ProtocolJSON, q, r)
			if err != nil {
				t.Fatal(err)
			}
			again, err := w.ExpertIn(ProtocolJSON, q, r)
			if err != nil || tr.Text() != again.Text() {
				t.Fatalf("%s: an expert must be a function of its question: %v", q.ID, err)
			}
			read := strings.Builder{}
			for _, turn := range tr.Turns[:len(tr.Turns)-1] {
				_, call, _ := strings.Cut(turn.Policy, TagCall)
				call, closed := strings.CutSuffix(call, TagCallEnd)
				var c struct {
					Name      string
					Arguments map[string]string
				}
				if err := json.Unmarshal([]byte(call), &c); err != nil || !closed || len(c.Arguments) != 1 {
					t.Fatalf("%s: call %q: %v", q.ID, call, err)
				}
				used[c.Name]++
				turns++
				read.WriteString(turn.Observation)
			}
			for i, relation := range q.Metadata["chain"].([]any) {
				fact := relation.(string) + " is " + q.Metadata["entities"].([]any)[i+1].(string) + " ."
				if !strings.Contains(read.String(), fact) {
					t.Errorf("%s: the expert has not read %q: %s", q.ID, fact, tr.Text())
				}
			}
			if n := 2 + count(q.Text) + count(tr.Text()); n > long {
				long = n
			}
		}
	}
	if long > jsonMaxTokens {
		t.Errorf("an expert has %d tokens, the protocol keeps to %d", long, jsonMaxTokens)
	}
	if names := slices.Sorted(maps.Keys(used)); !slices.Equal(names, []string{"keyword_search", "read_paragraph", "semantic_search"}) {
		t.Errorf("the experts use %v", used)
	}
	t.Logf("%d calls, longest %d tokens: %v", turns, long, used)
}

// The protocol's words are single tokens, and the vocabulary of the tags is what it was.
func TestJSONVocabulary(t *testing.T) {
	dir := t.TempDir()
	files, err := PolicyFiles(false, ProtocolJSON)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tok, err := tokenizer.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	w := world(t, 1, Options{})
	r := sentences(t, w)
	for _, q := range questions(t, w, "test")[:20] {
		tr, err := w.ExpertIn(ProtocolJSON, q, r)
		if err != nil {
			t.Fatal(err)
		}
		text := words(TagQuestion, q.Text, TagQuestionEnd, tr.Text())
		ids := tok.EncodePieces([]tokenizer.Piece{{Text: text, Trusted: true}})
		if len(ids) != count(text) {
			t.Errorf("%d tokens for %d words", len(ids), count(text))
		}
		if got := tok.Decode(ids, false); got != text {
			t.Errorf("decoded %q, want %q", got, text)
		}
	}
	f, err := ProtocolTags.form()
	if err != nil || !slices.Equal(f.words(false), vocabularyOfTags(false)) {
		t.Errorf("the tags' vocabulary has changed: %v", err)
	}
	if _, err := PolicyFiles(false, "yaml"); err == nil {
		t.Error("an unknown protocol must be refused")
	}
}

func TestJSONStream(t *testing.T) {
	full := .002
	s, err := NewStream(StreamOptions{Seed: 3, Phase: PhaseHabit, FullShare: &full, Protocol: ProtocolJSON}, func(w *World) (Retrieval, error) {
		return w.Retrieval(ProtocolJSON, 0, 0)
	})
	if err != nil {
		t.Fatal(err)
	}
	calls, silent := 0, 0
	for i := range 200 {
		e, err := s.At(i)
		if err != nil {
			t.Fatal(err)
		}
		n := strings.Count(e.Transcript.Text(), TagCallEnd)
		if calls += n; n == 0 {
			silent++
		}
	}
	if calls < 60 || silent < 80 {
		t.Errorf("%d calls, %d of 200 without: the habit is to answer at once in 60 %%", calls, silent)
	}
}
