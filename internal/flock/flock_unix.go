//go:build unix

package flock

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// openLock neither follows a symbolic link nor blocks on a FIFO.
func openLock(path string, flag int) (*os.File, error) {
	return os.OpenFile(path, flag|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o640)
}

func openDir(dir string) (*os.File, error) {
	return os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
}

func tryLock(f *os.File, shared bool) error {
	how := unix.LOCK_EX | unix.LOCK_NB
	if shared {
		how = unix.LOCK_SH | unix.LOCK_NB
	}
	for {
		err := unix.Flock(int(f.Fd()), how)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EWOULDBLOCK):
			return errHeld
		case noLocks(err):
			return fmt.Errorf("%w: %w", errNoLocks, err)
		}
		return err
	}
}

// noLocks includes EBADF, because NFS returns EBADF for a directory: it locks only
// files that are open for writing.
func noLocks(err error) bool {
	return slices.ContainsFunc([]error{unix.EBADF, unix.EINVAL, unix.ENOLCK, unix.ENOSYS, unix.EOPNOTSUPP}, func(e error) bool {
		return errors.Is(err, e)
	})
}
