// Package flock keeps two processes from using one directory of ours at a time.
// The kernel holds the lock and frees it when its holder ends, however it ends;
// the text in the file only tells people who the holder is.
package flock

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// LockedError says who holds a lock.
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
	shared bool
}

// errHeld is what the system-specific tryLock returns when somebody else holds the lock.
var errHeld = errors.New("held")

// maxHolder bounds the text that names the holder.
const maxHolder = 512

// Acquire locks the file at path, which it makes if it is absent; its directory
// must exist. It never waits: a lock that is held is a *LockedError.
func Acquire(path string) (*Lock, error) {
	l, err := lock(path, os.O_RDWR|os.O_CREATE, false)
	if err != nil {
		return nil, err
	}
	if err := writeHolder(l.f); err != nil {
		l.f.Close()
		return nil, fmt.Errorf("writing the lock %q: %w", path, err)
	}
	return l, nil
}

// Share keeps the holders of Acquire away while something is read, and writes
// nothing, not even a name. Several may share. If there is no file at path the
// error is fs.ErrNotExist: then nobody has ever locked it.
func Share(path string) (*Lock, error) { return lock(path, os.O_RDONLY, true) }

func lock(path string, flag int, shared bool) (*Lock, error) {
	f, err := openLock(path, flag)
	if err != nil {
		return nil, fmt.Errorf("opening the lock: %w", err)
	}
	if err := tryLock(f, shared); err != nil {
		defer f.Close()
		if errors.Is(err, errHeld) {
			return nil, lockedBy(path, f)
		}
		return nil, fmt.Errorf("locking %q: %w", path, err)
	}
	return &Lock{f, shared}, nil
}

// Release gives the lock back. The file stays: removing it could take a lock away
// from a run that has just opened it.
func (l *Lock) Release() error {
	if l.shared {
		return l.f.Close()
	}
	if err := l.f.Truncate(0); err != nil {
		l.f.Close()
		return fmt.Errorf("releasing the lock: %w", err)
	}
	return l.f.Close()
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

func lockedBy(path string, f *os.File) *LockedError {
	e := &LockedError{Path: path}
	text, err := io.ReadAll(io.LimitReader(f, maxHolder))
	if err != nil {
		return e // the holder's name is only for people
	}
	pid, host, ok := strings.Cut(strings.TrimSpace(string(text)), " ")
	if n, err := strconv.Atoi(pid); ok && err == nil {
		e.PID, e.Host = n, host
	}
	return e
}
