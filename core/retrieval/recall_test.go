package retrieval

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"

	"github.com/forage-rl/forage/core/internal/vectors"
	"github.com/forage-rl/forage/core/retrieval/corpus"
	"github.com/forage-rl/forage/core/retrieval/encoder"
	"github.com/forage-rl/forage/core/retrieval/index"
)

// TestRecallOfGoldTitles measures how many gold titles the question alone finds, on all development questions, with all
// their contexts as the corpus.
func TestRecallOfGoldTitles(t *testing.T) {
	if testing.Short() {
		t.Skip("encodes and indexes 4,947 documents twice")
	}
	path := vectors.Shared(t, "data", "hotpotqa_dev_distractor.jsonl")
	c, err := corpus.Open(t.Context(), []string{path}, corpus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var questions []string
	var golds [][]string
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	decoder := json.NewDecoder(bufio.NewReader(file))
	for decoder.More() {
		var q struct {
			Question string
			Gold     []string `json:"gold_titles"`
		}
		if err := decoder.Decode(&q); err != nil {
			t.Fatal(err)
		}
		questions = append(questions, q.Question)
		golds = append(golds, q.Gold)
	}
	open := func(spec Spec) *Index {
		t.Helper()
		spec.Corpus, spec.Unit = c, corpus.DocumentLevel
		x, err := OpenIndex(t.Context(), spec, t.TempDir(), nil)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	search := func(x *Index) [][]Hit {
		hits, err := x.Search(t.Context(), questions, 50, nil)
		if err != nil {
			t.Fatal(err)
		}
		return hits
	}
	recall := func(lists [][]Hit, k int) float64 {
		found, all := 0, 0
		for i, list := range lists {
			titles := map[string]bool{}
			for _, hit := range list[:min(k, len(list))] {
				titles[hit.Title] = true
			}
			for _, gold := range golds[i] {
				all++
				if titles[gold] {
					found++
				}
			}
		}
		return float64(found) / float64(all)
	}
	words := search(open(Spec{BM25: &index.BM25Params{}}))
	t.Logf("bm25: recall@3 %.3f, recall@10 %.3f", recall(words, 3), recall(words, 10))
	if recall(words, 10) < .6 {
		t.Errorf("bm25: recall@10 %.3f, expected at least .6", recall(words, 10))
	}
	for _, dimensions := range []int{128, 1024} {
		hashed, err := encoder.NewHashed(encoder.HashedOptions{Dimensions: dimensions})
		if err != nil {
			t.Fatal(err)
		}
		dense := search(open(Spec{HNSW: &index.HNSWParams{Seed: 1, EfConstruction: 100}, Encoder: hashed}))
		t.Logf("hashed, %d dimensions: recall@3 %.3f, recall@10 %.3f", dimensions, recall(dense, 3), recall(dense, 10))
		if dimensions == 1024 && recall(dense, 10) < .6 {
			t.Errorf("hashed with 1024 dimensions: recall@10 %.3f, expected at least .6", recall(dense, 10))
		}
	}
}
