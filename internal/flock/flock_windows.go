package flock

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

func openLock(path string, flag int) (*os.File, error) {
	return os.OpenFile(path, flag, 0o640)
}

// openDir returns nil, because Windows cannot lock directories. Locking them is not
// necessary, since Windows lets nobody remove an open lock file.
func openDir(string) (*os.File, error) { return nil, nil }

// tryLock locks one byte far beyond the end of the text in the file, so that other
// processes can read which process holds the lock.
func tryLock(f *os.File, shared bool) error {
	flags := uint32(windows.LOCKFILE_FAIL_IMMEDIATELY)
	if !shared {
		flags |= windows.LOCKFILE_EXCLUSIVE_LOCK
	}
	at := &windows.Overlapped{OffsetHigh: 1}
	err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, at)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return errHeld
	}
	return err
}
