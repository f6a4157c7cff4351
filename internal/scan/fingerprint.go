package scan

import (
	"encoding/binary"
	"io/fs"
	"strconv"
	"time"
)

// racyWindow is how long after its last change a file may change once more without
// a trace in its times: they are as coarse as two seconds on some file systems.
const racyWindow = 2 * time.Second

// stamp identifies the state of a file: size, modification time, change time, inode.
// As long as it stays, so do the bytes. An inode that changes shows a file that was
// replaced by one of the same size and time; the change time cannot be set by anybody.
type stamp [4]int64

func stampOf(info fs.FileInfo) stamp {
	inode, changed := identity(info)
	return stamp{info.Size(), info.ModTime().UnixNano(), changed.UnixNano(), int64(inode)}
}

// String is the form that catalog.Resource.Stat has.
func (p stamp) String() string {
	b := strconv.AppendInt(make([]byte, 0, 64), p[0], 10)
	for _, n := range p[1:3] {
		b = strconv.AppendInt(append(b, ' '), n, 10)
	}
	return string(strconv.AppendUint(append(b, ' '), uint64(p[3]), 10))
}

// appendTo appends the stamp in a form of fixed length.
func (p stamp) appendTo(b []byte) []byte {
	for _, n := range p {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	return b
}

// settled reports whether every change of the file after reading began, at that moment,
// changes its stamp.
func (p stamp) settled(read time.Time) bool { return p[2] < read.Add(-racyWindow).UnixNano() }

func statOf(info fs.FileInfo) Stat { return Stat{info.Size(), info.ModTime()} }
