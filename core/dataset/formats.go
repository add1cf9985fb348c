package dataset

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/forage-rl/forage/core/sdk/episode"
	"github.com/forage-rl/forage/core/sdk/text"
)

// format is one record format: how it is recognised and what its fields mean.
type format struct {
	name  string
	match func(record) bool
	parse func(record, Spec) (draft, error)
	used  []string // fields that do not pass into the metadata
}

// draft is what a format found; finish makes a question of it.
type draft struct {
	id, question string
	answers      []string
	gold         []string // titles
	ids          []string // of the documents of gold, where the record has them
	passages     []passage
	hops         int
	kind         string
	extra        map[string]any
}

// passage is a text of the record's context; gold ones carry their place among the golds.
type passage struct {
	title, text string
}

// formats lists the record formats in the order in which they are tried.
func formats() []format {
	return []format{
		{"search_r1", func(r record) bool { return r.has("reward_model") }, parseSearchR1, []string{"id", "_id", "question", "golden_answers", "answer", "label", "reward_model"}},
		{"stepsearch", func(r record) bool { return r.hasAll("question", "final_answer", "sub_searchs") }, parseStepSearch, []string{"id", "question", "final_answer", "answer_aliases", "sub_searchs", "sub_support_docs"}},
		{"flashrag", func(r record) bool { return r.has("golden_answers") }, parseFlashRAG, []string{"id", "question", "golden_answers"}},
		{"musique", func(r record) bool { return r.hasAll("question_decomposition", "answer") }, parseMusique, []string{"id", "question", "answer", "answer_aliases"}},
		{"ircot", func(r record) bool { return r.hasAll("question_text", "answers_objects") }, parseIRCoT, []string{"question_id", "question_text", "answers_objects", "answers"}},
		{"strategyqa", func(r record) bool { return r.hasAll("qid", "question") }, parseStrategyQA, []string{"qid", "question", "answer", "evidence"}},
		{"normalized", func(r record) bool { return r.hasAll("question", "answers", "gold_titles") }, parseNormalized, []string{"id", "question", "answers", "gold_titles", "gold_ids", "hops", "type"}},
		{"2wikimultihopqa", func(r record) bool { return r.hasAll("question", "supporting_facts", "evidences") }, parseHotpot, []string{"_id", "id", "question", "answer", "type"}},
		{"hotpotqa", func(r record) bool { return r.hasAll("question", "supporting_facts") }, parseHotpot, []string{"_id", "id", "question", "answer", "type"}},
		{"qa", func(r record) bool { return r.has("question") && (r.has("answer") || r.has("answers")) }, parseQA, []string{"id", "_id", "idx", "test_id", "question", "answer", "answers", "type", "hops"}},
	}
}

// Formats lists the names of the record formats.
func Formats() []string {
	var names []string
	for _, f := range formats() {
		names = append(names, f.name)
	}
	return names
}

// parserOf gives the function that turns records into questions and expert texts: by the named format, or by the one
// that the first record's fields show.
func parserOf(spec Spec) (func(record) (episode.Question, string, error), error) {
	var chosen *format
	all := formats()
	if spec.Format != "" {
		i := slices.IndexFunc(all, func(f format) bool { return f.name == spec.Format })
		if i < 0 {
			return nil, fmt.Errorf("dataset: unknown format %q, want one of %s", spec.Format, strings.Join(Formats(), ", "))
		}
		chosen = &all[i]
	}
	return func(r record) (episode.Question, string, error) {
		if chosen == nil {
			i := slices.IndexFunc(all, func(f format) bool { return f.match(r) })
			if i < 0 {
				return episode.Question{}, "", r.errorf("no known format has the fields %s; want question and answer, or set format to one of %s",
					strings.Join(slices.Sorted(maps.Keys(r.fields)), ", "), strings.Join(Formats(), ", "))
			}
			chosen = &all[i]
		}
		d, err := chosen.parse(r, spec)
		if err != nil {
			return episode.Question{}, "", err
		}
		return finish(r, *chosen, d)
	}, nil
}

