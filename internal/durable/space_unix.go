//go:build linux || darwin

package durable

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

var fullErrors = []error{unix.ENOSPC, unix.EDQUOT, unix.EFBIG}

// SpaceOf returns the free space of the file system that contains root.
func SpaceOf(root *os.Root) (s Space, err error) {
	f, err := root.Open(".")
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &st); err != nil {
		return s, &os.SyscallError{Syscall: "fstatfs", Err: err}
	}
	block := uint64(st.Bsize)
	return Space{
		Total: block * st.Blocks, Free: block * uint64(st.Bavail),
		Files: st.Files, FreeFiles: uint64(st.Ffree), Known: true,
	}, nil
}
