package scan

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// Tree is a directory tree. Names are slash-separated and relative; "." is its root. No
// method leaves the tree. Directory entries have the FileInfo that Lstat would return
// when the directory is listed.
type Tree interface {
	// Open opens a file or directory for reading. Unlike os.Open it does not wait if
	// the file is a FIFO without a writer.
	Open(name string) (fs.ReadDirFile, error)
	Lstat(name string) (fs.FileInfo, error)
	Readlink(name string) (string, error)
	// Sub opens the tree below a directory, which must not be a symbolic link.
	Sub(name string) (Tree, error)
	// Close closes a tree that Sub returned.
	Close() error
}

// RootTree returns the Tree of an open directory.
func RootTree(root *os.Root) Tree { return rootTree{root} }

// rootTree is the Tree of an os.Root, which does not follow links out of its directory,
// and which gets the FileInfo of each directory entry from the open directory.
type rootTree struct{ root *os.Root }

func (t rootTree) Open(name string) (fs.ReadDirFile, error) {
	f, err := t.root.OpenFile(name, os.O_RDONLY|openFlags, 0)
	if err != nil {
		return nil, err // returning f would make an interface value that is not nil, although it contains a nil *os.File
	}
	return f, nil
}

func (t rootTree) Lstat(name string) (fs.FileInfo, error) {
	info, err := t.root.Lstat(name)
	if errors.Is(err, syscall.ENAMETOOLONG) || err != nil && strings.Contains(name, "\x00") {
		err = &fs.PathError{Op: "lstat", Path: name, Err: fs.ErrNotExist} // a name that is too long, or contains a zero byte, is not the name of any file
	}
	return info, err
}

func (t rootTree) Readlink(name string) (string, error) { return t.root.Readlink(name) }

func (t rootTree) Sub(name string) (Tree, error) {
	named, err := t.root.Lstat(name)
	if err != nil {
		return nil, err
	}
	root, err := t.root.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	opened, err := root.Lstat(".")
	if err == nil && !os.SameFile(named, opened) {
		err = fmt.Errorf("open %q: %w: expected a directory, found a link to one", name, fs.ErrInvalid)
	}
	if err != nil {
		_ = root.Close() // no data can be lost, since the directory was opened only for reading
		return nil, err
	}
	return rootTree{root}, nil
}

func (t rootTree) Close() error { return t.root.Close() }
