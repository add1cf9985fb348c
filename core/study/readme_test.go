package study

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forage-rl/forage/core/host"
	"github.com/forage-rl/forage/core/sdk"
)

// TestReadmePlugin builds the plugin that the README shows in a module of its own, which knows nothing of Forage but
// the SDK, and finds it where the README says it belongs.
func TestReadmePlugin(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, code, found := strings.Cut(string(readme), "```go\n")
	code, _, closed := strings.Cut(code, "```")
	if !found || !closed {
		t.Fatal("the README has no Go program")
	}
	dir := t.TempDir()
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	// The requirements are those of Forage, so that nothing has to be looked up outside.
	text := strings.Replace(string(mod), "module github.com/forage-rl/forage", "module example.com/mine", 1) +
		"\nrequire github.com/forage-rl/forage v0.0.0\n\nreplace github.com/forage-rl/forage => " + root + "\n"
	sum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{"go.mod": text, "go.sum": string(sum), "main.go": code} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	pack := filepath.Join(dir, ".forage", "plugins", "forage-mine")
	build := exec.Command("go", "build", "-o", pack, ".")
	build.Dir = dir
	build.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("the README's plugin does not build: %v\n%s", err, out)
	}
	options := host.Options{
		BundleDir: packs, WorkDir: dir, CacheDir: filepath.Join(dir, "schemas"), TrustFile: filepath.Join(dir, "trusted"), Env: map[string]string{},
	}
	discover := func() *host.Catalogue {
		catalogue, err := host.Discover(t.Context(), options)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := catalogue.Close(); err != nil {
				t.Error(err)
			}
		})
		return catalogue
	}
	stranger := discover()
	if _, err := stranger.Schema(t.Context(), sdk.KindReward, "mine/brief"); err == nil {
		t.Fatal("a pack that was not trusted must not be started")
	}
	for _, p := range stranger.Packs() {
		if p.Name == "forage-mine" {
			if err := stranger.Trust(p); err != nil {
				t.Fatal(err)
			}
		}
	}
	info, err := discover().Schema(t.Context(), sdk.KindReward, "mine/brief")
	if err != nil {
		t.Fatal(err)
	}
	if a, ok := info.Schema.Attribute("words"); !ok || a.Required {
		t.Errorf("got %+v", info.Schema)
	}
}
