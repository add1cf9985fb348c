package stepsearch

import (
	"math"
	"slices"
	"unicode/utf8"

	"github.com/forage-rl/forage/core/sdk/text"
)

// Units are texts that documents are compared with by TF-IDF, as scikit-learn's TfidfVectorizer does by default:
// words of two or more characters in lower case, raw counts, idf = ln((1+n)/(1+df)) + 1 over the document and the
// units together (n of them), vectors of length 1.
type Units struct {
	terms [][]term       // of each unit
	df    map[string]int // units with the word
}

type term struct {
	word  string
	count float64
}

// NewUnits counts the words of the texts.
func NewUnits(texts []string) Units {
	u := Units{df: map[string]int{}}
	for _, t := range texts {
		terms := count(t)
		for _, x := range terms {
			u.df[x.word]++
		}
		u.terms = append(u.terms, terms)
	}
	return u
}

// words lists the words of a text that count.
func words(s string) []string {
	var list []string
	for _, w := range text.Words(text.Lower(s)) {
		if utf8.RuneCountInString(w) >= 2 {
			list = append(list, w)
		}
	}
	return list
}

// count gives the words in sorted order, so that sums are the same in every run.
func count(s string) []term {
	list := words(s)
	slices.Sort(list)
	var terms []term
	for _, w := range list {
		if n := len(terms); n > 0 && terms[n-1].word == w {
			terms[n-1].count++
		} else {
			terms = append(terms, term{w, 1})
		}
	}
	return terms
}

// Cosine gives the similarity of a document to each unit, in [0, 1]; 0 where either has no words, also where
// scikit-learn refuses because none has.
func (u Units) Cosine(document string) []float64 {
	terms := count(document)
	has := make(map[string]float64, len(terms))
	for _, t := range terms {
		has[t.word] = t.count
	}
	n := float64(len(u.terms) + 1)
	weight := func(t term) float64 {
		df := float64(u.df[t.word])
		if has[t.word] > 0 {
			df++
		}
		return t.count * (math.Log((1+n)/(1+df)) + 1)
	}
	norm := func(terms []term) float64 {
		sum := 0.
		for _, t := range terms {
			w := weight(t)
			sum += w * w
		}
		return math.Sqrt(sum)
	}
	similarities := make([]float64, len(u.terms))
	length := norm(terms)
	for i, unit := range u.terms {
		dot := 0.
		for _, t := range unit {
			if c := has[t.word]; c > 0 {
				dot += weight(t) * weight(term{t.word, c})
			}
		}
		if dot > 0 {
			similarities[i] = dot / (length * norm(unit))
		}
	}
	return similarities
}