// finish checks a draft and puts the question together.
func finish(r record, f format, d draft) (q episode.Question, expert string, err error) {
	q.ID = text.Trim(d.id)
	if q.ID == "" {
		q.ID = fmt.Sprintf("%s-%d", r.stem, r.number)
	}
	if q.Text = text.Trim(d.question); q.Text == "" {
		return q, "", r.errorf("the question is empty")
	}
	if d.ids != nil && len(d.ids) != len(d.gold) {
		return q, "", r.errorf("question %q has %d gold ids for %d gold titles", q.ID, len(d.ids), len(d.gold))
	}
	q.Type, q.Hops = d.kind, d.hops
	trimmed := false
	for _, a := range d.answers {
		t := text.Trim(a)
		trimmed = trimmed || t != a
		if t != "" && !slices.Contains(q.Answers, t) {
			q.Answers = append(q.Answers, t)
		}
	}
	if len(q.Answers) == 0 || text.Trim(d.answers[0]) == "" {
		return q, "", r.errorf("question %q has no answer", q.ID)
	}

	q.Metadata = map[string]any{}
	skip := append([]string{"context", "contexts", "paragraphs", "prompt", "metadata", "extra_info", "gold_response", "expert"}, f.used...)
	for _, nested := range []string{"metadata", "extra_info"} {
		if m, ok := r.fields[nested].(map[string]any); ok {
			for k, v := range m {
				if !slices.Contains(skip, k) {
					q.Metadata[k] = plain(v)
				}
			}
		}
	}
	for k, v := range r.fields {
		if v != nil && !slices.Contains(skip, k) {
			q.Metadata[k] = plain(v)
		}
	}
	maps.Copy(q.Metadata, d.extra)
	if q.Text != d.question {
		q.Metadata["raw_question"] = d.question
	}
	if trimmed {
		q.Metadata["raw_answers"] = anys(d.answers)
	}
	addGold(&q, d)

	for _, field := range []string{"gold_response", "expert"} {
		if expert == "" {
			if expert, err = r.optionalText(field); err != nil {
				return q, "", err
			}
		}
	}
	return q, expert, nil
}

// addGold sets the golds and, where texts are known, support_docs in the same order.
func addGold(q *episode.Question, d draft) {
	var docs []any
	known := false
	add := func(p passage) {
		q.Gold = append(q.Gold, episode.Gold{Title: p.title})
		known = known || p.text != ""
		docs = append(docs, map[string]any{"title": p.title, "paragraph_text": p.text})
	}
	if d.gold == nil {
		for _, p := range d.passages {
			add(p)
		}
	}
	var seen []string
	for i, title := range d.gold {
		if slices.Contains(seen, title) {
			continue
		}
		seen = append(seen, title)
		id := ""
		if d.ids != nil {
			id = d.ids[i]
		}
		p := passage{title: title}
		if i := slices.IndexFunc(d.passages, func(p passage) bool { return p.title == title }); i >= 0 {
			p = d.passages[i]
		}
		add(p)
		q.Gold[len(q.Gold)-1].DocumentID = id
	}
	if _, given := q.Metadata["support_docs"]; known && !given {
		q.Metadata["support_docs"] = docs
	}
	if q.Hops == 0 {
		q.Hops = len(q.Gold)
	}
}

func anys(list []string) []any {
	out := make([]any, len(list))
	for i, s := range list {
		out[i] = s
	}
	return out
}

func parseNormalized(r record, _ Spec) (d draft, err error) {
	if d.id, err = r.text("id"); err != nil {
		return d, err
	}
	if d.question, err = r.text("question"); err != nil {
		return d, err
	}
	if d.answers, err = r.texts("answers", r.fields["answers"]); err != nil {
		return d, err
	}
	if d.kind, err = r.optionalText("type"); err != nil {
		return d, err
	}
	if d.hops, err = r.optionalInt("hops"); err != nil {
		return d, err
	}
	titles, err := r.texts("gold_titles", r.fields["gold_titles"])
	if err != nil {
		return d, err
	}
	context, err := r.list("context")
	if err != nil {
		return d, err
	}
	for i, c := range context {
		p, gold, err := r.contextEntry("context", i, c)
		if err != nil {
			return d, err
		}
		if gold {
			d.passages = append(d.passages, p)
		}
	}
	// MuSiQue's titles do not identify its gold paragraphs; with the paragraphs at hand each is a gold of its own.
	if !r.has("decomposition") || len(d.passages) == 0 {
		d.gold = append([]string{}, titles...)
		if r.has("gold_ids") {
			d.ids, err = r.texts("gold_ids", r.fields["gold_ids"])
		}
	}
	return d, err
}

// contextEntry reads {title, sentences | text | paragraph_text, is_gold | is_supporting}.
func (r record) contextEntry(field string, i int, c any) (p passage, gold bool, err error) {
	m, ok := c.(map[string]any)
	if !ok {
		return p, false, r.errorf("field %q: entry %d is a %s, want an object", field, i, kindOf(c))
	}
	if p.title, ok = scalar(m["title"]); !ok {
		return p, false, r.errorf("field %q: entry %d has no title", field, i)
	}
	for _, name := range []string{"is_gold", "is_supporting"} {
		if b, ok := m[name].(bool); ok && b {
			gold = true
		}
	}
	switch {
	case m["sentences"] != nil:
		sentences, err := r.texts(field, m["sentences"])
		if err != nil {
			return p, false, err
		}
		p.text = join(sentences)
	case m["text"] != nil:
		p.text, _ = scalar(m["text"])
	default:
		p.text, _ = scalar(m["paragraph_text"])
	}
	return p, gold, nil
}

// join makes a paragraph of sentences as the corpora do: trimmed, empty ones left out, a blank between two.
func join(sentences []string) string {
	var kept []string
	for _, s := range sentences {
		if s = strings.TrimSpace(s); s != "" {
			kept = append(kept, s)
		}
	}
	return strings.Join(kept, " ")
}
