package minihop

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/forage-rl/forage/core/internal/rng"
	"github.com/forage-rl/forage/core/sdk/episode"
)

// Protocol is the language of scripted episodes, with the vocabulary that it needs.
type Protocol string

// The protocols.
const (
	ProtocolTags   Protocol = "tags"   // one search tool, queries between tags
	ProtocolJSON   Protocol = "json"   // GRASP's three tools, calls as JSON between tags
	ProtocolFields Protocol = "fields" // FrugalRAG's fields under markers, with a prompt of its own for every turn
)

// Protocols lists the protocols.
func Protocols() []Protocol { return []Protocol{ProtocolTags, ProtocolJSON, ProtocolFields} }

// form is what a protocol consists of.
type form struct {
	// frames are words of its own that are no tags, such as the fixed parts of a call.
	frames []string
	// tags are its special tokens. The end of the sequence and the padding must be among them.
	tags []string
	// maxTokens is the length that episodes are kept within, prompt included, and maxPositions the model's.
	maxTokens, maxPositions int
	// script writes an episode: see [World.script].
	script func(w *World, q query, searches int, wrong []*entity, key rng.Key, r Retrieval) (Transcript, error)
}

// form gives the parts of a protocol; "" means tags.
func (p Protocol) form() (form, error) {
	switch p {
	case "", ProtocolTags:
		return form{tags: Tags(), maxTokens: MaxTokens, maxPositions: 256, script: func(w *World, q query, searches int, wrong []*entity, _ rng.Key, r Retrieval) (Transcript, error) {
			return w.script(q, searches, wrong, r.Documents)
		}}, nil
	case ProtocolJSON:
		return form{frames: jsonFrames(), tags: jsonTags(), maxTokens: jsonMaxTokens, maxPositions: 384, script: (*World).scriptJSON}, nil
	case ProtocolFields:
		return form{frames: fieldsFrames(), tags: fieldsTags(), maxTokens: fieldsMaxTokens, maxPositions: fieldsMaxTokens, script: (*World).scriptStreamFields}, nil
	}
	return form{}, fmt.Errorf("minihop: unknown protocol %q, want one of %v", p, Protocols())
}

// Check says whether there is such a protocol.
func (p Protocol) Check() error {
	_, err := p.form()
	return err
}

// ProtocolOf is the protocol that the base policy of this name speaks: "json" and "json-…" are in JSON, "fields" in
// fields, names without a protocol's are in tags.
func ProtocolOf(policy string) Protocol {
	name, _, _ := strings.Cut(strings.TrimPrefix(policy, "minihop/"), "-")
	if slices.Contains(Protocols(), Protocol(name)) {
		return Protocol(name)
	}
	return ProtocolTags
}

// words lists a protocol's vocabulary: the world's words, those of the protocol, its tags; the position is the token id.
func (f form) words(twoTokenNames bool) []string {
	return slices.Concat(plainWords(twoTokenNames), f.frames, f.tags)
}

// Retrieval is what the environment of scripted episodes searches with: Documents for the protocols tags and fields, the
// two others for json. See [World.Retrieval].
type Retrieval struct {
	Documents         Search
	Hits              int // for fields: of a search, out of all documents, that an episode has not seen
	Semantic, Keyword SentenceSearch
}

// Retrieval opens what the protocol's episodes search with. Zero dimensions (of the vectors) means 128, zero hits the
// protocol's default.
func (w *World) Retrieval(p Protocol, dimensions, hits int) (r Retrieval, err error) {
	if p == ProtocolJSON {
		return w.sentenceRetrieval(dimensions, hits)
	}
	if p == ProtocolFields {
		r.Hits, hits = cmp.Or(hits, Hits), Documents
		if r.Hits < 1 || r.Hits > Documents {
			return r, fmt.Errorf("minihop: %d documents per search, want 1 to %d", r.Hits, Documents)
		}
	}
	r.Documents, err = w.HashedSearch(dimensions, hits)
	return r, err
}

// ExpertIn is the gold chain of a question of this world in a protocol.
func (w *World) ExpertIn(p Protocol, q episode.Question, r Retrieval) (Transcript, error) {
	f, err := p.form()
	if err != nil {
		return Transcript{}, err
	}
	d, err := w.query(q)
	if err != nil {
		return Transcript{}, err
	}
	if p == ProtocolFields {
		return w.scriptFields(d, len(d.chain), nil, manner{}, r)
	}
	return f.script(w, d, len(d.chain), nil, rng.New(w.seed).WithString("minihop/expert/"+q.ID), r)
}
