package minihop

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/forage-rl/forage/core/policy/checkpoint"
	"github.com/forage-rl/forage/core/policy/tokenizer"
	"github.com/forage-rl/forage/core/sdk/episode"
	"github.com/forage-rl/forage/core/sdk/text"
)

func world(t testing.TB, seed uint64, o Options) *World {
	t.Helper()
	w, err := NewWorld(seed, o)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func questions(t testing.TB, w *World, split string) []episode.Question {
	t.Helper()
	q, err := w.Questions(split, 0)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// vocabularyOfTags lists every word of the protocol of tags: function words, relations, names, then tags. There are 207
// words, and 12 more with two-token names.
func vocabularyOfTags(twoTokenNames bool) []string {
	return append(plainWords(twoTokenNames), Tags()...)
}

func hashed(t testing.TB, w *World) Search {
	t.Helper()
	search, err := w.HashedSearch(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	return search
}

func TestVocabularyAndChains(t *testing.T) {
	v := vocabularyOfTags(false)
	if len(v) != 207 || len(Tags()) != 12 || len(functionWords()) != 10 || len(relations()) != 13 {
		t.Errorf("%d words, %d tags, %d function words, %d relations", len(v), len(Tags()), len(functionWords()), len(relations()))
	}
	if two := vocabularyOfTags(true); len(two) != 219 {
		t.Errorf("%d words with two-token names", len(two))
	}
	seen := map[string]bool{}
	for _, word := range vocabularyOfTags(true) {
		if n := text.Lower(word); seen[n] || word == "" || len(strings.Fields(word)) != 1 {
			t.Errorf("word %q is no single, new word", word)
		} else {
			seen[n] = true
		}
	}
	for hops, want := range map[int]int{1: 13, 2: 26, 3: 52} {
		if got := len(chains(hops)); got != want {
			t.Errorf("%d chains of %d hops, want %d", got, hops, want)
		}
	}
	wantNames := map[kind]int{person: 60, city: 24, country: 8, company: 24, book: 40, language: 8, currency: 8}
	for k, want := range wantNames {
		if n, _ := k.law(); n != want || len(firstNames(k)) != want {
			t.Errorf("%v: law %d, names %d, want %d", k, n, len(firstNames(k)), want)
		}
	}
}

func TestDocuments(t *testing.T) {
	known := map[string]bool{}
	for _, word := range vocabularyOfTags(true) {
		known[word] = true
	}
	for _, o := range []Options{{}, {TwoTokenNames: true}} {
		w := world(t, 1, o)
		docs := w.Documents()
		if len(docs) != Documents {
			t.Fatalf("%d documents", len(docs))
		}
		ids, titles := map[string]bool{}, map[string]bool{}
		for _, d := range docs {
			ids[d.ID], titles[d.Title] = true, true
			if n := len(d.Sentences); n < 2 || n > 3 {
				t.Errorf("%s has %d sentences", d.ID, n)
			}
			if d.Text != "( "+d.Title+" ) "+strings.Join(d.Sentences, " ") {
				t.Errorf("%s: text %q", d.ID, d.Text)
			}
			for word := range strings.FieldsSeq(d.Text) {
				if !known[word] {
					t.Errorf("%s: %q is not in the vocabulary", d.ID, word)
				}
			}
		}
		if len(ids) != Documents || len(titles) != Documents {
			t.Errorf("%d ids, %d titles", len(ids), len(titles))
		}
		for i := range 60 {
			if w.facts[fact{i, 5}] == i {
				t.Errorf("person %d is their own spouse", i)
			}
		}
	}
	if !reflect.DeepEqual(world(t, 7, Options{}).Documents(), world(t, 7, Options{}).Documents()) {
		t.Error("a world must be a function of its seed")
	}
	if reflect.DeepEqual(world(t, 7, Options{}).Documents(), world(t, 8, Options{}).Documents()) {
		t.Error("seeds must differ")
	}
}

// The popularity of objects follows the law: over many worlds the most popular person has the share 1/sum(i^-.6).
func TestPopularity(t *testing.T) {
	const worlds = 200
	top := 0
	for seed := range uint64(worlds) {
		w := world(t, seed, Options{})
		for b := range 40 {
			if w.facts[fact{b, 0}] == 0 {
				top++
			}
		}
	}
	sum := 0.
	for i := range 60 {
		sum += math.Pow(float64(i+1), -.6)
	}
	if got, want := float64(top)/(40*worlds), 1/sum; math.Abs(got-want) > 5*math.Sqrt(want/(40*worlds)) {
		t.Errorf("share of the most popular author %.4f, want %.4f", got, want)
	}
}

func TestQuestionSets(t *testing.T) {
	var prior, all float64
	for seed := range uint64(8) {
		w := world(t, seed+1, Options{})
		train, test := questions(t, w, "train"), questions(t, w, "test")
		if len(train) != 256 || len(test) != 150 {
			t.Fatalf("%d train, %d test", len(train), len(test))
		}
		byTitle := map[string]Doc{}
		for _, d := range w.Documents() {
			byTitle[d.Title] = d
		}
		texts, ids := map[string]bool{}, map[string]bool{}
		two := 0
		for i, q := range slices.Concat(train, test) {
			if texts[q.Text] || ids[q.ID] {
				t.Errorf("world %d: %q occurs twice", w.seed, q.Text)
			}
			texts[q.Text], ids[q.ID] = true, true
			if q.Hops == 2 && i < 256 {
				two++
			}
			checkQuestion(t, byTitle, q)
			if q.Metadata["prior"] == q.Answers[0] {
				prior++
			}
			all++
		}
		if two != 141 { // .55 of 256
			t.Errorf("%d of 256 training questions have 2 hops", two)
		}
		few, err := w.Questions("train", 16)
		if err != nil || !reflect.DeepEqual(few, train[:16]) {
			t.Errorf("the first 16 must be a prefix: %v", err)
		}
	}
	if share := prior / all; share < .21 || share > .26 {
		t.Errorf("guessing the most popular answer is right in %.3f, want about .235", share)
	} else {
		t.Logf("prior baseline %.3f", share)
	}
}

func checkQuestion(t *testing.T, byTitle map[string]Doc, q episode.Question) {
	t.Helper()
	chain, names := q.Metadata["chain"].([]any), q.Metadata["entities"].([]any)
	if len(chain) != q.Hops || len(q.Gold) != q.Hops || len(names) != q.Hops+1 || names[q.Hops] != q.Answers[0] {
		t.Fatalf("%s: %+v", q.ID, q)
	}
	for i := range chain {
		d := byTitle[names[i].(string)]
		if q.Gold[i] != (episode.Gold{Title: d.Title, DocumentID: d.ID}) {
			t.Errorf("%s: gold %d is %+v", q.ID, i, q.Gold[i])
		}
		if want := fmt.Sprintf("%s is %s .", chain[i], names[i+1]); !slices.Contains(d.Sentences, want) {
			t.Errorf("%s: %q does not say %q", q.ID, d.Text, want)
		}
		if slices.Contains(names[:i], names[i]) || slices.Contains(chain[:i], chain[i]) {
			t.Errorf("%s: path %v, chain %v", q.ID, names, chain)
		}
	}
	if _, err := json.Marshal(q); err != nil {
		t.Error(err)
	}
}

func TestWorldErrors(t *testing.T) {
	for _, mix := range [][3]float64{{.5, 0, 0}, {-1, 1, 1}, {math.NaN(), 0, 1}} {
		if _, err := NewWorld(1, Options{Mix: mix}); err == nil {
			t.Errorf("mix %v must be refused", mix)
		}
	}
	w := world(t, 1, Options{})
	if _, err := w.Questions("dev", 0); err == nil {
		t.Error("unknown split must be refused")
	}
	if _, err := w.Questions("test", 151); err == nil {
		t.Error("too many test questions must be refused")
	}
	if _, err := w.Questions("train", 100000); err == nil {
		t.Error("more questions than there are must be refused")
	}
	if _, err := w.Expert(episode.Question{ID: "x"}, nil); err == nil {
		t.Error("a foreign question must be refused")
	}
}

func count(s string) int { return len(strings.Fields(s)) }

func TestExpertLengths(t *testing.T) {
	want := map[int][2]float64{1: {52, 14}, 2: {89, 21}, 3: {127, 28}}
	for hops, want := range want {
		var mix [3]float64
		mix[hops-1] = 1
		w := world(t, 3, Options{Mix: mix})
		search := hashed(t, w)
		qs, err := w.Questions("test", 100)
		if err != nil {
			t.Fatal(err)
		}
		total := 0
		for _, q := range qs {
			tr, err := w.Expert(q, search)
			if err != nil {
				t.Fatal(err)
			}
			policy := 0
			for _, turn := range tr.Turns {
				policy += count(turn.Policy)
			}
			if policy != int(want[1]) {
				t.Errorf("%s: %d policy tokens, want %v", q.ID, policy, want[1])
			}
			n := 2 + count(q.Text) + count(tr.Text())
			total += n
			if n > MaxTokens {
				t.Errorf("%s: %d tokens", q.ID, n)
			}
		}
		if mean := float64(total) / 100; math.Abs(mean-want[0]) > 1.5 {
			t.Errorf("%d hops: mean length %.1f, want %v", hops, mean, want[0])
		}
	}
}

func TestTranscripts(t *testing.T) {
	w := world(t, 2, Options{})
	search := hashed(t, w)
	q := questions(t, w, "train")[1]
	e, r := q.Metadata["entities"].([]any), q.Metadata["chain"].([]any)
	full, err := w.Expert(q, search)
	if err != nil {
		t.Fatal(err)
	}
	docs, _ := search(fmt.Sprintf("%s %s", e[0], r[0]))
	if got, want := full.Turns[0], (Turn{
		Policy:      fmt.Sprintf("<think> %s </think> <search> %s %s </search>", r[0], e[0], r[0]),
		Observation: "<information> " + docs[0].Text + " " + docs[1].Text + " </information>",
	}); got != want {
		t.Errorf("first turn %+v, want %+v", got, want)
	}
	last := fmt.Sprintf("<think> done </think> <answer> %s </answer> <eos>", q.Answers[0])
	if len(full.Turns) != q.Hops+1 || full.Turns[q.Hops].Policy != last || !strings.HasSuffix(full.Text(), last) {
		t.Errorf("full chain: %s", full.Text())
	}
	guess, err := w.Premature(q, 0, search)
	if err != nil || guess.Text() != last {
		t.Errorf("at once: %q, %v", guess.Text(), err)
	}
	one, err := w.Premature(q, 1, search)
	if err != nil || len(one.Turns) != 2 || !strings.Contains(one.Turns[1].Policy, "<answer> "+e[1].(string)+" </answer>") {
		t.Errorf("one search: %q, %v", one.Text(), err)
	}
	if _, err := w.Premature(q, q.Hops, search); err == nil {
		t.Error("a full chain is not premature")
	}
}

func TestRetrieval(t *testing.T) {
	var at1, at2, hops, raw, n float64
	for seed := range uint64(4) {
		w := world(t, seed+1, Options{})
		search := hashed(t, w)
		for _, q := range questions(t, w, "train") {
			for i, keys := range q.Metadata["search_keys"].([]any) {
				docs, _ := search(keys.([]any)[0].(string))
				hops++
				if docs[0].ID == q.Gold[i].DocumentID {
					at1++
				}
				if slices.ContainsFunc(docs, func(d Doc) bool { return d.ID == q.Gold[i].DocumentID }) {
					at2++
				}
			}
			docs, _ := search(q.Text)
			n++
			found := 0
			for _, g := range q.Gold {
				if slices.ContainsFunc(docs, func(d Doc) bool { return d.ID == g.DocumentID }) {
					found++
				}
			}
			if found == len(q.Gold) {
				raw++
			}
		}
	}
	t.Logf("gold @1 %.3f @2 %.4f; raw question finds all %.3f", at1/hops, at2/hops, raw/n)
	if at1/hops < .87 || at1/hops > .95 || at2/hops < .99 || raw/n > .05 {
		t.Error("want about .91, at least .99, about .02")
	}
}

func TestCorpus(t *testing.T) {
	w := world(t, 4, Options{})
	c, err := w.Corpus()
	if err != nil {
		t.Fatal(err)
	}
	for i, d := range w.Documents() {
		got := c.At(i)
		if got.ID != d.ID || got.Title != d.Title || got.Text() != d.Text || !slices.Equal(got.Paragraphs[0].Sentences, d.Sentences) {
			t.Fatalf("document %d: %+v, want %+v", i, got, d)
		}
	}
	if _, err := w.HashedSearch(0, 157); err == nil {
		t.Error("more hits than documents must be refused")
	}
}

// policyFolder writes the files of a policy as they lie in a model folder.
func policyFolder(t *testing.T, twoTokenNames bool) string {
	t.Helper()
	dir := t.TempDir()
	files, err := PolicyFiles(twoTokenNames, ProtocolTags)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestTokenizer(t *testing.T) {
	for _, o := range []Options{{}, {TwoTokenNames: true}} {
		tok, err := tokenizer.Load(policyFolder(t, o.TwoTokenNames))
		if err != nil {
			t.Fatal(err)
		}
		vocabulary := vocabularyOfTags(o.TwoTokenNames)
		if tok.VocabSize() != len(vocabulary) {
			t.Errorf("%d tokens, want %d", tok.VocabSize(), len(vocabulary))
		}
		for id, word := range vocabulary {
			if got, ok := tok.TokenID(word); !ok || int(got) != id || tok.IsSpecial(int32(id)) != slices.Contains(Tags(), word) {
				t.Errorf("%q: id %d (%v), special %v, want id %d", word, got, ok, tok.IsSpecial(int32(id)), id)
			}
		}
		eos, _ := tok.TokenID(TagEOS)
		pad, _ := tok.TokenID(TagPad)
		if got, ok := tok.Pad(); !slices.Equal(tok.EOS(), []int32{eos}) || !ok || got != pad {
			t.Errorf("eos %v, pad %v", tok.EOS(), got)
		}
		w := world(t, 5, o)
		search := hashed(t, w)
		for _, q := range questions(t, w, "test")[:20] {
			tr, err := w.Expert(q, search)
			if err != nil {
				t.Fatal(err)
			}
			text := TagQuestion + " " + q.Text + " " + TagQuestionEnd + " " + tr.Text()
			ids, err := tok.EncodeStrict(text, true)
			if err != nil || len(ids) != count(text) || tok.Decode(ids, false) != text {
				t.Fatalf("%q: %d tokens, back %q, %v", text, len(ids), tok.Decode(ids, false), err)
			}
		}
		for _, id := range tok.Encode("a <search> Alric </search>", false) {
			if tok.IsSpecial(id) {
				t.Error("text from outside became a tag")
			}
		}
	}
}

func TestPolicyShape(t *testing.T) {
	c, err := checkpoint.ReadConfig(policyFolder(t, false))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, s := range c.Expected() {
		size := 1
		for _, d := range s.Shape {
			size *= d
		}
		n += size
	}
	if n != 136576 || c.Layers != 3 || c.HiddenSize != 64 || !c.TieWordEmbeddings || c.RopeTheta != 10000 || c.RMSNormEps != 1e-6 {
		t.Errorf("%d parameters, want 136576; %+v", n, c)
	}
}

func TestStream(t *testing.T) {
	open := func(w *World) (Retrieval, error) { return Retrieval{Documents: hashed(t, w)}, nil }
	shares := func(phase Phase, full *float64, n int) map[string]float64 {
		s, err := NewStream(StreamOptions{Seed: 1, Phase: phase, FullShare: full}, open)
		if err != nil {
			t.Fatal(err)
		}
		out, hops := map[string]float64{}, map[int]float64{}
		worlds := map[any]bool{}
		wrong, searches := 0., 0.
		for i := range n {
			e, err := s.At(i)
			if err != nil {
				t.Fatal(err)
			}
			worlds[e.Question.Metadata["world"]] = true
			hops[e.Question.Hops]++
			out[fmt.Sprintf("%d/%d", e.Question.Hops, len(e.Transcript.Turns)-1)]++
			last := e.Transcript.Turns[len(e.Transcript.Turns)-1].Policy
			if right := strings.Contains(last, " "+e.Question.Answers[0]+" "); (e.Full || len(e.Transcript.Turns) == 1) && !right {
				t.Errorf("%v answers %q", e.Question, last)
			}
			names := e.Question.Metadata["entities"].([]any)
			for h, turn := range e.Transcript.Turns[:len(e.Transcript.Turns)-1] {
				searches++
				if !strings.Contains(turn.Policy, "<search> "+names[h].(string)+" ") {
					wrong++
					break
				}
			}
		}
		if len(worlds) != (n+47)/48 {
			t.Errorf("%s: %d worlds for %d examples", phase, len(worlds), n)
		}
		for k := range out {
			out[k] /= hops[int(k[0]-'0')]
		}
		if searches > 0 {
			out["wrong"] = wrong / searches
		}
		out["hops1"] = hops[1] / float64(n)
		return out
	}
	f := .1
	for _, c := range []struct {
		phase Phase
		full  *float64
		want  map[string]float64
	}{
		{PhaseSkill, nil, map[string]float64{"1/1": 1, "2/2": 1, "3/3": 1, "hops1": .34, "wrong": .03}},
		{PhaseHabit, nil, map[string]float64{"1/0": .5, "1/1": .5, "2/0": .6, "2/1": .39, "2/2": .01, "3/0": .6, "3/1": .38, "3/2": .015, "3/3": .005, "hops1": .3}},
		{PhaseHabit, &f, map[string]float64{"2/0": .6, "2/1": .3, "2/2": .1, "3/1": .2, "3/2": .15, "3/3": .05}},
		{PhaseNever, nil, map[string]float64{"1/0": 1, "2/0": 1, "3/0": 1}},
		{PhaseShy, nil, map[string]float64{"1/0": .95, "1/1": .05, "2/0": .985, "2/1": .01, "2/2": .005, "3/3": .005}},
	} {
		got := shares(c.phase, c.full, 3000)
		for k, want := range c.want {
			if math.Abs(got[k]-want) > 4*math.Sqrt(want*(1-want)/900)+1e-9 {
				t.Errorf("%s: share of %s %.4f, want %v", c.phase, k, got[k], want)
			}
		}
	}
}

func TestStreamAccess(t *testing.T) {
	open := func(w *World) (Retrieval, error) { return Retrieval{Documents: hashed(t, w)}, nil }
	a, err := NewStream(StreamOptions{Seed: 5, Phase: PhaseHabit, PerWorld: 3}, open)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := NewStream(StreamOptions{Seed: 5, Phase: PhaseHabit, PerWorld: 3}, open)
	var forward, backward []Example
	for i := range 30 {
		e, err := a.At(i)
		if err != nil {
			t.Fatal(err)
		}
		forward = append(forward, e)
	}
	for i := range 30 {
		e, _ := b.At(29 - i)
		backward = append(backward, e)
	}
	slices.Reverse(backward)
	if !reflect.DeepEqual(forward, backward) {
		t.Error("the order of access must not matter")
	}
	half, nan := .5, math.NaN()
	for _, o := range []StreamOptions{
		{Phase: "other"}, {Phase: PhaseSkill, FullShare: &half}, {Phase: PhaseHabit, FullShare: &half}, {Phase: PhaseHabit, FullShare: &nan},
		{Phase: PhaseHabit, WrongQuery: &nan}, {Phase: PhaseHabit, PerWorld: -1}, {Phase: PhaseHabit, World: Options{Mix: [3]float64{1, 1, 1}}},
	} {
		if _, err := NewStream(o, open); err == nil {
			t.Errorf("%+v must be refused", o)
		}
	}
}

func TestPolicies(t *testing.T) {
	for _, name := range Policies() {
		files, err := Policy(name)
		if err != nil || len(files) != 4 {
			t.Errorf("%s: %d files, %v", name, len(files), err)
		}
	}
	for _, name := range []string{"minihop/nobody", "../doc", ""} {
		if _, err := Policy(name); err == nil || !strings.Contains(err.Error(), "cold.hcl") {
			t.Errorf("%q: %v", name, err)
		}
	}
}
