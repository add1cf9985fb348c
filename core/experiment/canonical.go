package experiment

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/forage-rl/forage/core/sdk/schema"
)

// Canonical is the run as JSON with everything that changes training and nothing else: defaults expanded, references
// replaced by what they lead to, texts and expressions in their canonical form, plugins by name and major version, the
// seed and the version of the language. Equal bytes mean the same training. Labels of arms and shared blocks,
// descriptions, timeouts, parallelism, backend, cadences, guards that do not stop, and evaluations are not in it. A run
// without stages is identified by how it asks.
func (r *Run) Canonical() ([]byte, error) {
	view := *r
	view.Guards = slices.DeleteFunc(slices.Clone(r.Guards), func(g *Guard) bool { return g.Action != ActionStop })
	whole := struct {
		Language int    `json:"language"`
		Agent    *Agent `json:"agent,omitempty"`
		Sampling any    `json:"sampling,omitempty"`
		*Run
	}{Language: LanguageVersion, Run: &view}
	if len(r.Stages) == 0 {
		whole.Agent, whole.Sampling = r.Agent, r.Sampling
	}
	return json.Marshal(whole)
}

// Key is the identity of the evaluation's outcome in a run: a hash of the checkpoint's digest and of all that decides
// what is asked and how.
func (e *Evaluation) Key(r *Run, checkpointDigest string) (string, error) {
	data, err := json.Marshal(struct {
		Language   int    `json:"language"`
		Seed       int64  `json:"seed"`
		Checkpoint string `json:"checkpoint"`
		*Evaluation
	}{LanguageVersion, r.Seed, checkpointDigest, e})
	if err != nil {
		return "", fmt.Errorf("key of evaluation %q: %w", e.Name, err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])[:16], nil
}

// MarshalJSON gives what changes results: the kind, the plugin's name, its pack and major version, and its values.
func (p *Plugin) MarshalJSON() ([]byte, error) {
	name := p.Info.Name
	if name == "" {
		name = p.Label
	}
	return json.Marshal(struct {
		Kind   string         `json:"kind"`
		Name   string         `json:"name"`
		Pack   string         `json:"pack"`
		Major  string         `json:"major"`
		Values map[string]any `json:"values"`
	}{string(p.Kind), name, p.Info.Pack, majorVersion(p.Info.PackVersion), p.expanded(p.Values, p.Info.Schema)})
}

// majorVersion is the part of a semantic version before its first dot.
func majorVersion(version string) string {
	major, _, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	return major
}

// expanded replaces references by what they lead to and adds the defaults of blocks that are not written, under
// "block (absent)": a plugin may treat a missing block otherwise than an empty one.
func (p *Plugin) expanded(values map[string]any, s schema.Schema) map[string]any {
	out := make(map[string]any, len(values))
	for key, v := range values {
		out[key] = p.content(v)
	}
	for _, a := range s.Attributes {
		if a.Sensitive {
			delete(out, a.Name)
		}
	}
	for _, b := range s.Blocks {
		switch inner := values[b.Type].(type) {
		case nil:
			if defaults := defaultsOf(b.Schema); defaults != nil {
				out[b.Type+" (absent)"] = defaults
			}
		case map[string]any:
			out[b.Type] = p.expanded(inner, b.Schema)
		case []any:
			list := make([]any, len(inner))
			for i, v := range inner {
				list[i] = v
				if m, ok := v.(map[string]any); ok {
					list[i] = p.expanded(m, b.Schema)
				}
			}
			out[b.Type] = list
		}
	}
	return out
}

// content is a value with what it leads to in place of a reference: {"index": {…}}.
func (p *Plugin) content(v any) any {
	if list, ok := v.([]any); ok {
		out := make([]any, len(list))
		for i, element := range list {
			out[i] = p.content(element)
		}
		return out
	}
	ref, ok := v.(schema.Ref)
	if !ok {
		return v
	}
	kind, _, _ := strings.Cut(ref.Handle, ".")
	return map[string]any{kind: p.targets[ref.Handle]}
}

// Input is a file or folder that a run reads, or an environment variable that holds a key.
type Input struct {
	Role string // dataset.train, corpus.wiki, encoder.e5, policy.qwen, tokenizer.qwen
	Path string // absolute
	As   string // as written
	Env  string // name of the variable, in place of a path
}

// Place is where the input is looked for.
func (in Input) Place() string {
	if in.Env != "" {
		return "environment variable " + in.Env
	}
	return in.Path
}

// Inputs lists what the run reads from disk and from the environment, by role.
func (r *Run) Inputs() []Input {
	var list []Input
	add := func(role, path string) {
		if path != "" {
			list = append(list, Input{Role: role, Path: r.File(path), As: path})
		}
	}
	for _, h := range sortedKeys(r.Corpora) {
		for _, path := range r.Corpora[h].Paths {
			add(h, path)
		}
	}
	for _, h := range sortedKeys(r.Encoders) {
		add(h, r.Encoders[h].Path)
	}
	for _, h := range sortedKeys(r.Datasets) {
		add(h, r.Datasets[h].Path)
	}
	for _, h := range sortedKeys(r.PolicyBlocks) {
		p := r.PolicyBlocks[h]
		add(h, p.Path)
		if p.Endpoint != nil && p.Endpoint.KeyEnv != "" {
			list = append(list, Input{Role: h, Env: p.Endpoint.KeyEnv})
		}
		if p.Init != nil && !p.Init.BuiltinTokenizer() {
			add(strings.Replace(h, "policy.", "tokenizer.", 1), p.Init.Tokenizer)
		}
	}
	return list
}
