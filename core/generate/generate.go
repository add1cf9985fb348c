package generate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/forage-rl/forage/core/internal/rng"
	"github.com/forage-rl/forage/core/retrieval/corpus"
)

// Prompt asks a language model for a text.
type Prompt struct {
	Text      string
	MaxTokens int
	Key       rng.Key // of the sampling
}

// Writer is a language model. Texts come in the order of the prompts.
type Writer interface {
	Write(ctx context.Context, prompts []Prompt) ([]string, error)
}

// Search gives for each query the ids of the k documents that match it best.
type Search func(ctx context.Context, queries []string, k int) ([][]string, error)

// Absent says which documents of a chain may not be among the best that the second filter's search finds.
type Absent string

// The meanings of absent.
const (
	AbsentAll   Absent = "all"   // none of them: the paper's words
	AbsentLater Absent = "later" // none but the first, which the question names and which is easy to find
	AbsentSome  Absent = "some"  // at least one must be missing
)

// Share is a part of the questions with a number of hops: as many documents are needed.
type Share struct {
	Hops int     `json:"hops"`
	Part float64 `json:"part"`
}

// PaperMix is the paper's share of 2, 3, 4 and 5 hops (David-GRPO v5, section 4.1).
func PaperMix() []Share { return []Share{{2, .55}, {3, .44}, {4, .005}, {5, .005}} }

// Defaults. TopK is the paper's, the others are not in the paper.
const (
	DefaultTopK     = 20
	DefaultRound    = 16 // chains that are worked on at once
	DefaultAttempts = 50 // chains for each question that is wanted
	// DefaultDocument is how much of a document a prompt shows, in characters.
	DefaultDocument = 4000
)

// Tokens that the model may write.
const (
	phraseTokens = 96
	leafTokens   = 256
	answerTokens = 64
)

// MostHops is the longest chain: the fourth filter asks once for each proper subset of its documents.
const MostHops = 6

// Options of [Run]. Corpus, Graph, Search, Writer, Prompts, Count and Out are required.
type Options struct {
	Corpus *corpus.Corpus
	Graph  *Graph
	Search Search // BM25 over the corpus's documents
	// Writer words phrases and questions, Checker answers in the filters; nil: Writer does.
	Writer, Checker Writer
	Prompts         *Prompts
	// WriterName, CheckerName and SearchName tell what they are, for the record: what was begun with one model is not
	// gone on with another.
	WriterName, CheckerName, SearchName string

	Mix      []Share // sums to 1; nil: PaperMix
	Count    int     // questions
	Attempts int     // chains in all; 0: DefaultAttempts for each question
	Round    int     // 0: DefaultRound
	TopK     int     // of the second filter; 0: DefaultTopK
	Absent   Absent  // "": AbsentAll
	Document int     // characters of a document in a prompt; 0: DefaultDocument
	Seed     int64
	// Thinking is added to the tokens of every answer, for models that reason before they write.
	Thinking int

	Out      string            // file of questions, JSON lines
	Progress func(s Summary)   // may be nil
	Note     func(text string) // is told what the summary does not hold; may be nil
}

// Fate is what became of a chain.
type Fate string

// The fates: kept, or the filter that a chain failed.
const (
	Kept        Fate = "kept"
	BadFormat   Fate = "format"      // (i) what the model wrote is not in form
	Found       Fate = "found"       // (ii) a search with the question finds its documents
	ClosedBook  Fate = "closed_book" // (iii) it is answered without the documents
	Subset      Fate = "subset"      // (iv) it is answered from some of its documents
	WrongAnswer Fate = "wrong"       // (v) it is not answered rightly from all of them
)

// Filters lists the filters in their order.
func Filters() []Fate { return []Fate{BadFormat, Found, ClosedBook, Subset, WrongAnswer} }

// Summary counts what became of chains.
type Summary struct {
	Wanted int          `json:"wanted"`
	Chains int          `json:"chains"`
	Fates  map[Fate]int `json:"fates"`
	ByHops map[int]int  `json:"by_hops"` // kept
	// LeftOut are questions that cannot be made: the graph has no chain for them.
	LeftOut map[int]int `json:"left_out,omitempty"`
	// NamedFound counts chains that failed the second filter by their first document alone, which their question names.
	NamedFound int `json:"named_found,omitempty"`
	// Resumed is how many of Chains an earlier call had tried.
	Resumed int `json:"resumed,omitempty"`
}

// Total is the number of questions that were kept.
func (s Summary) Total() int { return s.Fates[Kept] }

// ErrExhausted says that as many chains were tried as were allowed, before all questions were made.
var ErrExhausted = errors.New("the chains that may be tried are used up")

