// Package modeltest is a service that speaks OpenAI's chat completions, for tests of what generates questions over the
// embedded world. Its model answers the bundled prompts as a small language model would: it reads the documents that a
// prompt shows, knows by heart what most things of the world have in common, takes shortcuts, and errs now and then,
// always the same way. It must not know chains or filters.
package modeltest

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/forage-rl/forage/core/minihop"
)

// Model is the service. Name is what requests must call it.
type Model struct {
	Name  string
	prior map[string]string // relation → its most common object
	asked atomic.Int64
	// FailAfter, if not 0, is the number of requests after which all others fail.
	FailAfter atomic.Int64
}

// New makes a model that has seen a world in passing.
func New(w *minihop.World) *Model {
	m := &Model{Name: "small", prior: map[string]string{}}
	counts, most := map[[2]string]int{}, map[string]int{}
	for _, d := range w.Documents() {
		for _, f := range factsOf(d.Text) {
			counts[f]++
			if n := counts[f]; n > most[f[0]] {
				most[f[0]], m.prior[f[0]] = n, f[1]
			}
		}
	}
	return m
}

// Asked is the number of requests so far.
func (m *Model) Asked() int { return int(m.asked.Load()) }

// ServeHTTP answers a request for a chat completion.
func (m *Model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Model    string
		Messages []struct{ Role, Content string }
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body.Model != m.Name || len(body.Messages) != 1 || body.Messages[0].Role != "user" {
		http.Error(w, fmt.Sprintf("bad request: %v: %+v", err, body), http.StatusBadRequest)
		return
	}
	if n := m.asked.Add(1); m.FailAfter.Load() > 0 && n > m.FailAfter.Load() {
		http.Error(w, "out of memory", http.StatusNotImplemented)
		return
	}
	text := m.answer(body.Messages[0].Content)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"choices": []any{map[string]any{"message": map[string]any{"role": "assistant", "content": text}, "finish_reason": "stop"}},
		"usage":   map[string]any{"prompt_tokens": len(strings.Fields(body.Messages[0].Content)), "completion_tokens": len(strings.Fields(text)) + 1},
	})
}

func (m *Model) answer(prompt string) string {
	switch {
	case strings.HasSuffix(prompt, "\nPhrase:"):
		return phrase(last(prompt, "\nSource: ", "\n"), last(prompt, "\nTarget: ", "\n"), last(prompt, "\nText: ", "\nPhrase:"))
	case strings.HasSuffix(prompt, "\nJSON:"):
		return leaf(last(prompt, "\nTitle: ", "\n"), last(prompt, "\nText: ", "\nJSON:"))
	case strings.HasSuffix(prompt, "\nAnswer:"):
		question := last(prompt, "\nQuestion: ", "\nAnswer:")
		if _, documents, shown := strings.Cut(prompt, "\nDocument: "); shown {
			return read(question, documents)
		}
		relations, _ := parse(question)
		if len(relations) > 0 && m.prior[relations[0]] != "" && !seldom(question, 3) {
			return m.prior[relations[0]]
		}
	}
	return "unknown"
}

// last cuts out what stands after the last mark and before the next end.
func last(text, mark, end string) string {
	if i := strings.LastIndex(text, mark); i >= 0 {
		text = text[i+len(mark):]
	}
	text, _, _ = strings.Cut(text, end)
	return strings.TrimSpace(text)
}

// seldom is true for one text of n.
func seldom(text string, n uint32) bool {
	h := fnv.New32a()
	h.Write([]byte(text))
	return h.Sum32()%n == 0
}

// factsOf lists the facts of a document: relation and object.
func factsOf(text string) [][2]string {
	if _, after, found := strings.Cut(text, " ) "); found {
		text = after
	}
	var facts [][2]string
	for sentence := range strings.SplitSeq(text, " .") {
		if relation, object, ok := strings.Cut(strings.TrimSpace(sentence), " is "); ok {
			facts = append(facts, [2]string{relation, object})
		}
	}
	return facts
}

func phrase(source, target, text string) string {
	for _, f := range factsOf(text) {
		if f[1] != target {
			continue
		}
		if seldom(source+target, 12) {
			return target + ", the " + f[0] + " of <SOURCE>" // it forgets the rules
		}
		return "Phrase: the " + f[0] + " of <SOURCE>."
	}
	return "something near " + source
}

func leaf(title, text string) string {
	facts := factsOf(text)
	if len(facts) == 0 {
		return "I cannot find anything to ask about."
	}
	if seldom("leaf "+title, 10) {
		return `{"question": "What is it?", "answer": ` // it stops too early
	}
	h := fnv.New32a()
	h.Write([]byte(title))
	f := facts[int(h.Sum32()/7)%len(facts)]
	out, _ := json.Marshal(map[string]string{"question": "What is the " + f[0] + " of <TITLE>?", "answer": f[1], "answer_type": "entity"})
	return "<think>A fact is " + f[0] + ".</think>\n```json\n" + string(out) + "\n```"
}

// parse takes "What is the R3 of the R2 of the R1 of E?" apart: relations from the last to the first, and E.
func parse(question string) (relations []string, entity string) {
	parts := strings.Split(strings.TrimSuffix(strings.TrimPrefix(question, "What is "), "?"), " of ")
	for _, p := range parts[:len(parts)-1] {
		relations = append(relations, strings.TrimPrefix(p, "the "))
	}
	return relations, parts[len(parts)-1]
}

// read answers from documents: it follows the relations, and where a document is missing it may take the only one that
// has the last relation for the right one.
func read(question, documents string) string {
	relations, at := parse(question)
	known := map[string][][2]string{}
	var texts []string
	for document := range strings.SplitSeq(documents, "\n") {
		if title, _, ok := strings.Cut(strings.TrimPrefix(document, "( "), " )"); ok && strings.HasPrefix(document, "( ") {
			known[title] = factsOf(document)
			texts = append(texts, document)
		}
	}
	for i := len(relations) - 1; i >= 0; i-- {
		next := lookup(known[at], relations[i])
		if next == "" {
			return shortcut(relations[0], texts)
		}
		at = next
	}
	if seldom("read "+question, 7) {
		return lookup(factsOf(texts[0]), factsOf(texts[0])[0][0]) + " perhaps" // it loses the thread
	}
	return "The answer is " + at + "."
}

func lookup(facts [][2]string, relation string) string {
	for _, f := range facts {
		if f[0] == relation {
			return f[1]
		}
	}
	return ""
}

func shortcut(relation string, documents []string) string {
	var objects []string
	for _, d := range documents {
		if object := lookup(factsOf(d), relation); object != "" {
			objects = append(objects, object)
		}
	}
	if len(objects) == 1 && seldom(relation, 3) {
		return objects[0]
	}
	return "unknown"
}
