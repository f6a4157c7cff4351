package durable

import (
	"errors"
	"io/fs"
	"os"
	"path"
)

// Parents is a root with the two directories open that a rename used last: most
// renames are from one directory and to the directory of the one before, and then
// cost one system call rather than ten. It is not safe for concurrent use.
type Parents struct {
	Root     *os.Root
	from, to openDir
}

type openDir struct {
	name string
	f    *os.File
}

// Forget closes the directories: they may have been removed, or are needed no more.
func (p *Parents) Forget() error { return errors.Join(p.from.close(), p.to.close()) }

func (d *openDir) close() error {
	if d.f == nil {
		return nil
	}
	err := d.f.Close()
	*d = openDir{}
	return err
}

// at opens the directory of name, and returns the last segment.
func (d *openDir) at(root *os.Root, name string) (fd int, base string, err error) {
	dir, base := path.Dir(name), path.Base(name)
	if d.f == nil || d.name != dir {
		if err := d.close(); err != nil {
			return 0, "", err
		}
		f, err := root.Open(dir)
		if err != nil {
			return 0, "", err
		}
		*d = openDir{dir, f}
	}
	return int(d.f.Fd()), base, nil
}

// renameNew renames without replacing, by the system's own call where it has one.
func (p *Parents) renameNew(from, to string) error {
	if renameExcl == nil {
		return p.linkNew(from, to)
	}
	fromDir, fromBase, err := p.from.at(p.Root, from)
	if err != nil {
		return err
	}
	toDir, toBase, err := p.to.at(p.Root, to)
	if err != nil {
		return err
	}
	err = renameExcl(fromDir, fromBase, toDir, toBase)
	if errors.Is(err, errors.ErrUnsupported) {
		return p.linkNew(from, to)
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

// nameNew gives a file that has no name the name to.
func (p *Parents) nameNew(f *os.File, to string) error {
	dir, base, err := p.to.at(p.Root, to)
	if err != nil {
		return err
	}
	if err := linkNameless(int(f.Fd()), dir, base); err != nil {
		return &os.LinkError{Op: "link", Old: f.Name(), New: to, Err: err}
	}
	return nil
}

// linkNew is renameNew in two steps, for systems without the one call. Where
// there are no links either, another process may come between look and rename.
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
