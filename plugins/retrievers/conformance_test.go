package main

import (
	"maps"
	"testing"

	"github.com/forage-rl/forage/core/sdk/schema"
	"github.com/forage-rl/forage/core/sdk/sdktest"
)

func TestConformance(t *testing.T) {
	index := schema.Ref{Handle: "index", Digest: "d"}
	for _, p := range pack().Retrievers {
		t.Run(p.Name, func(t *testing.T) {
			values := map[string]any{"index": index}
			if p.Name == "hybrid" {
				values = map[string]any{"dense": index, "sparse": index}
			}
			unseen := map[string]any{"exclude_seen": true, "k": 1}
			maps.Copy(unseen, values)
			sdktest.TestRetriever(t, p, sdktest.RetrieverCase{Name: "defaults", Values: values}, sdktest.RetrieverCase{Name: "unseen", Values: unseen})
		})
	}
}
