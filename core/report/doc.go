// Package report turns the records of a study into tables, tests, figures and pages.
//
// It keeps two uncertainties apart. The primary table compares each cell with the baseline by one difference per seed
// and is the only place where the word "significant" appears. The table "these checkpoints only" tests over questions
// and speaks of the trained checkpoints at hand. Everything else describes. Comparisons are refused when the evaluated
// questions or golds differ; other differences of what the runs read are warnings unless the study declares them.
//
// [Load] reads the records, [Build] computes, and the methods Text, Markdown, CSV and HTML of [Report] render. Equal
// records give equal bytes: nothing is taken from the clock, and wall times can be left out.
//
// The package must not know the experiment language, how cells were planned or how runs execute: the caller says which
// runs make which cell.
package report
