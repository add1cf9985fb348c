package minihop

import (
	"fmt"
	"strings"

	"github.com/forage-rl/forage/core/sdk/episode"
)

// SearchLimit is the budget of searches of an episode; a search beyond it is answered by [WordLimit].
const SearchLimit = 4

// Search gives the documents that the environment returns for a query, best first.
type Search func(query string) ([]Doc, error)

// Transcript is a scripted episode in protocol text.
type Transcript struct {
	Turns []Turn
	// Metadata is what the prompts of the episode need to know beyond the question; nil for nothing.
	Metadata map[string]any
}

// Turn is what the policy writes and what the environment then returns ("" after the answer). Policy is "" in a search
// that the environment makes first.
type Turn struct {
	Policy      string
	Observation string
}

// Text is the whole transcript, words separated by blanks, ending in the end-of-sequence tag.
func (t Transcript) Text() string {
	var parts []string
	for _, turn := range t.Turns {
		if turn.Policy != "" {
			parts = append(parts, turn.Policy)
		}
		if turn.Observation != "" {
			parts = append(parts, turn.Observation)
		}
	}
	return strings.Join(parts, " ")
}

// Observation renders documents as the environment does.
func Observation(docs []Doc) string {
	parts := []string{TagInformation}
	for _, d := range docs {
		parts = append(parts, d.Text)
	}
	return strings.Join(append(parts, TagInformationEnd), " ")
}

// Expert is the gold chain of a question of this world: one search per hop, then the answer.
func (w *World) Expert(q episode.Question, search Search) (Transcript, error) {
	d, err := w.query(q)
	if err != nil {
		return Transcript{}, err
	}
	return w.script(d, len(d.chain), nil, search)
}

// Premature is an episode that answers after the given number of searches, fewer than the question has hops: without
// any with the gold answer (a guess, from what the policy can see), else with the entity the last search led to.
func (w *World) Premature(q episode.Question, searches int, search Search) (Transcript, error) {
	d, err := w.query(q)
	if err != nil {
		return Transcript{}, err
	}
	if searches < 0 || searches >= len(d.chain) {
		return Transcript{}, fmt.Errorf("minihop: %d searches is not premature for a question of %d hops", searches, len(d.chain))
	}
	return w.script(d, searches, nil, search)
}

// script writes an episode of the given number of searches. Where wrong[i] is set, search i asks about that entity
// instead; the episode then goes on from what it read, so that every word but the wrong name follows from the context.
func (w *World) script(q query, searches int, wrong []*entity, search Search) (Transcript, error) {
	var t Transcript
	e := q.start
	for i, r := range q.chain[:searches] {
		if i < len(wrong) && wrong[i] != nil {
			e = *wrong[i]
		}
		ask := w.name(e) + " " + w.rel[r].name
		docs, err := search(ask)
		if err != nil {
			return Transcript{}, fmt.Errorf("minihop: search for %q: %w", ask, err)
		}
		t.Turns = append(t.Turns, Turn{
			Policy:      words(TagThink, w.rel[r].name, TagThinkEnd, TagSearch, ask, TagSearchEnd),
			Observation: Observation(docs),
		})
		e = w.object(e, r)
	}
	if searches == 0 {
		path := w.path(e, q.chain)
		e = path[len(path)-1]
	}
	t.Turns = append(t.Turns, Turn{
		Policy: words(TagThink, WordDone, TagThinkEnd, TagAnswer, w.name(e), TagAnswerEnd, TagEOS),
	})
	return t, nil
}

func words(parts ...string) string { return strings.Join(parts, " ") }

// query recovers the derivation of one of this world's questions from its metadata.
func (w *World) query(q episode.Question) (query, error) {
	if got := q.Metadata["world"]; got != fmt.Sprint(w.seed) {
		return query{}, fmt.Errorf("minihop: question %q belongs to world %v, not to world %d", q.ID, got, w.seed)
	}
	names, _ := q.Metadata["entities"].([]any)
	rels, _ := q.Metadata["chain"].([]any)
	if len(rels) == 0 || len(names) != len(rels)+1 {
		return query{}, fmt.Errorf("minihop: question %q has no chain and entities in its metadata", q.ID)
	}
	first, _ := names[0].(string)
	start, ok := w.entities[first]
	if !ok {
		return query{}, fmt.Errorf("minihop: question %q starts at %q, which is no entity", q.ID, first)
	}
	out := query{start: start}
	at := start.kind
	for _, name := range rels {
		found := false
		for r, rel := range w.rel {
			if rel.name == name && rel.from == at {
				out.chain, at, found = append(out.chain, r), rel.to, true
				break
			}
		}
		if !found {
			return query{}, fmt.Errorf("minihop: question %q follows %v from a %v, which has no such relation", q.ID, name, at)
		}
	}
	return out, nil
}
