package study

import (
	"context"

	"github.com/forage-rl/forage/core/experiment"
	"github.com/forage-rl/forage/core/host"
	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/diag"
)

// Schemas lets the language ask the plugins that the host found.
func Schemas(ctx context.Context, catalogue *host.Catalogue) experiment.SchemaSource {
	return schemas{ctx, catalogue}
}

type schemas struct {
	ctx       context.Context // the language's questions carry none: they belong to one loading
	catalogue *host.Catalogue
}

// Schema implements experiment.SchemaSource.
func (s schemas) Schema(kind sdk.Kind, label string) (experiment.PluginInfo, error) {
	info, err := s.catalogue.Schema(s.ctx, kind, label)
	if err != nil {
		return experiment.PluginInfo{}, err
	}
	return experiment.PluginInfo{
		Name: info.Name, Schema: info.Schema, Pack: info.Pack.Name, PackVersion: info.PackVersion, Digest: info.Digest,
	}, nil
}

// Validate implements experiment.SchemaSource.
func (s schemas) Validate(kind sdk.Kind, label string, values map[string]any) (diag.Diagnostics, []sdk.Use) {
	found, uses, err := s.catalogue.Validate(s.ctx, kind, label, values)
	if err != nil {
		found.Errorf(nil, "Plugin failed", "The plugin could not check its configuration: %v.", err)
	}
	return found, uses
}
