// Package keywordsearch is GRASP's search by words (BM25): hits are sentences, each with the id of the paragraph that it
// stands in, which the tool read_paragraph takes.
package keywordsearch

import (
	"context"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/diag"
	"github.com/forage-rl/forage/core/sdk/schema"
	"github.com/forage-rl/forage/plugins/retrievers/internal/lookup"
)

// Name is the tool's.
const Name = "keyword_search"

// Config is the configuration of the retriever.
type Config struct {
	Index       schema.Ref `forage:"index" type:"index" enum:"bm25" doc:"The index to search: one of kind bm25, of unit sentence (whether titles are indexed with the sentences is its index_title)."`
	K           int        `forage:"k" default:"5" min:"1" doc:"Hits per call; fewer only where the index has no more to give. Ties go to the sentence that comes first in the corpus. Several hits may be of one paragraph." source:"GRASP (arXiv:2607.10463), retrieval depth"`
	Level       string     `forage:"level" default:"sentence" enum:"sentence,paragraph" doc:"What is found. paragraph: whole paragraphs, for agents that have no tool to read them; the index must be of that unit." source:"GRASP, ablation without reading"`
	Description string     `forage:"description" default:"Finds the sentences that share words with the query, each with the id of its paragraph." doc:"What a protocol that describes its tools tells the agent about this one." source:"default (not in the paper)"`
}

// Validate refuses an index that does not find what the tool is to find.
func (c Config) Validate() diag.Diagnostics {
	return lookup.Check(diag.Attr("index"), c.Index, c.Level)
}

// Plugin describes the retriever.
func Plugin() sdk.RetrieverPlugin {
	return sdk.NewRetriever(Name, "Search for sentences by words (BM25) in an index of the study; the hits name their paragraphs.", "GRASP (arXiv:2607.10463)",
		func(_ context.Context, c Config, host sdk.Host) (sdk.Retriever, error) {
			return lookup.Index{Host: host, Handle: c.Index.Handle, K: c.K, Name: Name, Description: c.Description}, nil
		})
}
