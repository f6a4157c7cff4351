package durable

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

const (
	nonblock = unix.O_NONBLOCK
	dirsSync = true
)

var (
	// syncFSTypes are the types of file systems on which syncfs waits for the disk and,
	// since Linux 5.8, reports write errors.
	syncFSTypes = []int64{unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC}
	// namelessTypes are file systems on which fsync makes a file without a name durable.
	// Btrfs is missing, since fsync skips such a file in most versions of Btrfs.
	namelessTypes = []int64{unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.TMPFS_MAGIC}
)

func syncFSTrusted(root *os.Root) bool {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return false
	}
	var major, minor int
	if n, _ := fmt.Sscanf(unix.ByteSliceToString(name.Release[:]), "%d.%d", &major, &minor); n != 2 {
		return false
	}
	if major < 5 || major == 5 && minor < 8 {
		return false
	}
	return hasFileSystem(root, syncFSTypes)
}

func namelessTrusted(root *os.Root) bool { return hasFileSystem(root, namelessTypes) }

func hasFileSystem(root *os.Root, types []int64) bool {
	f, err := root.Open(".")
	if err != nil {
		return false
	}
	defer f.Close()
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &st); err != nil {
		return false
	}
	return slices.Contains(types, int64(st.Type))
}

func syncFS(f *os.File) error { return unix.Syncfs(int(f.Fd())) }

var renameExcl = func(fromDir int, from string, toDir int, to string) error {
	err := retryEINTR(func() error { return unix.Renameat2(fromDir, from, toDir, to, unix.RENAME_NOREPLACE) })
	if errors.Is(err, unix.EINVAL) { // the file system cannot rename without replacing
		return errors.ErrUnsupported
	}
	return err
}
