package scan

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// Tree is a directory tree. Names are relative and have slashes; "." is the root. No method
// opens anything outside of the tree. The entries of a directory have the FileInfo that
// Lstat would return when the directory is listed.
type Tree interface {
	// Open opens a file or directory for reading. Unlike os.Open it does not block if the
	// file is a FIFO without a writer.
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

// rootTree is the Tree of an os.Root, which does not follow links out of its directory. The
// FileInfo of each directory entry is read through the open directory.
type rootTree struct{ root *os.Root }

func (t rootTree) Open(name string) (fs.ReadDirFile, error) {
	f, err := t.root.OpenFile(name, os.O_RDONLY|openFlags, 0)
	if err != nil {
		return nil, err // f itself is not returned, because an interface value that contains a nil *os.File is not nil
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
		_ = root.Close() // the error is ignored: a directory that was opened only for reading has no data to lose
		return nil, err
	}
	return rootTree{root}, nil
}

func (t rootTree) Close() error { return t.root.Close() }
