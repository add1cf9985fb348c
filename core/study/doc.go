// Package study executes a plan: run after run, or several at a time, each once, with every step written down before
// it counts, so that a study that was killed goes on where it was.
//
// It owns the journal's events and which runs of a plan are due. It must not know what happens within a run nor how
// results are compared.
package study
