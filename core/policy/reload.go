package policy

import (
	"context"
	"errors"
	"fmt"

	"github.com/gomlx/gomlx/core/tensors"
)

// LoadWeights replaces the weights by those of a model folder of the same architecture. Optimizer states of trainers
// are not touched.
func (p *Policy) LoadWeights(ctx context.Context, dir string) error {
	list, err := p.uploadFolder(ctx, dir)
	if err != nil {
		return fmt.Errorf("load weights: %w", err)
	}
	return p.replace(list)
}

// uploadFolder reads the weights of a model folder that must have the policy's architecture.
func (p *Policy) uploadFolder(ctx context.Context, dir string) ([]*tensors.Tensor, error) {
	if err := checkContext(ctx); err != nil {
		return nil, err
	}
	config, values, err := readWeights(dir)
	if err != nil {
		return nil, err
	}
	var list []*tensors.Tensor
	other := newLayout(config)
	for i, spec := range p.model.layout.specs {
		if len(other.specs) != len(p.model.layout.specs) || other.specs[i].name != spec.name || fmt.Sprint(other.specs[i].dims) != fmt.Sprint(spec.dims) {
			return nil, errors.Join(fmt.Errorf("%s: its architecture is not the policy's (tensor %s differs)", dir, spec.name), finalize(list...))
		}
		flat, err := values(spec)
		if err != nil {
			return nil, errors.Join(err, finalize(list...))
		}
		t, err := p.backend.uploadFloats(p.model.dtype, flat, spec.dims...)
		if err != nil {
			return nil, errors.Join(err, finalize(list...))
		}
		list = append(list, t)
	}
	return list, nil
}

// Reconfigure changes the optimizer's settings and keeps its state; the schedule starts anew.
func (t *Trainer) Reconfigure(config OptimizerConfig) error {
	if err := config.complete(); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.config = config
	t.updates, t.origin = 0, t.steps
	return nil
}
