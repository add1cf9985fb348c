package generate

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/forage-rl/forage/core/record"
)

// row is a question as the file holds it: a record of the format "normalized" of datasets.
type row struct {
	ID         string      `json:"id"`
	Question   string      `json:"question"`
	Answers    []string    `json:"answers"`
	GoldTitles []string    `json:"gold_titles"`
	GoldIDs    []string    `json:"gold_ids"`
	Hops       int         `json:"hops"`
	Type       string      `json:"type"`
	AnswerType string      `json:"answer_type"`
	Chain      []link      `json:"chain"`
	Leaf       string      `json:"leaf_question"`
	Context    []goldEntry `json:"context"`
}

// link is a document of a chain, with the phrase that leads to the next one.
type link struct {
	ID     string `json:"id"`
	Title  string `json:"title"`
	Phrase string `json:"phrase,omitempty"`
}

type goldEntry struct {
	Title string `json:"title"`
	Text  string `json:"text"`
	Gold  bool   `json:"is_gold"`
}

// settings decide what becomes of a chain.
type settings struct {
	Version  int    `json:"version"`
	Corpus   string `json:"corpus"`
	Links    string `json:"links"`
	Seed     int64  `json:"seed"`
	Writer   string `json:"writer"`
	Checker  string `json:"checker"`
	Search   string `json:"search"`
	Prompts  string `json:"prompts"`
	TopK     int    `json:"top_k"`
	Absent   Absent `json:"absent"`
	Document int    `json:"document"`
	Thinking int    `json:"thinking"`
}

const version = 1

func (o *Options) settings() settings {
	return settings{
		version, o.Corpus.Digest(), fmt.Sprintf("%s, %d", o.Graph.kind, o.Graph.Links()), o.Seed, o.WriterName, o.CheckerName, o.SearchName,
		o.Prompts.digest, o.TopK, o.Absent, o.Document, o.Thinking,
	}
}

// journalLine is a line of the journal: the settings in the first, a round in each other.
type journalLine struct {
	Settings *settings `json:"settings,omitempty"`
	Round    []entry   `json:"round,omitempty"`
}

// entry is what became of a chain.
type entry struct {
	Number   int    `json:"number"`
	Hops     int    `json:"hops"`
	Chain    []int  `json:"chain"` // numbers of documents
	Fate     Fate   `json:"fate"`
	Reason   string `json:"reason,omitempty"`
	Question string `json:"question,omitempty"`
	Answer   string `json:"answer,omitempty"`
	Named    bool   `json:"named,omitempty"`
}

// JournalPath is the record of all chains beside a file of questions.
func JournalPath(out string) string { return out + ".journal" }

// work is the files of a generation and where it stands.
type work struct {
	options *Options
	lock    *record.FileLock
	out     *os.File
	journal *os.File
	have    map[string]bool // ids in the file of questions
	tried   map[string]bool // names of chains
	summary Summary
}

