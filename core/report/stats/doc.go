// Package stats holds the statistics of a report as plain functions on numbers.
//
// A study has few seeds and many questions, and the two are different uncertainties. Tests over seeds ([AcrossSeeds])
// speak about a method trained anew; tests over questions ([SignFlip], [McNemar]) speak about the checkpoints at hand.
// Nothing here mixes them, but for the intervals drawn in figures ([CrossedBootstrap]), which show both.
//
// Where a number does not exist (too few seeds, no spread) a function says so by its type and never returns a made-up
// value. Random draws come from keys, so equal data gives equal results. The package must not know what the numbers
// mean: no runs, arms or metrics.
package stats
