package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/forage-rl/forage/core/sdk"
)

// marked installs a program that notes each start in a file, instead of a link to the test binary.
func marked(t *testing.T, path, marker, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("#!/bin/sh\necho started >> %s\n%s\n", marker, content)
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
}

const description = `echo '{"name":"forage-citations","version":"0.3.0","protocol":1,"sdk_version":"0.1.0","plugins":[{"kind":"retriever","name":"web","description":"d","schema":{}}]}'`

func starts(t *testing.T, marker string) int {
	t.Helper()
	b, err := os.ReadFile(marker)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Count(string(b), "started")
}

func TestUntrustedPackIsRefusedUnstarted(t *testing.T) {
	dir := t.TempDir()
	o := testOptions(dir)
	marker := filepath.Join(dir, "marker")
	path := filepath.Join(dir, "home", ".forage", "plugins", "forage-citations")
	marked(t, path, marker, description)
	c := discover(t, o)
	_, err := c.Schema(within(t), sdk.KindRetriever, "citations/web")
	var untrusted *UntrustedError
	if !errors.As(err, &untrusted) {
		t.Fatalf("error %v", err)
	}
	wantError(t, err, path, untrusted.Pack.Digest, "forage init", "has not been started")
	if n := starts(t, marker); n != 0 {
		t.Fatalf("it was started %d times", n)
	}
	if err := c.Trust(untrusted.Pack); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*Catalogue{discover(t, o), discover(t, o)} {
		info, err := c.Schema(within(t), sdk.KindRetriever, "citations/web")
		if err != nil || info.PackVersion != "0.3.0" || info.Label != "citations/web" {
			t.Fatalf("info %+v, error %v", info, err)
		}
	}
	if n := starts(t, marker); n != 1 {
		t.Errorf("the schema cache did not hold: %d starts", n)
	}
	// A file that changes between discovery and start is not started.
	o.CacheDir = filepath.Join(dir, "no schemas yet")
	stale := discover(t, o)
	marked(t, path, marker, description+"\n# changed under our hands")
	before := starts(t, marker)
	_, err = stale.Schema(within(t), sdk.KindRetriever, "citations/web")
	wantError(t, err, path, "changed on disk")
	if n := starts(t, marker); n != before {
		t.Error("the changed pack was started")
	}
	// A changed file is another pack.
	marked(t, path, marker, description+"\n# changed")
	if _, err := discover(t, o).Schema(within(t), sdk.KindRetriever, "citations/web"); !errors.As(err, &untrusted) {
		t.Errorf("after a change: %v", err)
	}
	if n := starts(t, marker); n != 1 {
		t.Errorf("the changed pack was started")
	}
}

func TestChecksumMismatchOfABundledPack(t *testing.T) {
	dir := t.TempDir()
	o := testOptions(dir)
	marker := filepath.Join(dir, "marker")
	path := filepath.Join(o.BundleDir, "forage-citations")
	marked(t, path, marker, description)
	if err := WriteBundle(o.BundleDir); err != nil {
		t.Fatal(err)
	}
	if _, err := discover(t, o).Schema(within(t), sdk.KindRetriever, "web"); err != nil {
		t.Fatal(err)
	}
	c := discover(t, o)
	marked(t, path, marker, description+"\n# changed")
	before := starts(t, marker)
	// Changed after discovery, before the start of a process.
	_, _, err := c.Validate(within(t), sdk.KindRetriever, "web", nil)
	wantError(t, err, path, "changed on disk")
	// Changed before discovery.
	_, err = discover(t, o).Schema(within(t), sdk.KindRetriever, "web")
	wantError(t, err, path, BundleFile, "make build")
	if n := starts(t, marker); n != before {
		t.Error("the changed pack was started")
	}
}

func TestDirectoriesInOrder(t *testing.T) {
	dir := t.TempDir()
	o := testOptions(dir)
	o.PluginDir = filepath.Join(dir, "configured")
	o.Env[PluginDirEnv] = filepath.Join(dir, "from-env")
	dirs := []string{o.PluginDir, o.Env[PluginDirEnv], filepath.Join(dir, ".forage", "plugins"), filepath.Join(dir, "home", ".forage", "plugins")}
	for i, dir := range slices.Backward(dirs) {
		path := filepath.Join(dir, "forage-citations")
		if i == 1 { // in a folder of its own
			path = filepath.Join(dir, "citations", "forage-citations")
		}
		marked(t, path, os.DevNull, fmt.Sprintf("# %d", i))
		packs := discover(t, o).Packs()
		if len(packs) != 1 || packs[0].Path != path || packs[0].Trusted || packs[0].Short() != "citations" {
			t.Errorf("folder %d: %+v", i, packs)
		}
	}
	marked(t, filepath.Join(o.PluginDir, "citations", "forage-citations"), os.DevNull, "")
	_, err := Discover(within(t), o)
	wantError(t, err, "forage-citations is there twice")
}

