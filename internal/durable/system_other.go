//go:build !linux && !darwin

package durable

import (
	"errors"
	"os"
	"runtime"
	"syscall"
)

const nonblock = syscall.O_NONBLOCK

// Windows can't sync a directory; a rename there is durable by its journal.
const dirsSync = runtime.GOOS != "windows"

func syncFSTrusted(*os.Root) bool { return false }

func syncFS(*os.File) error { return errors.ErrUnsupported }

func renameNew(root *os.Root, from, to string) error { return linkNew(root, from, to) }
