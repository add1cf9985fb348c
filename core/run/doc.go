// Package run executes one run: one cell of a study with one seed. It opens what the configuration names, drives the
// stages, serves the host's services to the plugins from the parts below it, watches the guards, writes checkpoints
// and evaluates.
//
// It owns the order of things in a training step, the data cursor, the keys of random numbers, and what a checkpoint
// must hold so that a run that was killed goes on as if it had not been. It must not know other runs, arms or how
// results are compared.
package run
