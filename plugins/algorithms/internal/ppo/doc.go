// Package ppo holds what methods built on a critic share: rewards on tokens, the divergence inside them, generalised
// advantage estimation and whitening.
//
// It is plain functions over numbers, and [Method], which asks the host for them. It must not know any one method's
// rewards or schedule. Arrays run over the response: one element for each token after the prompt, documents included.
package ppo
