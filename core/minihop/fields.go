package minihop

import (
	"slices"

	"github.com/forage-rl/forage/core/internal/rng"
)

// Markers of the protocol fields; each is one special token. The last four stand in what the policy writes, the others
// in the prompt of each turn, where the episode so far is laid out. MarkObservation is also what a transcript has
// before what a search found.
const (
	MarkQuestion    = "[[ ## question ## ]]"
	MarkThought     = "[[ ## thought ## ]]"
	MarkQuery       = "[[ ## query ## ]]"
	MarkObservation = "[[ ## observation ## ]]"
	MarkTools       = "[[ ## tools ## ]]"

	MarkNextThought = "[[ ## next_thought ## ]]"
	MarkNextTool    = "[[ ## next_tool_name ## ]]"
	MarkNextArgs    = "[[ ## next_tool_args ## ]]"
	MarkCompleted   = "[[ ## completed ## ]]"
)

// Words of the protocol fields that are no tags: the tools, and the fixed parts of their arguments.
const (
	WordSearch   = "search"
	WordFinish   = "finish"
	ArgsQuery    = `{"query":"`
	ArgsQueryEnd = `"}`
	ArgsNone     = "{}"
)

const (
	// FieldsTurns is how many turns an episode that cannot finish has after the first search.
	FieldsTurns = 5
	// noFinishShare is the share of a stream's examples whose agent has no tool to finish.
	noFinishShare = .5
	// remindShare is the share of a stream's examples whose prompt says the question again at its end.
	remindShare = .5
	// fieldsMaxTokens is room for the longest prompt, of five turns after the first search, and a turn.
	fieldsMaxTokens = 320
)

func fieldsFrames() []string {
	return []string{WordSearch, WordFinish, ArgsQuery, ArgsQueryEnd, ArgsNone}
}

func fieldsTags() []string {
	return []string{MarkQuestion, MarkThought, MarkQuery, MarkObservation, MarkTools, MarkNextThought, MarkNextTool, MarkNextArgs,
		MarkCompleted, TagEOS, TagPad}
}

// manner is how an episode in fields is asked for.
type manner struct {
	noFinish bool // there is no tool to finish
	turns    int  // after the first search, of an episode without finish
	key      rng.Key
}

// metadata is what the prompt of a stream's example needs to know.
func (m manner) metadata(remind bool) map[string]any {
	tools := WordSearch + " " + WordFinish
	if m.noFinish {
		tools = WordSearch
	}
	return map[string]any{"tools": tools, "remind": remind}
}

// scriptStreamFields writes an example of a stream: half of them have no tool to finish and go on searching.
func (w *World) scriptStreamFields(q query, searches int, wrong []*entity, key rng.Key, r Retrieval) (Transcript, error) {
	m := manner{noFinish: key.Float64(0) < noFinishShare, key: key}
	m.turns = len(q.chain) + int(key.Uint64(1)%uint64(FieldsTurns-len(q.chain)+1))
	t, err := w.scriptFields(q, searches, wrong, m, r)
	t.Metadata = m.metadata(key.Float64(2) < remindShare)
	return t, err
}

// scriptFields writes an episode in the protocol fields. The environment searches with the question first, and leaves
// out of every result what the episode has seen. Each turn searches for the first document of the chain that has not
// been seen yet; where wrong[i] is set, turn i asks about that entity instead, and the next one tries again. With a
// tool to finish the episode ends once all documents have been seen, and at the latest after the given number of turns,
// if that is fewer than the question has hops. Without, it goes on for m.turns turns: when all documents have been
// seen it asks for others.
func (w *World) scriptFields(q query, searches int, wrong []*entity, m manner, r Retrieval) (Transcript, error) {
	var t Transcript
	seen := map[string]bool{}
	find := func(ask string) (string, error) {
		docs, err := r.Documents(ask)
		if err != nil {
			return "", err
		}
		texts := []string{MarkObservation}
		for _, d := range docs {
			if !seen[d.ID] && len(texts) <= r.Hits {
				seen[d.ID] = true
				texts = append(texts, d.Text)
			}
		}
		return words(texts...), nil
	}
	text := "what is " + w.name(q.start)
	for _, rel := range q.chain {
		text += " 's " + w.rel[rel].name
	}
	first, err := find(text + " ?")
	if err != nil {
		return t, err
	}
	t.Turns = append(t.Turns, Turn{Observation: first})
	path := w.path(q.start, q.chain)
	turns := FieldsTurns
	if m.noFinish {
		turns = m.turns
	} else if searches < len(q.chain) {
		turns = searches
	}
	for i := range turns {
		missing := slices.IndexFunc(path[:len(q.chain)], func(e entity) bool { return !seen[e.id()] })
		if missing < 0 && !m.noFinish {
			break
		}
		e, rel := w.elsewhere(path, m.key.With(3, uint64(i)))
		if missing >= 0 {
			e, rel = path[missing], q.chain[missing]
		}
		if missing >= 0 && i < len(wrong) && wrong[i] != nil && wrong[i].kind == e.kind {
			e = *wrong[i]
		}
		ask := w.name(e) + " " + w.rel[rel].name
		found, err := find(ask)
		if err != nil {
			return t, err
		}
		t.Turns = append(t.Turns, Turn{
			Policy:      words(MarkNextThought, w.rel[rel].name, MarkNextTool, WordSearch, MarkNextArgs, ArgsQuery, ask, ArgsQueryEnd, MarkCompleted),
			Observation: found,
		})
	}
	if !m.noFinish {
		t.Turns = append(t.Turns, Turn{
			Policy: words(MarkNextThought, WordDone, MarkNextTool, WordFinish, MarkNextArgs, ArgsNone, MarkCompleted),
		})
	}
	return t, nil
}

// elsewhere draws an entity of the path that has a document, and one of its relations: something to ask when nothing is
// missing.
func (w *World) elsewhere(path []entity, key rng.Key) (entity, int) {
	var known []entity
	for _, e := range path {
		if e.kind.documented() {
			known = append(known, e)
		}
	}
	e := known[int(key.Uint64(0)%uint64(len(known)))]
	has := w.order[e]
	return e, has[int(key.Uint64(1)%uint64(len(has)))]
}
