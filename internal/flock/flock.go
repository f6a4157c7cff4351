// Package flock lets only one process use a directory at a time. The kernel holds the lock
// and releases it when the process ends; the text in the file only names the holder for
// people.
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

// LockedError describes the holder of a lock.
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
	dir    *os.File // directory of f, which is locked too; nil if the system cannot lock directories
	shared bool
}

// Errors of tryLock, which depends on the system.
var (
	errHeld    = errors.New("another process holds the lock")
	errNoLocks = errors.New("the file system cannot lock this file")
)

// maxHolder is the maximum length of the text that names the holder.
const maxHolder = 512

// Acquire locks the file at path and creates it if it is absent; its directory must
// exist. It never waits: if the lock is held it returns a *LockedError. It locks the
// directory too: otherwise, if the file is removed while a holder runs, the next Acquire
// would lock a new file.
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

// Share takes a shared lock, which blocks Acquire during a read. It writes nothing, not
// even the holder's name. Several processes may share. If there is no file at path, and
// so no holder, the error is fs.ErrNotExist.
func Share(path string) (*Lock, error) { return lock(path, os.O_RDONLY, true) }

// Dir locks a directory rather than a file in it. Prefer Acquire, which names the
// holder and works on all systems. If the system cannot lock directories, Dir locks
// nothing.
func Dir(dir string) (*Lock, error) {
	l := &Lock{shared: true} // a directory has no holder's name to remove
	if err := l.lockDir(dir, dir, false); err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

// maxTries bounds how often lock starts again because the file was replaced.
const maxTries = 10

func lock(path string, flag int, shared bool) (*Lock, error) {
	for range maxTries {
		l, err := lockOnce(path, flag, shared)
		if err != nil {
			return nil, err
		}
		same, err := l.stands(path)
		if err == nil && same {
			return l, nil
		}
		if err := errors.Join(err, l.close()); err != nil {
			return nil, fmt.Errorf("locking %q: %w", path, err)
		}
	}
	return nil, fmt.Errorf("locking %q: the file was replaced %d times meanwhile", path, maxTries)
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
	return l, held(tryLock(l.f, shared), path)
}

// lockDir locks the directory of the lock file at path.
func (l *Lock) lockDir(dir, path string, shared bool) (err error) {
	if l.dir, err = openDir(dir); err != nil {
		return fmt.Errorf("opening the directory of a lock: %w", err)
	}
	if l.dir == nil {
		return nil
	}
	err = tryLock(l.dir, shared)
	if errors.Is(err, errNoLocks) {
		return nil // the file itself stays locked
	}
	return held(err, path)
}

// held converts errHeld to a *LockedError.
func held(err error, path string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errHeld):
		return lockedBy(path)
	}
	return fmt.Errorf("locking %q: %w", path, err)
}

// stands reports whether the locked file is still the file at path.
func (l *Lock) stands(path string) (bool, error) {
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

// Release releases the lock. The file stays: removing it could take a lock away from a
// run that has just opened it.
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

// lockedBy returns the holder of the lock if the file at path contains its name.
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
