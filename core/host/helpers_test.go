package host

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/forage-rl/forage/core/sdk"
	"github.com/forage-rl/forage/core/sdk/episode"
)

// testOptions keep everything under dir.
func testOptions(dir string) Options {
	return Options{
		BundleDir: filepath.Join(dir, "bundle"), CacheDir: filepath.Join(dir, "cache"), TrustFile: filepath.Join(dir, "home", "trusted"),
		WorkDir: dir, Env: map[string]string{"PATH": os.Getenv("PATH"), "HOME": filepath.Join(dir, "home"), "SECRET": "s3cret"},
	}
}

// install links packs into a folder.
func install(t testing.TB, dir string, names ...string) {
	t.Helper()
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if err := os.Symlink(executable, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
}

// bundle makes a catalogue of bundled packs.
func bundle(t *testing.T, names ...string) *Catalogue {
	t.Helper()
	dir := t.TempDir()
	o := testOptions(dir)
	install(t, o.BundleDir, names...)
	if err := WriteBundle(o.BundleDir); err != nil {
		t.Fatal(err)
	}
	return discover(t, o)
}

func discover(t *testing.T, o Options) *Catalogue {
	t.Helper()
	if o.Logger == nil && testing.Verbose() {
		o.Logger = testLogger(t)
	}
	c, err := Discover(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func supervise(t *testing.T, c *Catalogue) (*Supervisor, string) {
	t.Helper()
	dir := t.TempDir()
	s, err := NewSupervisor(c, RunOptions{RunDir: dir, Logger: testLogger(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, dir
}

func testLogger(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// within is a context that ends long after anything a passing test does.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// scripted is a host whose services are functions of the test; others are not supported.
type scripted struct {
	sdk.Host
	mu       sync.Mutex
	rollout  func(context.Context, []sdk.RolloutRequest) ([]sdk.RolloutResponse, error)
	search   func(context.Context, sdk.SearchRequest) ([][]episode.Hit, error)
	searches int
}

func (s *scripted) Rollout(ctx context.Context, r []sdk.RolloutRequest) ([]sdk.RolloutResponse, error) {
	return s.rollout(ctx, r)
}

func (s *scripted) Search(ctx context.Context, r sdk.SearchRequest) ([][]episode.Hit, error) {
	s.mu.Lock()
	s.searches++
	s.mu.Unlock()
	return s.search(ctx, r)
}

// runByHand starts a pack as a person would.
func runByHand(path string) (string, error) {
	out, err := exec.Command(path).CombinedOutput()
	return string(out), err
}
