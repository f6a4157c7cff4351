//go:build !linux && !darwin

package durable

import (
	"errors"
	"os"
	"runtime"
	"syscall"
)

const nonblock = syscall.O_NONBLOCK

// Windows cannot sync a directory. That is not necessary, since the journal of its file
// system makes a rename durable.
const dirsSync = runtime.GOOS != "windows"

func syncFSTrusted(*os.Root) bool { return false }

func syncFS(*os.File) error { return errors.ErrUnsupported }

var renameExcl func(fromDir int, from string, toDir int, to string) error

var dirCalls *calls // nil, since this system has no calls like openat

var fullErrors []error

// SpaceOf returns the zero Space, because the free space is unknown on this system.
func SpaceOf(*os.Root) (Space, error) { return Space{}, nil }
