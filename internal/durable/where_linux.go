package durable

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Where returns an identifier of a directory and its file system. The identifier is
// constant as long as the directory exists. A copy of the directory has a different
// identifier. Where returns "" if the file system has no identity.
func Where(root *os.Root) (where string, err error) {
	f, err := root.Open(".")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	var system unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &system); err != nil {
		return "", &os.SyscallError{Syscall: "fstatfs", Err: err}
	}
	var dir unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &dir); err != nil {
		return "", &os.SyscallError{Syscall: "fstat", Err: err}
	}
	if system.Fsid == (unix.Fsid{}) {
		return "", nil
	}
	return fmt.Sprintf("%x:%x:%x:%x", system.Fsid.Val, system.Type, dir.Dev, dir.Ino), nil
}
