//go:build !linux && !darwin

package scan

import (
	"io/fs"
	"time"
)

// openFlags does not contain O_NONBLOCK on this operating system, since opening a
// regular file never blocks.
const openFlags = 0

// deviceOf returns false, since this operating system does not tell the device.
func deviceOf(fs.FileInfo) (uint64, bool) { return 0, false }

// identity returns the modification time as the change time, and no inode, since this
// operating system tells neither.
func identity(info fs.FileInfo) (inode uint64, changed time.Time) {
	return 0, info.ModTime()
}
