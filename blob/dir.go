package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"instep/internal/durable"
)

// DirOptions are the options of OpenDir. The zero value is usable.
type DirOptions struct {
	Temp     string      // key of the directory for objects that are being written; default ".instep/tmp". No object may have a key inside this directory, or the key of this directory or of one of its parents.
	FileMode fs.FileMode // the mode of new files, before umask; default 0640
	DirMode  fs.FileMode // the mode of new directories, before umask; default 0750
	Workers  int         // the number of files that are synced in parallel; default 32
}

// Dir is a Bucket in a directory, in which each object is the regular file at its key. A
// symbolic link, a FIFO or a device at a key causes an ErrForeign, and is never opened,
// replaced or removed. Dir creates missing directories, and removes a directory that a Move
// or Delete left empty. An object below a symbolic link to a directory inside the root can be
// read, but not written or listed.
//
// Only one process at a time should write. Dir does not lock the directory.
type Dir struct {
	root *os.Root
	o    DirOptions
	disk durable.Disk

	naming      chan struct{}       // the lock that a commit holds while it renames files; also guards durableDirs
	durableDirs map[string]struct{} // existing directories whose names survive a power cut

	nameless chan struct{} // a semaphore that limits the number of open files without a name

	mu     sync.Mutex // guards the fields below
	temp   *tempDir   // the directory of temporary files; nil until the first object is written
	serial uint64     // the number of the last temporary file
}

var _ Bucket = (*Dir)(nil)

// maxKnown is the capacity of Dir.durableDirs. A directory that was removed from this set is
// checked again when it is needed.
const maxKnown = 8192

// OpenDir opens the existing directory at name.
func OpenDir(name string, o DirOptions) (*Dir, error) {
	if o.Temp == "" {
		o.Temp = ".instep/tmp"
	}
	if o.FileMode == 0 {
		o.FileMode = 0o640
	}
	if o.DirMode == 0 {
		o.DirMode = 0o750
	}
	if err := ValidKey(o.Temp); err != nil {
		return nil, fmt.Errorf("directory for temporary files: %w", err)
	}
	root, err := os.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	d := &Dir{
		root: root, o: o, disk: durable.System(root),
		naming: make(chan struct{}, 1), nameless: make(chan struct{}, durable.MaxNameless()),
	}
	d.forget()
	return d, nil
}

// Close releases the directory. If the Dir has used the directory for temporary objects, and
// that directory is empty, Close removes it. No batch may be open.
func (d *Dir) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var err error
	if d.temp != nil {
		err = d.temp.close()
		d.temp = nil
		for dir := d.o.Temp; dir != "." && d.root.Remove(dir) == nil; {
			dir = path.Dir(dir)
		}
	}
	return errors.Join(err, d.root.Close())
}

func (d *Dir) check(key string) error {
	if err := ValidKey(key); err != nil {
		return err
	}
	if _, err := filepath.Localize(key); err != nil {
		return fmt.Errorf("%w: %q can't be a file name on this system", ErrKey, key)
	}
	if within(key, d.o.Temp) || within(d.o.Temp, key) {
		return fmt.Errorf("%w: %q is reserved for temporary files", ErrKey, key)
	}
	return nil
}

// within ignores case, since the file system may ignore it.
func within(key, dir string) bool {
	for name := range strings.SplitSeq(dir, "/") {
		first, rest, _ := strings.Cut(key, "/")
		if !strings.EqualFold(first, name) {
			return false
		}
		key = rest
	}
	return true
}

// Get implements Bucket. If a whole object is requested, the reader is an *os.File.
func (d *Dir) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, Info, error) {
	f, info, err := d.open(ctx, key)
	if err != nil {
		return nil, Info{}, fmt.Errorf("get %q: %w", key, err)
	}
	if off == 0 && n < 0 {
		return f, info, nil
	}
	off, n, err = span(off, n, info.Size)
	if err != nil {
		return nil, Info{}, errors.Join(fmt.Errorf("get %q: %w", key, err), f.Close())
	}
	return rangeReader{io.NewSectionReader(f, off, n), f}, info, nil
}

type rangeReader struct {
	io.Reader
	io.Closer
}

func span(off, n, size int64) (int64, int64, error) {
	if off < 0 {
		return 0, 0, fmt.Errorf("offset %d is negative", off)
	}
	off = min(off, size)
	if n < 0 || n > size-off {
		n = size - off
	}
	return off, n, nil
}

func (d *Dir) open(ctx context.Context, key string) (*os.File, Info, error) {
	if err := ctx.Err(); err != nil {
		return nil, Info{}, err
	}
	if err := d.check(key); err != nil {
		return nil, Info{}, err
	}
	f, err := durable.OpenRegular(d.root, key)
	if err != nil {
		return nil, Info{}, d.openError(key, err)
	}
	st, err := f.Stat()
	if err != nil {
		return nil, Info{}, errors.Join(err, f.Close())
	}
	return f, infoOf(key, st), nil
}

