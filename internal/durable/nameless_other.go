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

// SetModTime sets the time of modification of a file without a name.
func SetModTime(*os.File, time.Time) error { return errors.ErrUnsupported }

// MaxNameless is how many files without a name may be open at a time: here there are none.
func MaxNameless() int { return 0 }
