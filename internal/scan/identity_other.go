//go:build !linux && !darwin

package scan

import (
	"io/fs"
	"time"
)

// openFlags needs no O_NONBLOCK here: opening a file that Lstat calls regular does not
// block.
const openFlags = 0

// deviceOf returns false: devices are unknown on this system.
func deviceOf(fs.FileInfo) (uint64, bool) { return 0, false }

// identity returns the modification time only: inode and change time are unknown on
// this system.
func identity(info fs.FileInfo) (inode uint64, changed time.Time) {
	return 0, info.ModTime()
}
