package minihop

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/forage-rl/forage/core/internal/rng"
	"github.com/forage-rl/forage/core/retrieval/encoder"
	"github.com/forage-rl/forage/core/retrieval/index"
)

// Tags of the protocol json; each is one special token.
const (
	TagCall        = "<tool_call>"
	TagCallEnd     = "</tool_call>"
	TagResponse    = "<tool_response>"
	TagResponseEnd = "</tool_response>"
)

// The fixed parts of a call; each is one token. Text from outside may hold them: only the tags act.
const (
	FrameSemantic = `{"name":"semantic_search","arguments":{"query":"`
	FrameKeyword  = `{"name":"keyword_search","arguments":{"query":"`
	FrameRead     = `{"name":"read_paragraph","arguments":{"paragraph_id":"`
	FrameEnd      = `"}}`
)

const (
	// SentenceHits is how many sentences a search returns by default.
	SentenceHits = 3
	// jsonMaxTokens is room for three hops with a search and a read each, and for a few calls more.
	jsonMaxTokens = 352
	// readShare is the share of the hops in which an expert reads the paragraph though it has seen the sentence.
	readShare = .5
)

func jsonFrames() []string { return []string{FrameSemantic, FrameKeyword, FrameRead, FrameEnd} }

func jsonTags() []string {
	return []string{TagQuestion, TagQuestionEnd, TagThink, TagThinkEnd, TagCall, TagCallEnd, TagResponse, TagResponseEnd,
		TagAnswer, TagAnswerEnd, TagEOS, TagPad}
}

// Sentence is one fact of a document.
type Sentence struct {
	Document Doc
	Text     string // "REL is OBJ ."
}

// SentenceSearch gives the sentences that the environment returns for a query, best first.
type SentenceSearch func(query string) ([]Sentence, error)

// SentenceObservation renders sentences as the environment does.
func SentenceObservation(hits []Sentence) string {
	parts := []string{TagResponse}
	for _, h := range hits {
		parts = append(parts, "( "+h.Document.Title+" ) "+h.Text)
	}
	return words(append(parts, TagResponseEnd)...)
}

// scriptJSON writes an episode with GRASP's tools: for each hop a search by meaning or by words, as the key draws, and
// sometimes a read of the paragraph. Where a search misses the sentence that is needed, the paragraph is read if another
// of its sentences was found, else the other search is asked.
func (w *World) scriptJSON(q query, searches int, wrong []*entity, key rng.Key, r Retrieval) (Transcript, error) {
	var t Transcript
	e := q.start
	for i, rel := range q.chain[:searches] {
		if i < len(wrong) && wrong[i] != nil {
			e = *wrong[i]
		}
		think := words(TagThink, w.rel[rel].name, TagThinkEnd)
		ask := w.name(e) + " " + w.rel[rel].name
		tools := []SentenceSearch{r.Semantic, r.Keyword}
		frames := []string{FrameSemantic, FrameKeyword}
		draw := key.With(uint64(i))
		if draw.Float64(0) < .5 {
			slices.Reverse(tools)
			slices.Reverse(frames)
		}
		d := w.document(e)
		read := draw.Float64(1) < readShare
		for n, search := range tools {
			hits, err := search(ask)
			if err != nil {
				return Transcript{}, fmt.Errorf("minihop: search for %q: %w", ask, err)
			}
			t.Turns = append(t.Turns, Turn{
				Policy:      words(think, TagCall, frames[n], ask, FrameEnd, TagCallEnd),
				Observation: SentenceObservation(hits),
			})
			need := w.sentence(e, rel)
			if slices.ContainsFunc(hits, func(h Sentence) bool { return h.Document.ID == d.ID && h.Text == need }) {
				break
			}
			if slices.ContainsFunc(hits, func(h Sentence) bool { return h.Document.ID == d.ID }) {
				read = true
				break
			}
		}
		if read {
			t.Turns = append(t.Turns, Turn{
				Policy:      words(think, TagCall, FrameRead, d.Title, FrameEnd, TagCallEnd),
				Observation: words(TagResponse, d.Text, TagResponseEnd),
			})
		}
		e = w.object(e, rel)
	}
	if searches == 0 {
		path := w.path(e, q.chain)
		e = path[len(path)-1]
	}
	t.Turns = append(t.Turns, Turn{Policy: words(TagThink, WordDone, TagThinkEnd, TagAnswer, w.name(e), TagAnswerEnd, TagEOS)})
	return t, nil
}

// sentenceRetrieval gives the exact retrievers of sentences, indexed with their titles: by the hashed encoder and by
// BM25.
func (w *World) sentenceRetrieval(dimensions, hits int) (Retrieval, error) {
	hits = cmp.Or(hits, SentenceHits)
	var sentences []Sentence
	var passages []encoder.Passage
	for _, d := range w.Documents() {
		for _, s := range d.Sentences {
			sentences = append(sentences, Sentence{d, s})
			passages = append(passages, encoder.Passage{Title: d.Title, Text: s})
		}
	}
	if hits < 1 || hits > len(sentences) {
		return Retrieval{}, fmt.Errorf("minihop: %d sentences per search, want 1 to %d", hits, len(sentences))
	}
	rank, err := rankHashed(dimensions, passages)
	if err != nil {
		return Retrieval{}, err
	}
	bm25, err := index.BuildBM25(context.Background(), len(passages), func(i int) string { return passages[i].Title + "\n" + passages[i].Text },
		index.BM25Params{Words: encoder.BlankWords, Stop: StopWords()})
	if err != nil {
		return Retrieval{}, err
	}
	return Retrieval{
		Semantic: func(query string) ([]Sentence, error) {
			order, err := rank(query)
			if err != nil {
				return nil, err
			}
			found := make([]Sentence, hits)
			for i := range found {
				found[i] = sentences[order[i]]
			}
			return found, nil
		},
		Keyword: func(query string) ([]Sentence, error) {
			var found []Sentence
			for _, h := range bm25.Search(query, hits, nil) {
				found = append(found, sentences[h.Unit])
			}
			return found, nil
		},
	}, nil
}
