//go:build !linux && !darwin

package scan

import (
	"io/fs"
	"time"
)

// openFlags: what Lstat calls a regular file is opened without waiting here.
const openFlags = 0

// deviceOf knows no device here.
func deviceOf(fs.FileInfo) (uint64, bool) { return 0, false }

// identity knows no inode here, and no change time beside that of the bytes.
func identity(info fs.FileInfo) (inode uint64, changed time.Time) {
	return 0, info.ModTime()
}