// openWork opens or makes the files, and takes up what they hold.
func openWork(o *Options) (_ *work, err error) {
	if err := os.MkdirAll(filepath.Dir(o.Out), 0o755); err != nil {
		return nil, fmt.Errorf("generate: %w", err)
	}
	w := &work{
		options: o, have: map[string]bool{}, tried: map[string]bool{},
		summary: Summary{Wanted: o.Count, Fates: map[Fate]int{}, ByHops: map[int]int{}, LeftOut: map[int]int{}},
	}
	if w.lock, err = record.Lock(o.Out + ".lock"); err != nil {
		return nil, fmt.Errorf("generate: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	if w.out, err = appendTo(o.Out, w.readRow); err != nil {
		return nil, fmt.Errorf("generate: %w", err)
	}
	lines := 0
	w.journal, err = appendTo(JournalPath(o.Out), func(line []byte) error {
		lines++
		return w.readJournal(line, lines == 1)
	})
	if err != nil {
		return nil, fmt.Errorf("generate: %w", err)
	}
	w.summary.Resumed = w.summary.Chains
	if lines > 0 {
		return w, nil
	}
	now := o.settings()
	return w, w.append(w.journal, journalLine{Settings: &now})
}

// appendTo opens a file of JSON lines to append to it, once its lines have been read. A last line that was not written
// whole is dropped.
func appendTo(path string, read func(line []byte) error) (*os.File, error) {
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	whole := bytes.LastIndexByte(data, '\n') + 1
	number := 0
	for line := range bytes.Lines(data[:whole]) {
		number++
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if err := read(line); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, number, err)
		}
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	if err := file.Truncate(int64(whole)); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

func (w *work) readRow(line []byte) error {
	var r struct{ ID string }
	if err := json.Unmarshal(line, &r); err != nil {
		return fmt.Errorf("not a question: %w", err)
	}
	if prefix := fmt.Sprintf("graph-%d-", w.options.Seed); !strings.HasPrefix(r.ID, prefix) {
		return fmt.Errorf("question %q was not made here with seed %d; write to another file", r.ID, w.options.Seed)
	}
	w.have[r.ID] = true
	return nil
}

func (w *work) readJournal(line []byte, first bool) error {
	var l journalLine
	if err := json.Unmarshal(line, &l); err != nil {
		return fmt.Errorf("not a line of the journal: %w", err)
	}
	if first {
		if l.Settings == nil {
			return errors.New("the journal does not begin with its settings")
		}
		if changed := differences(*l.Settings, w.options.settings()); len(changed) > 0 {
			return fmt.Errorf("the questions were begun with other settings: %s; go on with those, or write to another file", strings.Join(changed, ", "))
		}
		return nil
	}
	for _, e := range l.Round {
		if e.Number != w.summary.Chains {
			return fmt.Errorf("chain %d stands where chain %d was expected", e.Number, w.summary.Chains)
		}
		if e.Fate == Kept && !w.have[w.options.id(e.Number)] {
			return fmt.Errorf("question %s was made, but is not in %s; put it back, or remove the journal", w.options.id(e.Number), w.options.Out)
		}
		w.count(e)
	}
	return nil
}

func differences(before, now settings) []string {
	var changed []string
	values := func(s settings) map[string]any {
		data, err := json.Marshal(s)
		m := map[string]any{}
		if err != nil || json.Unmarshal(data, &m) != nil {
			return nil
		}
		return m
	}
	old, new := values(before), values(now)
	for _, name := range sortedKeys(new) {
		if old[name] != new[name] {
			changed = append(changed, fmt.Sprintf("%s was %v and is %v", name, old[name], new[name]))
		}
	}
	return changed
}

func (w *work) count(e entry) {
	w.tried[chainName(e.Chain)] = true
	w.summary.Chains++
	w.summary.Fates[e.Fate]++
	if e.Fate == Kept {
		w.summary.ByHops[e.Hops]++
	}
	if e.Named {
		w.summary.NamedFound++
	}
}

// keep writes what became of a round: the questions first, then the journal, which says that they are there.
func (w *work) keep(items []*item) error {
	var round journalLine
	for _, it := range items {
		e := entry{Number: it.number, Hops: it.hops, Chain: it.chain, Fate: it.fate, Reason: it.reason, Question: it.text, Answer: it.leaf.Answer, Named: it.named}
		round.Round = append(round.Round, e)
		id := w.options.id(it.number)
		if it.fate != Kept || w.have[id] {
			continue
		}
		if err := w.append(w.out, w.options.row(it)); err != nil {
			return err
		}
		w.have[id] = true
	}
	if err := w.out.Sync(); err != nil {
		return fmt.Errorf("generate: %w", err)
	}
	if err := w.append(w.journal, round); err != nil {
		return err
	}
	if err := w.journal.Sync(); err != nil {
		return fmt.Errorf("generate: %w", err)
	}
	for _, e := range round.Round {
		w.count(e)
	}
	return nil
}

func (w *work) append(file *os.File, v any) error {
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return fmt.Errorf("generate: %w", err)
	}
	if _, err := file.Write(line.Bytes()); err != nil {
		return fmt.Errorf("generate: %w", err)
	}
	return nil
}

func (o *Options) row(it *item) row {
	r := row{
		ID: o.id(it.number), Question: it.text, Answers: []string{it.leaf.Answer}, Hops: it.hops, Type: fmt.Sprintf("%dhop", it.hops),
		AnswerType: it.leaf.AnswerType, Leaf: it.leaf.Question,
	}
	for i, d := range it.chain {
		full := o.Corpus.At(d)
		l := link{ID: full.ID, Title: full.Title}
		if i < len(it.phrases) {
			l.Phrase = it.phrases[i]
		}
		r.Chain = append(r.Chain, l)
		r.GoldTitles, r.GoldIDs = append(r.GoldTitles, full.Title), append(r.GoldIDs, full.ID)
		r.Context = append(r.Context, goldEntry{full.Title, full.Text(), true})
	}
	return r
}

func (w *work) report() {
	if w.options.Progress != nil {
		s := w.summary
		s.Fates, s.ByHops, s.LeftOut = maps.Clone(s.Fates), maps.Clone(s.ByHops), maps.Clone(s.LeftOut)
		w.options.Progress(s)
	}
}

func (w *work) note(text string) {
	if w.options.Note != nil {
		w.options.Note(text)
	}
}

func (w *work) close() error {
	var errs []error
	for _, file := range []*os.File{w.out, w.journal} {
		if file != nil {
			errs = append(errs, file.Close())
		}
	}
	return errors.Join(append(errs, w.lock.Unlock())...)
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
