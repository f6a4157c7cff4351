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

var renameExcl = func(fromDir int, from string, toDir int, to string) error {
	err := retryEINTR(func() error { return unix.RenameatxNp(fromDir, from, toDir, to, unix.RENAME_EXCL) })
	if errors.Is(err, unix.EINVAL) { // the file system cannot rename without replacing
		return errors.ErrUnsupported
	}
	return err
}
