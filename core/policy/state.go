package policy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/forage-rl/forage/core/policy/checkpoint"
)

// stateFile holds the state of a trainer in the folder given to SaveState.
const stateFile = "trainer.safetensors"

const (
	stateFormat   = "forage trainer state 1"
	prefixWeight  = "weight."
	prefixFirst   = "first."
	prefixSecond  = "second."
	counterSteps  = "optimizer_steps"
	counterUpdate = "updates"
	counterOrigin = "schedule_origin"
)

// SaveState writes everything that training needs to go on bit for bit: the weights in float32, both moments of the
// optimizer, and its counters. The reference is not in it (see [Policy.LoadReference]). The file appears whole or not
// at all.
func (t *Trainer) SaveState(ctx context.Context, dir string) (err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := checkContext(ctx); err != nil {
		return err
	}
	if t.p.model.dtype != dtypes.Float32 {
		return fmt.Errorf("save trainer state: computing in %s is %w here: use float32", t.p.model.dtype, ErrNotSupported)
	}
	weights, err := t.p.acquire()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, weights.release()) }()
	var list []checkpoint.Tensor
	for _, group := range []struct {
		prefix  string
		tensors []*tensors.Tensor
	}{{prefixWeight, weights.tensors}, {prefixFirst, t.moments.first}, {prefixSecond, t.moments.second}} {
		for i, spec := range t.p.model.layout.specs {
			flat, err := downloadFloats(group.tensors[i])
			if err != nil {
				return fmt.Errorf("save trainer state: %w", err)
			}
			list = append(list, checkpoint.Tensor{Name: group.prefix + spec.name, Shape: spec.dims, Data: flat})
		}
	}
	list = append(list,
		checkpoint.Tensor{Name: counterSteps, Shape: []int{1}, Ints: []int64{int64(t.steps)}},
		checkpoint.Tensor{Name: counterUpdate, Shape: []int{1}, Ints: []int64{int64(t.updates)}},
		checkpoint.Tensor{Name: counterOrigin, Shape: []int{1}, Ints: []int64{int64(t.origin)}})
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("save trainer state: %w", err)
	}
	return checkpoint.WriteTensors(filepath.Join(dir, stateFile), list, map[string]string{"format": stateFormat})
}

// LoadState takes up a state written by SaveState: it replaces the policy's weights, the moments and the counters.
// Policy and optimizer configuration are the caller's to make as they were. On an error nothing changes.
func (t *Trainer) LoadState(ctx context.Context, dir string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := checkContext(ctx); err != nil {
		return err
	}
	path := filepath.Join(dir, stateFile)
	fail := func(format string, args ...any) error {
		return fmt.Errorf("load trainer state %s: "+format, append([]any{path}, args...)...)
	}
	if t.p.model.dtype != dtypes.Float32 {
		return fail("computing in %s is %w here: use float32", t.p.model.dtype, ErrNotSupported)
	}
	list, metadata, err := checkpoint.ReadTensors(path)
	if err != nil {
		return fmt.Errorf("load trainer state: %w", err)
	}
	if metadata["format"] != stateFormat {
		return fail("its format is %q, expected %q", metadata["format"], stateFormat)
	}
	byName := map[string]checkpoint.Tensor{}
	for _, x := range list {
		byName[x.Name] = x
	}
	counter := func(name string) (int, error) {
		x := byName[name]
		if len(x.Ints) != 1 || x.Ints[0] < 0 {
			return 0, fail("counter %s is missing or wrong", name)
		}
		return int(x.Ints[0]), nil
	}
	var steps, updates, origin int
	for _, c := range []struct {
		name string
		to   *int
	}{{counterSteps, &steps}, {counterUpdate, &updates}, {counterOrigin, &origin}} {
		if *c.to, err = counter(c.name); err != nil {
			return err
		}
	}
	var made [3][]*tensors.Tensor
	for k, prefix := range []string{prefixWeight, prefixFirst, prefixSecond} {
		for _, spec := range t.p.model.layout.specs {
			x, ok := byName[prefix+spec.name]
			if !ok || !slices.Equal(x.Shape, spec.dims) || x.Data == nil {
				return errors.Join(fail("tensor %s of shape %v is missing: the state belongs to another model", prefix+spec.name, spec.dims),
					finalize(slices.Concat(made[:]...)...))
			}
			y, err := t.p.backend.uploadFloats(t.p.model.dtype, x.Data, spec.dims...)
			if err != nil {
				return fail("%w", err)
			}
			made[k] = append(made[k], y)
		}
	}
	if err := t.p.replace(made[0]); err != nil {
		return err
	}
	old := t.moments
	t.moments, t.steps, t.updates, t.origin = moments{made[1], made[2]}, steps, updates, origin
	return finalize(append(old.first, old.second...)...)
}
