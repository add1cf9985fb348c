package dataset

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// parseHotpot reads HotpotQA and 2WikiMultihopQA, in the released form and in Hugging Face's struct form.
func parseHotpot(r record, _ Spec) (d draft, err error) {
	if d.id, err = r.anyText("_id", "id"); err != nil {
		return d, err
	}
	if d.question, err = r.text("question"); err != nil {
		return d, err
	}
	if !r.has("answer") {
		return d, r.missing("answer")
	}
	if d.answers, err = r.texts("answer", r.fields["answer"]); err != nil {
		return d, err
	}
	if d.kind, err = r.optionalText("type"); err != nil {
		return d, err
	}
	if err := r.takeFacts("supporting_facts", r.fields["supporting_facts"], &d); err != nil {
		return d, err
	}
	d.passages, err = r.hotpotContext(r.fields["context"])
	return d, err
}

// anyText gives the first of the fields that is there, or "".
func (r record) anyText(names ...string) (string, error) {
	for _, n := range names {
		if r.has(n) {
			return r.text(n)
		}
	}
	return "", nil
}

type supportingFact struct {
	title    string
	sentence int
}

// takeFacts makes the golds of a draft from supporting facts, and keeps the facts themselves.
func (r record) takeFacts(name string, v any, d *draft) error {
	facts, err := r.facts(name, v)
	if err != nil {
		return err
	}
	d.gold = []string{}
	pairs := make([]any, len(facts))
	for i, f := range facts {
		d.gold = append(d.gold, f.title)
		pairs[i] = []any{f.title, float64(f.sentence)}
	}
	d.extra = map[string]any{"supporting_facts": pairs}
	return nil
}

// facts reads [[title, sentence]] or {title: [], sent_id: []}. The sentence may be out of range: released files have
// such.
func (r record) facts(name string, v any) (facts []supportingFact, err error) {
	if m, ok := v.(map[string]any); ok {
		titles, ok1 := m["title"].([]any)
		ids, ok2 := m["sent_id"].([]any)
		if !ok1 || !ok2 || len(titles) != len(ids) {
			return nil, r.errorf("field %q: want lists title and sent_id of equal length", name)
		}
		var list []any
		for i := range titles {
			list = append(list, []any{titles[i], ids[i]})
		}
		v = list
	}
	list, ok := v.([]any)
	if !ok && v != nil {
		return nil, r.errorf("field %q is a %s, want a list of [title, sentence]", name, kindOf(v))
	}
	for i, x := range list {
		pair, ok := x.([]any)
		if !ok || len(pair) != 2 {
			return nil, r.errorf("field %q: entry %d is not [title, sentence]", name, i)
		}
		title, ok := scalar(pair[0])
		n, whole := integer(pair[1])
		if !ok || !whole {
			return nil, r.errorf("field %q: entry %d is not [title, sentence]", name, i)
		}
		facts = append(facts, supportingFact{title, n})
	}
	return facts, nil
}

// hotpotContext reads [[title, [sentences]]] or {title: [], sentences: [[]]}.
func (r record) hotpotContext(v any) (passages []passage, err error) {
	var titles, texts []any
	switch v := v.(type) {
	case nil:
		return nil, nil
	case map[string]any:
		var ok1, ok2 bool
		titles, ok1 = v["title"].([]any)
		texts, ok2 = v["sentences"].([]any)
		if !ok1 || !ok2 || len(titles) != len(texts) {
			return nil, r.errorf("field %q: want lists title and sentences of equal length", "context")
		}
	case []any:
		for i, x := range v {
			pair, ok := x.([]any)
			if !ok || len(pair) != 2 {
				return nil, r.errorf("field %q: entry %d is not [title, [sentences]]", "context", i)
			}
			titles, texts = append(titles, pair[0]), append(texts, pair[1])
		}
	default:
		return nil, r.errorf("field %q is a %s, want a list of [title, [sentences]]", "context", kindOf(v))
	}
	for i := range titles {
		title, ok := scalar(titles[i])
		if !ok {
			return nil, r.errorf("field %q: the title of entry %d is a %s, want a text", "context", i, kindOf(titles[i]))
		}
		sentences, err := r.texts("context", texts[i])
		if err != nil {
			return nil, err
		}
		passages = append(passages, passage{title, join(sentences)})
	}
	return passages, nil
}

