package host

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// PluginDirEnv names a folder of packs.
const PluginDirEnv = "FORAGE_PLUGIN_DIR"

// Options say where packs, the trust record and caches are. The zero value is the user's usual setup.
type Options struct {
	// PluginDir comes from the user's configuration; it is searched first.
	PluginDir string
	// WorkDir is where ./.forage/plugins is looked for; "" means the working directory.
	WorkDir string
	// BundleDir holds the packs built with forage and their hashes; "" means plugins beside the executable.
	BundleDir string
	// CacheDir keeps schemas and validations; "" means the user's cache folder.
	CacheDir string
	// TrustFile is the trust record; "" means ~/.forage/trusted.
	TrustFile string
	// Env replaces the process's environment, for tests; nil means the real one.
	Env map[string]string
	// StartTimeout bounds the start of a process; 0 means a minute, for packs that import much.
	StartTimeout time.Duration
	Logger       *slog.Logger // nil means silence
}

func (o Options) env(key string) string {
	if o.Env != nil {
		return o.Env[key]
	}
	return os.Getenv(key)
}

func (o Options) withDefaults() (Options, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.StartTimeout = cmp.Or(o.StartTimeout, time.Minute)
	o.WorkDir = cmp.Or(o.WorkDir, ".")
	home := o.env("HOME")
	if o.TrustFile == "" {
		if home == "" {
			return o, errors.New("the environment has no HOME, so there is no ~/.forage/trusted: set HOME")
		}
		o.TrustFile = filepath.Join(home, ".forage", "trusted")
	}
	if o.CacheDir == "" {
		o.CacheDir = filepath.Join(cmp.Or(o.env("XDG_CACHE_HOME"), filepath.Join(home, ".cache")), "forage")
	}
	if o.BundleDir == "" {
		executable, err := os.Executable()
		if err != nil {
			return o, fmt.Errorf("find the folder of forage itself: %w", err)
		}
		o.BundleDir = filepath.Join(filepath.Dir(executable), "plugins")
	}
	return o, nil
}

// dirs lists the folders of third-party packs, first match wins.
func (o Options) dirs() []string {
	dirs := []string{o.PluginDir, o.env(PluginDirEnv), filepath.Join(o.WorkDir, ".forage", "plugins")}
	if home := o.env("HOME"); home != "" {
		dirs = append(dirs, filepath.Join(home, ".forage", "plugins"))
	}
	return slices.DeleteFunc(dirs, func(d string) bool { return d == "" })
}

// Pack is a binary that holds plugins.
type Pack struct {
	Name    string // of the file: forage-rewards
	Path    string
	Digest  string // sha256 of the file, in hex
	Bundled bool   // built with forage: its plugins go by their bare names
	Trusted bool   // may be started
}

// key tells packs apart in caches: one file may be linked under two names and serve another pack under each.
func (p Pack) key() string { return p.Digest + "-" + p.Name }

// Short is the pack's name in labels: "citations" of forage-citations.
func (p Pack) Short() string { return strings.TrimPrefix(p.Name, "forage-") }

// Catalogue is what discovery found. It is safe for concurrent use. Close it to end processes that validation
// started.
type Catalogue struct {
	options Options
	packs   []Pack

	mu          sync.Mutex                // guards the rest
	described   map[string]*describedPack // by Pack.key, as validations
	validations map[string]*packValidator
	identity    *identity
	sockets     *socketDir
}

var packFile = regexp.MustCompile(`^forage-[a-z][a-z0-9-]*$`)

// Discover looks for packs: files named forage-NAME, or NAME/forage-NAME, in the bundle and in the folders of
// third-party packs, where an earlier folder hides packs of the same name in later ones. It executes nothing.
func Discover(ctx context.Context, o Options) (*Catalogue, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Catalogue{options: o, described: map[string]*describedPack{}, validations: map[string]*packValidator{}}
	bundled, err := findPacks(o.BundleDir)
	if err != nil {
		return nil, err
	}
	hashes, err := readHashes(filepath.Join(o.BundleDir, BundleFile))
	if err != nil {
		return nil, err
	}
	for _, p := range bundled {
		p.Bundled = true
		p.Trusted = hashes[filepath.Base(p.Path)] == p.Digest
		c.packs = append(c.packs, p)
	}
	trusted, err := readHashes(o.TrustFile)
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, digest := range trusted {
		known[digest] = true
	}
	for _, dir := range o.dirs() {
		found, err := findPacks(dir)
		if err != nil {
			return nil, err
		}
		for _, p := range found {
			if slices.ContainsFunc(c.packs, func(q Pack) bool { return !q.Bundled && q.Name == p.Name }) {
				continue
			}
			p.Trusted = known[p.Digest]
			c.packs = append(c.packs, p)
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Packs lists the packs, bundled ones first.
func (c *Catalogue) Packs() []Pack {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.packs)
}

// findPacks lists the packs of one folder; a folder that does not exist has none.
func findPacks(dir string) ([]Pack, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for plugins: %w", err)
	}
	var packs []Pack
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		name := e.Name()
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			name = "forage-" + strings.TrimPrefix(e.Name(), "forage-")
			path = filepath.Join(path, name)
		}
		info, err := os.Stat(path)
		if err != nil || !packFile.MatchString(name) || !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0 {
			continue
		}
		digest, err := fileDigest(path)
		if err != nil {
			return nil, err
		}
		for _, q := range packs {
			if q.Name == name {
				return nil, fmt.Errorf("plugin pack %s is there twice, as %s and %s: remove one", name, q.Path, path)
			}
		}
		absolute, err := filepath.Abs(path)
		if err != nil {
			return nil, err
		}
		packs = append(packs, Pack{Name: name, Path: absolute, Digest: digest})
	}
	return packs, nil
}

func fileDigest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("hash a plugin: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("hash plugin %s: %w", path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
