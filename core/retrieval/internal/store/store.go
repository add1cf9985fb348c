// Package store keeps files that are made once and then only read, addressed by a digest in their name and shared by
// parallel processes. It must not know what the files hold.
package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

// lockPoll is how often a process looks whether another one has finished making the same file.
const lockPoll = 20 * time.Millisecond

// Ensure gives the path of dir/name and calls build to make it where it is absent. Build writes the whole content to
// the file it gets; the file appears under its name only when build has returned nil and the data are on disk. Of
// several processes that want the same file one makes it and the others wait; a process that dies leaves nothing but
// a temporary file, which the next one removes.
func Ensure(ctx context.Context, dir, name string, build func(*os.File) error) (string, error) {
	path := filepath.Join(dir, name)
	if exists(path) {
		return path, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make the cache folder: %w", err)
	}
	lock := flock.New(path + ".lock")
	if _, err := lock.TryLockContext(ctx, lockPoll); err != nil {
		return "", fmt.Errorf("wait for another process that makes %s: %w", path, err)
	}
	defer lock.Unlock() //nolint:errcheck // closing the file frees the lock in any case
	if exists(path) {
		return path, nil
	}
	// The name is fixed: the lock is held, so a file left there is of a process that died.
	temporary := path + ".partial"
	file, err := os.OpenFile(temporary, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return "", fmt.Errorf("make %s: %w", path, err)
	}
	err = build(file)
	if err == nil {
		err = file.Sync()
	}
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		return "", errors.Join(err, os.Remove(temporary))
	}
	return path, syncFolder(dir)
}

// Discard removes a file found to be damaged, so that Ensure makes it again.
func Discard(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func exists(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// syncFolder makes a rename durable.
func syncFolder(dir string) error {
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer folder.Close()
	if err := folder.Sync(); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	return nil
}
