// Package durable writes files that survive a power cut. It syncs files together, renames
// them, and then syncs the directories that contain their names. Every name is resolved
// by an os.Root.
package durable

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Disk contains the system calls that make data durable. System returns the real calls;
// tests and simulations use others.
type Disk struct {
	// Sync makes one open file durable. After an error the content of the file is
	// unknown, and it must be written again.
	Sync func(f *os.File) error
	// SyncFS makes everything durable that was written to the file system of f, and reports
	// errors that occurred since f was opened. SyncFS is nil if the system has no such call,
	// or if the call is not reliable on this file system.
	SyncFS func(f *os.File) error
	// Rename renames a file, and replaces an existing file at newName.
	Rename func(at *Parents, oldName, newName string) error
	// RenameNew renames a file. It fails with fs.ErrExist if there is a file at newName.
	RenameNew func(at *Parents, oldName, newName string) error
	// Link gives a file a second name. It fails with fs.ErrExist if there is a file at
	// newName.
	Link func(at *Parents, oldName, newName string) error
	// Remove removes a file or an empty directory.
	Remove func(root *os.Root, name string) error
	// OpenNameless creates a file without a name for writing, on the file system of the
	// directory dir. The file is lost if it is closed before NameNew has given it a name.
	// OpenNameless is nil if the system or the file system does not support such files
	// safely. If it is not nil, a call may still fail.
	OpenNameless func(dir *os.File, mode fs.FileMode) (*os.File, error)
	// NameNew gives a file from OpenNameless its first name. It fails with fs.ErrExist if
	// there is a file at name.
	NameNew func(at *Parents, f *os.File, name string) error
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

// Keep gives the file at oldName the additional name newName, so that its bytes remain
// when oldName gets another file. It creates a hard link. On a file system without hard
// links it creates a copy at temp and renames the copy to newName. It returns
// fs.ErrExist if there is a file at newName.
func (d Disk) Keep(at *Parents, oldName, newName, temp string, mode fs.FileMode) error {
	root := at.Root
	linked := d.Link(at, oldName, newName)
	if linked == nil || errors.Is(linked, fs.ErrExist) || errors.Is(linked, fs.ErrNotExist) {
		return linked
	}
	err := d.copy(root, oldName, temp, mode)
	if err == nil {
		err = d.RenameNew(at, temp, newName)
	}
	if err == nil {
		return nil
	}
	if gone := root.Remove(temp); !errors.Is(gone, fs.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	return fmt.Errorf("the file could not be linked (%w) or copied: %w", linked, err)
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

// ErrNotRegular means that a name belongs to a link, a FIFO or anything else but a regular
// file.
var ErrNotRegular = errors.New("not a regular file")

// OpenRegular opens the regular file at name for reading. It returns ErrNotRegular if
// name is a symbolic link or a FIFO, without following the link or blocking.
func OpenRegular(root *os.Root, name string) (*os.File, error) {
	return openRegular(root, name, os.O_RDONLY)
}

// OpenToWrite is like OpenRegular, but opens the file for reading and writing.
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
	return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("the file was replaced during each attempt to open it")}
}

// maxReplaced is the number of attempts to open a file, since another program can replace
// the file between the check of its type and the opening.
const maxReplaced = 100

// openOnce returns no file and no error if the file was replaced between the check of
// its type and the opening.
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
