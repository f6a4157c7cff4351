package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// openNameless calls openat instead of a method of os.Root, which would need four more
// system calls. That is safe, since the call contains no name that could be a link.
func openNameless(dir *os.File, mode fs.FileMode) (*os.File, error) {
	var fd int
	err := retryEINTR(func() (err error) {
		fd, err = unix.Openat(int(dir.Fd()), ".", unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC|unix.O_LARGEFILE, uint32(mode.Perm()))
		return err
	})
	if err != nil {
		return nil, &fs.PathError{Op: "create a file without a name in", Path: dir.Name(), Err: err}
	}
	return os.NewFile(uintptr(fd), filepath.Join(dir.Name(), "(no name)")), nil
}

// SetModTime sets the modification time of an open file, even if the file has no name.
func SetModTime(f *os.File, t time.Time) error {
	modified, err := unix.TimeToTimespec(t)
	if err != nil {
		return err
	}
	times := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, modified}
	fd := int(f.Fd())
	err = retryEINTR(func() error { return unix.UtimesNanoAt(fd, "", times, unix.AT_EMPTY_PATH) })
	if errors.Is(err, unix.EINVAL) { // before Linux 5.8
		err = retryEINTR(func() error { return unix.UtimesNanoAt(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd), times, 0) })
	}
	if err != nil {
		return &fs.PathError{Op: "set the modification time of", Path: f.Name(), Err: err}
	}
	return nil
}

// linkNameless links the file through /proc if a direct link fails with ENOENT. Before Linux
// 6.10 only privileged processes could link such a file directly. Since then a thread needs
// the credentials with which the file was opened.
func linkNameless(fd, dir int, name string) error {
	err := linkByFile(fd, dir, name)
	if errors.Is(err, unix.ENOENT) {
		err = linkByProc(fd, dir, name)
	}
	return err
}

func linkByFile(fd, dir int, name string) error {
	return retryEINTR(func() error { return unix.Linkat(fd, "", dir, name, unix.AT_EMPTY_PATH) })
}

func linkByProc(fd, dir int, name string) error {
	return retryEINTR(func() error {
		return unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd), dir, name, unix.AT_SYMLINK_FOLLOW)
	})
}

// MaxNameless returns the largest number of files without a name that may be open at a
// time. It leaves enough file descriptors for the rest of the process.
func MaxNameless() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return int(min(maxNameless, limit.Cur/4))
}

const maxNameless = 4096
