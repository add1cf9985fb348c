// Package dense is a search tool on a vector index: hits lie near the query in the space of the index's encoder.
package dense

import (
	"context"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/schema"
	"github.com/forage-rl/forage/plugins/retrievers/internal/lookup"
)

// Config is the configuration of the retriever.
type Config struct {
	Index       schema.Ref `forage:"index" type:"index" enum:"hnsw,flat,remote" doc:"The index to search: one with an encoder."`
	K           int        `forage:"k" default:"3" min:"1" doc:"Hits per call; fewer only where the index has no more to give." source:"Search-R1 (arXiv:2503.09516), training settings"`
	ExcludeSeen bool       `forage:"exclude_seen" default:"false" doc:"Leave out what earlier calls of the episode returned." source:"default (not in the paper)"`
	Description string     `forage:"description" default:"Searches a text collection for passages about the query." doc:"What a protocol that describes its tools tells the agent about this one." source:"default (not in the paper)"`
}

// Plugin describes the retriever.
func Plugin() sdk.RetrieverPlugin {
	return sdk.NewRetriever("dense", "Search by meaning (nearest vectors) in an index of the study.", "Dense passage retrieval (Karpukhin et al. 2020)",
		func(_ context.Context, c Config, host sdk.Host) (sdk.Retriever, error) {
			return lookup.Index{Host: host, Handle: c.Index.Handle, K: c.K, ExcludeSeen: c.ExcludeSeen, Description: c.Description}, nil
		})
}
