package blob

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"time"

	"instep/internal/durable"
)

// naming changes the names of files for one commit, which must hold the lock Dir.naming.
type naming struct {
	d       *Dir
	parents durable.Parents
	seen    map[string]struct{} // existing directories whose names are not yet durable
	touched map[string]struct{} // directories that must be synced before the commit ends
}

func (d *Dir) newNaming() *naming {
	return &naming{d: d, parents: durable.Parents{Root: d.root}, seen: map[string]struct{}{}, touched: map[string]struct{}{}}
}

func (n *naming) closeDirs() error { return n.parents.Forget() }

// rememberDirs adds the existing directories to Dir.durableDirs. It must not be called
// before the names of these directories are durable.
func (n *naming) rememberDirs() {
	if len(n.d.durableDirs)+len(n.seen) > maxKnown {
		n.d.forget()
	}
	for dir := range n.seen {
		if len(n.d.durableDirs) < maxKnown {
			n.d.durableDirs[dir] = struct{}{}
		}
	}
}

func (d *Dir) forget() { d.durableDirs = map[string]struct{}{".": {}} }

func (n *naming) applyAll(ctx context.Context, list []step) error {
	for _, s := range list {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := n.apply(s); err != nil {
			return err
		}
	}
	return nil
}

func (n *naming) apply(s step) error {
	switch s.kind {
	case stepPut:
		if err := n.put(s.object.(*dirObject), s); err != nil {
			return fmt.Errorf("put %q: %w", s.to, err)
		}
	case stepMove:
		if err := n.move(s.from, s.to); err != nil {
			return fmt.Errorf("move %q to %q: %w", s.from, s.to, err)
		}
	case stepDelete:
		if err := n.delete(s.from); err != nil {
			return fmt.Errorf("delete %q: %w", s.from, err)
		}
	}
	return nil
}

func (n *naming) put(o *dirObject, s step) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.taken != nil {
		if err := n.checkUnchanged(o); err != nil {
			return fmt.Errorf("the object taken from %q: %w", o.temp, err)
		}
	}
	if err := n.setModTime(o, s.modTime); err != nil {
		return fmt.Errorf("set the modification time: %w", err)
	}
	if o.taken != nil {
		if o.temp == s.to {
			n.touch(path.Dir(s.to))
			return nil
		}
	}
	occupied := false
	if s.keep != "" {
		var err error
		if occupied, err = n.keep(s.to, s.keep); err != nil {
			return fmt.Errorf("keep the old object at %q: %w", s.keep, err)
		}
	}
	if err := n.setName(o, s.to, s.ifAbsent, occupied); err != nil {
		return err
	}
	if o.taken != nil {
		n.removeEmptyDirs(o.temp)
	}
	o.temp = ""
	return nil
}

// setModTime must be called before the object gets its name, so that no reader sees another
// time. On a file system with a journal the time is durable once the directory is synced;
// after a power cut before that, the object may have the time of writing. A taken object
// that belongs to another user keeps its time, since only the owner may set the time.
func (n *naming) setModTime(o *dirObject, t time.Time) error {
	switch {
	case t.IsZero():
		return nil
	case o.nameless != nil:
		return durable.SetModTime(o.nameless, t)
	}
	err := n.d.root.Chtimes(o.temp, time.Time{}, t)
	if o.taken != nil && errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return err
}

// setName gives the object its key. A file without a name cannot replace an existing file
// directly, so it first gets a temporary name and is then renamed. A caller that knows that
// there is a file at the key sets occupied, which saves a check.
func (n *naming) setName(o *dirObject, key string, ifAbsent, occupied bool) error {
	if o.nameless == nil {
		return n.rename(o.temp, key, ifAbsent)
	}
	replace := func() (err error) {
		o.temp, err = n.d.nameTemp(func(temp string) error {
			return n.d.disk.NameNew(&n.parents, o.nameless, temp)
		})
		if err != nil {
			return err
		}
		return n.d.disk.Rename(&n.parents, o.temp, key)
	}
	if occupied && !ifAbsent {
		n.touch(path.Dir(key))
		return replace()
	}
	return n.createOrReplace(key, ifAbsent, func() error { return n.d.disk.NameNew(&n.parents, o.nameless, key) }, replace)
}

func (n *naming) checkUnchanged(o *dirObject) error {
	if err := n.checkDir(path.Dir(o.temp), false); err != nil {
		return err
	}
	st, err := n.d.root.Lstat(o.temp)
	if err == nil && (!os.SameFile(st, o.taken) || st.Size() != o.taken.Size() || !st.ModTime().Equal(o.taken.ModTime())) {
		err = errChanged
	}
	return err
}

