package run

import (
	"context"
	"fmt"
	"iter"

	"github.com/forage-rl/forage/core/experiment"
)

// How much of the data a policy with a vocabulary of whole words must know. Such a policy reads all other words as one
// and the same, and no training teaches it to tell them apart.
const (
	vocabularySample = 200 // questions or documents that are looked at
	warnUnknown      = .02 // share of unknown words that is worth a warning
	mostUnknown      = .9  // share that is refused: what is left are words that all texts of a language share
)

// vocabulary is a tokenizer that can tell which words it does not know.
type vocabulary interface {
	// Unknown counts the words of a text; of is 0 for a tokenizer that knows all words.
	Unknown(text string) (unknown, of int)
}

// reading is a dataset or corpus that a policy reads.
type reading struct {
	role   string
	handle string
	place  fmt.Stringer
	texts  iter.Seq[string]
}

// checkVocabulary compares questions and documents with the vocabularies of the policies that read them.
func (r *runner) checkVocabulary(ctx context.Context) error {
	list, err := r.readings(ctx)
	if err != nil {
		return err
	}
	checked := map[string]bool{}
	for _, what := range list {
		m, ok := r.models.byName[what.role]
		if !ok {
			continue // nothing is trained of it
		}
		words, ok := m.tokenizer.(vocabulary)
		key := m.config.Handle + " " + what.handle
		if !ok || checked[key] {
			continue
		}
		checked[key] = true
		unknown, of := 0, 0
		for text := range what.texts {
			u, n := words.Unknown(text)
			unknown, of = unknown+u, of+n
		}
		share := float64(unknown) / float64(max(1, of))
		if share < warnUnknown {
			continue
		}
		text := fmt.Sprintf("%s: %d of %d words looked at are not in the vocabulary of %s, which reads them all as one unknown word",
			at(what.handle, what.place), unknown, of, at(m.config.Handle, m.config.Range))
		if share > mostUnknown {
			return fmt.Errorf("%s: take data that the policy was made for, or a policy with a vocabulary of bytes or parts of words", text)
		}
		r.warnings = append(r.warnings, text)
		r.log.Warn(text)
	}
	return nil
}

// readings lists what the policies of stages and evaluations read. Endless datasets are made for their policy.
func (r *runner) readings(ctx context.Context) ([]reading, error) {
	var list []reading
	dataset := func(role string, d *experiment.Dataset, tools map[string]*experiment.Tool) error {
		data, err := r.resources.questions(ctx, d, tools)
		if err != nil || data.Endless() {
			return err
		}
		all := data.Questions()
		list = append(list, reading{role, d.Handle, d.Range, sample(len(all), func(i int) string { return all[i].Text })})
		return nil
	}
	for _, s := range r.config.Stages {
		for _, d := range inputs(s.Train) {
			if err := dataset(roleOf(s.Policy), d, r.config.Tools); err != nil {
				return nil, err
			}
		}
	}
	for _, e := range r.config.Evaluations {
		if err := dataset(roleOf(e.Policy), e.Dataset, e.Tools); err != nil {
			return nil, err
		}
	}
	for _, handle := range sorted(r.config.Indexes) {
		c := r.config.Indexes[handle].Corpus
		documents := r.resources.corpora[c.Handle]
		if documents == nil {
			continue // of an index that is kept elsewhere
		}
		list = append(list, reading{mainRole, c.Handle, c.Range, sample(documents.Len(), func(i int) string { return documents.At(i).Text() })})
	}
	return list, nil
}

// sample gives some of n texts, evenly spread.
func sample(n int, text func(int) string) iter.Seq[string] {
	return func(yield func(string) bool) {
		count := min(n, vocabularySample)
		for i := range count {
			if !yield(text(i * n / count)) {
				return
			}
		}
	}
}
