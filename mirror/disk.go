package mirror

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"instep/internal/catalog"
	"instep/internal/durable"
)

// Modes of new files and directories before the umask is applied. Everybody may read the
// files of resources, but only the owner may read those that the mirror needs for itself.
const (
	fileMode = 0o666
	dirMode  = 0o777
	oursMode = 0o700
)

type disk struct {
	root  *os.Root
	state string // the path of a state directory other than .instep in the mirror's directory; "." if it is the mirror's directory itself; "" if there is none

	mu      sync.Mutex // guards the rest
	parents durable.Parents
	dirs    map[string]struct{} // a cache of paths of directories that are not state directories
}

// maxDirs bounds disk.dirs.
const maxDirs = 8192

func openDisk(dir string) (*disk, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &disk{root: root, parents: durable.Parents{Root: root}, dirs: map[string]struct{}{}}, nil
}

func (d *disk) close() error { return errors.Join(d.forget(), d.root.Close()) }

// forget closes the cached directories. It is called when directories may have been
// removed or replaced.
func (d *disk) forget() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.parents.Forget()
}

func isState(dir string) (bool, error) { return catalog.IsState(dir, os.Lstat, os.Open) }

// IsMirror reports whether dir has the marker of a mirror.
func IsMirror(dir string) (bool, error) {
	info, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(markerKey)))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && info.Mode().IsRegular(), err
}

// mirrorAbove returns the directory of a mirror that contains the path, if a resource
// of the mirror could get this path; otherwise "".
func mirrorAbove(path string) (string, error) {
	for dir := path; ; dir = filepath.Dir(dir) {
		if strings.HasPrefix(filepath.Base(dir), ".") || dir == filepath.Dir(dir) {
			return "", nil
		}
		_, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(markerKey)))
		if err == nil {
			return dir, nil
		}
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
			return "", err
		}
	}
}

// relative returns the slash-separated path of dir relative to top; "" if dir is not
// inside top. Both paths must be free of symbolic links, but may spell the same name in
// different ways.
func relative(top, dir string) string {
	if rel, err := filepath.Rel(top, dir); err == nil && filepath.IsLocal(rel) {
		return filepath.ToSlash(rel)
	}
	want, err := os.Stat(top)
	for rel := "."; err == nil; rel = filepath.Join(filepath.Base(dir), rel) {
		if at, err := os.Stat(dir); err == nil && os.SameFile(at, want) {
			return filepath.ToSlash(rel)
		}
		if dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	return ""
}

// resolve returns the absolute path without symbolic links. The file need not exist.
func resolve(name string) (string, error) {
	name, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(name)
	if !errors.Is(err, fs.ErrNotExist) {
		return real, err
	}
	dir := filepath.Dir(name)
	if to, err := os.Readlink(name); err == nil { // the path is a link whose target does not exist
		if !filepath.IsAbs(to) {
			to = filepath.Join(dir, to)
		}
		return resolve(to)
	}
	if dir == name {
		return "", err
	}
	real, err = resolve(dir)
	return filepath.Join(real, filepath.Base(name)), err
}

// catalogFiles has the suffixes of the catalog's own file and of those that SQLite
// creates beside it.
var catalogFiles = []string{"", "-wal", "-shm", "-journal"}

// setAside renames the files of an unusable catalog, so that nothing is lost. It returns
// the new path of the catalog, or "" if there is no catalog.
func setAside(path string, now time.Time) (aside string, err error) {
	stem := path + ".unusable-" + now.UTC().Format("20060102T150405Z")
	name := stem
	for n := 2; anyOf(name); n++ {
		name = fmt.Sprintf("%s-%d", stem, n)
	}
	for _, suffix := range catalogFiles {
		err := os.Rename(path+suffix, name+suffix)
		switch {
		case err == nil:
			aside = name
		case !errors.Is(err, fs.ErrNotExist):
			return "", fmt.Errorf("set the catalog aside: %w", err)
		}
	}
	if aside != "" {
		err = syncDir(filepath.Dir(path))
	}
	return aside, err
}

func anyOf(path string) bool {
	return slices.ContainsFunc(catalogFiles, func(suffix string) bool {
		_, err := os.Lstat(path + suffix)
		return err == nil
	})
}

// makeDir creates a directory with the given mode, and missing parents with the mode
// dirMode. It makes all these directories durable.
func makeDir(dir string, mode fs.FileMode) error {
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		return fmt.Errorf("expected %q to be a directory, found %s", dir, info.Mode().Type())
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := filepath.Dir(filepath.Clean(dir))
	if err := makeDir(parent, dirMode); err != nil {
		return err
	}
	if err := os.Mkdir(dir, mode); err != nil && !errors.Is(err, fs.ErrExist) { // no error, since another run may have created the directory in the meantime
		return err
	}
	return syncDir(parent)
}

func syncDir(dir string) (err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	g, err := durable.System(root).NewGroup(root, 1)
	if err != nil {
		return err
	}
	return errors.Join(g.SyncDirs(context.Background(), []string{"."}), g.Close())
}

// checkOwnDirectory returns an error if .instep is missing or is not a directory, for
// example because it is a link to one.
func (d *disk) checkOwnDirectory() error {
	info, err := d.root.Lstat(ours)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%w: expected %q to be a directory, found %s", ErrWrongStore, ours, info.Mode().Type())
	}
	return err
}

