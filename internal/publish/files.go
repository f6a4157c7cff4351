package publish

import (
	"io/fs"
	"os"
	"strings"

	"instep/internal/catalog"
)

// Files is a file system for serving a published directory. Unlike os.Root.FS it accepts
// names that are not UTF-8, and it hides state directories.
type Files struct{ Root *os.Root }

// Open implements fs.FS.
func (f Files) Open(name string) (fs.File, error) {
	if err := f.checkHidden("open", name); err != nil {
		return nil, err
	}
	return f.Root.Open(name)
}

// Stat implements fs.StatFS.
func (f Files) Stat(name string) (fs.FileInfo, error) {
	if err := f.checkHidden("stat", name); err != nil {
		return nil, err
	}
	return f.Root.Stat(name)
}

// checkHidden returns fs.ErrNotExist if a name leads into a state directory, directly or
// through a symbolic link.
func (f Files) checkHidden(op, name string) error {
	found, err := false, error(nil)
	if top, _, _ := strings.Cut(name, "/"); catalog.IsStateName(top) {
		found, err = catalog.IsState(".", f.Root.Stat, f.Root.Open)
	}
	for i, c := range []byte(name) {
		if c == '/' && !found && err == nil {
			found, err = catalog.IsState(name[:i], f.Root.Stat, f.Root.Open)
		}
	}
	if found {
		err = &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
	}
	return err
}

// OpenFiles opens the files below dir. The caller must close Files.Root.
func OpenFiles(dir string) (Files, error) {
	root, err := os.OpenRoot(dir)
	return Files{root}, err
}
