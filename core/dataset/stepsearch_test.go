package dataset

import (
	"reflect"
	"strings"
	"testing"

	"github.com/forage-rl/forage/core/sdk/episode"
)

const keywordRecord = `{"id":"2hop__1_2","question":"Where was the maker of Jaws born?","final_answer":"Cincinnati","answer_aliases":["Cincinnati, Ohio"],` +
	`"sub_searchs":[["who directed jaws","director of jaws"],["birth place of spielberg"]],` +
	`"sub_support_docs":[{"title":"Jaws","paragraph_text":"Jaws is by Spielberg."},{"title":"Spielberg","paragraph_text":"Spielberg was born in Cincinnati."}],"level":"easy"}`

func TestStepSearchRecords(t *testing.T) {
	docs := []any{
		map[string]any{"title": "Jaws", "paragraph_text": "Jaws is by Spielberg."},
		map[string]any{"title": "Spielberg", "paragraph_text": "Spielberg was born in Cincinnati."},
	}
	keys := []any{[]any{"who directed jaws", "director of jaws"}, []any{"birth place of spielberg"}}
	want := episode.Question{
		ID: "2hop__1_2", Text: "Where was the maker of Jaws born?", Answers: []string{"Cincinnati", "Cincinnati, Ohio"}, Hops: 2,
		Gold:     []episode.Gold{{Title: "Jaws"}, {Title: "Spielberg"}},
		Metadata: map[string]any{"search_keys": keys, "support_docs": docs, "level": "easy"},
	}
	q, err := open(t, Spec{Path: write(t, "musi.jsonl", keywordRecord)}).At(0)
	if err != nil || !reflect.DeepEqual(q, want) {
		t.Errorf("%+v %v, want %+v", q, err, want)
	}
	// The rows that its training reads hold the same.
	row := `{"id":"musi_train_0","data_source":"musi","prompt":[{"role":"user","content":"Rules. Question: Where was the maker of Jaws born?\n"}],` +
		`"reward_model":{"style":"rule","ground_truth":{"target":["Cincinnati","Cincinnati, Ohio"],"search_keys":[["who directed jaws","director of jaws"],["birth place of spielberg"]]}},` +
		`"extra_info":{"split":"train","index":0,"support_docs":[{"title":"Jaws","paragraph_text":"Jaws is by Spielberg."},{"title":"Spielberg","paragraph_text":"Spielberg was born in Cincinnati."}]}}`
	got, err := open(t, Spec{Path: write(t, "musi_stepsearch_train.jsonl", row)}).At(0)
	if err != nil || got.Text != q.Text || got.Hops != 2 || !reflect.DeepEqual(got.Gold, q.Gold) || !reflect.DeepEqual(got.Answers, q.Answers) ||
		!reflect.DeepEqual(got.Metadata["search_keys"], any(keys)) || !reflect.DeepEqual(got.Metadata["support_docs"], any(docs)) {
		t.Errorf("%+v %v", got, err)
	}
	// Without keywords and documents a row is still a question.
	bare := `{"id":"t0","question":"q","reward_model":{"ground_truth":{"target":["x"],"search_keys":[]}},"extra_info":{"support_docs":[]}}`
	if q, err := open(t, Spec{Path: write(t, "musi_test.jsonl", bare)}).At(0); err != nil || len(q.Gold) != 0 || q.Hops != 0 {
		t.Errorf("%+v %v", q, err)
	}
}

func TestStepSearchErrors(t *testing.T) {
	for name, c := range map[string]struct{ old, new, want string }{
		"no documents":       {`"sub_support_docs"`, `"other"`, `musi.jsonl:2: field "sub_support_docs" is missing`},
		"no answer":          {`"final_answer":"Cincinnati"`, `"final_answer":""`, `musi.jsonl:2: field "final_answer" is empty`},
		"keys no list":       {`[["who directed jaws","director of jaws"],["birth place of spielberg"]]`, `"a"`, `musi.jsonl:2: field "sub_searchs" is a text`},
		"group no list":      {`["birth place of spielberg"]`, `"a"`, `musi.jsonl:2: field "sub_searchs": entry 1 is a text, want a list of queries`},
		"key no text":        {`"director of jaws"`, `3`, `musi.jsonl:2: field "sub_searchs": entry 0: query 1 is a number, want a text`},
		"document no object": {`{"title":"Jaws","paragraph_text":"Jaws is by Spielberg."}`, `"Jaws"`, `musi.jsonl:2: field "sub_support_docs": entry 0 is a text`},
		"document no text":   {`"paragraph_text":"Jaws`, `"text":"Jaws`, `musi.jsonl:2: field "sub_support_docs": entry 0: paragraph_text is a null, want a text`},
	} {
		first := strings.Replace(keywordRecord, "2hop__1_2", "first", 1)
		_, err := Open(t.Context(), Spec{Path: write(t, "musi.jsonl", first+"\n"+strings.Replace(keywordRecord, c.old, c.new, 1))})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
