package scan

import (
	"io/fs"
	"syscall"
	"time"
)

// openFlags keep Open from waiting for the writer of a FIFO.
const openFlags = syscall.O_NONBLOCK

// deviceOf returns the device that a file is on.
func deviceOf(info fs.FileInfo) (uint64, bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return uint64(st.Dev), true
}

// identity returns the inode and the time of the last change of any kind.
func identity(info fs.FileInfo) (inode uint64, changed time.Time) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, info.ModTime()
	}
	return st.Ino, time.Unix(st.Ctim.Unix())
}
