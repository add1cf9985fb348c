package checkpoint

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	weightsFile = "model.safetensors"
	indexFile   = "model.safetensors.index.json"
)

// DefaultMaxShard is the size at which the transformers library starts a new file.
const DefaultMaxShard = 5 << 30

// indexJSON is model.safetensors.index.json.
type indexJSON struct {
	Metadata  map[string]any    `json:"metadata"`
	WeightMap map[string]string `json:"weight_map"`
}

// weightFiles lists the safetensors files of a folder and, where it is sharded, which tensor lies in which.
func weightFiles(dir string) (files []string, weightMap map[string]string, err error) {
	path := filepath.Join(dir, indexFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		single := filepath.Join(dir, weightsFile)
		if _, err := os.Stat(single); err != nil {
			return nil, nil, fmt.Errorf("model folder %s holds neither %s nor %s: %w", dir, weightsFile, indexFile, err)
		}
		return []string{single}, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read model folder: %w", err)
	}
	var index indexJSON
	if err := json.Unmarshal(data, &index); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", withLine(path, data, err), err)
	}
	if len(index.WeightMap) == 0 {
		return nil, nil, fmt.Errorf("%s: weight_map is missing or empty", path)
	}
	for name, file := range index.WeightMap {
		// A name with a folder could point anywhere on the machine.
		if file == "" || file != filepath.Base(file) || file == "." || file == ".." {
			return nil, nil, fmt.Errorf("%s: tensor %q lies in %q: expected a file name in the same folder", path, name, file)
		}
	}
	for _, file := range slices.Compact(slices.Sorted(maps.Values(index.WeightMap))) {
		files = append(files, filepath.Join(dir, file))
	}
	return files, index.WeightMap, nil
}

// ReadWeights gives the tensors of a model folder one at a time, file by file, in the order of each file. want, where
// not nil, chooses by name. F32, F16 and BF16 are read, as float32. After an error nothing follows.
func ReadWeights(dir string, want func(name string) bool) iter.Seq2[Tensor, error] {
	return func(yield func(Tensor, error) bool) {
		files, weightMap, err := weightFiles(dir)
		if err != nil {
			yield(Tensor{}, err)
			return
		}
		for _, path := range files {
			if !readFile(path, weightMap, want, yield) {
				return
			}
		}
	}
}

func readFile(path string, weightMap map[string]string, want func(string) bool, yield func(Tensor, error) bool) bool {
	f, h, err := openTensors(path)
	if err != nil {
		yield(Tensor{}, err)
		return false
	}
	defer f.Close()
	base := filepath.Base(path)
	for name, file := range weightMap {
		if _, ok := h.tensors[name]; file == base && !ok {
			yield(Tensor{}, fmt.Errorf("%s: tensor %q is missing, though %s says that it is there", path, name, indexFile))
			return false
		}
	}
	for _, name := range h.names() {
		if weightMap != nil && weightMap[name] != base {
			continue // the index decides, as in the transformers library
		}
		if want != nil && !want(name) {
			continue
		}
		if h.tensors[name].dtype == "I64" {
			yield(Tensor{}, fmt.Errorf("%s: tensor %q has dtype I64: weights are F32, F16 or BF16", path, name))
			return false
		}
		t, err := h.read(f, name)
		if !yield(t, err) || err != nil {
			return false
		}
	}
	return true
}

// Check compares the headers of the weight files with what the configuration calls for, without reading any value. A
// missing or misshapen tensor is an error with its name, the expected shape and the file. Tensors of the decoder that
// the configuration does not call for are errors too: they mean that config.json belongs to another model.
func (c Config) Check(dir string) error {
	if err := c.Validate(); err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(dir, ConfigFile), err)
	}
	files, weightMap, err := weightFiles(dir)
	if err != nil {
		return err
	}
	type found struct {
		file  string
		dtype string
		shape []int
	}
	have := make(map[string]found)
	for _, path := range files {
		f, h, err := openTensors(path)
		if err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return fmt.Errorf("close %s: %w", path, err)
		}
		for name, e := range h.tensors {
			if weightMap == nil || weightMap[name] == filepath.Base(path) {
				have[name] = found{path, e.dtype, e.shape}
			}
		}
	}
	for _, spec := range c.Expected() {
		t, ok := have[spec.Name]
		if !ok {
			where := files[0]
			if file, ok := weightMap[spec.Name]; ok {
				where = filepath.Join(dir, file)
			} else if weightMap != nil {
				where = filepath.Join(dir, indexFile)
			}
			return fmt.Errorf("%s: tensor %q of shape %v is missing: %s calls for it; take both files anew, from one model", where, spec.Name, spec.Shape, ConfigFile)
		}
		if !slices.Equal(t.shape, spec.Shape) {
			return fmt.Errorf("%s: tensor %q has shape %v, %s calls for %v; take both files anew, from one model", t.file, spec.Name, t.shape, ConfigFile, spec.Shape)
		}
		if !slices.Contains([]string{"F32", "F16", "BF16"}, t.dtype) {
			return fmt.Errorf("%s: tensor %q has dtype %s (supported: F32, F16, BF16)", t.file, spec.Name, t.dtype)
		}
		delete(have, spec.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(have)) {
		tied := name == "lm_head.weight" && c.TieWordEmbeddings // some folders store the tied head again
		inverse := strings.HasSuffix(name, ".rotary_emb.inv_freq")
		if (strings.HasPrefix(name, "model.") || name == "lm_head.weight" || name == "lm_head.bias") && !tied && !inverse {
			return fmt.Errorf("%s: tensor %q of shape %v is not part of a %s model of this configuration: does %s belong to it?",
				have[name].file, name, have[name].shape, c.ModelType, ConfigFile)
		}
	}
	return nil
}

