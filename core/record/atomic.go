package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
)

// tempPrefix marks files and folders that are being written. No reader looks at them.
const tempPrefix = ".tmp-"

// WriteFile replaces the file path by data, or leaves it as it was: the bytes go to a temporary file in the same
// folder, are synced, and take the name in one step. After a nil error the new content survives a power loss; after an
// error (a full disk, for one) the old file, if there was one, is unchanged.
func WriteFile(path string, data []byte) (err error) {
	f, err := createTemp(path)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("write %s (the earlier file, if any, is unchanged): %w", path,
				errors.Join(err, ignoreMissing(os.Remove(f.Name()))))
		}
	}()
	if _, err = f.Write(data); err != nil {
		return errors.Join(err, f.Close())
	}
	if err = f.Sync(); err != nil {
		return errors.Join(err, f.Close())
	}
	if err = f.Close(); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// WriteJSON is [WriteFile] of v as indented JSON with a final newline.
func WriteJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return WriteFile(path, append(data, '\n'))
}

// ReadJSON reads a file that [WriteJSON] wrote into v. A missing file is an error that wraps fs.ErrNotExist; bad JSON
// is reported with file:line.
func ReadJSON(path string, v any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read record: %w", err)
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("%s:%d: not a valid record: %w", path, jsonErrorLine(data, err), err)
	}
	return nil
}

func jsonErrorLine(data []byte, err error) int {
	offset := int64(len(data))
	var syntax *json.SyntaxError
	var typ *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		offset = syntax.Offset
	case errors.As(err, &typ):
		offset = typ.Offset
	}
	offset = max(0, min(offset, int64(len(data))))
	return 1 + strings.Count(string(data[:offset]), "\n")
}

// AtomicDir makes the folder final from what fill writes into a temporary folder beside it: every file is synced and
// the folder takes its name in one step, so that a reader finds the whole folder or none. If final exists, the error
// wraps fs.ErrExist and nothing changes. If fill fails, its error is returned and the temporary folder removed.
func AtomicDir(final string, fill func(tmp string) error) (err error) {
	if _, err := os.Lstat(final); err == nil {
		return fmt.Errorf("create folder %s: %w", final, fs.ErrExist)
	}
	parent := filepath.Dir(final)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return fmt.Errorf("create folder %s: %w", final, err)
	}
	tmp := tempName(final)
	if err := os.Mkdir(tmp, 0o755); err != nil {
		return fmt.Errorf("create folder %s: %w", final, err)
	}
	renamed := false
	defer func() {
		// Also after a panic of fill: the half-written folder must not stay.
		if !renamed {
			err = errors.Join(err, os.RemoveAll(tmp))
		}
	}()
	if err := fill(tmp); err != nil {
		return fmt.Errorf("create folder %s: %w", final, err)
	}
	if err := syncTree(tmp); err != nil {
		return fmt.Errorf("create folder %s: %w", final, err)
	}
	if err := os.Rename(tmp, final); err != nil {
		if errors.Is(err, fs.ErrExist) || isNotEmpty(err) {
			err = fs.ErrExist // another process made it meanwhile
		}
		return fmt.Errorf("create folder %s: %w", final, err)
	}
	renamed = true
	if err := syncDir(parent); err != nil {
		return fmt.Errorf("create folder %s: %w", final, err)
	}
	return nil
}

// RemoveDir deletes a folder so that no reader ever sees a part of it: it loses its name first.
func RemoveDir(path string) error {
	tmp := tempName(path)
	if err := os.Rename(path, tmp); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return fmt.Errorf("remove folder: %w", err)
	}
	if err := os.RemoveAll(tmp); err != nil {
		return fmt.Errorf("remove folder %s: %w", path, err)
	}
	return nil
}

// RemoveTemp deletes what interrupted writers left under dir, at any depth. Call it only while holding the lock that
// keeps other writers out.
func RemoveTemp(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path == dir || !strings.HasPrefix(d.Name(), tempPrefix) {
			return nil
		}
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("remove leftover: %w", err)
		}
		if d.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
}

func tempName(path string) string {
	return filepath.Join(filepath.Dir(path),
		fmt.Sprintf("%s%s-%d-%08x", tempPrefix, filepath.Base(path), os.Getpid(), rand.Uint32()))
}

// createTemp opens a new file beside path. os.CreateTemp is not used because it ignores the umask (mode 0600).
func createTemp(path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(tempName(path), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
}

func syncTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() || d.Type().IsRegular() {
			return syncDir(path)
		}
		return nil
	})
}

// syncDir flushes a folder (or a closed file) to the disk.
func syncDir(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return errors.Join(err, f.Close())
	}
	return f.Close()
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
