package host

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// BundleFile lists the hashes of the bundled packs, in the format of sha256sum. "make build" writes it.
const BundleFile = "SHA256SUMS"

// UntrustedError refuses to start a pack. Nothing of it has been executed.
type UntrustedError struct {
	Pack Pack
	// Changed is the hash that was expected, where there was one.
	Changed string
}

func (e *UntrustedError) Error() string {
	switch {
	case e.Changed != "":
		return fmt.Sprintf("plugin pack %s (%s) changed on disk since it was found: its sha256 was %s and is %s now; run the command again, and \"forage init\" if you trust the new file",
			e.Pack.Name, e.Pack.Path, e.Changed, e.Pack.Digest)
	case e.Pack.Bundled:
		return fmt.Sprintf("bundled plugin pack %s (%s, sha256 %s) is not the one that %s beside it lists; it has not been started: run \"make build\" again",
			e.Pack.Name, e.Pack.Path, e.Pack.Digest, BundleFile)
	}
	return fmt.Sprintf("plugin pack %s (%s, sha256 %s) is not trusted and has not been started: if you know where it comes from, run \"forage init\" to trust it",
		e.Pack.Name, e.Pack.Path, e.Pack.Digest)
}

var hashLine = regexp.MustCompile(`^([0-9a-f]{64}) [ *](.+)$`)

// readHashes reads lines of sha256 and file name; a file that does not exist is empty. Lines starting with # and
// blank ones are skipped.
func readHashes(path string) (map[string]string, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	hashes := map[string]string{}
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		m := hashLine.FindStringSubmatch(line)
		if m == nil {
			return nil, fmt.Errorf("%s:%d: expected a sha256 in hex, two spaces and a file name, got %q", path, n, line)
		}
		hashes[m[2]] = m[1]
	}
	return hashes, lines.Err()
}

// Trust adds the pack to the user's trust record, so that it may be started from now on. Only a command by which the
// user says so after seeing path and hash may call it.
func (c *Catalogue) Trust(p Pack) error {
	if err := p.unchanged(); err != nil {
		return err
	}
	path := c.options.TrustFile
	hashes, err := readHashes(path)
	if err != nil {
		return err
	}
	if hashes[p.Path] != p.Digest {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return fmt.Errorf("extend the trust record: %w", err)
		}
		_, err = fmt.Fprintf(f, "%s  %s\n", p.Digest, p.Path)
		if err := errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("extend the trust record %s: %w", path, err)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.packs {
		if c.packs[i].Digest == p.Digest && !c.packs[i].Bundled {
			c.packs[i].Trusted = true
		}
	}
	return nil
}

// WriteBundle writes the hashes of the packs in dir: the last step of a build.
func WriteBundle(dir string) error {
	packs, err := findPacks(dir)
	if err != nil {
		return err
	}
	slices.SortFunc(packs, func(a, b Pack) int { return strings.Compare(a.Name, b.Name) })
	var b strings.Builder
	for _, p := range packs {
		fmt.Fprintf(&b, "%s  %s\n", p.Digest, filepath.Base(p.Path))
	}
	return writeAtomic(filepath.Join(dir, BundleFile), []byte(b.String()), 0o644)
}

// startable is the last check before a pack's code runs: it is trusted, and the file is still the one that was hashed.
func (p Pack) startable() error {
	if !p.Trusted {
		return &UntrustedError{Pack: p}
	}
	return p.unchanged()
}

// unchanged fails when the pack's file is another one than was hashed.
func (p Pack) unchanged() error {
	digest, err := fileDigest(p.Path)
	if err != nil {
		return err
	}
	if digest != p.Digest {
		changed := p
		changed.Digest = digest
		return &UntrustedError{Pack: changed, Changed: p.Digest}
	}
	return nil
}

// writeAtomic replaces a file as a whole or not at all.
func writeAtomic(path string, data []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
