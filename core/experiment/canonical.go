package experiment

import (
	"bytes"
	"encoding/json"
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
	return r.marshal(whole)
}

// Canonical is the evaluation as JSON with everything that changes its outcome on a given checkpoint: its key is a hash
// of this and of the checkpoint's digest.
func (e *Evaluation) Canonical(r *Run) ([]byte, error) {
	return r.marshal(struct {
		Language int   `json:"language"`
		Seed     int64 `json:"seed"`
		*Evaluation
	}{LanguageVersion, r.Seed, e})
}

// marshal fills in what the handles of plugin configurations lead to.
func (r *Run) marshal(v any) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil || !bytes.Contains(data, []byte(`\u0000ref:`)) {
		return data, err
	}
	var tree any
	if err := json.Unmarshal(data, &tree); err != nil {
		return nil, err
	}
	return json.Marshal(r.follow(tree))
}

// refMark begins a handle inside marshalled plugin values.
const refMark = "\x00ref:"

func (r *Run) follow(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, inner := range v {
			v[key] = r.follow(inner)
		}
	case []any:
		for i, inner := range v {
			v[i] = r.follow(inner)
		}
	case string:
		if handle, ok := strings.CutPrefix(v, refMark); ok {
			return r.content(handle)
		}
	}
	return v
}

// content is what a handle leads to, nil where the run does not hold it.
func (r *Run) content(handle string) any {
	if v, ok := r.Indexes[handle]; ok {
		return map[string]any{"index": v}
	}
	if v, ok := r.Corpora[handle]; ok {
		return map[string]any{"corpus": v}
	}
	if v, ok := r.PolicyBlocks[handle]; ok {
		return map[string]any{"policy": v}
	}
	return nil
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
	}{string(p.Kind), name, p.Info.Pack, majorVersion(p.Info.PackVersion), expanded(p.Values, p.Info.Schema)})
}

// majorVersion is the part of a semantic version before its first dot.
func majorVersion(version string) string {
	major, _, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	return major
}

// expanded adds the defaults of blocks that are not written, under "block (absent)": a plugin may treat a missing block
// otherwise than an empty one.
func expanded(values map[string]any, s schema.Schema) map[string]any {
	out := make(map[string]any, len(values))
	for key, v := range values {
		out[key] = marked(v)
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
			out[b.Type] = expanded(inner, b.Schema)
		case []any:
			list := make([]any, len(inner))
			for i, v := range inner {
				list[i] = v
				if m, ok := v.(map[string]any); ok {
					list[i] = expanded(m, b.Schema)
				}
			}
			out[b.Type] = list
		}
	}
	return out
}

func marked(v any) any {
	if ref, ok := v.(schema.Ref); ok {
		return refMark + ref.Handle
	}
	return v
}

// Input is a file or folder that a run reads.
type Input struct {
	Role string // dataset.train, corpus.wiki, encoder.e5, policy.qwen, tokenizer.qwen
	Path string // absolute
	As   string // as written
}

// Inputs lists what the run reads from disk, by role.
func (r *Run) Inputs() []Input {
	var list []Input
	add := func(role, path string) {
		if path != "" {
			list = append(list, Input{role, r.File(path), path})
		}
	}
	for _, h := range sortedKeys(r.Corpora) {
		add(h, r.Corpora[h].Path)
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
		if p.Init != nil && p.Init.Tokenizer != "minihop" {
			add(strings.Replace(h, "policy.", "tokenizer.", 1), p.Init.Tokenizer)
		}
	}
	return list
}
