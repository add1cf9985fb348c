package experiment

import (
	"encoding/json"
	"io"

	"github.com/hashicorp/hcl/v2"
)

// WriteDiagnostics prints diagnostics with the lines they are about. color uses terminal escapes; width wraps, 0 not.
func (s *Study) WriteDiagnostics(w io.Writer, diags hcl.Diagnostics, width uint, color bool) error {
	return hcl.NewDiagnosticTextWriter(w, s.Files(), width, color).WriteDiagnostics(diags)
}

type jsonPosition struct {
	Line   int `json:"line"`
	Column int `json:"column"`
	Byte   int `json:"byte"`
}

type jsonRange struct {
	File  string       `json:"file"`
	Start jsonPosition `json:"start"`
	End   jsonPosition `json:"end"`
}

type jsonDiagnostic struct {
	Severity string     `json:"severity"`
	Summary  string     `json:"summary"`
	Detail   string     `json:"detail,omitempty"`
	Range    *jsonRange `json:"range,omitempty"`
}

// DiagnosticsJSON is the form for editors: {"valid": …, "errors": n, "warnings": n, "diagnostics": […]}.
func DiagnosticsJSON(diags hcl.Diagnostics) ([]byte, error) {
	out := struct {
		Valid       bool             `json:"valid"`
		Errors      int              `json:"errors"`
		Warnings    int              `json:"warnings"`
		Diagnostics []jsonDiagnostic `json:"diagnostics"`
	}{Valid: !diags.HasErrors(), Diagnostics: []jsonDiagnostic{}}
	for _, d := range diags {
		j := jsonDiagnostic{Severity: "error", Summary: d.Summary, Detail: d.Detail}
		if d.Severity == hcl.DiagWarning {
			j.Severity = "warning"
			out.Warnings++
		} else {
			out.Errors++
		}
		if d.Subject != nil {
			j.Range = &jsonRange{
				File:  d.Subject.Filename,
				Start: jsonPosition{d.Subject.Start.Line, d.Subject.Start.Column, d.Subject.Start.Byte},
				End:   jsonPosition{d.Subject.End.Line, d.Subject.End.Column, d.Subject.End.Byte},
			}
		}
		out.Diagnostics = append(out.Diagnostics, j)
	}
	data, err := json.MarshalIndent(out, "", "  ")
	return append(data, '\n'), err
}

// Unused warns of variables, locals and blocks that no run resolved so far uses. It is meant for after all runs have
// been resolved. Only files in the study's own folder are looked at: a method file may hold more than a study needs.
func (s *Study) Unused() hcl.Diagnostics {
	var diags hcl.Diagnostics
	if s.broken {
		return nil // what cannot be read may well use it
	}
	report := func(name string, at hcl.Range) {
		if s.used[name] || !s.own[at.Filename] {
			return
		}
		diags = append(diags, warningAt(at.Ptr(), "Unused block", "Nothing uses %s. Remove it, or refer to it.", name))
	}
	for name, v := range s.variables {
		report("var."+name, v.at)
	}
	for name, a := range s.locals {
		report("local."+name, a.at)
	}
	for _, kind := range blockKinds {
		for label, n := range s.blocks[kind] {
			if kind == "experiment" && n.attrs["seeds"] != nil {
				continue
			}
			report(kind+"."+label, n.def)
		}
	}
	return Tidy(diags)
}
