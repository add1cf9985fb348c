// Package diag holds diagnostics: what is wrong, where in the configuration, and what to do about it.
//
// It is a leaf: plugins return diagnostics with a path into their own configuration, and the host turns the path
// into a place in a file. It must not know files, HCL or any wire format.
package diag

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Severity says whether a diagnostic stops the run.
type Severity uint8

const (
	// Error stops the run before it starts.
	Error Severity = iota + 1
	// Warning is shown and the run goes on.
	Warning
)

func (s Severity) String() string {
	if s == Warning {
		return "warning"
	}
	return "error"
}

// Step is one step of a path: an attribute or block type (Attr), an element of a list (Index), or a key of a map or
// the label of a block (Key). Exactly one kind is set.
type Step struct {
	Attr  string
	Key   string
	Index int
}

// Path leads from a plugin's configuration block to the value a diagnostic is about. Empty means the block.
type Path []Step

// Attr is the path of a top-level attribute.
func Attr(name string) Path { return Path{{Attr: name}} }

// Attr extends the path by an attribute.
func (p Path) Attr(name string) Path { return append(slices.Clip(p), Step{Attr: name}) }

// Index extends the path by a list index.
func (p Path) Index(i int) Path { return append(slices.Clip(p), Step{Index: i}) }

// Key extends the path by a map key or block label.
func (p Path) Key(k string) Path { return append(slices.Clip(p), Step{Key: k}) }

func (p Path) String() string {
	var b strings.Builder
	for i, s := range p {
		switch {
		case s.Attr != "":
			if i > 0 {
				b.WriteByte('.')
			}
			b.WriteString(s.Attr)
		case s.Key != "":
			fmt.Fprintf(&b, "[%q]", s.Key)
		default:
			fmt.Fprintf(&b, "[%d]", s.Index)
		}
	}
	return b.String()
}

// Diagnostic is one finding. Summary is a short noun phrase without file names; Detail is whole sentences that say
// what was got, what is allowed and what to do.
type Diagnostic struct {
	Severity Severity
	Summary  string
	Detail   string
	Path     Path
}

func (d Diagnostic) String() string {
	s := d.Summary
	if len(d.Path) > 0 {
		s = d.Path.String() + ": " + s
	}
	if d.Detail != "" {
		s += ": " + d.Detail
	}
	return s
}

// Diagnostics collects findings; the zero value is ready to use.
type Diagnostics []Diagnostic

// Errorf adds an error about the value at path.
func (ds *Diagnostics) Errorf(path Path, summary, detail string, args ...any) {
	*ds = append(*ds, Diagnostic{Severity: Error, Summary: summary, Detail: fmt.Sprintf(detail, args...), Path: path})
}

// Warnf adds a warning about the value at path.
func (ds *Diagnostics) Warnf(path Path, summary, detail string, args ...any) {
	*ds = append(*ds, Diagnostic{Severity: Warning, Summary: summary, Detail: fmt.Sprintf(detail, args...), Path: path})
}

// HasErrors says whether any finding is an error.
func (ds Diagnostics) HasErrors() bool {
	for _, d := range ds {
		if d.Severity == Error {
			return true
		}
	}
	return false
}

// Err is nil without errors, else an error that lists them.
func (ds Diagnostics) Err() error {
	if !ds.HasErrors() {
		return nil
	}
	var lines []string
	for _, d := range ds {
		if d.Severity == Error {
			lines = append(lines, d.String())
		}
	}
	return errors.New(strings.Join(lines, "; "))
}
