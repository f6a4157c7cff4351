package scan

import (
	"fmt"
	"io/fs"
	"time"
)

// racyWindow is how long after its last change a file may change once more without
// a trace in its times: they are as coarse as two seconds on some file systems.
const racyWindow = 2 * time.Second

// fingerprint identifies the state of a file. As long as it stays, so do the bytes.
// An inode that changes shows a file that was replaced by one of the same size and
// time; the change time cannot be set by anybody.
func fingerprint(info fs.FileInfo) string {
	inode, changed := identity(info)
	return fmt.Sprintf("%d %d %d %d", info.Size(), info.ModTime().UnixNano(), changed.UnixNano(), inode)
}

// settled reports whether every change after the file was read, which began at
// that moment, shows in its fingerprint.
func settled(info fs.FileInfo, read time.Time) bool {
	_, changed := identity(info)
	return changed.Before(read.Add(-racyWindow))
}

func statOf(info fs.FileInfo) Stat { return Stat{info.Size(), info.ModTime()} }