// Stat implements Bucket.
func (d *Dir) Stat(ctx context.Context, key string) (Info, error) {
	info, err := d.stat(ctx, key)
	if err != nil {
		return Info{}, fmt.Errorf("stat %q: %w", key, err)
	}
	return info, nil
}

func (d *Dir) stat(ctx context.Context, key string) (Info, error) {
	if err := ctx.Err(); err != nil {
		return Info{}, err
	}
	if err := d.check(key); err != nil {
		return Info{}, err
	}
	st, err := d.root.Lstat(key)
	if err == nil && !st.Mode().IsRegular() {
		err = durable.ErrNotRegular
	}
	if err != nil {
		return Info{}, d.openError(key, err)
	}
	return infoOf(key, st), nil
}

// openError converts the error of opening an object. The result is ErrNotExist if the key is a
// directory or a parent of the key is a file. It is ErrForeign if the key or a parent of the
// key is a link or special file.
func (d *Dir) openError(key string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return ErrNotExist
	}
	if errors.Is(err, durable.ErrNotRegular) {
		if st, err := d.root.Lstat(key); err == nil && st.IsDir() {
			return ErrNotExist
		}
		return ErrForeign
	}
	for dir := path.Dir(key); dir != "."; dir = path.Dir(dir) {
		st, looked := d.root.Lstat(dir)
		switch {
		case looked != nil || st.IsDir():
		case st.Mode().IsRegular():
			return ErrNotExist
		default:
			return fmt.Errorf("%w at %q where a directory is needed", ErrForeign, dir)
		}
	}
	return err
}

func infoOf(key string, st fs.FileInfo) Info {
	return Info{Key: key, Size: st.Size(), ModTime: st.ModTime()}
}

// List implements Bucket. For each level of directories, it holds up to 256 names in
// memory.
func (d *Dir) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		dir := "."
		if i := strings.LastIndexByte(prefix, '/'); i >= 0 {
			dir = prefix[:i]
			if err := ValidKey(dir); err != nil {
				yield(Info{}, fmt.Errorf("list %q: %w", prefix, err))
				return
			}
		}
		st, err := d.root.Lstat(dir)
		if err != nil || !st.IsDir() {
			if err = d.openError(dir, err); err != nil && !errors.Is(err, ErrNotExist) {
				yield(Info{}, fmt.Errorf("list %q: %w", prefix, err))
			}
			return
		}
		w := walk{ctx, d, prefix, yield}
		w.dir(dir)
	}
}

// The methods of walk return false if the listing must end.
type walk struct {
	ctx    context.Context
	d      *Dir
	prefix string
	yield  func(Info, error) bool
}

func (w *walk) fail(err error) bool {
	w.yield(Info{}, fmt.Errorf("list %q: %w", w.prefix, err))
	return false
}

func (w *walk) dir(dir string) bool {
	f, err := w.d.root.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return true // not an error: another process has removed the directory
	}
	if err != nil {
		return w.fail(err)
	}
	defer f.Close()
	for {
		if err := w.ctx.Err(); err != nil {
			return w.fail(err)
		}
		entries, err := f.ReadDir(256)
		for _, e := range entries {
			if !w.entry(path.Join(dir, e.Name()), e) {
				return false
			}
		}
		if errors.Is(err, io.EOF) {
			return true
		}
		if err != nil {
			return w.fail(err)
		}
	}
}

func (w *walk) entry(key string, e fs.DirEntry) bool {
	switch {
	case e.IsDir():
		if within(key, w.d.o.Temp) || !strings.HasPrefix(key, w.prefix) && !strings.HasPrefix(w.prefix, key+"/") {
			return true
		}
		return w.dir(key)
	case !e.Type().IsRegular() || !strings.HasPrefix(key, w.prefix) || w.d.check(key) != nil:
		return true
	}
	st, err := e.Info()
	if errors.Is(err, fs.ErrNotExist) || err == nil && !st.Mode().IsRegular() {
		return true // not an error: the file was removed or replaced after the directory was read
	}
	if err != nil {
		return w.fail(err)
	}
	return w.yield(infoOf(key, st), nil)
}

// Clean removes the incomplete objects that interrupted runs have left. No batch may be
// open, not even in another process, so the caller must hold a lock.
func (d *Dir) Clean(ctx context.Context) error {
	if err := d.clean(ctx); err != nil {
		return fmt.Errorf("remove left-over temporary files in %q: %w", d.o.Temp, err)
	}
	return nil
}

func (d *Dir) clean(ctx context.Context) error {
	st, err := d.root.Lstat(d.o.Temp)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !st.IsDir() {
		return ErrForeign
	}
	f, err := d.root.Open(d.o.Temp)
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		names, err := f.Readdirnames(256)
		for _, name := range names {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := d.root.RemoveAll(path.Join(d.o.Temp, name)); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (d *Dir) lockNames(ctx context.Context) error {
	select {
	case d.naming <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (d *Dir) unlockNames() { <-d.naming }
