// Command forage-retrievers serves the search tools that come with Forage: a folder per tool.
package main

import (
	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/plugins/retrievers/bm25"
	"github.com/forage-rl/forage/plugins/retrievers/dense"
	"github.com/forage-rl/forage/plugins/retrievers/hybrid"
	"github.com/forage-rl/forage/plugins/retrievers/keywordsearch"
	"github.com/forage-rl/forage/plugins/retrievers/readparagraph"
	"github.com/forage-rl/forage/plugins/retrievers/semanticsearch"
)

func main() { sdk.Serve(pack()) }

func pack() sdk.Pack {
	return sdk.Pack{
		Name:    "forage-retrievers",
		Version: "0.1.0",
		Retrievers: []sdk.RetrieverPlugin{
			bm25.Plugin(), dense.Plugin(), hybrid.Plugin(),
			semanticsearch.Plugin(), keywordsearch.Plugin(), readparagraph.Plugin(),
		},
	}
}
