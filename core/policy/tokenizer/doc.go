// Package tokenizer turns text into token ids and back, as the tokenizer.json of a Hugging Face model folder says.
//
// It owns the file format, the two kinds of model it supports (byte-level BPE; WordLevel over white space), the chat
// template, and the rule that text from outside never becomes a control token: every span of text carries whether it
// is trusted, and only trusted spans are searched for added and special tokens. Anything in a file that would change
// ids and is not supported is refused when the file is loaded.
//
// It must not know how a model is computed or stored, nor what an episode is.
package tokenizer
