// Package schema describes a plugin's configuration as data, so that the host can check a file against it with exact
// places before any plugin runs.
//
// It is a leaf: it must not know HCL, cty or the wire. Authors rarely build a Schema by hand: [Of] derives it from a
// struct, and [Decode] fills that struct.
package schema

import "strings"

// Type is the type of an attribute.
type Type string

// Types of plain values, lists and maps, and of references.
const (
	String     Type = "string"
	Number     Type = "number"
	Int        Type = "int"
	Bool       Type = "bool"
	StringList Type = "list(string)"
	NumberList Type = "list(number)"
	StringMap  Type = "map(string)"
	NumberMap  Type = "map(number)"

	// References to blocks of the study. The value that reaches the plugin is a [Ref].
	IndexRef  Type = "index"
	CorpusRef Type = "corpus"
	PolicyRef Type = "policy"
	AgentRef  Type = "agent"

	IndexRefs  Type = "list(index)"
	CorpusRefs Type = "list(corpus)"
	PolicyRefs Type = "list(policy)"
	AgentRefs  Type = "list(agent)"
)

// IsRef says whether t refers to a block of the study.
func (t Type) IsRef() bool { return t == IndexRef || t == CorpusRef || t == PolicyRef || t == AgentRef }

// Element is the type of the elements of a list or map, "" for other types.
func (t Type) Element() Type {
	for _, container := range []string{"list(", "map("} {
		if inner, ok := strings.CutPrefix(string(t), container); ok {
			return Type(strings.TrimSuffix(inner, ")"))
		}
	}
	return ""
}

// Ref is a handle to a block of the study: what a plugin passes back to the host to use it.
type Ref struct {
	Handle string `msgpack:"handle" json:"handle"` // unique in the run
	Digest string `msgpack:"digest" json:"digest"` // of the content behind it; "" while only validating
	// Unit is what an index finds: document, paragraph or sentence; "" for other blocks.
	Unit string `msgpack:"unit" json:"unit,omitempty"`
}

// Attribute is one setting.
type Attribute struct {
	Name        string   `json:"name"` // [a-z][a-z0-9_]*
	Type        Type     `json:"type"`
	Required    bool     `json:"required,omitempty"`
	Default     any      `json:"default,omitempty"` // of Type; nil for none
	Description string   `json:"description"`
	Enum        []string `json:"enum,omitempty"` // allowed values of a string, allowed kinds of a reference to an index
	Min         *float64 `json:"min,omitempty"`  // inclusive, for numbers
	Max         *float64 `json:"max,omitempty"`
	// Source says where the default comes from: a paper's section, or "default (not in the paper)".
	Source    string `json:"source,omitempty"`
	Sensitive bool   `json:"sensitive,omitempty"` // never printed or recorded
}

// Block is a nested block. Single blocks occur at most once.
type Block struct {
	Type        string `json:"type"`
	Single      bool   `json:"single"`
	Labels      int    `json:"labels,omitempty"`
	Required    bool   `json:"required,omitempty"`
	Schema      Schema `json:"schema"`
	Description string `json:"description"`
}

// Schema is what a configuration block may hold.
type Schema struct {
	Attributes []Attribute `json:"attributes,omitempty"`
	Blocks     []Block     `json:"blocks,omitempty"`
}

// Attribute finds an attribute by name.
func (s Schema) Attribute(name string) (Attribute, bool) {
	for _, a := range s.Attributes {
		if a.Name == name {
			return a, true
		}
	}
	return Attribute{}, false
}