// foreignFile returns the path of a file that the interrupted creation of a mirror
// cannot have left in the directory; "" if there is none. Such a file shows that the
// directory is used for something else.
func (d *disk) foreignFile() (string, error) {
	top, err := d.root.Open(".")
	if err != nil {
		return "", err
	}
	defer top.Close()
	names, err := top.Readdirnames(2)
	for _, name := range names {
		if name != ours {
			return name, nil
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	entries, err := fs.ReadDir(d.root.FS(), ours)
	for _, e := range entries {
		if name := e.Name(); name != "tmp" && name != "marker" && !catalog.IsStateName(name) {
			return ours + "/" + name, nil
		}
	}
	return "", ignoreAbsent(err)
}

type kind string

const (
	absent    kind = "nothing"
	file      kind = "file"
	directory kind = "directory"
	stateDir  kind = "state directory of instep"
	other     kind = "link or special file"
)

// look returns what is at the given path. If a parent of the path is not a directory, it
// returns the kind and path of that parent.
func (d *disk) look(name string) (k kind, at string, err error) {
	if k, at, err = d.lookAbove(name); err != nil || k != directory {
		return k, at, err
	}
	k, err = d.lookIn(name)
	return k, name, err
}

// lookAbove is like look, but looks only at the parents of a path. If all of them are
// directories, it returns the kind directory.
func (d *disk) lookAbove(name string) (k kind, at string, err error) {
	for i, c := range name {
		if c != '/' {
			continue
		}
		if k, err = d.lookParent(name[:i]); err != nil || k != directory {
			return k, name[:i], err
		}
	}
	return directory, name, nil
}

func (d *disk) inState(name string) (bool, error) {
	k, _, err := d.lookAbove(name)
	if err == nil && k == directory {
		k, err = d.orState(name, file, nil)
	}
	return k == stateDir, err
}

// lookIn is like look, but needs a path whose parents are known to be directories.
func (d *disk) lookIn(name string) (kind, error) {
	d.mu.Lock()
	k, err := kindOf(d.parents.Type(name))
	d.mu.Unlock()
	return d.orState(name, k, err)
}

// orState returns the kind stateDir if the directory at name is a state directory.
// Otherwise it returns the given k and err. It ignores case and Unicode form for the
// mirror's own state directory, since some file systems open that directory by such
// names, too.
func (d *disk) orState(name string, k kind, err error) (kind, error) {
	switch {
	case err != nil || firstOf(name) == ours:
		return k, err
	case d.state == "." && !strings.Contains(name, "/") && catalog.IsStateName(name):
		return stateDir, nil
	case d.state != "" && catalog.Fold(name) == catalog.Fold(d.state):
		return stateDir, nil
	case k != directory:
		return k, nil
	}
	found, err := catalog.IsState(name, d.root.Lstat, d.root.Open)
	if err == nil && found {
		k = stateDir
	}
	return k, err
}

func firstOf(name string) string {
	first, _, _ := strings.Cut(name, "/")
	return first
}

// lookParent is like lookIn, but caches the paths of directories, since many resources
// have the same parents.
func (d *disk) lookParent(dir string) (kind, error) {
	d.mu.Lock()
	_, ok := d.dirs[dir]
	d.mu.Unlock()
	if ok {
		return directory, nil
	}
	k, err := d.lookIn(dir)
	if err != nil || k != directory {
		return k, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.dirs) >= maxDirs {
		clear(d.dirs)
	}
	d.dirs[dir] = struct{}{}
	return k, nil
}

func (d *disk) lstat(name string) (kind, error) {
	info, err := d.root.Lstat(name)
	if err != nil {
		return kindOf(0, err)
	}
	return kindOf(info.Mode().Type(), nil)
}

func kindOf(mode fs.FileMode, err error) (kind, error) {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return absent, nil
	case err != nil:
		return "", err
	case mode.IsDir():
		return directory, nil
	case mode.IsRegular():
		return file, nil
	}
	return other, nil
}
