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
type Lock struct{ f *os.File }

// errHeld is what the system-specific tryLock returns when somebody else holds the lock.
var errHeld = errors.New("held")

// maxHolder bounds the text that names the holder.
const maxHolder = 512

// Acquire locks the file at path, which it makes if it is absent; its directory
// must exist. It never waits: a lock that is held is a *LockedError.
func Acquire(path string) (*Lock, error) {
	f, err := openLock(path)
	if err != nil {
		return nil, fmt.Errorf("opening the lock: %w", err)
	}
	if err := tryLock(f); err != nil {
		defer f.Close()
		if errors.Is(err, errHeld) {
			return nil, lockedBy(path, f)
		}
		return nil, fmt.Errorf("locking %q: %w", path, err)
	}
	if err := writeHolder(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("writing the lock %q: %w", path, err)
	}
	return &Lock{f}, nil
}

// Release gives the lock back. The file stays: removing it could take a lock away
// from a run that has just opened it.
func (l *Lock) Release() error {
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
