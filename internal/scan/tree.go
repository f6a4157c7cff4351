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
	// Open opens a file or directory for reading. It does not block on a FIFO.
	Open(name string) (fs.ReadDirFile, error)
	Lstat(name string) (fs.FileInfo, error)
	Readlink(name string) (string, error)
	// Sub opens the tree below a directory, which must not be a symbolic link.
	Sub(name string) (Tree, error)
	// Close closes a tree that came from Sub.
	Close() error
}

// RootTree returns the Tree of an open directory.
func RootTree(root *os.Root) Tree { return rootTree{root} }

// rootTree cannot leave its directory through links: an os.Root gets the FileInfo of
// each listed entry from the open directory.
type rootTree struct{ root *os.Root }

func (t rootTree) Open(name string) (fs.ReadDirFile, error) {
	f, err := t.root.OpenFile(name, os.O_RDONLY|openFlags, 0)
	if err != nil {
		return nil, err // a nil *os.File in the interface would not be nil
	}
	return f, nil
}

func (t rootTree) Lstat(name string) (fs.FileInfo, error) {
	info, err := t.root.Lstat(name)
	if errors.Is(err, syscall.ENAMETOOLONG) || err != nil && strings.Contains(name, "\x00") {
		err = &fs.PathError{Op: "lstat", Path: name, Err: fs.ErrNotExist} // no file has this name
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
		_ = root.Close() // opened only for examining
		return nil, err
	}
	return rootTree{root}, nil
}

func (t rootTree) Close() error { return t.root.Close() }
