package scan

import (
	"encoding/binary"
	"io/fs"
	"strconv"
	"time"
)

// racyWindow is the time within which two changes of a file may give it the same times,
// because some file systems store times with a resolution of two seconds.
const racyWindow = 2 * time.Second

// stamp identifies the state of a file by size, modification time, change time and inode.
// If the bytes of a file change, its stamp changes: replacing a file changes the inode even
// if size and time stay the same, and programs cannot set the change time.
type stamp [4]int64

func stampOf(info fs.FileInfo) stamp {
	inode, changed := identity(info)
	return stamp{info.Size(), info.ModTime().UnixNano(), changed.UnixNano(), int64(inode)}
}

// String returns the text of the stamp that is stored in catalog.Resource.Stat.
func (p stamp) String() string {
	b := strconv.AppendInt(make([]byte, 0, 64), p[0], 10)
	for _, n := range p[1:3] {
		b = strconv.AppendInt(append(b, ' '), n, 10)
	}
	return string(strconv.AppendUint(append(b, ' '), uint64(p[3]), 10))
}

func (p stamp) appendTo(b []byte) []byte {
	for _, n := range p {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	return b
}

// isSettled reports whether the file last changed long before start, the time at which
// reading began. If so, any later change must have given the file another stamp.
func (p stamp) isSettled(start time.Time) bool { return p[2] < start.Add(-racyWindow).UnixNano() }

func statOf(info fs.FileInfo) Stat { return Stat{info.Size(), info.ModTime()} }
