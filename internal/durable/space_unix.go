//go:build linux || darwin

package durable

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// fullErrors are the errors for a full file system, an exhausted quota and a file of the
// maximum size.
var fullErrors = []error{unix.ENOSPC, unix.EDQUOT, unix.EFBIG}

// SpaceOf returns the free space at root.
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
