// Package record owns the files that a study leaves behind and how they survive a crash: the journal, the lock, the
// manifest of preconditions, the folders of runs, attempts and checkpoints, the lines of metrics and the result.
//
//	runs/<study>/journal.jsonl
//	runs/<study>/lock
//	runs/<study>/<run id>/lock  manifest.json  config.hcl  result.json
//	runs/<study>/<run id>/evaluations/<name>/questions.jsonl
//	runs/<study>/<run id>/attempt-N/attempt.json  metrics.jsonl  tensorboard/  episodes/  checkpoints/  logs/
//
// Two rules hold everywhere: a file or folder appears under its final name only when it is whole and on the disk, and
// a file of lines may end in a torn line, which readers skip and writers repair, while damage elsewhere is an error
// that names file and line.
//
// The package is a leaf. It must not know how a run is planned, executed, evaluated or reported; it holds no policy
// on when a run is stale or may be resumed, only the facts from which others decide.
package record
