package run

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/forage-rl/forage/core/experiment"
	"github.com/forage-rl/forage/core/minihop"
	"github.com/forage-rl/forage/core/policy"
	"github.com/forage-rl/forage/core/policy/checkpoint"
	"github.com/forage-rl/forage/core/policy/tokenizer"
	"github.com/forage-rl/forage/core/record"
)

// tokenizerFiles are the files of a model folder that make its tokenizer.
var tokenizerFiles = []string{"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja", "generation_config.json"}

// initialise makes a model folder with drawn weights in the cache, addressed by all that decides it.
func initialise(in *experiment.Init, path func(string) string, cacheDir string, backend *policy.Backend) (string, error) {
	files, err := initialTokenizer(in.Tokenizer, path)
	if err != nil {
		return "", err
	}
	config, err := json.Marshal(in)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	sum.Write(config)
	for _, name := range sorted(files) {
		fmt.Fprintf(sum, "%s %d\n", name, len(files[name]))
		sum.Write(files[name])
	}
	from := ""
	if in.From != "" {
		if from, err = materialise(cacheDir, in.From); err != nil {
			return "", err
		}
		digest, err := checkpoint.Digest(from)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "from %s\n", digest)
	}
	dir := filepath.Join(cacheDir, "policies", "init-"+hex.EncodeToString(sum.Sum(nil))[:16])
	err = record.AtomicDir(dir, func(tmp string) error {
		for name, data := range files {
			if err := os.WriteFile(filepath.Join(tmp, name), data, 0o644); err != nil {
				return err
			}
		}
		if err := drawWeights(in, tmp, backend); err != nil || from == "" {
			return err
		}
		return takeOver(from, tmp)
	})
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("make a policy from random weights: %w", err)
	}
	return dir, nil
}

// initialTokenizer reads the files of the tokenizer that init names. Those of the built-in world are minihop or
// minihop/PROTOCOL, with /names behind it for worlds with names of two words.
func initialTokenizer(name string, path func(string) string) (map[string][]byte, error) {
	if protocol, ok := strings.CutPrefix(name, "minihop"); ok && (protocol == "" || protocol[0] == '/') {
		protocol, names := strings.CutSuffix(protocol, "/names")
		files, err := minihop.PolicyFiles(names, minihop.Protocol(strings.TrimPrefix(protocol, "/")))
		if err != nil {
			return nil, fmt.Errorf("tokenizer of init: %w", err)
		}
		delete(files, "config.json")
		return files, nil
	}
	files := map[string][]byte{}
	for _, file := range tokenizerFiles {
		data, err := os.ReadFile(filepath.Join(path(name), file))
		if errors.Is(err, fs.ErrNotExist) && file != "tokenizer.json" {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("tokenizer of init: %w", err)
		}
		files[file] = data
	}
	return files, nil
}

// drawWeights adds weights and config.json to a folder that holds a tokenizer.
func drawWeights(in *experiment.Init, dir string, backend *policy.Backend) error {
	tok, err := tokenizer.Load(dir)
	if err != nil {
		return err
	}
	vocabulary := in.VocabSize
	if vocabulary == 0 {
		vocabulary = tok.VocabSize()
	}
	if vocabulary < tok.VocabSize() {
		return fmt.Errorf("vocab_size is %d, the tokenizer has %d tokens", vocabulary, tok.VocabSize())
	}
	config := checkpoint.Config{
		ModelType: in.ModelType, HiddenSize: in.HiddenSize, Layers: in.Layers, Heads: in.Heads, KVHeads: in.KVHeads,
		HeadDim: in.HeadDim, IntermediateSize: in.IntermediateSize, VocabSize: vocabulary, MaxPositions: in.MaxPositions,
		RMSNormEps: in.RMSNormEps, RopeTheta: in.RopeTheta, TieWordEmbeddings: in.Tied, QKVBias: in.QKVBias, QKNorm: in.QKNorm,
		EOS: tok.EOS(), DType: checkpoint.Float32,
	}
	if id, ok := tok.BOS(); ok {
		config.BOS = &id
	}
	if id, ok := tok.Pad(); ok {
		config.Pad = &id
	}
	p, err := policy.New(config, policy.Init{
		Seed: uint64(in.Seed), Embedding: in.StdDev["embedding"], Query: in.StdDev["query"], Key: in.StdDev["key"],
		Value: in.StdDev["value"], Output: in.StdDev["output"], Gate: in.StdDev["gate"], Up: in.StdDev["up"],
		Down: in.StdDev["down"], Head: in.StdDev["head"], FinalNorm: in.FinalNorm,
	}, policy.Options{Backend: backend})
	if err != nil {
		return err
	}
	return errors.Join(p.Save(context.Background(), dir, checkpoint.Float32), p.Close())
}

// takeOver replaces the weights of a folder by those of another policy of the same shape. In the embedding and the head,
// which have a row per token, only the rows of tokens that both tokenizers have as words are replaced: control tokens of
// one model may mean something else to the other.
func takeOver(from, dir string) error {
	_, theirs, err := checkpoint.Load(from)
	if err != nil {
		return err
	}
	config, ours, err := checkpoint.Load(dir)
	if err != nil {
		return err
	}
	known, err := tokenizer.Load(from)
	if err != nil {
		return err
	}
	own, err := tokenizer.Load(dir)
	if err != nil {
		return err
	}
	load := func(spec checkpoint.TensorSpec) ([]float32, error) {
		other, ok := theirs[spec.Name]
		if !ok {
			return nil, fmt.Errorf("from: its policy has no %s; it must be of the same kind and number of layers", spec.Name)
		}
		mine := ours[spec.Name]
		if spec.Name != "model.embed_tokens.weight" && spec.Name != "lm_head.weight" {
			if !slices.Equal(other.Shape, mine.Shape) {
				return nil, fmt.Errorf("from: %s of its policy has the shape %v, this one's is %v; init must have its sizes", spec.Name, other.Shape, mine.Shape)
			}
			return other.Data, nil
		}
		width := mine.Shape[1]
		if other.Shape[1] != width {
			return nil, fmt.Errorf("from: the embedding of its policy is %d wide, this one's %d; init must have its sizes", other.Shape[1], width)
		}
		for id := range int32(own.VocabSize()) {
			there, ok := known.TokenID(own.Token(id))
			if ok && !own.IsSpecial(id) && !known.IsSpecial(there) {
				copy(mine.Data[int(id)*width:int(id+1)*width], other.Data[int(there)*width:int(there+1)*width])
			}
		}
		return mine.Data, nil
	}
	return checkpoint.WriteWeights(dir, config.Expected(), load, checkpoint.Float32, 0)
}
