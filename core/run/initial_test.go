package run

import (
	"slices"
	"strings"
	"testing"

	"github.com/forage-rl/forage/core/experiment"
	"github.com/forage-rl/forage/core/policy"
	"github.com/forage-rl/forage/core/policy/checkpoint"
	"github.com/forage-rl/forage/core/policy/tokenizer"
)

// TestInitialiseFrom: words keep their embeddings under whatever id they have now, all other weights are taken over, and
// tokens that only one of the tokenizers has, or that control it, are drawn.
func TestInitialiseFrom(t *testing.T) {
	backend, err := policy.OpenBackend("")
	if err != nil {
		t.Fatal(err)
	}
	in := &experiment.Init{
		Seed: 1, Tokenizer: "minihop/fields", ModelType: "llama", HiddenSize: 64, Layers: 3, Heads: 4, KVHeads: 4, HeadDim: 16,
		IntermediateSize: 128, MaxPositions: 320, RMSNormEps: 1e-6, RopeTheta: 10000, Tied: true, FinalNorm: .25,
		StdDev: map[string]float64{"embedding": .2, "query": .1, "key": .1, "value": .1, "output": .1, "gate": .1, "up": .1, "down": .1},
	}
	cache := t.TempDir()
	make := func(from string) (map[string]checkpoint.Tensor, *tokenizer.Tokenizer) {
		t.Helper()
		in.From = from
		dir, err := initialise(in, nil, cache, backend)
		if err != nil {
			t.Fatal(err)
		}
		_, tensors, err := checkpoint.Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		tok, err := tokenizer.Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		return tensors, tok
	}
	drawn, _ := make("")
	taken, tok := make("minihop/habit")
	folder, err := materialise(cache, "minihop/habit")
	if err != nil {
		t.Fatal(err)
	}
	_, theirs, err := checkpoint.Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	known, err := tokenizer.Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	for name, tensor := range taken {
		if name != "model.embed_tokens.weight" && !slices.Equal(tensor.Data, theirs[name].Data) {
			t.Errorf("%s is not the other policy's", name)
		}
	}
	row := func(tensors map[string]checkpoint.Tensor, id int32) []float32 {
		return tensors["model.embed_tokens.weight"].Data[64*id : 64*(id+1)]
	}
	shared := 0
	for id := range int32(tok.VocabSize()) {
		want := row(drawn, id)
		if there, ok := known.TokenID(tok.Token(id)); ok && !tok.IsSpecial(id) {
			want = row(theirs, there)
			shared++
		}
		if !slices.Equal(row(taken, id), want) {
			t.Errorf("the embedding of %q is another", tok.Token(id))
		}
	}
	if shared < 190 {
		t.Errorf("%d words are shared", shared)
	}
	in.Layers, in.From = 2, "minihop/habit"
	if _, err := initialise(in, nil, cache, backend); err != nil {
		t.Errorf("the first two layers can be taken over: %v", err)
	}
	in.IntermediateSize = 96
	if _, err := initialise(in, nil, cache, backend); err == nil || !strings.Contains(err.Error(), "init must have its sizes") {
		t.Errorf("got %v", err)
	}
}
