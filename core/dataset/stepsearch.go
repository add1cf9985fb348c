package dataset

// parseStepSearch reads the questions that StepSearch made of MuSiQue: search keywords for every sub-question, and the
// paragraphs that answer them.
func parseStepSearch(r record, _ Spec) (d draft, err error) {
	if err := r.takeMusique("final_answer", &d); err != nil {
		return d, err
	}
	if !r.has("sub_searchs") {
		return d, r.missing("sub_searchs")
	}
	if err := r.takeSearchKeys("sub_searchs", r.fields["sub_searchs"], &d); err != nil {
		return d, err
	}
	if !r.has("sub_support_docs") {
		return d, r.missing("sub_support_docs")
	}
	return d, r.takeSupportDocs("sub_support_docs", r.fields["sub_support_docs"], &d)
}

// takeSearchKeys keeps lists of alternative queries, one per sub-question, as search_keys. They tell the number of hops.
func (r record) takeSearchKeys(name string, v any, d *draft) error {
	list, ok := v.([]any)
	if !ok {
		return r.errorf("field %q is a %s, want a list with a list of queries per sub-question", name, kindOf(v))
	}
	groups := make([]any, len(list))
	for i, g := range list {
		alternatives, ok := g.([]any)
		if !ok {
			return r.errorf("field %q: entry %d is a %s, want a list of queries", name, i, kindOf(g))
		}
		group := make([]any, len(alternatives))
		for j, a := range alternatives {
			if group[j], ok = a.(string); !ok {
				return r.errorf("field %q: entry %d: query %d is a %s, want a text", name, i, j, kindOf(a))
			}
		}
		groups[i] = group
	}
	if d.extra == nil {
		d.extra = map[string]any{}
	}
	d.extra["search_keys"] = groups
	d.hops = len(groups)
	return nil
}

// takeSupportDocs makes golds of a list of {title, paragraph_text}.
func (r record) takeSupportDocs(name string, v any, d *draft) error {
	list, ok := v.([]any)
	if !ok {
		return r.errorf("field %q is a %s, want a list of {title, paragraph_text}", name, kindOf(v))
	}
	for i, x := range list {
		doc, ok := x.(map[string]any)
		if !ok {
			return r.errorf("field %q: entry %d is a %s, want an object with title and paragraph_text", name, i, kindOf(x))
		}
		var p passage
		for _, part := range []struct {
			field string
			to    *string
		}{{"title", &p.title}, {"paragraph_text", &p.text}} {
			if *part.to, ok = doc[part.field].(string); !ok {
				return r.errorf("field %q: entry %d: %s is a %s, want a text", name, i, part.field, kindOf(doc[part.field]))
			}
		}
		d.passages = append(d.passages, p)
	}
	return nil
}
