package wire

import "github.com/forage-rl/forage/core/sdk/schema"

// Description is what a pack prints as JSON on standard output when its one argument is [DescribeArgument].
type Description struct {
	Name       string              `json:"name"`
	Version    string              `json:"version"`
	Protocol   int                 `json:"protocol"`
	SDKVersion string              `json:"sdk_version"`
	Plugins    []PluginDescription `json:"plugins"`
}

// PluginDescription describes one plugin of a pack.
type PluginDescription struct {
	Kind        string        `json:"kind"`
	Name        string        `json:"name"`
	Description string        `json:"description"`
	Source      string        `json:"source,omitempty"`
	Schema      schema.Schema `json:"schema"`
}
