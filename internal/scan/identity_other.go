//go:build !linux && !darwin

package scan

import (
	"io/fs"
	"time"
)

// openFlags has no O_NONBLOCK: opening what Lstat calls a regular file does not block here.
const openFlags = 0

// deviceOf knows no device here.
func deviceOf(fs.FileInfo) (uint64, bool) { return 0, false }

// identity returns no inode here, and no change time besides the modification time.
func identity(info fs.FileInfo) (inode uint64, changed time.Time) {
	return 0, info.ModTime()
}
