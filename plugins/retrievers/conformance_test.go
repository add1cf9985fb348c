package main

import (
	"cmp"
	"fmt"
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
			switch p.Name {
			case "hybrid":
				values = map[string]any{"dense": index, "sparse": index}
			case "semantic_search", "keyword_search":
				one := map[string]any{"index": index, "k": 1}
				sdktest.TestRetriever(t, p, sdktest.RetrieverCase{Name: "defaults", Values: values, Host: sentenceHost()}, sdktest.RetrieverCase{Name: "one", Values: one, Host: sentenceHost()})
				return
			case "read_paragraph":
				values = map[string]any{"corpus": schema.Ref{Handle: "corpus", Digest: "d"}}
				any := maps.Clone(values)
				any["read_requires_hit"] = false
				sdktest.TestRetriever(t, p, sdktest.RetrieverCase{Name: "defaults", Values: values}, sdktest.RetrieverCase{Name: "anything", Values: any})
				return
			}
			unseen := map[string]any{"exclude_seen": true, "k": 1}
			maps.Copy(unseen, values)
			sdktest.TestRetriever(t, p, sdktest.RetrieverCase{Name: "defaults", Values: values}, sdktest.RetrieverCase{Name: "unseen", Values: unseen})
		})
	}
}

// sentenceHost searches sentences, two of each of the usual documents.
func sentenceHost() *sdktest.Host {
	h := &sdktest.Host{}
	for _, d := range sdktest.Documents() {
		for i, text := range []string{d.Text, "It is well known."} {
			s := d
			s.ParagraphID, s.Text = cmp.Or(s.ParagraphID, s.DocumentID), text
			s.SentenceID = fmt.Sprintf("%s.s%d", s.ParagraphID, i)
			h.Corpus = append(h.Corpus, s)
		}
	}
	return h
}
