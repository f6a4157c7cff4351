package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// Parents caches open directories below a root. An operation on a file in a cached
// directory needs one system call instead of about ten. Parents is not safe for
// concurrent use.
type Parents struct {
	Root *os.Root
	open [maxParents]openDir // the open directories; those that were used last come first
}

// maxParents is the capacity of the cache. It is enough for moving a file between two
// paths of up to maxDepth segments, with all directories above both. Directories of
// deeper paths are opened by their full names.
const (
	maxParents = 32
	maxDepth   = maxParents/2 - 2
)

type openDir struct {
	name string
	f    *os.File // nil: none
}

// calls are system calls that take an open directory and the name of a file in it.
type calls struct {
	open   func(dir int, name string) (fd int, err error)  // a directory
	lstat  func(dir int, name string) (fs.FileMode, error) // returns only the file type
	mkdir  func(dir int, name string, mode fs.FileMode) error
	link   func(fromDir int, from string, toDir int, to string) error
	rename func(fromDir int, from string, toDir int, to string) error
}

// Forget closes the cached directories, for example because they may have been removed.
func (p *Parents) Forget() error {
	var errs []error
	for i := range p.open {
		errs = append(errs, p.open[i].close())
	}
	return errors.Join(errs...)
}

func (d *openDir) close() error {
	if d.f == nil {
		return nil
	}
	err := d.f.Close()
	*d = openDir{}
	return err
}

// at returns the file descriptor of the directory that contains name, and the last
// segment of name.
func (p *Parents) at(name string) (fd int, base string, err error) {
	fd, err = p.dir(path.Dir(name))
	return fd, path.Base(name), err
}

// dir returns the file descriptor of a directory. It opens the directory relative to its
// parent, which is often in the cache. Then one system call is enough, instead of one for
// each segment of the name.
func (p *Parents) dir(name string) (fd int, err error) {
	i := slices.IndexFunc(p.open[:], func(d openDir) bool { return d.f != nil && d.name == name })
	if i < 0 {
		f, err := p.enter(name)
		if err != nil {
			return 0, err
		}
		i = maxParents - 1
		if err := p.open[i].close(); err != nil {
			return 0, errors.Join(err, f.Close())
		}
		p.open[i] = openDir{name, f}
	}
	used := p.open[i]
	copy(p.open[1:i+1], p.open[:i])
	p.open[0] = used
	return int(used.f.Fd()), nil
}

func (p *Parents) enter(name string) (*os.File, error) {
	if at == nil || name == "." || strings.Count(name, "/") > maxDepth {
		return p.Root.OpenFile(name, os.O_RDONLY|nonblock, 0) // without waiting, in case the directory was replaced by a FIFO
	}
	above, base, err := p.at(name)
	if err != nil {
		return nil, err
	}
	fd, err := at.open(above, base)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// both calls the function do with the open directories of two files and the names of the
// files in them.
func (p *Parents) both(op, from, to string, do func(fromDir int, from string, toDir int, to string) error) error {
	fromDir, fromBase, err := p.at(from)
	if err != nil {
		return err
	}
	toDir, toBase, err := p.at(to)
	if err != nil {
		return err
	}
	if err := do(fromDir, fromBase, toDir, toBase); err != nil {
		return &os.LinkError{Op: op, Old: from, New: to, Err: err}
	}
	return nil
}

// Type returns the type of the file at name, in the form of fs.FileMode.Type. It does
// not follow a symbolic link.
func (p *Parents) Type(name string) (fs.FileMode, error) {
	if at == nil {
		st, err := p.Root.Lstat(name)
		if err != nil {
			return 0, err
		}
		return st.Mode().Type(), nil
	}
	dir, base, err := p.at(name)
	if err != nil {
		return 0, err
	}
	mode, err := at.lstat(dir, base)
	if err != nil {
		return 0, &fs.PathError{Op: "lstat", Path: name, Err: err}
	}
	return mode, nil
}

// Mkdir creates a directory. It returns fs.ErrExist if something exists at name.
func (p *Parents) Mkdir(name string, mode fs.FileMode) error {
	if at == nil {
		return p.Root.Mkdir(name, mode)
	}
	dir, base, err := p.at(name)
	if err != nil {
		return err
	}
	if err := at.mkdir(dir, base, mode); err != nil {
		return &fs.PathError{Op: "mkdir", Path: name, Err: err}
	}
	return nil
}

func (p *Parents) link(from, to string) error {
	if at == nil {
		return p.Root.Link(from, to)
	}
	return p.both("link", from, to, at.link)
}

// LinkBetween gives a file below one root directory another name below a second one. It
// follows no symbolic link out of either. It returns fs.ErrExist if newName exists, and
// errors.ErrUnsupported if a hard link is not possible: the system or the file systems do
// not support it, or the file has too many.
func LinkBetween(from *os.Root, name string, to *os.Root, newName string) (err error) {
	if at == nil {
		return errors.ErrUnsupported
	}
	source, target := Parents{Root: from}, Parents{Root: to}
	defer func() { err = errors.Join(err, source.Forget(), target.Forget()) }()
	fromDir, fromBase, err := source.at(name)
	if err != nil {
		return err
	}
	toDir, toBase, err := target.at(newName)
	if err != nil {
		return err
	}
	err = at.link(fromDir, fromBase, toDir, toBase)
	if err == nil || errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
}

func (p *Parents) rename(from, to string) error {
	if at == nil {
		return p.Root.Rename(from, to)
	}
	return p.both("rename", from, to, at.rename)
}

// renameNew renames a file unless the new name exists. It uses a single system call if
// the system has one for this.
func (p *Parents) renameNew(from, to string) error {
	if renameExcl == nil {
		return p.linkNew(from, to)
	}
	err := p.both("rename", from, to, renameExcl)
	if errors.Is(err, errors.ErrUnsupported) {
		return p.linkNew(from, to)
	}
	return err
}

// nameNew gives a file without a name its first name.
func (p *Parents) nameNew(f *os.File, name string) error {
	dir, base, err := p.at(name)
	if err != nil {
		return err
	}
	if err := linkNameless(int(f.Fd()), dir, base); err != nil {
		return &os.LinkError{Op: "link", Old: f.Name(), New: name, Err: err}
	}
	return nil
}

// linkNew does the same as renameNew in two steps, for systems without a system call for
// it. On a file system without hard links, another process may create a file with the new
// name between the check and the rename, which then replaces it.
func (p *Parents) linkNew(from, to string) error {
	err := p.Root.Link(from, to)
	if err == nil {
		return p.Root.Remove(from)
	}
	if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, err := p.Root.Lstat(to); err == nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: fs.ErrExist}
	}
	return p.Root.Rename(from, to)
}
