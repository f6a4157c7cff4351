package blob

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"strconv"

	"instep/internal/durable"
)

type tempDir struct {
	root *os.Root
	dir  *os.File // the open directory in which files without a name are created; nil if the system does not support them
}

func (t *tempDir) close() error {
	err := t.root.Close()
	if t.dir != nil {
		err = errors.Join(err, t.dir.Close())
	}
	return err
}

// create makes a file without a name if that is possible, and otherwise a file with the
// name temp. Nothing remains of a file without a name when the process is killed. It must
// stay open until its batch ends, so the number of these files is limited.
func (d *Dir) create(ctx context.Context) (f *os.File, temp string, err error) {
	t, err := d.openTemp(ctx)
	if err != nil {
		return nil, "", err
	}
	if t.dir != nil && d.disk.OpenNameless != nil {
		select {
		case d.nameless <- struct{}{}:
			if f, err = d.disk.OpenNameless(t.dir, d.o.FileMode); err != nil {
				<-d.nameless
			}
			return f, "", err
		default:
		}
	}
	return d.createNamed(t.root)
}

func (d *Dir) createNamed(temp *os.Root) (f *os.File, key string, err error) {
	key, err = d.nameTemp(func(key string) (err error) {
		f, err = temp.OpenFile(path.Base(key), os.O_CREATE|os.O_EXCL|os.O_WRONLY, d.o.FileMode)
		return err
	})
	return f, key, err
}

// nameTemp calls the function create with new keys in the temporary directory, until the
// result is not fs.ErrExist. A key may exist, since interrupted runs leave temporary files.
func (d *Dir) nameTemp(create func(key string) error) (string, error) {
	for {
		key := d.tempKey()
		if err := create(key); !errors.Is(err, fs.ErrExist) {
			return key, err
		}
	}
}

func (d *Dir) tempKey() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.serial++
	return path.Join(d.o.Temp, strconv.FormatUint(d.serial, 36))
}

func (d *Dir) openTemp(ctx context.Context) (*tempDir, error) {
	if t := d.openedTemp(); t != nil {
		return t, nil
	}
	if err := d.lockNames(ctx); err != nil {
		return nil, err
	}
	defer d.unlockNames()
	if t := d.openedTemp(); t != nil {
		return t, nil
	}
	n := d.newNaming()
	if err := errors.Join(n.checkDir(d.o.Temp, true), n.closeDirs()); err != nil {
		return nil, err
	}
	root, err := d.root.OpenRoot(d.o.Temp)
	if err != nil {
		return nil, err
	}
	t := &tempDir{root: root}
	if d.disk.OpenNameless != nil && cap(d.nameless) > 0 {
		t.dir = d.openNameless(root)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.temp = t
	return t, nil
}

func (d *Dir) openedTemp() *tempDir {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.temp
}

// openNameless opens the temporary directory for files without a name. It returns nil if
// such files cannot be created there; then all temporary files get names.
func (d *Dir) openNameless(temp *os.Root) *os.File {
	dir, err := temp.Open(".")
	if err != nil {
		return nil
	}
	if err := d.probeNameless(temp, dir); err != nil {
		_ = dir.Close()
		return nil
	}
	return dir
}

var errOtherMode = errors.New("a file created without a name has a different mode")

// probeNameless returns an error if files without a name cannot be used. Their mode must be
// that of other files, because some systems ignore the umask for files without a name.
func (d *Dir) probeNameless(temp *os.Root, dir *os.File) error {
	named, key, err := d.createNamed(temp)
	if err != nil {
		return err
	}
	want, err := named.Stat()
	if err := errors.Join(err, named.Close(), d.root.Remove(key)); err != nil {
		return err
	}
	f, err := d.disk.OpenNameless(dir, d.o.FileMode)
	if err != nil {
		return err
	}
	got, err := f.Stat()
	if err == nil && got.Mode() != want.Mode() {
		err = errOtherMode
	}
	if err == nil {
		err = d.nameAndRemove(f)
	}
	return errors.Join(err, f.Close())
}

func (d *Dir) nameAndRemove(f *os.File) error {
	parents := durable.Parents{Root: d.root}
	key, err := d.nameTemp(func(key string) error { return d.disk.NameNew(&parents, f, key) })
	if gone := d.root.Remove(key); !errors.Is(gone, fs.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	return errors.Join(err, parents.Forget())
}
