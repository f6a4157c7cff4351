// Package flock locks a directory for one process at a time. The kernel holds the lock
// and releases it when the process ends. The text in the lock file only tells people
// which process holds the lock.
package flock

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// LockedError means that another process holds the lock.
type LockedError struct {
	Path string
	PID  int    // 0 if unknown
	Host string // "" if unknown
}

func (e *LockedError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("%q is locked by another run", e.Path)
	}
	return fmt.Sprintf("%q is locked by another run (process %d on %q)", e.Path, e.PID, e.Host)
}

// Lock is a lock that is held until Release or the end of the process.
type Lock struct {
	f      *os.File
	dir    *os.File // the directory, which is locked like the lock file; nil if the system cannot lock directories
	shared bool
}

// maxHolder is the maximum length of the text in a lock file, in bytes.
const maxHolder = 512

// Acquire locks the file at path and its directory. It creates the file, but not the
// directory. It never waits: if another process holds the lock, it returns a
// *LockedError. Acquire also locks the directory because somebody may remove the file:
// another process would then create and lock a new file.
func Acquire(path string) (*Lock, error) {
	l, err := lock(path, os.O_RDWR|os.O_CREATE, false)
	if err != nil {
		return nil, err
	}
	if err := writeHolder(l.f); err != nil {
		return nil, errors.Join(fmt.Errorf("writing the lock %q: %w", path, err), l.close())
	}
	return l, nil
}

// Share takes a shared lock. Several processes can hold it at a time, but not while a
// process holds the lock of Acquire. Share writes nothing into the file. If there is no
// file at path, nobody holds a lock there, and Share returns fs.ErrNotExist.
func Share(path string) (*Lock, error) { return lock(path, os.O_RDONLY, true) }

// Dir locks a directory without a lock file. If the system cannot lock directories, Dir
// locks nothing. Use Acquire where a lock file is possible, since that names the
// process that holds the lock, and works on all systems.
func Dir(dir string) (*Lock, error) {
	l := &Lock{shared: true} // the lock counts as shared, so that Release does not try to truncate a lock file: there is none
	if err := l.lockDir(dir, dir, false); err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

// maxTries is the number of attempts to lock a file, since another program can replace the
// file before it is locked.
const maxTries = 10

func lock(path string, flag int, shared bool) (*Lock, error) {
	for range maxTries {
		l, err := lockOnce(path, flag, shared)
		if err != nil {
			return nil, err
		}
		same, err := l.locksFileAt(path)
		if err == nil && same {
			return l, nil
		}
		if err := errors.Join(err, l.close()); err != nil {
			return nil, fmt.Errorf("locking %q: %w", path, err)
		}
	}
	return nil, fmt.Errorf("locking %q: the file was replaced %d times while it was being locked", path, maxTries)
}

func lockOnce(path string, flag int, shared bool) (_ *Lock, err error) {
	l := &Lock{shared: shared}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close())
		}
	}()
	if err := l.lockDir(filepath.Dir(path), path, shared); err != nil {
		return nil, err
	}
	if l.f, err = openLock(path, flag); err != nil {
		return nil, fmt.Errorf("opening the lock: %w", err)
	}
	return l, lockError(tryLock(l.f, shared), path)
}

func (l *Lock) lockDir(dir, path string, shared bool) (err error) {
	if l.dir, err = openDir(dir); err != nil {
		return fmt.Errorf("opening the directory of a lock: %w", err)
	}
	if l.dir == nil {
		return nil
	}
	err = tryLock(l.dir, shared)
	if errors.Is(err, errNoLocks) {
		return nil // the directory stays unlocked, since this file system locks only files
	}
	return lockError(err, path)
}

func lockError(err error, path string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errHeld):
		return lockedBy(path)
	}
	return fmt.Errorf("locking %q: %w", path, err)
}

func (l *Lock) locksFileAt(path string) (bool, error) {
	have, err := l.f.Stat()
	if err != nil {
		return false, err
	}
	at, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(have, at), err
}

// Release releases the lock. It does not remove the lock file, since another process
// may have opened this file to lock it next.
func (l *Lock) Release() error {
	if l.shared {
		return l.close()
	}
	if err := l.f.Truncate(0); err != nil {
		return errors.Join(fmt.Errorf("releasing the lock: %w", err), l.close())
	}
	return l.close()
}

func (l *Lock) close() error {
	var errs []error
	for _, f := range []*os.File{l.f, l.dir} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

func writeHolder(f *os.File) error {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+" "+host+"\n"), 0)
	return err
}

// lockedBy does not set PID and Host if it cannot read the text in the lock file.
func lockedBy(path string) *LockedError {
	e := &LockedError{Path: path}
	f, err := openLock(path, os.O_RDONLY)
	if err != nil {
		return e
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxHolder))
	if err != nil {
		return e
	}
	pid, host, ok := strings.Cut(strings.TrimSpace(string(text)), " ")
	if n, err := strconv.Atoi(pid); ok && err == nil {
		e.PID, e.Host = n, host
	}
	return e
}