// takeMusique takes what all files of MuSiQue's questions have: the id, the question, the answer and its aliases.
func (r record) takeMusique(answerField string, d *draft) (err error) {
	if d.id, err = r.text("id"); err != nil {
		return err
	}
	if d.question, err = r.text("question"); err != nil {
		return err
	}
	answer, err := r.text(answerField)
	if err != nil {
		return err
	}
	d.answers = []string{answer}
	if r.has("answer_aliases") {
		aliases, err := r.texts("answer_aliases", r.fields["answer_aliases"])
		if err != nil {
			return err
		}
		d.answers = append(d.answers, aliases...)
	}
	return nil
}

func parseMusique(r record, _ Spec) (d draft, err error) {
	if err := r.takeMusique("answer", &d); err != nil {
		return d, err
	}
	steps, err := r.list("question_decomposition")
	if err != nil {
		return d, err
	}
	d.hops = len(steps)
	d.kind, _, _ = strings.Cut(d.id, "__")
	if d.kind == d.id {
		d.kind = ""
	}
	paragraphs, err := r.list("paragraphs")
	if err != nil {
		return d, err
	}
	var idxs []any
	for i, c := range paragraphs {
		p, gold, err := r.contextEntry("paragraphs", i, c)
		if err != nil {
			return d, err
		}
		if gold {
			d.passages = append(d.passages, p)
			idxs = append(idxs, float64(i))
		}
	}
	d.extra = map[string]any{"support_idxs": idxs}
	return d, nil
}

func parseFlashRAG(r record, _ Spec) (d draft, err error) {
	if d.id, err = r.optionalText("id"); err != nil {
		return d, err
	}
	if d.question, err = r.text("question"); err != nil {
		return d, err
	}
	if d.answers, err = r.texts("golden_answers", r.fields["golden_answers"]); err != nil {
		return d, err
	}
	meta, _ := r.fields["metadata"].(map[string]any)
	err = r.flashMetadata(meta, &d)
	return d, err
}

// flashMetadata takes golds and type from FlashRAG's metadata, which holds the original data set's fields.
func (r record) flashMetadata(meta map[string]any, d *draft) (err error) {
	d.kind, _ = scalar(meta["type"])
	if meta["supporting_facts"] != nil {
		if err := r.takeFacts("metadata.supporting_facts", meta["supporting_facts"], d); err != nil {
			return err
		}
		d.passages, err = r.hotpotContext(meta["context"])
		return err
	}
	if steps, ok := meta["question_decomposition"].([]any); ok {
		d.hops = len(steps)
		for i, s := range steps {
			step, _ := s.(map[string]any)
			if step["support_paragraph"] == nil {
				continue
			}
			p, _, err := r.contextEntry("metadata.question_decomposition", i, step["support_paragraph"])
			if err != nil {
				return err
			}
			d.passages = append(d.passages, p)
		}
	}
	return nil
}

func parseIRCoT(r record, _ Spec) (d draft, err error) {
	if d.id, err = r.anyText("question_id"); err != nil {
		return d, err
	}
	if d.question, err = r.text("question_text"); err != nil {
		return d, err
	}
	objects, err := r.list("answers_objects")
	if err != nil {
		return d, err
	}
	for i, o := range objects {
		m, _ := o.(map[string]any)
		spans, err := r.texts(fmt.Sprintf("answers_objects[%d].spans", i), m["spans"])
		if err != nil {
			return d, err
		}
		d.answers = append(d.answers, spans...)
	}
	contexts, err := r.list("contexts")
	if err != nil {
		return d, err
	}
	for i, c := range contexts {
		p, gold, err := r.contextEntry("contexts", i, c)
		if err != nil {
			return d, err
		}
		if gold {
			d.passages = append(d.passages, p)
		}
	}
	return d, nil
}

func parseStrategyQA(r record, _ Spec) (d draft, err error) {
	if d.id, err = r.text("qid"); err != nil {
		return d, err
	}
	if d.question, err = r.text("question"); err != nil {
		return d, err
	}
	if d.answers, err = r.texts("answer", r.fields["answer"]); err != nil {
		return d, err
	}
	steps, err := r.list("decomposition")
	if err != nil {
		return d, err
	}
	d.hops = len(steps)
	var paragraphs []string
	collect(r.fields["evidence"], &paragraphs)
	d.gold = []string{}
	for _, p := range paragraphs {
		// "Title-3" is paragraph 3 of a page; operation and no_evidence are marks, not pages.
		if i := strings.LastIndexByte(p, '-'); i > 0 {
			if _, err := strconv.Atoi(p[i+1:]); err == nil {
				d.gold = append(d.gold, p[:i])
			}
		}
	}
	return d, nil
}

