package scan

import (
	"io/fs"
	"syscall"
	"time"
)

// openFlags makes Open return at once if the file is a FIFO without a writer.
const openFlags = syscall.O_NONBLOCK

func deviceOf(info fs.FileInfo) (uint64, bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return uint64(st.Dev), true
}

func identity(info fs.FileInfo) (inode uint64, changed time.Time) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, info.ModTime()
	}
	return st.Ino, time.Unix(st.Ctimespec.Unix())
}
