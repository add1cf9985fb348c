// Command embed puts a trained policy of the embedded world into the repository, in bfloat16:
//
//	go run ./core/minihop/embed RUN/attempt-1/checkpoints/step-001200/policy core/minihop/policies/habit.safetensors
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/forage-rl/forage/core/policy/checkpoint"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: embed MODEL_FOLDER FILE.safetensors")
		os.Exit(2)
	}
	if err := embed(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "embed:", err)
		os.Exit(1)
	}
}

func embed(folder, file string) error {
	config, tensors, err := checkpoint.Load(folder)
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "forage-embed")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	load := func(spec checkpoint.TensorSpec) ([]float32, error) { return tensors[spec.Name].Data, nil }
	if err := checkpoint.WriteWeights(tmp, config.Expected(), load, checkpoint.BFloat16, 1<<30); err != nil {
		return err
	}
	data, err := os.ReadFile(filepath.Join(tmp, "model.safetensors"))
	if err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o644)
}