// Load reads config.json and every tensor that it calls for, checked. A folder with a second head (a critic's, say)
// may hold more: [ReadWeights] reads those.
func Load(dir string) (Config, map[string]Tensor, error) {
	c, err := ReadConfig(dir)
	if err != nil {
		return Config{}, nil, err
	}
	if err := c.Check(dir); err != nil {
		return Config{}, nil, err
	}
	specs := c.Expected()
	wanted := make(map[string]bool, len(specs))
	for _, s := range specs {
		wanted[s.Name] = true
	}
	tensors := make(map[string]Tensor, len(specs))
	for t, err := range ReadWeights(dir, func(name string) bool { return wanted[name] }) {
		if err != nil {
			return Config{}, nil, err
		}
		tensors[t.Name] = t
	}
	return c, tensors, nil
}

// WriteWeights writes the tensors named by specs as model.safetensors, or as shards of at most maxShard bytes with an
// index where they do not fit one file (maxShard <= 0: DefaultMaxShard; a single tensor may exceed it). load gives the
// values of one tensor, row-major; it is called once for each spec, in order, and only its result is held in memory.
// dtype is Float32 (bit for bit) or BFloat16 (nearest, ties to even).
//
// All files are written and synced under temporary names before the first is renamed. Where dir held weights in
// shards, their index goes first: a crash in between leaves a folder that does not load, never a mixture.
func WriteWeights(dir string, specs []TensorSpec, load func(TensorSpec) ([]float32, error), dtype string, maxShard int64) (err error) {
	code, ok := map[string]string{Float32: "F32", BFloat16: "BF16"}[dtype]
	if !ok {
		return fmt.Errorf("write weights: dtype %q is not supported (supported: %s, %s)", dtype, Float32, BFloat16)
	}
	if len(specs) == 0 {
		return errors.New("write weights: no tensors")
	}
	if maxShard <= 0 {
		maxShard = DefaultMaxShard
	}
	shards, total, err := planShards(specs, code, maxShard)
	if err != nil {
		return fmt.Errorf("write weights: %w", err)
	}
	var temps []string
	defer func() {
		if err != nil {
			for _, t := range temps {
				_ = os.Remove(t) // those already renamed are gone; the write's own error is the one to report
			}
		}
	}()
	names := make([]string, len(shards))
	weightMap := make(map[string]string, len(specs))
	for i, shard := range shards {
		names[i] = weightsFile
		if len(shards) > 1 {
			names[i] = fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, len(shards))
		}
		tmp, err := writeTemp(filepath.Join(dir, names[i]), func(w io.Writer) error {
			return writeFile(w, shard, map[string]string{"format": "pt"}, func(k int) (Tensor, error) {
				data, err := load(TensorSpec{Name: shard[k].name, Shape: shard[k].shape})
				return Tensor{Data: data}, err
			})
		})
		if err != nil {
			return err
		}
		temps = append(temps, tmp)
		for _, p := range shard {
			weightMap[p.name] = names[i]
		}
	}
	old, _, oldErr := weightFiles(dir) // an unreadable old index is replaced like any other
	index := filepath.Join(dir, indexFile)
	if err := os.Remove(index); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("write weights: %w", err)
	}
	for i, tmp := range temps {
		if err := os.Rename(tmp, filepath.Join(dir, names[i])); err != nil {
			return fmt.Errorf("write weights: %w", err)
		}
	}
	if len(shards) > 1 {
		if err := writeJSON(index, indexJSON{Metadata: map[string]any{"total_size": total}, WeightMap: weightMap}); err != nil {
			return err
		}
	}
	if oldErr == nil {
		for _, path := range old {
			if slices.Contains(names, filepath.Base(path)) {
				continue
			}
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("remove old weights: %w", err)
			}
		}
	}
	return syncDir(dir)
}

// planShards fills one file after the other and gives the bytes of all tensors together.
func planShards(specs []TensorSpec, code string, maxShard int64) (shards [][]planned, total int64, err error) {
	seen := make(map[string]bool, len(specs))
	used := int64(0)
	for _, s := range specs {
		if seen[s.Name] {
			return nil, 0, fmt.Errorf("tensor %q is named twice", s.Name)
		}
		seen[s.Name] = true
		p := planned{name: s.Name, dtype: code, shape: s.Shape}
		n, err := p.elements()
		if err != nil {
			return nil, 0, err
		}
		size := n * dtypeSize(code)
		if len(shards) == 0 || used+size > maxShard && used > 0 {
			shards, used = append(shards, nil), 0
		}
		last := len(shards) - 1
		shards[last] = append(shards[last], p)
		used += size
		total += size
	}
	return shards, total, nil
}

// Digest is the SHA-256, in hexadecimal, of everything in a model folder that changes what the model computes or
// reads: configuration, weights and tokenizer files, each with its name.
func Digest(dir string) (string, error) {
	files, weightMap, err := weightFiles(dir)
	if err != nil {
		return "", fmt.Errorf("digest: %w", err)
	}
	if weightMap != nil {
		files = append(files, filepath.Join(dir, indexFile))
	}
	files = append(files, filepath.Join(dir, ConfigFile))
	for _, name := range []string{
		"generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja",
	} {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil {
			files = append(files, path)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("digest: %w", err)
		}
	}
	slices.Sort(files)
	all := sha256.New()
	for _, path := range files {
		sum, err := fileDigest(path)
		if err != nil {
			return "", fmt.Errorf("digest: %w", err)
		}
		fmt.Fprintf(all, "%s %s\n", sum, filepath.Base(path))
	}
	return hex.EncodeToString(all.Sum(nil)), nil
}

func fileDigest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
