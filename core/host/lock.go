package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/gohcl"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
)

// LockFileName is the lock file beside a study.
const LockFileName = "forage.lock.hcl"

// Lock pins the packs of a study, so that a later run uses the same. It is not trust.
type Lock struct {
	Packs []LockedPack `hcl:"pack,block"`
}

// LockedPack is one pinned pack.
type LockedPack struct {
	Name     string            `hcl:"name,label"`
	Version  string            `hcl:"version"`
	Protocol int               `hcl:"protocol"`
	SDK      string            `hcl:"sdk"`
	Hashes   map[string]string `hcl:"hashes"` // platform, such as linux_amd64, to sha256 in hex
}

func platform() string { return runtime.GOOS + "_" + runtime.GOARCH }

// ReadLock reads a lock file; a missing one is nil without an error.
func ReadLock(path string) (*Lock, error) {
	src, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	file, ds := hclparse.NewParser().ParseHCL(src, path)
	if ds.HasErrors() {
		return nil, fmt.Errorf("read the lock file: %w", ds)
	}
	var l Lock
	if ds := gohcl.DecodeBody(file.Body, nil, &l); ds.HasErrors() {
		return nil, fmt.Errorf("read the lock file: %w; delete it and run \"forage init %s\" to write it anew", ds, filepath.Dir(path))
	}
	return &l, nil
}

// Extend pins the packs of the given plugins: hashes of this platform are replaced, those of others are kept where
// the version is the same.
func (l *Lock) Extend(plugins []PluginInfo) {
	for _, info := range plugins {
		i := slices.IndexFunc(l.Packs, func(p LockedPack) bool { return p.Name == info.Pack.Name })
		if i < 0 {
			l.Packs = append(l.Packs, LockedPack{Name: info.Pack.Name})
			i = len(l.Packs) - 1
		}
		p := &l.Packs[i]
		if p.Version != info.PackVersion || p.Hashes == nil {
			p.Hashes = map[string]string{}
		}
		p.Version, p.Protocol, p.SDK = info.PackVersion, info.Protocol, info.SDKVersion
		p.Hashes[platform()] = info.Digest
	}
	slices.SortFunc(l.Packs, func(a, b LockedPack) int { return strings.Compare(a.Name, b.Name) })
}

// Verify compares the packs of the given plugins with the lock: what differs is an error that says how to accept it,
// for the study as the command line names it.
func (l *Lock) Verify(study string, plugins []PluginInfo) error {
	var failures []error
	seen := map[string]bool{}
	for _, info := range plugins {
		if seen[info.Pack.Name] {
			continue
		}
		seen[info.Pack.Name] = true
		i := slices.IndexFunc(l.Packs, func(p LockedPack) bool { return p.Name == info.Pack.Name })
		if i < 0 {
			failures = append(failures, fmt.Errorf("plugin pack %s is not in the lock file: run \"forage init %s\" to add it", info.Pack.Name, study))
			continue
		}
		locked, there := l.Packs[i].Hashes[platform()]
		switch {
		case l.Packs[i].Version != info.PackVersion:
			failures = append(failures, fmt.Errorf("plugin pack %s is version %s and the lock file pins %s: install that version, or run \"forage init %s --upgrade\"",
				info.Pack.Name, info.PackVersion, l.Packs[i].Version, study))
		case !there:
			failures = append(failures, fmt.Errorf("plugin pack %s has no hash for %s in the lock file: run \"forage init %s\" to add it", info.Pack.Name, platform(), study))
		case locked != info.Digest:
			failures = append(failures, fmt.Errorf("plugin pack %s (%s) has sha256 %s and the lock file pins %s: install the pinned one, or run \"forage init %s --upgrade\"",
				info.Pack.Name, info.Pack.Path, info.Digest, locked, study))
		}
	}
	return errors.Join(failures...)
}

// Write replaces the lock file.
func (l *Lock) Write(path string) error {
	file := hclwrite.NewEmptyFile()
	body := file.Body()
	body.AppendUnstructuredTokens(hclwrite.Tokens{
		{Bytes: []byte("# Written by \"forage init\": the plugin packs that this study was planned with.\n")},
	})
	for _, p := range l.Packs {
		block := body.AppendNewBlock("pack", []string{p.Name}).Body()
		block.SetAttributeValue("version", cty.StringVal(p.Version))
		block.SetAttributeValue("protocol", cty.NumberIntVal(int64(p.Protocol)))
		block.SetAttributeValue("sdk", cty.StringVal(p.SDK))
		hashes := map[string]cty.Value{}
		for platform, digest := range p.Hashes {
			hashes[platform] = cty.StringVal(digest)
		}
		block.SetAttributeValue("hashes", cty.ObjectVal(hashes))
	}
	if err := writeAtomic(path, hclwrite.Format(file.Bytes()), 0o644); err != nil {
		return fmt.Errorf("write the lock file %s: %w", filepath.Base(path), err)
	}
	return nil
}
