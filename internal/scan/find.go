package scan

import (
	"errors"
	"io/fs"
	"path"
	"strings"

	"instep/internal/catalog"
	"instep/internal/glob"
)

// maxLinks is the largest number of symbolic links that are followed for one file.
const maxLinks = 8

type found struct {
	target string // the path of the file or, if it is a symbolic link, of its target
	info   fs.FileInfo
}

// find returns the file at a path, or the reason why the file is not published. The
// caller must have checked the directories above the path.
func (d *Dir) find(name string, lstat func() (fs.FileInfo, error)) (found, Reason, error) {
	if r := d.refusedPath(name, false); r != "" {
		return found{}, r, nil
	}
	if !d.included(name) {
		return found{}, Pattern, nil
	}
	info, err := lstat()
	if err != nil {
		return found{}, "", err
	}
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		return d.follow(name)
	case !info.Mode().IsRegular():
		return found{}, Special, nil
	}
	return found{name, info}, "", nil
}

// locate is like find, but first checks the directories above the path.
func (d *Dir) locate(name string) (found, Reason, error) {
	if r, err := d.refusedAbove(name); r != "" || err != nil {
		return found{}, r, err
	}
	return d.find(name, func() (fs.FileInfo, error) { return d.Tree.Lstat(name) })
}

// refusedAbove returns the reason why a scan would not enter one of the directories above a
// path. It returns "" if a scan would enter all of them.
func (d *Dir) refusedAbove(name string) (Reason, error) {
	for i, c := range []byte(name) {
		if c != '/' {
			continue
		}
		if r := d.refusedPath(name[:i], true); r != "" {
			return r, nil
		}
		info, err := d.Tree.Lstat(name[:i])
		if err != nil {
			return "", err
		}
		if !info.IsDir() {
			return Symlink, nil
		}
		if state, err := d.isState(name[:i]); state || err != nil {
			return Ours, err
		}
	}
	return "", nil
}

// isState reports whether a directory below the root is the state directory of a mirror
// or a publisher, which is never published. For the root itself it returns false.
func (d *Dir) isState(dir string) (bool, error) {
	if dir == "." {
		return false, nil
	}
	return catalog.IsState(dir, d.Tree.Lstat, d.Tree.Open)
}

// follow finds the target of a symbolic link. The target must be in the tree and not
// hidden, and no directory above it may be a link. Therefore a link cannot publish a file
// that would not be published under its own name.
func (d *Dir) follow(name string) (found, Reason, error) {
	for range maxLinks {
		text, err := d.Tree.Readlink(name)
		if err != nil {
			return found{}, "", err
		}
		next, ok := resolve(name, text)
		if !ok {
			return found{}, Symlink, nil
		}
		r, err := d.refusedAbove(next)
		if r == "" && err == nil {
			r = d.refusedPath(next, false)
		}
		if errors.Is(err, fs.ErrNotExist) || r != "" {
			return found{}, Symlink, nil
		}
		if err != nil {
			return found{}, "", err
		}
		info, err := d.Tree.Lstat(next)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return found{}, Symlink, nil
		case err != nil:
			return found{}, "", err
		case info.Mode().IsRegular():
			return found{next, info}, "", nil
		case info.Mode()&fs.ModeSymlink == 0:
			return found{}, Symlink, nil
		}
		name = next
	}
	return found{}, Symlink, nil
}

// resolve returns the target of a symbolic link, given the path (name) and the text of
// the link. The result is false if the target is or may be outside the tree. A ".." after
// a name is refused, because that name may itself be a link.
func resolve(name, text string) (string, bool) {
	if path.IsAbs(text) || path.Clean(text) != strings.TrimSuffix(strings.TrimPrefix(text, "./"), "/") {
		return "", false
	}
	next := path.Join(path.Dir(name), text)
	return next, next != "." && next != ".." && !strings.HasPrefix(next, "../")
}

// refusedPath returns the reason why a file or directory with this path is not published,
// or "" if the path does not prevent that.
func (d *Dir) refusedPath(name string, dir bool) Reason {
	switch r := d.refusedName(name, dir); {
	case (r == "" || r == Dotfile) && d.Ours != nil && d.Ours(name):
		return Ours
	case r != "":
		return r
	case d.excluded(name, dir):
		return Pattern
	}
	return ""
}

func (d *Dir) excluded(name string, dir bool) bool {
	if d.globs != nil {
		return d.globs.exclude.Match(name, dir)
	}
	return glob.MatchAny(d.Exclude, name, dir)
}

func (d *Dir) included(name string) bool {
	if d.globs != nil {
		return d.globs.include.Empty() || d.globs.include.Match(name, false)
	}
	return len(d.Include) == 0 || glob.MatchAny(d.Include, name, false)
}
