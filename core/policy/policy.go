package policy

import (
	"context"
	"fmt"
	"sync"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/forage-rl/forage/core/policy/checkpoint"
)

// Options says where a policy runs.
type Options struct {
	Backend *Backend // nil: a backend of its own, the default one, closed with the policy
	DType   string   // of weights and computation: "float32" (default) or "float64"
}

// Policy is a language model whose weights can be sampled from and trained. Its methods are safe for concurrent use;
// what runs while the weights are updated finishes on the version it began with.
type Policy struct {
	backend    *Backend
	ownBackend bool
	model      *model
	programs   programs
	mostKept   int               // see [mostKept]
	tokenizer  map[string][]byte // the tokenizer's files of the folder the policy was loaded from, which may be gone later

	mu        sync.Mutex
	weights   *weightSet
	reference *weightSet // nil until Snapshot
}

// New makes a policy with freshly drawn weights.
func New(config checkpoint.Config, init Init, options Options) (*Policy, error) {
	return build(config, options, func(spec weightSpec) ([]float32, error) {
		sizes := map[string]int{}
		for _, p := range spec.parts {
			sizes[p.name] = spec.size() / spec.dims[len(spec.dims)-1] * p.width
		}
		byName := map[string]part{}
		for _, p := range spec.parts {
			byName[p.name] = p
		}
		return spec.gather(func(name string) ([]float32, error) { return init.draw(byName[name], sizes[name]), nil })
	})
}

func build(config checkpoint.Config, options Options, values func(weightSpec) ([]float32, error)) (_ *Policy, err error) {
	dtype := dtypes.Float32
	switch options.DType {
	case "", "float32":
	case "float64":
		dtype = dtypes.Float64
	default:
		return nil, fmt.Errorf("policy: computing in %q is %w: use \"float32\"", options.DType, ErrNotSupported)
	}
	if config.Heads <= 0 || config.KVHeads <= 0 || config.Heads%config.KVHeads != 0 || config.HeadDim%2 != 0 ||
		config.Layers <= 0 || config.VocabSize <= 0 || config.HiddenSize <= 0 || config.IntermediateSize <= 0 || config.MaxPositions <= 0 {
		return nil, fmt.Errorf("policy: configuration has impossible sizes: %+v", config)
	}
	p := &Policy{backend: options.Backend, mostKept: mostKept}
	if p.backend == nil {
		if p.backend, err = OpenBackend(""); err != nil {
			return nil, err
		}
		p.ownBackend = true
		defer func() {
			if err != nil {
				_ = p.backend.Close() // the first error is the one to report
			}
		}()
	}
	p.model = &model{config: config, layout: newLayout(config), dtype: dtype, fused: p.backend.fused}
	var list []*tensors.Tensor
	for _, spec := range p.model.layout.specs {
		flat, err := values(spec)
		if err != nil {
			return nil, err
		}
		t, err := p.backend.uploadFloats(dtype, flat, spec.dims...)
		if err != nil {
			return nil, err
		}
		list = append(list, t)
	}
	p.weights = newWeightSet(list, 1)
	return p, nil
}

// Config is the model's configuration.
func (p *Policy) Config() checkpoint.Config { return p.model.config }

// Backend is what the policy runs on.
func (p *Policy) Backend() *Backend { return p.backend }

// Parameters counts the weights.
func (p *Policy) Parameters() int {
	n := 0
	for _, s := range p.model.layout.specs {
		n += s.size()
	}
	return n
}

// Version counts the updates of the weights, starting at 1.
func (p *Policy) Version() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.weights.version
}

// Snapshot keeps the present weights as the reference, replacing an earlier one. It costs no memory until the
// weights are next updated.
func (p *Policy) Snapshot() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := p.reference
	p.reference = p.weights.retain()
	if old != nil {
		return old.release()
	}
	return nil
}

// Close frees the weights and, if the policy opened it, the backend. Sessions and trainers of the policy are invalid
// afterwards.
func (p *Policy) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.weights == nil {
		return nil
	}
	err := p.weights.release()
	if p.reference != nil {
		if e := p.reference.release(); err == nil {
			err = e
		}
	}
	p.weights, p.reference = nil, nil
	p.programs.close()
	if p.ownBackend {
		if e := p.backend.Close(); err == nil {
			err = e
		}
	}
	return err
}

// acquire takes hold of the present weights; the caller releases them.
func (p *Policy) acquire() (*weightSet, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.weights == nil {
		return nil, fmt.Errorf("policy: used after Close")
	}
	return p.weights.retain(), nil
}

func (p *Policy) acquireReference() (*weightSet, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reference == nil {
		return nil, fmt.Errorf("policy: no reference weights: call Snapshot at the start of the stage")
	}
	return p.reference.retain(), nil
}

// replace installs new weights.
func (p *Policy) replace(list []*tensors.Tensor) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.weights == nil {
		return fmt.Errorf("policy: used after Close")
	}
	old := p.weights
	p.weights = newWeightSet(list, old.version+1)
	return old.release()
}

func checkContext(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("policy: %w", context.Cause(ctx))
	}
	return nil
}
