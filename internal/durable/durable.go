// Package durable writes files that survive a power cut: files are synced together,
// renamed, and then the directories that name them are synced. Every name is resolved by an
// os.Root.
package durable

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Disk contains the system calls that decide whether data is safe. A simulation or a
// test replaces them; System returns the real ones.
type Disk struct {
	// Sync makes one open file durable. After an error the content of the file is
	// unknown, and it must be written again.
	Sync func(f *os.File) error
	// SyncFS makes everything written to the file system of f durable, and reports
	// errors that occurred since f was opened. It is nil if no such call can be
	// trusted.
	SyncFS func(f *os.File) error
	// Rename renames a file and replaces any file at to.
	Rename func(at *Parents, from, to string) error
	// RenameNew renames a file. It fails with fs.ErrExist if something exists at to.
	RenameNew func(at *Parents, from, to string) error
	// Link gives a file a second name. It fails with fs.ErrExist if that name exists.
	Link func(at *Parents, from, to string) error
	// Remove removes a file or an empty directory.
	Remove func(root *os.Root, name string) error
	// OpenNameless creates a file without a name for writing, on the file system of the
	// directory dir. Unless it gets a name, it is gone when it is closed. It is nil if
	// such files do not exist or cannot be trusted; even if it is not nil it may fail.
	OpenNameless func(dir *os.File, mode fs.FileMode) (*os.File, error)
	// NameNew gives such a file its first name. It fails with fs.ErrExist if something
	// exists at to.
	NameNew func(at *Parents, f *os.File, to string) error
}

// System returns the real system calls for a directory tree.
func System(root *os.Root) Disk {
	d := Disk{
		Sync:      (*os.File).Sync,
		Rename:    (*Parents).rename,
		RenameNew: (*Parents).renameNew,
		Link:      (*Parents).link,
		Remove:    (*os.Root).Remove,
	}
	if syncFSTrusted(root) {
		d.SyncFS = syncFS
	}
	if namelessTrusted(root) {
		d.OpenNameless, d.NameNew = openNameless, (*Parents).nameNew
	}
	return d
}

// Keep gives the file at from the additional name to, so that its bytes survive when
// from is replaced. It makes a hard link, or a copy by way of the name temp on file
// systems without hard links. It returns fs.ErrExist if to already exists.
func (d Disk) Keep(at *Parents, from, to, temp string, mode fs.FileMode) error {
	root := at.Root
	linked := d.Link(at, from, to)
	if linked == nil || errors.Is(linked, fs.ErrExist) || errors.Is(linked, fs.ErrNotExist) {
		return linked
	}
	err := d.copy(root, from, temp, mode)
	if err == nil {
		err = d.RenameNew(at, temp, to)
	}
	if err == nil {
		return nil
	}
	if gone := root.Remove(temp); !errors.Is(gone, fs.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	return fmt.Errorf("copy, as linking failed (%w): %w", linked, err)
}

func (d Disk) copy(root *os.Root, from, to string, mode fs.FileMode) (err error) {
	in, err := OpenRegular(root, from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := root.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if _, err = io.Copy(out, in); err != nil {
		return err
	}
	return d.Sync(out)
}

// ErrNotRegular reports a name that is not a regular file.
var ErrNotRegular = errors.New("not a regular file")

// OpenRegular opens the regular file at name for reading. It neither follows a symbolic
// link at name nor blocks on a FIFO.
func OpenRegular(root *os.Root, name string) (*os.File, error) {
	return openRegular(root, name, os.O_RDONLY)
}

// OpenToWrite is like OpenRegular, for reading and writing.
func OpenToWrite(root *os.Root, name string) (*os.File, error) {
	return openRegular(root, name, os.O_RDWR)
}

func openRegular(root *os.Root, name string, flag int) (*os.File, error) {
	for range maxReplaced {
		f, err := openOnce(root, name, flag)
		if f != nil || err != nil {
			return f, err
		}
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("is replaced again and again")}
}

// maxReplaced is how often OpenRegular tries again because a file was replaced between
// checking and opening.
const maxReplaced = 100

// openOnce returns nil if the opened file is not the one that was checked before.
func openOnce(root *os.Root, name string, flag int) (*os.File, error) {
	looked, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !looked.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: ErrNotRegular}
	}
	f, err := root.OpenFile(name, flag|nonblock, 0)
	if err != nil {
		return nil, err
	}
	opened, err := f.Stat()
	if err == nil && os.SameFile(looked, opened) {
		return f, nil
	}
	return nil, errors.Join(err, f.Close())
}
