//go:build !linux

package durable

import (
	"errors"
	"io/fs"
	"os"
	"time"
)

func namelessTrusted(*os.Root) bool { return false }

func openNameless(*os.File, fs.FileMode) (*os.File, error) { return nil, errors.ErrUnsupported }

func linkNameless(int, int, string) error { return errors.ErrUnsupported }

// SetModTime returns errors.ErrUnsupported. It is only needed for files without a name, which
// this system does not have.
func SetModTime(*os.File, time.Time) error { return errors.ErrUnsupported }

// MaxNameless returns 0, because files without a name cannot be made on this system.
func MaxNameless() int { return 0 }

// Where returns "", because it can identify file systems only on Linux.
func Where(*os.Root) (string, error) { return "", nil }