func (n *naming) keep(key, keep string) (exists bool, err error) {
	if exists, err = n.exists(key); err != nil || !exists {
		return false, err
	}
	temp := n.d.tempKey() + keepSuffix
	err = n.withDir(keep, func() error {
		return n.d.disk.Keep(&n.parents, key, keep, temp, n.d.o.FileMode)
	})
	if errors.Is(err, fs.ErrExist) {
		err = n.checkObject(keep)
	}
	return err == nil, err
}

// keepSuffix is the suffix of temporary copies of objects that are about to be replaced.
const keepSuffix = ".keep"

func (n *naming) move(from, to string) error {
	exists, err := n.exists(from)
	if err != nil || !exists || from == to {
		return err
	}
	if err := n.rename(from, to, false); err != nil {
		return err
	}
	n.removeEmptyDirs(from)
	return nil
}

func (n *naming) delete(key string) error {
	exists, err := n.exists(key)
	if err != nil || !exists {
		return err
	}
	if err := n.d.disk.Remove(n.d.root, key); err != nil {
		return err
	}
	n.removeEmptyDirs(key)
	return nil
}

func (n *naming) exists(key string) (bool, error) {
	err := n.checkDir(path.Dir(key), false)
	if err == nil {
		if err = n.checkObject(key); err != nil {
			err = n.d.openError(key, err)
		}
	}
	if errors.Is(err, ErrNotExist) || errors.Is(err, ErrClash) {
		return false, nil
	}
	return err == nil, err
}

func (n *naming) rename(file, key string, ifAbsent bool) error {
	return n.createOrReplace(key, ifAbsent,
		func() error { return n.d.disk.RenameNew(&n.parents, file, key) },
		func() error { return n.d.disk.Rename(&n.parents, file, key) })
}

// createOrReplace calls the function create if there is no object at key, and otherwise the
// function replace. If ifAbsent is set, it returns ErrExist instead of calling replace.
func (n *naming) createOrReplace(key string, ifAbsent bool, create, replace func() error) error {
	err := n.withDir(key, create)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	if ifAbsent {
		return ErrExist
	}
	if err := n.checkObject(key); err != nil {
		return err
	}
	return replace()
}

// checkObject returns an error unless there is an object at key.
func (n *naming) checkObject(key string) error {
	kind, err := n.parents.Type(key)
	switch {
	case err != nil:
		return err
	case kind.IsDir():
		return fmt.Errorf("%w: there is a directory at %q", ErrClash, key)
	case !kind.IsRegular():
		return ErrForeign
	}
	return nil
}

// withDir creates the directory of key, then calls the function create. If another process
// removes the directory in between, withDir repeats both steps once.
func (n *naming) withDir(key string, create func() error) error {
	dir := path.Dir(key)
	try := func() error {
		if err := n.checkDir(dir, true); err != nil {
			return err
		}
		n.touch(dir)
		return create()
	}
	err := try()
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	n.d.forget()
	clear(n.seen)
	if err := n.parents.Forget(); err != nil {
		return err
	}
	return try()
}

func (n *naming) touch(dir string) { n.touched[dir] = struct{}{} }

// checkDir returns an error unless dir is a directory and not a link. If create is set, it
// creates missing directories. The commit makes the names of existing directories durable
// too, because an interrupted run may have created them.
func (n *naming) checkDir(dir string, create bool) error {
	if _, ok := n.d.durableDirs[dir]; ok {
		return nil
	}
	if _, ok := n.seen[dir]; ok {
		return nil
	}
	parent := path.Dir(dir)
	if err := n.checkDir(parent, create); err != nil {
		return err
	}
	err := n.isDir(dir)
	if create && errors.Is(err, fs.ErrNotExist) {
		err = n.parents.Mkdir(dir, n.d.o.DirMode)
	}
	if err != nil {
		return err
	}
	n.seen[dir] = struct{}{}
	n.touch(parent)
	return nil
}

func (n *naming) isDir(dir string) error {
	kind, err := n.parents.Type(dir)
	switch {
	case err != nil:
		return err
	case kind.IsDir():
		return nil
	case kind.IsRegular():
		return fmt.Errorf("%w: there is a file at %q where a directory is needed", ErrClash, dir)
	}
	return fmt.Errorf("%w at %q where a directory is needed", ErrForeign, dir)
}

func (n *naming) removeEmptyDirs(key string) {
	dir := path.Dir(key)
	for dir != "." && n.d.root.Remove(dir) == nil {
		_ = n.parents.Forget() // the removed directory may be cached; an error of closing it is ignored, because no data is lost
		delete(n.d.durableDirs, dir)
		delete(n.seen, dir)
		delete(n.touched, dir)
		dir = path.Dir(dir)
	}
	n.touch(dir)
}
