package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Holder says which process holds a lock.
type Holder struct {
	PID   int       `json:"pid"`
	Host  string    `json:"host"`
	Since time.Time `json:"since"`
}

// LockedError reports that another process holds a lock.
type LockedError struct {
	Path   string
	Holder Holder // zero when the holder did not write itself down
}

func (e *LockedError) Error() string {
	if e.Holder.PID == 0 {
		return fmt.Sprintf("%s is locked by another process: wait until it ends, or find it with `fuser %s` and stop it",
			e.Path, e.Path)
	}
	return fmt.Sprintf("%s is locked by process %d on host %s since %s: wait until it ends, or stop it there with `kill %d`; "+
		"the lock frees itself when the process is gone (deleting the file does not free it)",
		e.Path, e.Holder.PID, e.Holder.Host, e.Holder.Since.Format(time.RFC3339), e.Holder.PID)
}

// FileLock is a lock held by this process.
type FileLock struct{ f *os.File }

// lockTries and lockPause let Lock outlast a reader that probes the lock at the same moment (see [Locked]).
const (
	lockTries = 5
	lockPause = 20 * time.Millisecond
)

// Lock takes the lock file path (made if missing) by flock(2) or returns a [*LockedError] at once. The kernel frees
// the lock when the process dies, however it dies; child processes do not inherit it. Keep the result until the end of
// the work: a lock that nothing refers to any more may be freed by the garbage collector.
func Lock(path string) (*FileLock, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	for try := 1; ; try++ {
		err = flock(f, unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) || try == lockTries {
			break
		}
		time.Sleep(lockPause)
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		holder := readHolder(f)
		return nil, errors.Join(&LockedError{Path: path, Holder: holder}, f.Close())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w (does the file system support flock?)", path, err), f.Close())
	}
	if err := writeHolder(f); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	return &FileLock{f}, nil
}

// Unlock frees the lock. The file stays: removing it would let two processes hold two files of one name.
func (l *FileLock) Unlock() error {
	if l == nil || l.f == nil {
		return nil
	}
	f := l.f
	l.f = nil
	return errors.Join(f.Truncate(0), f.Close())
}

// Locked says whether some process holds the lock file path, and which. A missing file is not locked.
func Locked(path string) (Holder, bool, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return Holder{}, false, nil
	}
	if err != nil {
		return Holder{}, false, fmt.Errorf("probe lock: %w", err)
	}
	defer f.Close()
	// A shared lock does not disturb other probes; Lock retries in case it meets one.
	switch err := flock(f, unix.LOCK_SH|unix.LOCK_NB); {
	case err == nil:
		return Holder{}, false, nil
	case errors.Is(err, unix.EWOULDBLOCK):
		return readHolder(f), true, nil
	default:
		return Holder{}, false, fmt.Errorf("probe lock %s: %w", path, err)
	}
}

func flock(f *os.File, how int) error {
	for {
		err := unix.Flock(int(f.Fd()), how)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func writeHolder(f *os.File) error {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	data, err := json.Marshal(Holder{PID: os.Getpid(), Host: host, Since: time.Now().UTC().Truncate(time.Second)})
	if err != nil {
		return err
	}
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err = f.WriteAt(append(data, '\n'), 0)
	return err
}

// readHolder gives the zero Holder where the file says nothing readable: the holder may be just writing it.
func readHolder(f *os.File) Holder {
	data, err := io.ReadAll(io.NewSectionReader(f, 0, 4096))
	if err != nil {
		return Holder{}
	}
	var h Holder
	if json.Unmarshal(data, &h) != nil {
		return Holder{}
	}
	return h
}

func isNotEmpty(err error) bool { return errors.Is(err, unix.ENOTEMPTY) }
