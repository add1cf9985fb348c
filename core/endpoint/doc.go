// Package endpoint asks language models behind services that speak OpenAI's chat completions: vLLM, llama.cpp,
// SGLang, hosted ones.
//
// It owns requests and answers on the wire, time limits, repeated attempts, how many requests are under way at once,
// and the file of answers that lets work that was interrupted go on with the answers it has seen. The key is read from
// the environment and appears in no error, log or file. It must not know what the texts are for.
package endpoint
