// Package lookup is what retrievers with a free-text query share: reading the queries of a batch of calls, leaving out
// what an episode has already seen, and laying the results out in the order of the calls.
//
// It must not know how an index finds its hits.
package lookup

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/diag"
	"github.com/forage-rl/forage/core/sdk/episode"
	"github.com/forage-rl/forage/core/sdk/schema"
	"github.com/forage-rl/forage/core/sdk/text"
)

// Index is a retriever that looks queries up in one index.
type Index struct {
	Host        sdk.Host
	Handle      string // of the index
	K           int    // hits per call
	ExcludeSeen bool   // leave out what earlier calls of the episode returned
	Description string // of the tool
	Name        string // of the tool; "" means search
}

// Tool implements [sdk.Retriever].
func (x Index) Tool(context.Context) (sdk.Tool, error) {
	tool := Tool(x.Description)
	tool.Name = cmp.Or(x.Name, tool.Name)
	return tool, nil
}

// Call implements [sdk.Retriever].
func (x Index) Call(ctx context.Context, req sdk.CallRequest) (sdk.CallResponse, error) {
	return Call(ctx, req.Calls, x.ExcludeSeen, func(ctx context.Context, queries []string, exclude [][]string) ([][]episode.Hit, error) {
		hits, err := x.Host.Search(ctx, sdk.SearchRequest{Index: x.Handle, Queries: queries, K: x.K, Exclude: exclude})
		if err != nil {
			return nil, fmt.Errorf("search index %s: %w", x.Handle, err)
		}
		return hits, nil
	})
}

// Check refuses an index of another unit than the tool finds. path is the attribute that names the index.
func Check(path diag.Path, index schema.Ref, unit string) diag.Diagnostics {
	var ds diag.Diagnostics
	if index.Unit != "" && index.Unit != unit {
		ds.Errorf(path, "Index of another unit", "%s finds %ss, and this tool is to find %ss: give that index unit = %q, or name another.", index.Handle, index.Unit, unit, unit)
	}
	return ds
}

// Tool describes a tool with one argument, the query.
func Tool(description string) sdk.Tool {
	return sdk.Tool{
		Name:        "search",
		Description: description,
		Arguments:   []sdk.Argument{{Name: "query", Type: "string", Description: "What to look for, in a few words.", Required: true}},
	}
}

// Search finds hits for queries, given for each the ids of units to leave out.
type Search func(ctx context.Context, queries []string, exclude [][]string) ([][]episode.Hit, error)

// Call answers a batch of calls with one search. A call without a query gets an error text for the agent to read and
// takes no part in the search.
func Call(ctx context.Context, calls []sdk.Call, excludeSeen bool, search Search) (sdk.CallResponse, error) {
	out := sdk.CallResponse{Results: make([]sdk.CallResult, len(calls))}
	var queries []string
	var exclude [][]string
	var at []int
	for i, c := range calls {
		query, problem := readQuery(c.Arguments)
		if problem != "" {
			out.Results[i].Error = problem
			continue
		}
		queries, at = append(queries, query), append(at, i)
		if excludeSeen {
			exclude = append(exclude, seen(c.Seen))
		}
	}
	if len(queries) == 0 {
		return out, nil
	}
	hits, err := search(ctx, queries, exclude)
	if err != nil {
		return sdk.CallResponse{}, err
	}
	if len(hits) != len(queries) {
		return sdk.CallResponse{}, fmt.Errorf("the host gave %d results for %d queries", len(hits), len(queries))
	}
	for k, i := range at {
		out.Results[i].Hits = hits[k]
	}
	return out, nil
}

func readQuery(arguments map[string]any) (query, problem string) {
	value, given := arguments["query"]
	if !given {
		if len(arguments) == 0 {
			return "", "The search needs a query."
		}
		names := strings.Join(slices.Sorted(maps.Keys(arguments)), ", ")
		return "", fmt.Sprintf("The search needs an argument named query; it got %s.", names)
	}
	query, isText := value.(string)
	if !isText {
		return "", "The query of a search must be text."
	}
	if query = text.Trim(query); query == "" {
		return "", "The query of the search is empty."
	}
	return query, ""
}

func seen(earlier []sdk.Seen) []string {
	ids := map[string]bool{}
	for _, s := range earlier {
		ids[s.Unit()] = true
	}
	return slices.Sorted(maps.Keys(ids))
}
