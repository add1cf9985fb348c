// Package bm25 is a search tool on a BM25 index: hits share words with the query.
package bm25

import (
	"context"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/schema"
	"github.com/forage-rl/forage/plugins/retrievers/internal/lookup"
)

// Config is the configuration of the retriever.
type Config struct {
	Index       schema.Ref `forage:"index" type:"index" enum:"bm25" doc:"The index to search: one of kind bm25."`
	K           int        `forage:"k" default:"3" min:"1" doc:"Hits per call; fewer only where the index has no more to give." source:"Search-R1 (arXiv:2503.09516), training settings"`
	ExcludeSeen bool       `forage:"exclude_seen" default:"false" doc:"Leave out what earlier calls of the episode returned." source:"default (not in the paper)"`
	Description string     `forage:"description" default:"Searches a text collection for the words of the query." doc:"What a protocol that describes its tools tells the agent about this one." source:"default (not in the paper)"`
}

// Plugin describes the retriever.
func Plugin() sdk.RetrieverPlugin {
	return sdk.NewRetriever("bm25", "Search by words (BM25) in an index of the study.", "BM25 (Robertson and Zaragoza 2009)",
		func(_ context.Context, c Config, host sdk.Host) (sdk.Retriever, error) {
			return lookup.Index{Host: host, Handle: c.Index.Handle, K: c.K, ExcludeSeen: c.ExcludeSeen, Description: c.Description}, nil
		})
}
