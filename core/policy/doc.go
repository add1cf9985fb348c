// Package policy owns the language model of an experiment: its weights, sampling with a key-value cache, log-probabilities,
// and training from objectives given as data ([github.com/forage-rl/forage/core/sdk/objective]). A critic is a second
// network of the same body with a head of one number per token, trained likewise.
//
// Models are decoder-only transformers of the Llama family (pre-norm RMSNorm, rotary positions, SwiGLU, grouped-query
// attention, optional QKV bias and QK-norm, tied or untied head). Weights are parameters of every compiled graph, never
// constants in it, so that no graph can go on using the weights it was first built with.
//
// The package knows token ids, masks and numbers only. It must not know of text, prompts, tools, questions, rewards,
// plugins or runs.
package policy
