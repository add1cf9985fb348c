package minihop

import (
	"fmt"
	"slices"
	"strings"

	"github.com/forage-rl/forage/core/internal/rng"
	"github.com/forage-rl/forage/core/sdk/episode"
)

// Sizes of the sets of questions.
const (
	TrainQuestions = 256
	TestQuestions  = 150
)

// query is a question's derivation: a start entity and the relations to follow.
type query struct {
	start entity
	chain []int
}

// Questions gives the first n questions of a split, "train" or "test"; n <= 0 means all (256 and 150). More than 256
// training questions may be asked for while the world has them. The splits share no question, and the number of hops
// follows the mix closely in every prefix.
//
// The text is "what is E0 's R1 's R2 ?": the tags around it are the prompt's. Gold lists the document of every hop in
// order. Metadata holds chain (relations), entities (E0 … answer), search_keys (per hop the queries that find the
// document) and support_docs (per hop title and paragraph_text).
func (w *World) Questions(split string, n int) ([]episode.Question, error) {
	train := split == "train"
	if !train && split != "test" {
		return nil, fmt.Errorf(`minihop: unknown split %q, want "train" or "test"`, split)
	}
	if n <= 0 {
		n = TestQuestions
		if train {
			n = TrainQuestions
		}
	}
	if !train && n > TestQuestions {
		return nil, fmt.Errorf("minihop: %d test questions asked for, a world has %d", n, TestQuestions)
	}
	seen := map[string]bool{}
	// The test questions come first so that they do not depend on how many training questions are drawn.
	queries, err := w.draw("test", TestQuestions, seen)
	if err == nil && train {
		queries, err = w.draw("train", n, seen)
	}
	if err != nil {
		return nil, err
	}
	questions := make([]episode.Question, n)
	for i := range questions {
		questions[i] = w.question(queries[i], fmt.Sprintf("minihop-%d-%s-%04d", w.seed, split, i))
	}
	return questions, nil
}

// draw makes n queries that are not in seen, and adds them to it.
func (w *World) draw(split string, n int, seen map[string]bool) ([]query, error) {
	key := rng.New(w.seed).WithString("minihop/questions/" + split)
	queries := make([]query, 0, n)
	var counts [3]int
	for i := range n {
		// The hop count that is furthest behind its share.
		hops := 0
		for h := range w.options.Mix {
			if w.deficit(h, i, counts) > w.deficit(hops, i, counts)+1e-9 {
				hops = h
			}
		}
		counts[hops]++
		found := false
		for attempt := range uint64(20000) {
			q, ok := w.sample(hops+1, key.With(uint64(i), attempt))
			if id := fmt.Sprint(q); ok && !seen[id] {
				seen[id] = true
				queries = append(queries, q)
				found = true
				break
			}
		}
		if !found {
			return nil, fmt.Errorf("minihop: world %d has no further %d-hop question after %d of %s; ask for fewer", w.seed, hops+1, i, split)
		}
	}
	return queries, nil
}

func (w *World) deficit(h, i int, counts [3]int) float64 {
	if w.options.Mix[h] == 0 {
		return -1
	}
	return w.options.Mix[h]*float64(i+1) - float64(counts[h])
}

// sample draws a chain, uniform over the valid ones, and a start, uniform over its kind; ok is false when the path
// visits an entity twice.
func (w *World) sample(hops int, key rng.Key) (q query, ok bool) {
	all := w.chains[hops-1]
	q.chain = all[int(key.Uint64(0)%uint64(len(all)))]
	k := w.rel[q.chain[0]].from
	q.start = entity{k, int(key.Uint64(1) % uint64(len(w.names[k])))}
	path := w.path(q.start, q.chain)
	for i, e := range path {
		if slices.Contains(path[:i], e) {
			return q, false
		}
	}
	return q, true
}

func (w *World) question(q query, id string) episode.Question {
	path := w.path(q.start, q.chain)
	var text strings.Builder
	text.WriteString("what is " + w.name(q.start))
	out := episode.Question{ID: id, Hops: len(q.chain), Answers: []string{w.name(path[len(path)-1])}}
	var relationNames, names, keys, support []any
	for i, r := range q.chain {
		d := w.document(path[i])
		text.WriteString(" 's " + w.rel[r].name)
		out.Gold = append(out.Gold, episode.Gold{Title: d.Title, DocumentID: d.ID})
		relationNames = append(relationNames, w.rel[r].name)
		keys = append(keys, []any{d.Title + " " + w.rel[r].name})
		support = append(support, map[string]any{"title": d.Title, "paragraph_text": d.Text})
	}
	for _, e := range path {
		names = append(names, w.name(e))
	}
	text.WriteString(" ?")
	out.Text = text.String()
	out.Type = fmt.Sprintf("%dhop", out.Hops)
	out.Metadata = map[string]any{
		"chain": relationNames, "entities": names, "search_keys": keys, "support_docs": support,
		"prior": w.names[path[len(path)-1].kind][0], "world": fmt.Sprint(w.seed),
	}
	return out
}
