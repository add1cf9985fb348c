package main

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"

	"github.com/forage-rl/forage/core/experiment"
	"github.com/forage-rl/forage/core/plan"
)

// unsupportedBy lists what a configuration asks for that the language knows but this version does not carry out, so that
// a study learns it before its first run and not run by run. Package run refuses the same: what it learns to do is to be
// taken out here.
func unsupportedBy(config *experiment.Run) hcl.Diagnostics {
	var diags hcl.Diagnostics
	add := func(at hcl.Range, format string, args ...any) {
		diags = append(diags, &hcl.Diagnostic{
			Severity: hcl.DiagError, Summary: "Not supported", Detail: fmt.Sprintf(format, args...), Subject: at.Ptr(),
		})
	}
	agent := func(a *experiment.Agent) {
		switch {
		case a == nil:
		case a.Protocol.Kind != "tags":
			add(a.Range, "Protocol %q is not supported by this version; use protocol \"tags\".", a.Protocol.Kind)
		case len(a.Protocol.Tags.Calls) > 0:
			add(a.Range, "Tags of their own for several tools (calls) are not supported by this version; use call.")
		}
	}
	for _, handle := range sortedKeys(config.Corpora) {
		if c := config.Corpora[handle]; c.Limit > 0 && c.Builtin == "" {
			add(c.Range, "limit on a corpus is not supported by this version; make a smaller file.")
		}
	}
	for _, handle := range sortedKeys(config.Indexes) {
		switch x := config.Indexes[handle]; {
		case x.Flat != nil || x.Remote != nil:
			add(x.Range, "%s: only hnsw and bm25 indexes are supported by this version.", handle)
		case x.HNSW != nil && x.Encoder != nil && x.Encoder.Kind != "hashed":
			add(x.Encoder.Range, "%s: only encoders of kind \"hashed\" are supported by this version.", x.Encoder.Handle)
		}
	}
	for _, handle := range sortedKeys(config.Datasets) {
		if d := config.Datasets[handle]; d.Artefact != "" || len(d.Concat) > 0 {
			add(d.Range, "%s: datasets from artefacts or of several datasets are not supported by this version; use path.", handle)
		}
	}
	if p := config.Policies["main"]; p != nil && (p.Endpoint != nil || p.LoRA != nil) {
		add(p.Range, "%s: endpoints and low-rank adapters are not supported by this version; use path, builtin or init.", p.Handle)
	}
	for _, s := range config.Stages {
		agent(s.Agent)
		if len(s.Produce) > 0 || len(s.Annotations) > 0 {
			add(s.Range, "stage.%s: stages that produce or use artefacts are not supported by this version.", s.Name)
		}
		if s.Policy != "main" && s.Policy != "" {
			add(s.Range, "stage.%s: only the policy in the role main can be trained by this version, not %q.", s.Name, s.Policy)
		}
	}
	for _, e := range config.Evaluations {
		agent(e.Agent)
		if e.AnswerWith != nil {
			add(e.Range, "evaluate.%s: answers by another policy (answer_with) are not supported by this version.", e.Name)
		}
		if e.Policy != "main" && e.Policy != "" {
			add(e.Range, "evaluate.%s: only the policy in the role main can be evaluated by this version, not %q.", e.Name, e.Policy)
		}
	}
	return diags
}

// unsupported is what the runs of a plan ask for that this version cannot do.
func unsupported(p *plan.Plan) hcl.Diagnostics {
	var diags hcl.Diagnostics
	if p != nil {
		for _, r := range p.Runs {
			diags = append(diags, unsupportedBy(r.Config)...)
		}
	}
	return diags
}
