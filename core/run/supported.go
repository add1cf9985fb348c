package run

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/forage-rl/forage/core/evaluation"
	"github.com/forage-rl/forage/core/experiment"
	"github.com/forage-rl/forage/core/internal/suggest"
)

// Unsupported lists what a configuration asks for that the language knows but this version does not carry out, with its
// places, so that a study learns it before its first run. It is the only place that says so: whatever is carried out
// from now on is to be taken out here.
func Unsupported(config *experiment.Run) hcl.Diagnostics {
	var diags hcl.Diagnostics
	add := func(at hcl.Range, format string, args ...any) {
		diags = append(diags, &hcl.Diagnostic{
			Severity: hcl.DiagError, Summary: "Not supported", Detail: fmt.Sprintf(format, args...), Subject: at.Ptr(),
		})
	}
	for _, handle := range sorted(config.Corpora) {
		if c := config.Corpora[handle]; c.Limit > 0 && c.Builtin != "" {
			add(c.Range, "%s: a built-in corpus is generated whole; remove limit.", handle)
		}
	}
	for _, handle := range sorted(config.Indexes) {
		switch x := config.Indexes[handle]; {
		case x.Remote != nil:
			add(x.Range, "%s: indexes in a database are not supported by this version; use hnsw, flat or bm25.", handle)
		case x.Encoder != nil && x.Encoder.Kind != "hashed":
			add(x.Encoder.Range, "%s: only encoders of kind \"hashed\" are supported by this version.", x.Encoder.Handle)
		}
	}
	for _, role := range sorted(config.Policies) {
		if p := config.Policies[role]; p.LoRA != nil {
			add(p.Range, "%s: low-rank adapters are not supported by this version; remove lora.", p.Handle)
		}
	}
	for i, s := range config.Stages {
		if s.OptimizerState == "keep" && i > 0 && len(config.Stages[i-1].Produce) > 0 {
			add(s.Range, "stage.%s: the state of an optimizer is not kept over a stage that produces artefacts; remove optimizer_state, or put the stage that produces elsewhere.", s.Name)
		}
	}
	for _, e := range config.Evaluations {
		diags = append(diags, unmeasured(e)...)
		if e.Dataset != nil && usesArtefact(e.Dataset) {
			add(e.Range, "evaluate.%s: evaluations on artefacts of the run itself are not supported by this version; use a dataset that exists before the run.", e.Name)
		}
	}
	return diags
}

// unmeasured refuses metrics that no evaluation measures.
func unmeasured(e *experiment.Evaluation) hcl.Diagnostics {
	var known []string
	for _, m := range evaluation.Metrics() {
		known = append(known, m.Name)
	}
	var diags hcl.Diagnostics
	for _, name := range e.Metrics {
		if slices.Contains(known, name) {
			continue
		}
		hint := ""
		if near := suggest.Nearest(name, known); near != "" {
			hint = fmt.Sprintf(" Did you mean %q?", near)
		}
		diags = append(diags, &hcl.Diagnostic{
			Severity: hcl.DiagError, Summary: "Unknown metric", Subject: e.Range.Ptr(),
			Detail: fmt.Sprintf("evaluate.%s asks for the metric %q, which no evaluation measures.%s There are %s.", e.Name, name, hint, strings.Join(known, ", ")),
		})
	}
	return diags
}

// supported refuses what [Unsupported] lists.
func supported(config *experiment.Run) error {
	if diags := Unsupported(config); diags.HasErrors() {
		return diags
	}
	return nil
}