// item is a chain in the works.
type item struct {
	number  int
	hops    int
	key     rng.Key
	chain   []int
	docs    []Document
	phrases []string
	leaf    leaf
	text    string // the question
	fate    Fate   // "" while it is in the works
	reason  string
	found   []string
	named   bool // found by its first document alone
}

func (it *item) drop(fate Fate, format string, args ...any) {
	it.fate, it.reason = fate, fmt.Sprintf(format, args...)
}

// Run makes questions until there are as many as wanted, in rounds, and goes on where an earlier call with the same
// settings stopped. What was made before an error is in the files.
func Run(ctx context.Context, o Options) (summary Summary, err error) {
	if err := o.check(); err != nil {
		return summary, err
	}
	w, err := openWork(&o)
	if err != nil {
		return summary, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	quota := quotas(o.Mix, o.Count)
	for {
		w.report()
		items, err := o.next(w, quota)
		if err != nil || len(items) == 0 {
			return w.summary, err
		}
		if err := o.round(ctx, w, items); err != nil {
			return w.summary, err
		}
		if err := w.keep(items); err != nil {
			return w.summary, err
		}
	}
}

func (o *Options) check() error {
	switch {
	case o.Corpus == nil || o.Graph == nil || o.Search == nil || o.Writer == nil || o.Prompts == nil:
		return errors.New("generate: corpus, graph, search, writer and prompts are required")
	case o.Out == "":
		return errors.New("generate: the file of questions is required")
	case o.Count < 1:
		return fmt.Errorf("generate: %d questions are wanted, expected at least 1", o.Count)
	case o.Graph.Links() == 0:
		return errors.New("generate: no document of the corpus mentions the title of another; give the links in a file")
	case o.Attempts < 0 || o.Round < 0 || o.TopK < 0 || o.Document < 0 || o.Thinking < 0:
		return errors.New("generate: attempts, round, top k, characters of a document and tokens of thought must not be negative")
	}
	if o.Mix == nil {
		o.Mix = PaperMix()
	}
	sum, seen := 0., map[int]bool{}
	for _, s := range o.Mix {
		if s.Hops < 2 || s.Hops > MostHops || s.Part < 0 || math.IsNaN(s.Part) || seen[s.Hops] {
			return fmt.Errorf("generate: the mix of hops has %v for %d hops; expected each of 2 to %d hops at most once, with a share from 0 to 1", s.Part, s.Hops, MostHops)
		}
		seen[s.Hops] = true
		sum += s.Part
	}
	if math.Abs(sum-1) > 1e-6 {
		return fmt.Errorf("generate: the shares of the mix of hops sum to %v, expected 1", sum)
	}
	o.Attempts, o.Round = cmp.Or(o.Attempts, DefaultAttempts*o.Count), cmp.Or(o.Round, DefaultRound)
	o.TopK, o.Document, o.Absent = cmp.Or(o.TopK, DefaultTopK), cmp.Or(o.Document, DefaultDocument), cmp.Or(o.Absent, AbsentAll)
	if !slices.Contains([]Absent{AbsentAll, AbsentLater, AbsentSome}, o.Absent) {
		return fmt.Errorf("generate: absent is %q, expected all, later or some", o.Absent)
	}
	if o.Checker == nil {
		o.Checker, o.CheckerName = o.Writer, o.WriterName
	}
	return nil
}

// quotas gives each number of hops its questions, by largest remainders.
func quotas(mix []Share, count int) map[int]int {
	order := slices.SortedFunc(slices.Values(mix), func(a, b Share) int { return cmp.Compare(a.Hops, b.Hops) })
	quota, left := map[int]int{}, count
	for _, s := range order {
		quota[s.Hops] = int(s.Part*float64(count) + 1e-9)
		left -= quota[s.Hops]
	}
	rest := func(s Share) float64 { return s.Part*float64(count) - float64(quota[s.Hops]) }
	byRest := slices.Clone(order)
	slices.SortStableFunc(byRest, func(a, b Share) int { return cmp.Compare(rest(b), rest(a)) })
	for i := range left {
		quota[byRest[i%len(byRest)].Hops]++
	}
	return quota
}

// next draws the chains of the next round: of the numbers of hops that are furthest behind. None is left when all
// questions are made.
func (o *Options) next(w *work, quota map[int]int) ([]*item, error) {
	var items []*item
	missing := func(hops int) int {
		if w.summary.LeftOut[hops] > 0 {
			return 0
		}
		n := quota[hops] - w.summary.ByHops[hops]
		for _, it := range items {
			if it.hops == hops {
				n--
			}
		}
		return n
	}
	for len(items) < o.Round {
		hops := 0
		for _, h := range sortedKeys(quota) {
			if missing(h) > 0 && (hops == 0 || missing(h) > missing(hops)) {
				hops = h
			}
		}
		if hops == 0 {
			return items, nil
		}
		number := w.summary.Chains + len(items)
		if number >= o.Attempts {
			if len(items) > 0 {
				return items, nil
			}
			return nil, fmt.Errorf("%w: %d of %d questions were made of %d chains", ErrExhausted, w.summary.Total(), w.summary.Wanted, w.summary.Chains)
		}
		it := &item{number: number, hops: hops, key: rng.New(uint64(o.Seed)).WithString("generate").With(uint64(number))}
		if !o.draw(w, it) {
			n := missing(hops)
			w.summary.LeftOut[hops] = n
			w.note(fmt.Sprintf("%d questions of %d hops are left out: the graph has no such chain that was not tried", n, hops))
			continue
		}
		items = append(items, it)
	}
	return items, nil
}

// fresh is how often a chain that was tried before is drawn again.
const fresh = 200

// draw finds a chain that was not tried before.
func (o *Options) draw(w *work, it *item) bool {
	for again := range uint64(fresh) {
		chain, ok := o.Graph.Chain(it.key.With(again), it.hops)
		if !ok {
			return false
		}
		if name := chainName(chain); !w.tried[name] {
			w.tried[name] = true
			it.chain = chain
			return true
		}
	}
	return false
}

func chainName(chain []int) string { return strings.Trim(fmt.Sprint(chain), "[]") }

// round takes the chains through writing and the filters.
func (o *Options) round(ctx context.Context, w *work, items []*item) error {
	for _, it := range items {
		for _, i := range it.chain {
			it.docs = append(it.docs, Document{o.Corpus.Title(i), cut(o.Corpus.At(i).Text(), o.Document)})
		}
		if w.have[o.id(it.number)] {
			it.fate = Kept // its row was written before the end of an earlier call
		}
	}
	for _, filter := range []func(context.Context, []*item) error{o.write, o.search, o.closedBook, o.subsets, o.openBook} {
		open := slices.DeleteFunc(slices.Clone(items), func(it *item) bool { return it.fate != "" })
		if len(open) == 0 {
			break
		}
		if err := filter(ctx, open); err != nil {
			return err
		}
	}
	for _, it := range items {
		it.fate = cmp.Or(it.fate, Kept)
	}
	return nil
}

// cut shortens a text to a number of characters, at the end of a word if there is one.
func cut(text string, most int) string {
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	short := string(runes[:most])
	if i := strings.LastIndexAny(short, " \n\t"); i > 0 {
		short = short[:i]
	}
	return short
}

// write lets the model word the links and the last question, and puts the question together: filter (i).
func (o *Options) write(ctx context.Context, items []*item) error {
	var prompts []Prompt
	for _, it := range items {
		last := len(it.docs) - 1
		for i, d := range it.docs[:last] {
			text, err := o.Prompts.render("phrase", promptData{Source: d.Title, Target: it.docs[i+1].Title, Text: d.Text})
			if err != nil {
				return err
			}
			prompts = append(prompts, Prompt{text, phraseTokens + o.Thinking, it.key.WithString("phrase").With(uint64(i))})
		}
		text, err := o.Prompts.render("leaf", promptData{Title: it.docs[last].Title, Text: it.docs[last].Text})
		if err != nil {
			return err
		}
		prompts = append(prompts, Prompt{text, leafTokens + o.Thinking, it.key.WithString("leaf")})
	}
	texts, err := ask(ctx, o.Writer, prompts)
	if err != nil {
		return err
	}
	for _, it := range items {
		written := texts[:len(it.docs)]
		texts = texts[len(it.docs):]
		if err := it.compose(written); err != nil {
			it.drop(BadFormat, "%v", err)
		}
	}
	return nil
}

func ask(ctx context.Context, w Writer, prompts []Prompt) ([]string, error) {
	texts, err := w.Write(ctx, prompts)
	if err == nil && len(texts) != len(prompts) {
		err = fmt.Errorf("the model wrote %d texts for %d prompts", len(texts), len(prompts))
	}
	return texts, err
}

// compose checks what was written and makes the question of it.
func (it *item) compose(written []string) (err error) {
	last := len(it.docs) - 1
	var titles []string
	for i := range last {
		phrase, err := parsePhrase(written[i], it.docs[i+1].Title)
		if err != nil {
			return fmt.Errorf("from %q to %q: %w: %.200q", it.docs[i].Title, it.docs[i+1].Title, err, written[i])
		}
		it.phrases = append(it.phrases, phrase)
		titles = append(titles, it.docs[i+1].Title)
	}
	if it.leaf, err = parseLeaf(written[last], it.docs[last]); err != nil {
		return fmt.Errorf("of %q: %w: %.200q", it.docs[last].Title, err, written[last])
	}
	it.text = compose(it.leaf, it.phrases, it.docs[0].Title)
	return checkQuestion(it.text, it.leaf.Answer, titles)
}

// search is filter (ii): the question alone must not find its documents.
func (o *Options) search(ctx context.Context, items []*item) error {
	queries := make([]string, len(items))
	for i, it := range items {
		queries[i] = it.text
	}
	results, err := o.Search(ctx, queries, o.TopK)
	if err == nil && len(results) != len(queries) {
		err = fmt.Errorf("gave %d lists for %d questions", len(results), len(queries))
	}
	if err != nil {
		return fmt.Errorf("search for the questions: %w", err)
	}
	for i, it := range items {
		for at, d := range it.chain {
			if !slices.Contains(results[i], o.Corpus.ID(d)) {
				continue
			}
			it.found = append(it.found, o.Corpus.ID(d))
			it.named = at == 0
		}
		n := len(it.found)
		it.named = it.named && n == 1
		if o.Absent == AbsentAll && n > 0 || o.Absent == AbsentLater && n > 0 && !it.named || o.Absent == AbsentSome && n == len(it.chain) {
			it.drop(Found, "the search for the question finds %s", strings.Join(it.found, ", "))
			continue
		}
		it.named = false
	}
	return nil
}

// closedBook is filter (iii): the question must not be answered without documents.
func (o *Options) closedBook(ctx context.Context, items []*item) error {
	prompts := make([]Prompt, len(items))
	for i, it := range items {
		text, err := o.Prompts.render("closed_book", promptData{Question: it.text})
		if err != nil {
			return err
		}
		prompts[i] = Prompt{text, answerTokens + o.Thinking, it.key.WithString("closed book")}
	}
	texts, err := ask(ctx, o.Checker, prompts)
	if err != nil {
		return err
	}
	for i, it := range items {
		if correct(texts[i], it.leaf.Answer) {
			it.drop(ClosedBook, "it is answered without documents")
		}
	}
	return nil
}

// subsets is filter (iv): no proper subset of the documents may do.
func (o *Options) subsets(ctx context.Context, items []*item) error {
	var prompts []Prompt
	for _, it := range items {
		for set := 1; set < 1<<len(it.docs)-1; set++ {
			p, err := o.open(it, set)
			if err != nil {
				return err
			}
			prompts = append(prompts, p)
		}
	}
	texts, err := ask(ctx, o.Checker, prompts)
	if err != nil {
		return err
	}
	for _, it := range items {
		for set := 1; set < 1<<len(it.docs)-1; set++ {
			if it.fate == "" && correct(texts[0], it.leaf.Answer) {
				it.drop(Subset, "it is answered from %s alone", strings.Join(it.titles(set), " and "))
			}
			texts = texts[1:]
		}
	}
	return nil
}

// openBook is filter (v): with all documents the answer must be the right one.
func (o *Options) openBook(ctx context.Context, items []*item) error {
	prompts := make([]Prompt, len(items))
	for i, it := range items {
		var err error
		if prompts[i], err = o.open(it, 1<<len(it.docs)-1); err != nil {
			return err
		}
	}
	texts, err := ask(ctx, o.Checker, prompts)
	if err != nil {
		return err
	}
	for i, it := range items {
		if !correct(texts[i], it.leaf.Answer) {
			it.drop(WrongAnswer, "the answer from all documents is %.100q, not %q", withoutThought(texts[i]), it.leaf.Answer)
		}
	}
	return nil
}

// open asks the question with a set of the chain's documents, a bit for each.
func (o *Options) open(it *item, set int) (Prompt, error) {
	data := promptData{Question: it.text}
	for i, d := range it.docs {
		if set>>i&1 == 1 {
			data.Documents = append(data.Documents, d)
		}
	}
	text, err := o.Prompts.render("open_book", data)
	return Prompt{text, answerTokens + o.Thinking, it.key.WithString("open book").With(uint64(set))}, err
}

func (it *item) titles(set int) []string {
	var list []string
	for i, d := range it.docs {
		if set>>i&1 == 1 {
			list = append(list, fmt.Sprintf("%q", d.Title))
		}
	}
	return list
}

func (o *Options) id(number int) string { return fmt.Sprintf("graph-%d-%06d", o.Seed, number) }
