// Package hybrid is a search tool on two or three indexes at once, merged by reciprocal rank.
//
// The indexes must be over one corpus and of one unit, so that a hit of one can be told to be that of another.
package hybrid

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/diag"
	"github.com/forage-rl/forage/core/sdk/episode"
	"github.com/forage-rl/forage/core/sdk/schema"
	"github.com/forage-rl/forage/plugins/retrievers/internal/lookup"
)

// Config is the configuration of the retriever.
type Config struct {
	Dense        schema.Ref `forage:"dense" type:"index" doc:"First index, as a rule one with an encoder."`
	Sparse       schema.Ref `forage:"sparse" type:"index" doc:"Second index, as a rule one of kind bm25."`
	Other        schema.Ref `forage:"other,optional" type:"index" doc:"Third index, if any."`
	DenseWeight  float64    `forage:"dense_weight" default:"1" min:"0" doc:"Weight of the first index." source:"Cormack et al. 2009"`
	SparseWeight float64    `forage:"sparse_weight" default:"1" min:"0" doc:"Weight of the second index." source:"Cormack et al. 2009"`
	OtherWeight  float64    `forage:"other_weight" default:"1" min:"0" doc:"Weight of the third index." source:"Cormack et al. 2009"`
	K0           float64    `forage:"k0" default:"60" min:"0" doc:"Added to every rank: the larger, the less the first ranks count for." source:"Cormack et al. 2009"`
	Depth        int        `forage:"depth" default:"50" min:"1" doc:"Hits taken from each index before merging; at least k are taken." source:"default (not in the paper)"`
	K            int        `forage:"k" default:"3" min:"1" doc:"Hits per call; fewer only where the indexes have no more to give." source:"Search-R1 (arXiv:2503.09516), training settings"`
	ExcludeSeen  bool       `forage:"exclude_seen" default:"false" doc:"Leave out what earlier calls of the episode returned." source:"default (not in the paper)"`
	Description  string     `forage:"description" default:"Searches a text collection for the query." doc:"What a protocol that describes its tools tells the agent about this one." source:"default (not in the paper)"`
}

// Validate refuses weights that leave nothing to rank by, and indexes whose hits cannot be told to be the same.
func (c Config) Validate() diag.Diagnostics {
	var ds diag.Diagnostics
	if c.DenseWeight+c.SparseWeight == 0 && (c.Other.Handle == "" || c.OtherWeight == 0) {
		ds.Errorf(diag.Attr("dense_weight"), "No weight", "All weights are 0, so there is nothing to rank by; give at least one index a weight above 0.")
	}
	for i, index := range []schema.Ref{c.Sparse, c.Other} {
		if index.Unit != "" && index.Unit != c.Dense.Unit {
			ds.Errorf(diag.Attr([]string{"sparse", "other"}[i]), "Indexes of different units", "%s finds %ss and %s finds %ss, so no hit of one is a hit of the other; give both one unit.",
				index.Handle, index.Unit, c.Dense.Handle, c.Dense.Unit)
		}
	}
	return ds
}

// Plugin describes the retriever.
func Plugin() sdk.RetrieverPlugin {
	return sdk.NewRetriever("hybrid", "Search in several indexes of the study, merged by reciprocal rank.", "Reciprocal rank fusion (Cormack et al. 2009)",
		func(_ context.Context, c Config, host sdk.Host) (sdk.Retriever, error) {
			r := retriever{config: c, host: host, indexes: []string{c.Dense.Handle, c.Sparse.Handle}, weights: []float64{c.DenseWeight, c.SparseWeight}}
			if c.Other.Handle != "" {
				r.indexes, r.weights = append(r.indexes, c.Other.Handle), append(r.weights, c.OtherWeight)
			}
			return r, nil
		})
}

type retriever struct {
	config  Config
	host    sdk.Host
	indexes []string
	weights []float64
}

func (r retriever) Tool(context.Context) (sdk.Tool, error) {
	return lookup.Tool(r.config.Description), nil
}

func (r retriever) Call(ctx context.Context, req sdk.CallRequest) (sdk.CallResponse, error) {
	return lookup.Call(ctx, req.Calls, r.config.ExcludeSeen, r.search)
}

// search asks all indexes at once and merges what they give for each query.
func (r retriever) search(ctx context.Context, queries []string, exclude [][]string) ([][]episode.Hit, error) {
	found := make([][][]episode.Hit, len(r.indexes))
	group, ctx := errgroup.WithContext(ctx)
	for i, index := range r.indexes {
		group.Go(func() error {
			hits, err := r.host.Search(ctx, sdk.SearchRequest{Index: index, Queries: queries, K: max(r.config.K, r.config.Depth), Exclude: exclude})
			if err != nil {
				return fmt.Errorf("search index %s: %w", index, err)
			}
			if len(hits) != len(queries) {
				return fmt.Errorf("search index %s: %d results for %d queries", index, len(hits), len(queries))
			}
			found[i] = hits
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	merged := make([][]episode.Hit, len(queries))
	for q := range queries {
		lists := make([][]episode.Hit, len(r.indexes))
		for i := range r.indexes {
			lists[i] = found[i][q]
		}
		merged[q] = Fuse(lists, r.weights, r.config.K0, r.config.K)
	}
	return merged, nil
}
