// Package grpo holds what methods built on group-relative advantages share: the advantages, the sampling of groups,
// the samples to train on, the terms of the loss and the size of mini-batches.
//
// It is plain functions over numbers and episodes. It must not know any one method's rewards or schedule.
package grpo
