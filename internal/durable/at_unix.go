//go:build linux || darwin

package durable

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"
)

var dirCalls = &calls{
	open: func(dir int, name string) (fd int, err error) {
		err = retryEINTR(func() error {
			fd, err = unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
			return err
		})
		return fd, err
	},
	lstat: func(dir int, name string) (fs.FileMode, error) {
		var st unix.Stat_t
		if err := retryEINTR(func() error { return unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) }); err != nil {
			return 0, err
		}
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			return 0, nil
		case unix.S_IFDIR:
			return fs.ModeDir, nil
		case unix.S_IFLNK:
			return fs.ModeSymlink, nil
		}
		return fs.ModeIrregular, nil
	},
	mkdir: func(dir int, name string, mode fs.FileMode) error {
		return retryEINTR(func() error { return unix.Mkdirat(dir, name, uint32(mode.Perm())) })
	},
	link: func(fromDir int, from string, toDir int, to string) error {
		return retryEINTR(func() error { return unix.Linkat(fromDir, from, toDir, to, 0) })
	},
	rename: func(fromDir int, from string, toDir int, to string) error {
		return retryEINTR(func() error { return unix.Renameat(fromDir, from, toDir, to) })
	},
}

// retryEINTR repeats a system call that a signal has interrupted, like package os.
// Network file systems and file systems in user space return EINTR then.
func retryEINTR(do func() error) error {
	for {
		if err := do(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
