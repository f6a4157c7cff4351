//go:build linux || darwin

package durable

import (
	"io/fs"

	"golang.org/x/sys/unix"
)

// calls by an open directory and a name in it.
var at = &calls{
	lstat: func(dir int, name string) (fs.FileMode, error) {
		var st unix.Stat_t
		if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
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
		return unix.Mkdirat(dir, name, uint32(mode.Perm()))
	},
	link: func(fromDir int, from string, toDir int, to string) error {
		return unix.Linkat(fromDir, from, toDir, to, 0)
	},
	rename: unix.Renameat,
}
