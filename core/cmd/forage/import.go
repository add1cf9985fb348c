package main

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/forage-rl/forage/core/policy/checkpoint"
)

func (a *app) importCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "import",
		Short:   "Turn files of other programs into what forage reads",
		Example: "  forage import gguf qwen2.5-0.5b.gguf models/qwen2.5-0.5b",
	}
	var dtype string
	gguf := &cobra.Command{
		Use:   "gguf FILE DIR",
		Short: "Turn a GGUF file into a model folder in the format of Hugging Face",
		Long: `Write DIR with config.json, weights in safetensors and the tokenizer, from a GGUF
file. Quantised weights are dequantised. DIR must be absent or empty; it appears
when everything is in it.`,
		Example: "  forage import gguf smollm2-135m.gguf models/smollm2-135m --dtype bfloat16",
		Args:    arguments(2, 2),
		RunE: func(_ *cobra.Command, args []string) error {
			p := newPainter(a)
			defer p.close()
			err := checkpoint.ImportGGUF(args[0], args[1], dtype, func(done, total int) {
				p.task("import", "writing tensors", done, total)
			})
			p.close()
			if err != nil {
				return err
			}
			config, err := checkpoint.ReadConfig(args[1])
			if err != nil {
				return err
			}
			fmt.Fprintf(a.out, "%s: %s, %d layers of width %d, %d tokens\nUse it with: policy \"%s\" { path = %q }\n",
				args[1], config.ModelType, config.Layers, config.HiddenSize, config.VocabSize, "model", filepath.ToSlash(args[1]))
			return nil
		},
	}
	gguf.Flags().StringVar(&dtype, "dtype", checkpoint.Float32, "number type of the written weights: float32 or bfloat16")
	return group(c, gguf)
}
