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
	open [maxParents]openDir // the most recently used directory comes first
}

// maxParents is the capacity of the cache. A rename needs the directories above two
// paths, which all fit in the cache if the paths have at most maxDepth segments. Deeper
// directories are opened by their full names.
const (
	maxParents = 32
	maxDepth   = maxParents/2 - 2
)

type openDir struct {
	name string
	f    *os.File // nil: none
}

// calls are the system calls that take an open directory and a name in it, such as openat.
type calls struct {
	open   func(dir int, name string) (fd int, err error)  // a directory
	lstat  func(dir int, name string) (fs.FileMode, error) // returns the type of the file
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

func (p *Parents) dirAndBase(name string) (fd int, base string, err error) {
	fd, err = p.dir(path.Dir(name))
	return fd, path.Base(name), err
}

// dir opens a directory by its name in the parent directory, which is often in the
// cache. Then one system call is enough, instead of one for each segment of the path.
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
	if dirCalls == nil || name == "." || strings.Count(name, "/") > maxDepth {
		return p.Root.OpenFile(name, os.O_RDONLY|nonblock, 0) // nonblock keeps the call from blocking if a FIFO has replaced the directory
	}
	above, base, err := p.dirAndBase(name)
	if err != nil {
		return nil, err
	}
	fd, err := dirCalls.open(above, base)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

func (p *Parents) withDirs(op, from, to string, do func(fromDir int, from string, toDir int, to string) error) error {
	fromDir, fromBase, err := p.dirAndBase(from)
	if err != nil {
		return err
	}
	toDir, toBase, err := p.dirAndBase(to)
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
	if dirCalls == nil {
		st, err := p.Root.Lstat(name)
		if err != nil {
			return 0, err
		}
		return st.Mode().Type(), nil
	}
	dir, base, err := p.dirAndBase(name)
	if err != nil {
		return 0, err
	}
	mode, err := dirCalls.lstat(dir, base)
	if err != nil {
		return 0, &fs.PathError{Op: "lstat", Path: name, Err: err}
	}
	return mode, nil
}

// Mkdir creates a directory. It returns fs.ErrExist if something exists at name.
func (p *Parents) Mkdir(name string, mode fs.FileMode) error {
	if dirCalls == nil {
		return p.Root.Mkdir(name, mode)
	}
	dir, base, err := p.dirAndBase(name)
	if err != nil {
		return err
	}
	if err := dirCalls.mkdir(dir, base, mode); err != nil {
		return &fs.PathError{Op: "mkdir", Path: name, Err: err}
	}
	return nil
}

func (p *Parents) link(from, to string) error {
	if dirCalls == nil {
		return p.Root.Link(from, to)
	}
	return p.withDirs("link", from, to, dirCalls.link)
}

// LinkBetween gives the file at name in one directory tree the additional name newName
// in a second tree. It does not follow a symbolic link out of either tree. It returns
// fs.ErrExist if newName exists. It returns errors.ErrUnsupported if the system cannot
// create a hard link, or if the file has too many links.
func LinkBetween(from *os.Root, name string, to *os.Root, newName string) (err error) {
	if dirCalls == nil {
		return errors.ErrUnsupported
	}
	source, target := Parents{Root: from}, Parents{Root: to}
	defer func() { err = errors.Join(err, source.Forget(), target.Forget()) }()
	fromDir, fromBase, err := source.dirAndBase(name)
	if err != nil {
		return err
	}
	toDir, toBase, err := target.dirAndBase(newName)
	if err != nil {
		return err
	}
	err = dirCalls.link(fromDir, fromBase, toDir, toBase)
	if err == nil || errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
}

func (p *Parents) rename(from, to string) error {
	if dirCalls == nil {
		return p.Root.Rename(from, to)
	}
	return p.withDirs("rename", from, to, dirCalls.rename)
}

func (p *Parents) renameNew(from, to string) error {
	if renameExcl == nil {
		return p.linkAndRemove(from, to)
	}
	err := p.withDirs("rename", from, to, renameExcl)
	if errors.Is(err, errors.ErrUnsupported) {
		return p.linkAndRemove(from, to)
	}
	return err
}

func (p *Parents) nameNew(f *os.File, name string) error {
	dir, base, err := p.dirAndBase(name)
	if err != nil {
		return err
	}
	if err := linkNameless(int(f.Fd()), dir, base); err != nil {
		return &os.LinkError{Op: "link", Old: f.Name(), New: name, Err: err}
	}
	return nil
}

// linkAndRemove is used instead of renameNew on systems that cannot rename without
// replacing. On a file system without hard links it can replace a file that another
// process creates between the check and the rename.
func (p *Parents) linkAndRemove(from, to string) error {
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
