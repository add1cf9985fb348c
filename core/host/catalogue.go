package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/forage-rl/forage/core/internal/suggest"
	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/schema"
)

// PluginInfo is a plugin and where it comes from.
type PluginInfo struct {
	Kind        sdk.Kind
	Label       string // as an experiment names it: "em", or "citations/web" for a third party's
	Name        string // in its pack
	Pack        Pack
	PackVersion string
	Digest      string // of the pack, sha256 in hex
	SDKVersion  string
	Protocol    int
	Description string
	Source      string
	Schema      schema.Schema
}

// label is how an experiment names a plugin of the pack.
func (p Pack) label(name string) string {
	if p.Bundled {
		return name
	}
	return p.Short() + "/" + name
}

// infos lists the plugins of one kind in a pack; all kinds for "".
func (c *Catalogue) infos(ctx context.Context, p Pack, kind sdk.Kind) ([]PluginInfo, error) {
	d, err := c.describe(ctx, p)
	if err != nil {
		return nil, err
	}
	var infos []PluginInfo
	for _, plugin := range d.Plugins {
		if kind == "" || sdk.Kind(plugin.Kind) == kind {
			infos = append(infos, PluginInfo{
				Kind: sdk.Kind(plugin.Kind), Label: p.label(plugin.Name), Name: plugin.Name, Pack: p, PackVersion: d.Version, Digest: p.Digest,
				SDKVersion: d.SDKVersion, Protocol: d.Protocol, Description: plugin.Description, Source: plugin.Source, Schema: plugin.Schema,
			})
		}
	}
	return infos, nil
}

// Plugins lists the plugins of all packs that may be started, by kind and label. The error joins those of the packs
// that could not be asked; the others are listed all the same.
func (c *Catalogue) Plugins(ctx context.Context) ([]PluginInfo, error) {
	var all []PluginInfo
	var failures []error
	for _, p := range c.Packs() {
		infos, err := c.infos(ctx, p, "")
		if err != nil {
			failures = append(failures, err)
		}
		all = append(all, infos...)
	}
	slices.SortStableFunc(all, func(a, b PluginInfo) int {
		return cmp.Or(strings.Compare(string(a.Kind), string(b.Kind)), strings.Compare(a.Label, b.Label))
	})
	return all, errors.Join(failures...)
}

// UnknownPluginError says that no pack which could be asked holds a plugin.
type UnknownPluginError struct {
	Kind  sdk.Kind
	Label string
	Near  string // the label that was meant, perhaps
	There string // what there is instead
}

func (e *UnknownPluginError) Error() string {
	if e.Near != "" {
		return fmt.Sprintf("unknown %s %q: did you mean %q?", e.Kind, e.Label, e.Near)
	}
	return fmt.Sprintf("unknown %s %q: %s", e.Kind, e.Label, e.There)
}

// Schema finds the plugin of a kind that an experiment names by label. A bare name is a bundled pack's; a third
// party's is "pack/name". An unknown label is an [UnknownPluginError]; a pack that should be asked and cannot is another.
func (c *Catalogue) Schema(ctx context.Context, kind sdk.Kind, label string) (PluginInfo, error) {
	packName, name, qualified := strings.Cut(label, "/")
	var found []PluginInfo
	var candidates []string
	var failures []error
	for _, p := range c.Packs() {
		if qualified && p.Short() != packName || !qualified && !p.Bundled {
			continue
		}
		infos, err := c.infos(ctx, p, kind)
		if err != nil {
			failures = append(failures, err)
			continue
		}
		for _, info := range infos {
			candidates = append(candidates, info.Label)
			if qualified && info.Name == name || !qualified && info.Name == label {
				found = append(found, info)
			}
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return PluginInfo{}, fmt.Errorf("%s %q is ambiguous: both %s and %s hold one; write %q or %q", kind, label,
			found[0].Pack.Path, found[1].Pack.Path, found[0].Pack.Short()+"/"+found[0].Name, found[1].Pack.Short()+"/"+found[1].Name)
	case len(failures) > 0:
		return PluginInfo{}, fmt.Errorf("find %s %q: %w", kind, label, errors.Join(failures...))
	}
	return PluginInfo{}, c.unknown(ctx, kind, label, candidates)
}

func (c *Catalogue) unknown(ctx context.Context, kind sdk.Kind, label string, candidates []string) *UnknownPluginError {
	there := func(format string, args ...any) *UnknownPluginError {
		return &UnknownPluginError{Kind: kind, Label: label, There: fmt.Sprintf(format, args...)}
	}
	if len(candidates) == 0 {
		var packs []string
		for _, p := range c.Packs() {
			packs = append(packs, p.Short())
		}
		if pack, _, qualified := strings.Cut(label, "/"); qualified {
			if slices.Contains(packs, pack) {
				return there("the pack %s holds no %s; was it built and trusted (\"forage init\") as it is now?", pack, kind)
			}
			return there("no such pack (a pack is an executable file named forage-NAME); there is %s in %s", list(packs),
				strings.Join(append([]string{c.options.BundleDir}, c.options.dirs()...), ", "))
		}
		return there("no bundled pack holds any; the packs belong into %s (\"make build\" puts them there)", c.options.BundleDir)
	}
	if near := suggest.Nearest(label, candidates); near != "" {
		return &UnknownPluginError{Kind: kind, Label: label, Near: near}
	}
	// A third party's plugin by its bare name.
	for _, p := range c.Packs() {
		if infos, err := c.infos(ctx, p, kind); err == nil && !p.Bundled {
			for _, info := range infos {
				if info.Name == label {
					return &UnknownPluginError{Kind: kind, Label: label, Near: info.Label}
				}
			}
		}
	}
	return there("there is %s", list(candidates))
}

func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ", ")
}
