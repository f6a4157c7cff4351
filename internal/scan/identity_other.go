//go:build !linux && !darwin

package scan

import (
	"io/fs"
	"time"
)

// openFlags does not contain O_NONBLOCK on this operating system, because opening a regular
// file never blocks.
const openFlags = 0

// deviceOf returns false, because the device is unknown on this operating system.
func deviceOf(fs.FileInfo) (uint64, bool) { return 0, false }

// identity returns the modification time as the change time, and no inode, because both are
// unknown on this operating system.
func identity(info fs.FileInfo) (inode uint64, changed time.Time) {
	return 0, info.ModTime()
}
