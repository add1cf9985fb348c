package experiment

import (
	"encoding/json"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/diag"
)

// SchemaSource knows the plugins. Labels are names of plugins, or pack/name for third parties.
type SchemaSource interface {
	// Schema describes the plugin of that label. The error says what to do when there is none.
	Schema(kind sdk.Kind, label string) (PluginInfo, error)
	// Validate asks the plugin to check a configuration beyond its schema, and what it takes from its stage. It is pure.
	Validate(kind sdk.Kind, label string, values map[string]any) (diag.Diagnostics, []sdk.Use)
}

// Namer is an optional interface of a [SchemaSource]: the labels it knows, for suggestions.
type Namer interface {
	Names(kind sdk.Kind) []string
}

type pluginKey struct {
	kind  sdk.Kind
	label string
}

type schemaAnswer struct {
	info PluginInfo
	err  error
}

type validation struct {
	diagnostics diag.Diagnostics
	uses        []sdk.Use
}

// schemaCache asks a source once per plugin and once per configuration.
type schemaCache struct {
	source    SchemaSource
	schemas   map[pluginKey]schemaAnswer
	validated map[string]validation
}

func newSchemaCache(source SchemaSource) *schemaCache {
	return &schemaCache{source, map[pluginKey]schemaAnswer{}, map[string]validation{}}
}

func (c *schemaCache) schema(kind sdk.Kind, label string) (PluginInfo, error) {
	key := pluginKey{kind, label}
	if a, ok := c.schemas[key]; ok {
		return a.info, a.err
	}
	info, err := c.source.Schema(kind, label)
	c.schemas[key] = schemaAnswer{info, err}
	return info, err
}

func (c *schemaCache) validate(kind sdk.Kind, label string, values map[string]any) (diag.Diagnostics, []sdk.Use) {
	data, err := json.Marshal(values)
	if err != nil {
		return c.source.Validate(kind, label, values)
	}
	key := string(kind) + "\x00" + label + "\x00" + string(data)
	v, ok := c.validated[key]
	if !ok {
		v.diagnostics, v.uses = c.source.Validate(kind, label, values)
		c.validated[key] = v
	}
	return v.diagnostics, v.uses
}