func TestLabels(t *testing.T) {
	c := bundle(t, "forage-good", "forage-other")
	_, err := c.Schema(within(t), sdk.KindReward, "testing")
	wantError(t, err, "ambiguous", "forage-good", "forage-other", `"good/testing"`, `"other/testing"`)
	if info, err := c.Schema(within(t), sdk.KindReward, "other/testing"); err != nil || info.Pack.Name != "forage-other" {
		t.Errorf("info %+v, error %v", info, err)
	}
	c = bundle(t, "forage-good")
	info, err := c.Schema(within(t), sdk.KindReward, "testing")
	if err != nil {
		t.Fatal(err)
	}
	if a, ok := info.Schema.Attribute("number"); !ok || a.Default != 1.0 || *a.Min != 0 {
		t.Errorf("schema %+v", info.Schema)
	}
	_, err = c.Schema(within(t), sdk.KindReward, "tsting")
	wantError(t, err, `unknown reward "tsting"`, `did you mean "testing"?`)
	_, err = c.Schema(within(t), sdk.KindReward, "nothing-alike")
	wantError(t, err, "there is testing")
	_, err = c.Schema(within(t), sdk.KindReward, "absent/em")
	wantError(t, err, `unknown reward "absent/em"`)
	all, err := c.Plugins(within(t))
	if err != nil || len(all) != 3 || all[0].Kind != sdk.KindAlgorithm {
		t.Errorf("plugins %+v, error %v", all, err)
	}
}

func TestValidateIsCached(t *testing.T) {
	c := bundle(t, "forage-good")
	for range 2 {
		ds, _, err := c.Validate(within(t), sdk.KindReward, "testing", map[string]any{"number": 13, "unknown": true})
		if err != nil || len(ds) != 1 || ds[0].Path.String() != "unknown" {
			t.Fatalf("diagnostics %v, error %v", ds, err)
		}
		ds, _, err = c.Validate(within(t), sdk.KindReward, "testing", map[string]any{"number": 13})
		if err != nil || len(ds) != 1 || ds[0].Path.String() != "number" {
			t.Fatalf("diagnostics %v, error %v", ds, err)
		}
	}
	if len(c.validations) != 1 {
		t.Errorf("%d processes", len(c.validations))
	}
	again := discover(t, c.options)
	ds, _, err := again.Validate(within(t), sdk.KindReward, "testing", map[string]any{"number": 13})
	if err != nil || len(ds) != 1 || len(again.validations) != 0 {
		t.Errorf("diagnostics %v, error %v, %d processes", ds, err, len(again.validations))
	}
	if ds, _, err := again.Validate(within(t), sdk.KindReward, "testing", map[string]any{"number": 14}); err != nil || len(ds) != 0 {
		t.Errorf("diagnostics %v, error %v", ds, err)
	}
}

func TestLockFile(t *testing.T) {
	c := bundle(t, "forage-good")
	plugins, err := c.Plugins(within(t))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), LockFileName)
	if l, err := ReadLock(path); l != nil || err != nil {
		t.Fatalf("lock %v, error %v", l, err)
	}
	var l Lock
	wantError(t, l.Verify("my-study", plugins), "forage-good is not in the lock file", `"forage init my-study"`)
	l.Extend(plugins)
	l.Packs[0].Hashes["plan9_mips"] = strings.Repeat("0", 64)
	if err := l.Write(path); err != nil {
		t.Fatal(err)
	}
	read, err := ReadLock(path)
	if err != nil || len(read.Packs) != 1 || read.Packs[0].Version != "1.2.3" || len(read.Packs[0].Hashes) != 2 {
		t.Fatalf("lock %+v, error %v", read, err)
	}
	if err := read.Verify("my-study", plugins); err != nil {
		t.Error(err)
	}
	read.Packs[0].Hashes[platform()] = strings.Repeat("1", 64)
	wantError(t, read.Verify("my-study", plugins), plugins[0].Digest, strings.Repeat("1", 64), `"forage init my-study --upgrade"`)
	read.Packs[0].Version = "1.2.2"
	wantError(t, read.Verify("my-study", plugins), "1.2.3", "1.2.2")
	read.Extend(plugins)
	if err := read.Verify("my-study", plugins); err != nil || len(read.Packs[0].Hashes) != 1 {
		t.Errorf("after an upgrade: %v, %v", err, read.Packs[0].Hashes)
	}
	if err := os.WriteFile(path, []byte("pack {"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = ReadLock(path)
	wantError(t, err, path)
}

func TestBrokenTrustFile(t *testing.T) {
	o := testOptions(t.TempDir())
	if err := os.MkdirAll(filepath.Dir(o.TrustFile), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(o.TrustFile, []byte("# comment\n\nnot a hash\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Discover(within(t), o)
	wantError(t, err, "trusted:3", "not a hash")
}

func TestRunByHand(t *testing.T) {
	c := bundle(t, "forage-good")
	out, err := runByHand(c.Packs()[0].Path)
	wantError(t, err, "exit status 1")
	for _, part := range []string{"forage-good 1.2.3", "A reward for tests.", "forage init", "describe"} {
		if !strings.Contains(out, part) {
			t.Errorf("it says\n%s\nwithout %q", out, part)
		}
	}
}
