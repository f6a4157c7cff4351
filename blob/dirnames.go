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

// naming changes the names of files for one commit. While a naming exists, the commit
// holds the lock Dir.naming.
type naming struct {
	d       *Dir
	parents durable.Parents
	seen    map[string]struct{} // the directories that were found or created, and whose names may not be durable yet
	touched map[string]struct{} // the directories to sync
}

func (d *Dir) newNaming() *naming {
	return &naming{d: d, parents: durable.Parents{Root: d.root}, seen: map[string]struct{}{}, touched: map[string]struct{}{}}
}

// end closes the directories that were kept open.
func (n *naming) end() error { return n.parents.Forget() }

// settle adds the directories to Dir.known, after their names were made durable.
func (n *naming) settle() {
	if len(n.d.known)+len(n.seen) > maxKnown {
		n.d.forget()
	}
	for dir := range n.seen {
		if len(n.d.known) < maxKnown {
			n.d.known[dir] = struct{}{}
		}
	}
}

func (d *Dir) forget() { d.known = map[string]struct{}{".": {}} }

func (n *naming) all(ctx context.Context, list []step) error {
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
		if err := n.untouched(o); err != nil {
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
	replaces := false
	if s.keep != "" {
		var err error
		if replaces, err = n.keep(s.to, s.keep); err != nil {
			return fmt.Errorf("keep the old object at %q: %w", s.keep, err)
		}
	}
	if err := n.name(o, s.to, s.ifAbsent, replaces); err != nil {
		return err
	}
	if o.taken != nil {
		n.prune(o.temp)
	}
	o.temp = ""
	return nil
}

// setModTime sets the modification time before the object gets its name, so that no
// reader sees another time. On a file system with a journal the time is durable once the
// directory is synced. After a power cut before that, it may be the time of writing. A
// taken object that belongs to another user keeps its time, since only its owner may set
// it.
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

// name gives the object its key. A file without a name cannot replace an existing file
// directly, so it first gets a temporary name and is then renamed. The argument replaces
// means that the caller knows that there is a file at the key.
func (n *naming) name(o *dirObject, key string, ifAbsent, replaces bool) error {
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
	if replaces && !ifAbsent {
		n.touch(path.Dir(key))
		return replace()
	}
	return n.place(key, ifAbsent, func() error { return n.d.disk.NameNew(&n.parents, o.nameless, key) }, replace)
}

// untouched returns nil if a taken object is unchanged and still at its key, and otherwise
// an error.
func (n *naming) untouched(o *dirObject) error {
	if err := n.dir(path.Dir(o.temp), false); err != nil {
		return err
	}
	st, err := n.d.root.Lstat(o.temp)
	if err == nil && (!os.SameFile(st, o.taken) || st.Size() != o.taken.Size() || !st.ModTime().Equal(o.taken.ModTime())) {
		err = errTouched
	}
	return err
}

// keep gives the object at key a second name. It returns false if there is no object.
func (n *naming) keep(key, keep string) (there bool, err error) {
	if there, err = n.object(key); err != nil || !there {
		return false, err
	}
	temp := n.d.tempKey() + keepSuffix
	err = n.withDir(keep, func() error {
		return n.d.disk.Keep(&n.parents, key, keep, temp, n.d.o.FileMode)
	})
	if errors.Is(err, fs.ErrExist) {
		err = n.clash(keep)
	}
	return err == nil, err
}

// keepSuffix is the suffix of temporary copies of objects that are about to be replaced.
const keepSuffix = ".keep"

func (n *naming) move(from, to string) error {
	there, err := n.object(from)
	if err != nil || !there || from == to {
		return err
	}
	if err := n.rename(from, to, false); err != nil {
		return err
	}
	n.prune(from)
	return nil
}

func (n *naming) delete(key string) error {
	there, err := n.object(key)
	if err != nil || !there {
		return err
	}
	if err := n.d.disk.Remove(n.d.root, key); err != nil {
		return err
	}
	n.prune(key)
	return nil
}

// object reports whether there is an object at key.
func (n *naming) object(key string) (bool, error) {
	err := n.dir(path.Dir(key), false)
	if err == nil {
		if err = n.clash(key); err != nil {
			err = n.d.absent(key, err)
		}
	}
	if errors.Is(err, ErrNotExist) || errors.Is(err, ErrClash) {
		return false, nil
	}
	return err == nil, err
}

func (n *naming) rename(file, key string, ifAbsent bool) error {
	return n.place(key, ifAbsent,
		func() error { return n.d.disk.RenameNew(&n.parents, file, key) },
		func() error { return n.d.disk.Rename(&n.parents, file, key) })
}

// place creates an object at key by calling first. If an object exists there already, it
// calls replace instead, or returns ErrExist if ifAbsent is set.
func (n *naming) place(key string, ifAbsent bool, first, replace func() error) error {
	err := n.withDir(key, first)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	if ifAbsent {
		return ErrExist
	}
	if err := n.clash(key); err != nil {
		return err
	}
	return replace()
}

// clash returns nil if there is an object at key, and otherwise an error that says what is
// there.
func (n *naming) clash(key string) error {
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

// withDir creates the directory of key and calls do, which creates an object at key. If
// another process removes the directory between the two, withDir repeats both once.
func (n *naming) withDir(key string, do func() error) error {
	dir := path.Dir(key)
	try := func() error {
		if err := n.dir(dir, true); err != nil {
			return err
		}
		n.touch(dir)
		return do()
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

// dir returns an error unless dir and all its parents are directories and not links. If
// create is set, it creates missing ones. The name of a directory that it sees for the
// first time counts as not durable, since an interrupted run may have created the
// directory.
func (n *naming) dir(dir string, create bool) error {
	if _, ok := n.d.known[dir]; ok {
		return nil
	}
	if _, ok := n.seen[dir]; ok {
		return nil
	}
	parent := path.Dir(dir)
	if err := n.dir(parent, create); err != nil {
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

// isDir returns an error unless dir is a directory. It does not follow links.
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

// prune removes the directories that have become empty because the object at key was
// removed.
func (n *naming) prune(key string) {
	dir := path.Dir(key)
	for dir != "." && n.d.root.Remove(dir) == nil {
		_ = n.parents.Forget() // a directory that was kept open may have been removed; closing it loses no data
		delete(n.d.known, dir)
		delete(n.seen, dir)
		delete(n.touched, dir)
		dir = path.Dir(dir)
	}
	n.touch(dir)
}
