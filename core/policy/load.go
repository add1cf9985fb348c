package policy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/forage-rl/forage/core/policy/checkpoint"
)

// tokenizerFiles are copied from the folder a policy was loaded from to those it is saved to.
var tokenizerFiles = [...]string{
	"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "generation_config.json", "chat_template.jinja",
	"vocab.json", "merges.txt", "added_tokens.json",
}

// Load reads a Hugging Face model folder (config.json, safetensors weights).
func Load(ctx context.Context, dir string, options Options) (*Policy, error) {
	if err := checkContext(ctx); err != nil {
		return nil, err
	}
	config, values, err := readWeights(dir)
	if err != nil {
		return nil, fmt.Errorf("load policy: %w", err)
	}
	p, err := build(config, options, values)
	if err != nil {
		return nil, fmt.Errorf("load policy %s: %w", dir, err)
	}
	if p.tokenizer, err = readTokenizer(dir); err != nil {
		return nil, errors.Join(fmt.Errorf("load policy %s: %w", dir, err), p.Close())
	}
	return p, nil
}

// readWeights reads a folder and gives the values of our tensors from it.
func readWeights(dir string) (checkpoint.Config, func(weightSpec) ([]float32, error), error) {
	config, list, err := checkpoint.Load(dir)
	if err != nil {
		return config, nil, err
	}
	return config, func(spec weightSpec) ([]float32, error) {
		return spec.gather(func(name string) ([]float32, error) {
			t, ok := list[name]
			if !ok {
				return nil, fmt.Errorf("tensor %s is missing in %s", name, dir)
			}
			return t.Data, nil
		})
	}, nil
}

// LoadReference makes the weights of a model folder the reference, in place of a snapshot: for a run that resumes
// after its stage began, or whose reference is the base model. The model must have the policy's configuration.
func (p *Policy) LoadReference(ctx context.Context, dir string) error {
	list, err := p.uploadFolder(ctx, dir)
	if err != nil {
		return fmt.Errorf("load reference: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	old := p.reference
	p.reference = newWeightSet(list, 0)
	if old != nil {
		return old.release()
	}
	return nil
}

// Save writes a Hugging Face model folder: weights in dtype ("float32", bit for bit, or "bfloat16"), config.json, and
// the tokenizer's files of the folder the policy was loaded from. The folder is made if need be.
func (p *Policy) Save(ctx context.Context, dir, dtype string) (err error) {
	if err := checkContext(ctx); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("save policy %s: %w", dir, err)
		}
	}()
	weights, err := p.acquire()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, weights.release()) }()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	owner := map[string]int{} // Hugging Face name -> our tensor
	for i, spec := range p.model.layout.specs {
		for _, part := range spec.parts {
			owner[part.name] = i
		}
	}
	held, parts := -1, map[string][]float32{} // one of our tensors at a time
	err = checkpoint.WriteWeights(dir, p.model.config.Expected(), func(want checkpoint.TensorSpec) ([]float32, error) {
		i, known := owner[want.Name]
		if !known {
			return nil, fmt.Errorf("the model has no tensor %s", want.Name)
		}
		if i != held {
			flat, err := downloadFloats(weights.tensors[i])
			if err != nil {
				return nil, err
			}
			clear(parts)
			p.model.layout.specs[i].scatter(flat, func(name string, _ []int, values []float32) { parts[name] = values })
			held = i
		}
		return parts[want.Name], nil
	}, dtype, 0)
	if err != nil {
		return err
	}
	config := p.model.config
	config.DType = dtype
	if err := config.Write(dir); err != nil {
		return err
	}
	for name, data := range p.tokenizer {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			return fmt.Errorf("copy the tokenizer: %w", err)
		}
	}
	return nil
}

// readTokenizer reads those of the tokenizer's files that a folder has.
func readTokenizer(dir string) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, name := range tokenizerFiles {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read the tokenizer: %w", err)
		}
		files[name] = data
	}
	return files, nil
}
