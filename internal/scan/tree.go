package scan

import (
	"io/fs"
	"os"
)

// Tree is a directory tree. Names are slash-separated and relative; "." is its
// root. No method reaches anything outside of it.
type Tree interface {
	// Open opens a file or directory for reading. It does not wait for a writer of a FIFO.
	Open(name string) (fs.ReadDirFile, error)
	Lstat(name string) (fs.FileInfo, error)
	Readlink(name string) (string, error)
}

// RootTree is the Tree of an open directory.
func RootTree(root *os.Root) Tree { return rootTree{root} }

type rootTree struct{ root *os.Root }

func (t rootTree) Open(name string) (fs.ReadDirFile, error) {
	f, err := t.root.OpenFile(name, os.O_RDONLY|openFlags, 0)
	if err != nil {
		return nil, err // not f: that would be an interface that is not nil
	}
	return f, nil
}

func (t rootTree) Lstat(name string) (fs.FileInfo, error) { return t.root.Lstat(name) }

func (t rootTree) Readlink(name string) (string, error) { return t.root.Readlink(name) }
