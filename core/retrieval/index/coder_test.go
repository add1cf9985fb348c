package index

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"io"
	"math/rand"
	"slices"
	"strings"
	"testing"

	coder "github.com/coder/hnsw"
)

// A graph of ours opens in the other library, and its search finds the neighbours there.
func TestCoderOpensOurExport(t *testing.T) {
	points, queries := mixture(4000, 64, 32, 100, 1)
	h := build(t, points, HNSWParams{M: 16, EfConstruction: 100, Seed: 1})
	var exported bytes.Buffer
	if err := h.ExportCoder(&exported); err != nil {
		t.Fatal(err)
	}
	graph := coder.NewGraph[int]()
	if err := graph.Import(bufio.NewReader(bytes.NewReader(exported.Bytes()))); err != nil {
		t.Fatal(err)
	}
	if graph.Len() != 4000 || graph.Dims() != 64 {
		t.Fatalf("the other library reads %d vectors of %d dimensions", graph.Len(), graph.Dims())
	}
	got := recall(t, func(q []float32) []Hit { hits, _ := h.Exact(q, 10, nil); return hits },
		func(q []float32) []Hit {
			// Its search gives unsorted nodes without distances.
			nodes := graph.Search(q, 200)
			slices.SortFunc(nodes, func(a, b coder.Node[int]) int {
				return cmp.Compare(graph.Distance(a.Value, q), graph.Distance(b.Value, q))
			})
			var hits []Hit
			for _, node := range nodes[:10] {
				hits = append(hits, Hit{Unit: node.Key})
			}
			return hits
		}, queries, 100)
	t.Logf("recall@10 of the other library's search for 200 on our graph: %.3f", got)
	if got < .9 {
		t.Errorf("recall@10 is %.3f, expected at least .9", got)
	}
	again, keys, err := ImportCoder(bytes.NewReader(exported.Bytes()), false)
	if err != nil {
		t.Fatal(err)
	}
	if len(keys) != 4000 || keys[3999] != 3999 {
		t.Errorf("%d keys", len(keys))
	}
	checkGraph(t, again)
	if got := reachable(again); got != 4000 {
		t.Errorf("%d of 4000 vectors can be reached after export and import", got)
	}
}

func TestImportOfCoderGraph(t *testing.T) {
	points, queries := mixture(1500, 32, 16, 30, 4)
	graph := coder.NewGraph[int]()
	graph.Rng = rand.New(rand.NewSource(1))
	for i := range points.Rows() {
		graph.Add(coder.MakeNode(3*i-100, points.Row(i)))
	}
	var exported bytes.Buffer
	if err := graph.Export(&exported); err != nil {
		t.Fatal(err)
	}
	h, keys, err := ImportCoder(bytes.NewReader(exported.Bytes()), true)
	if err != nil {
		t.Fatal(err)
	}
	checkGraph(t, h)
	if got := reachable(h); got != points.Rows() {
		t.Errorf("%d of %d vectors can be reached", got, points.Rows())
	}
	for i, key := range keys {
		if key != int64(3*i-100) {
			t.Fatalf("unit %d has key %d", i, key)
		}
	}
	flat, err := NewFlat(points, Cosine, false)
	if err != nil {
		t.Fatal(err)
	}
	got := recall(t, func(q []float32) []Hit { hits, _ := flat.Search(q, 10, nil); return hits },
		func(q []float32) []Hit { hits, _ := h.Search(q, 10, 400, nil); return hits }, queries, 100)
	t.Logf("recall@10 on the other library's graph, repaired: %.3f", got)
	if got < .5 {
		t.Errorf("recall@10 is %.3f, expected at least .5", got)
	}
}

func TestExportCoderRefusesOtherLengths(t *testing.T) {
	h := build(t, Matrix{2, []float32{1, 0, 2, 2}}, HNSWParams{})
	if err := h.ExportCoder(io.Discard); err == nil || !strings.Contains(err.Error(), "vector 1 has length 2.828") {
		t.Errorf("got %v", err)
	}
}

func coderImage(numbers ...any) []byte {
	var b []byte
	for _, n := range numbers {
		switch n := n.(type) {
		case int:
			b = binary.AppendVarint(b, int64(n))
		case string:
			b = append(binary.AppendVarint(b, int64(len(n))), n...)
		case []byte:
			b = append(b, n...)
		}
	}
	return b
}

func TestImportCoderGuardsLengths(t *testing.T) {
	head := func(rest ...any) []byte {
		return coderImage(append([]any{1, 16, make([]byte, 8), 20, "cosine"}, rest...)...)
	}
	one := []byte{0, 0, 128, 63}
	for want, data := range map[string][]byte{
		"unexpected EOF":           nil,
		"version 2":                coderImage(2, 16),
		"m is -5":                  coderImage(1, -5),
		`distance "euclidean"`:     coderImage(1, 16, make([]byte, 8), 20, "euclidean", 0),
		"distance's name is":       coderImage(1, 16, make([]byte, 8), 20, 1<<40),
		"number of layers is":      head(1 << 40),
		"number of layers is -1":   head(-1),
		"number of vectors is":     head(1, 1<<50),
		"the graph is empty":       head(0),
		"dimensions is 1099511627": head(1, 1, 0, 1<<40),
		"number of links is":       head(1, 1, 0, 1, one, 1<<40),
		"which is not there":       head(1, 1, 0, 1, one, 1, 7),
		"key 0 twice":              head(1, 2, 0, 1, one, 0, 0),
		"data after the graph":     head(1, 1, 0, 1, one, 0, 5),
		"all zeros":                head(1, 1, 0, 1, make([]byte, 4), 0),
		"not in the lowest layer":  head(2, 1, 0, 1, one, 0, 1, 4, 1, one, 0),
	} {
		_, _, err := ImportCoder(bytes.NewReader(data), true)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, expected an error with %q", err, want)
		}
	}
}
