package durable

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

const (
	nonblock = unix.O_NONBLOCK
	dirsSync = true
)

func syncFSTrusted(*os.Root) bool { return false }

func syncFS(*os.File) error { return errors.ErrUnsupported }

func renameNew(root *os.Root, from, to string) error {
	err := inParents(root, from, to, func(fromDir *os.File, from string, toDir *os.File, to string) error {
		err := unix.RenameatxNp(int(fromDir.Fd()), from, int(toDir.Fd()), to, unix.RENAME_EXCL)
		if err != nil {
			return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
		}
		return nil
	})
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) {
		return linkNew(root, from, to)
	}
	return err
}