// collect gathers the texts of nested lists in order.
func collect(v any, out *[]string) {
	switch v := v.(type) {
	case string:
		*out = append(*out, v)
	case []any:
		for _, x := range v {
			collect(x, out)
		}
	}
}

func parseQA(r record, _ Spec) (d draft, err error) {
	if d.id, err = r.anyText("id", "_id", "idx", "test_id"); err != nil {
		return d, err
	}
	if d.question, err = r.text("question"); err != nil {
		return d, err
	}
	name := "answers"
	if !r.has(name) {
		name = "answer"
	}
	if !r.has(name) {
		return d, r.missing("answer")
	}
	if d.answers, err = r.texts(name, r.fields[name]); err != nil {
		return d, err
	}
	if d.kind, err = r.optionalText("type"); err != nil {
		return d, err
	}
	d.hops, err = r.optionalInt("hops")
	return d, err
}

// parseSearchR1 reads the rows that Search-R1, David-GRPO and their followers train on: a prompt, and the answers in
// reward_model (an object, or an object written as JSON text) as ground_truth, which is a text, a list or {target}.
func parseSearchR1(r record, spec Spec) (d draft, err error) {
	if d.id, err = r.anyText("id", "_id"); err != nil {
		return d, err
	}
	if d.question, err = r.promptQuestion(spec.QuestionAfter); err != nil {
		return d, err
	}
	model := r.fields["reward_model"]
	if s, ok := model.(string); ok {
		decoder := json.NewDecoder(strings.NewReader(s))
		decoder.UseNumber()
		if err := decoder.Decode(&model); err != nil {
			return d, r.errorf("field %q: not JSON: %w", "reward_model", err)
		}
	}
	m, ok := model.(map[string]any)
	if !ok {
		return d, r.errorf("field %q is a %s, want an object", "reward_model", kindOf(model))
	}
	truth := m["ground_truth"]
	if t, ok := truth.(map[string]any); ok {
		truth = t["target"]
		if t["search_keys"] != nil {
			if err := r.takeSearchKeys("reward_model.ground_truth.search_keys", t["search_keys"], &d); err != nil {
				return d, err
			}
		}
	}
	if truth == nil {
		return d, r.errorf("field %q has neither ground_truth nor ground_truth.target", "reward_model")
	}
	if d.answers, err = r.texts("reward_model.ground_truth", truth); err != nil {
		return d, err
	}
	// David-GRPO keeps the kind of question where others write how the answer is scored.
	if style, _ := scalar(m["style"]); style != "rule" {
		d.kind = style
	}
	if meta, ok := r.fields["metadata"].(map[string]any); ok {
		err = r.flashMetadata(meta, &d)
		return d, err
	}
	if r.has("supporting_facts") {
		err = r.takeFacts("supporting_facts", r.fields["supporting_facts"], &d)
		return d, err
	}
	if info, ok := r.fields["extra_info"].(map[string]any); ok && info["support_docs"] != nil {
		err = r.takeSupportDocs("extra_info.support_docs", info["support_docs"], &d)
	}
	return d, err
}

// promptQuestion takes the question from its own field, from extra_info, or from the prompt's last message after a
// marker.
func (r record) promptQuestion(marker string) (string, error) {
	if r.has("question") && marker == "" {
		return r.text("question")
	}
	if info, ok := r.fields["extra_info"].(map[string]any); ok && marker == "" {
		if q, ok := info["question"].(string); ok {
			return q, nil
		}
	}
	prompt, ok := r.fields["prompt"].(string)
	if messages, isList := r.fields["prompt"].([]any); isList && len(messages) > 0 {
		last, _ := messages[len(messages)-1].(map[string]any)
		prompt, ok = last["content"].(string)
	}
	if !ok {
		return "", r.errorf("no field %q, and the prompt holds no message", "question")
	}
	markers := []string{marker}
	if marker == "" {
		markers = []string{"question below:", "Question:", "question:"}
	}
	for _, m := range markers {
		if i := strings.LastIndex(prompt, m); i >= 0 {
			return prompt[i+len(m):], nil
		}
	}
	return "", r.errorf("no field %q, and the prompt has none of the marks %q; set question_after to the text before the question", "question", markers)
}
