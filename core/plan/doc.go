// Package plan turns a study into what has to be run: cells (arms with values of axes), runs (cells with seeds), their
// ids, and how they stand against the records.
//
// It owns the expansion of axes, the ids of runs, and the order of execution. It must not know how a run is executed, how
// plugins are started, or how results are compared.
package plan
