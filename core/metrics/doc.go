// Package metrics writes the numbers of a run as it goes: to metrics.jsonl, which reports read, and to TensorBoard event
// files, which people watch. It owns the format of the event files; the lines of metrics.jsonl belong to package record.
//
// Every call of Log is in the hands of the operating system when it returns, so a killed process loses nothing that was
// logged; [Sink.Sync], called with each checkpoint, also survives a power loss. NaN and the infinities are recorded as
// what they are (strings in JSON, floats in TensorBoard): a diverged loss must be visible, and must not end the run that
// reports it.
//
// The package must not know what the metrics mean nor when they are taken.
package metrics
