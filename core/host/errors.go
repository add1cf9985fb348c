package host

import (
	"fmt"
	"time"

	"github.com/forage-rl/forage/core/sdk/diag"
)

// CrashError says that a plugin's process ended while it was needed.
type CrashError struct {
	Plugin string // the instance: stage.main.algorithm
	Pack   string // path of the binary
	Exit   string // "exit status 2", "signal: killed"
	Stderr string // the last 64 KiB of its messages
	// Spent is set when the process was restarted as often as its budget allows.
	Spent string
}

// shownLines is how much of the messages the error's text holds; the log has all.
const shownLines = 30

func (e *CrashError) Error() string {
	text := fmt.Sprintf("plugin %s (%s) crashed: %s", e.Plugin, e.Pack, e.Exit)
	if e.Spent != "" {
		text += "; " + e.Spent
	}
	if e.Stderr != "" {
		return text + "; its last messages:\n" + lastLines(e.Stderr, shownLines)
	}
	return text + "; it left no messages"
}

// StuckError says that a plugin did not answer, or that a step gave no sign of life, so that its process was ended.
type StuckError struct {
	Plugin string
	Method string
	After  time.Duration
	What   string // what was missing
}

func (e *StuckError) Error() string {
	return fmt.Sprintf("plugin %s: %s %s within %s, so its process was ended", e.Plugin, e.Method, e.What, e.After)
}

// Timeout lets callers treat it as other timeouts.
func (e *StuckError) Timeout() bool { return true }

// ConfigError holds the diagnostics by which a plugin refused its configuration.
type ConfigError struct {
	Plugin      string
	Diagnostics diag.Diagnostics
}

func (e *ConfigError) Error() string {
	return fmt.Sprintf("plugin %s refuses its configuration: %v", e.Plugin, e.Diagnostics.Err())
}
