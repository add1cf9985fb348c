// Package checkpoint reads and writes Hugging Face model folders: config.json, safetensors weights (single file or
// sharded) and, from a GGUF file, the whole folder with its tokenizer.
//
// It owns the file formats, the names and shapes of the tensors that a configuration calls for, and the rule that
// nothing half-written ever lies under a final name. It must not know how a model is computed, trained or sampled,
// nor what a tokenizer does with its file.
package checkpoint
