package watch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/fsnotify/fsnotify"

	"instep/source"
)

// change says what may have changed in the watched directory: one path, or everything.
type change struct {
	path       string // separated by slashes
	everything bool
}

// LateError means that the kernel does not report changes, so that only the next full scan finds
// them.
type LateError struct{ Err error }

func (e *LateError) Error() string {
	return "changes are found only by the full scans at intervals (--rescan): " + e.Err.Error()
}

func (e *LateError) Unwrap() error { return e.Err }

// tree passes on the changes that the kernel reports in a directory and its subdirectories.
type tree struct {
	changes chan change // reported changes; closed after the last one

	dir, out string // absolute
	notify   *fsnotify.Watcher
	dirs     map[string]struct{} // watched directories
	warn     func(error)
	stop     context.CancelFunc
	done     sync.WaitGroup
}

// watchTree reports changes in a directory until ctx is done or close is called. If the kernel
// cannot report changes, watchTree warns and reports nothing further.
func watchTree(ctx context.Context, dir, out string, warn func(error)) *tree {
	t := &tree{changes: make(chan change, 64), dirs: map[string]struct{}{}, warn: warn}
	ctx, t.stop = context.WithCancel(ctx)
	if err := t.open(ctx, dir, out); err != nil {
		t.giveUp(err)
		close(t.changes)
		return t
	}
	t.done.Go(func() {
		defer close(t.changes)
		if err := t.run(ctx); err != nil && ctx.Err() == nil {
			t.giveUp(err)
		}
		_ = t.notify.Close()
	})
	return t
}

func (t *tree) giveUp(err error) {
	if t.notify != nil {
		_ = t.notify.Close()
	}
	t.warn(&LateError{err})
}

func (t *tree) close() {
	t.stop()
	t.done.Wait()
}

func (t *tree) open(ctx context.Context, dir, out string) (err error) {
	if t.dir, err = filepath.Abs(dir); err == nil {
		t.dir, err = filepath.EvalSymlinks(t.dir)
	}
	if err != nil {
		return err
	}
	if out != "" {
		if t.out, err = filepath.Abs(out); err != nil {
			return err
		}
	}
	if t.notify, err = fsnotify.NewWatcher(); err != nil {
		return err
	}
	return t.add(ctx, t.dir)
}

// registerAll registers all directories again after a directory was moved. Otherwise fsnotify
// would not report changes in the moved directory.
func (t *tree) registerAll(ctx context.Context) (err error) {
	_ = t.notify.Close()
	clear(t.dirs)
	if t.notify, err = fsnotify.NewWatcher(); err != nil {
		return err
	}
	if err := t.add(ctx, t.dir); err != nil {
		return err
	}
	t.send(ctx, change{everything: true})
	return nil
}

// add registers a directory and all its subdirectories. It ignores directories that no longer
// exist, because the kernel reports their removal as a change of the parent directory.
func (t *tree) add(ctx context.Context, dir string) error {
	return filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return nil // ignored, because the next scan reports directories that it cannot read
		}
		if !d.IsDir() {
			return nil
		}
		if name != t.dir && t.isIgnored(name) {
			return fs.SkipDir
		}
		if err := t.notify.Add(name); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
			return err
		}
		t.dirs[name] = struct{}{}
		return nil
	})
}

// isIgnored returns true if a name begins with a dot or could be the name of a published
// document. Such a file is hardly ever a resource. If it is one, the next full scan finds
// its change.
func (t *tree) isIgnored(name string) bool {
	if t.out != "" && t.out != t.dir && (name == t.out || strings.HasPrefix(name, t.out+string(filepath.Separator))) {
		return true
	}
	path, err := t.path(name)
	if err != nil || path == "resourcesync" || source.MayBeDocument(path) {
		return true
	}
	for segment := range strings.SplitSeq(path, "/") {
		if strings.HasPrefix(segment, ".") {
			return true
		}
	}
	return false
}

func (t *tree) path(name string) (string, error) {
	rel, err := filepath.Rel(t.dir, name)
	return filepath.ToSlash(rel), err
}

func (t *tree) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case err, ok := <-t.notify.Errors:
			if !ok {
				return nil
			}
			if !errors.Is(err, fsnotify.ErrEventOverflow) {
				return err
			}
			if !t.send(ctx, change{everything: true}) {
				return nil
			}
		case e, ok := <-t.notify.Events:
			if !ok {
				return nil
			}
			if err := t.event(ctx, e); err != nil {
				return err
			}
		}
	}
}

func (t *tree) event(ctx context.Context, e fsnotify.Event) error {
	if e.Name == t.dir {
		t.send(ctx, change{everything: true})
		if e.Has(fsnotify.Remove) || e.Has(fsnotify.Rename) {
			return fmt.Errorf("the published directory %s was moved or removed", t.dir)
		}
		return nil
	}
	if _, ok := t.dirs[e.Name]; ok && e.Has(fsnotify.Rename) {
		return t.registerAll(ctx)
	}
	if t.isIgnored(e.Name) {
		return nil
	}
	if e.Op == fsnotify.Chmod {
		if _, err := os.Lstat(e.Name); err != nil {
			return nil // ignored: the file was removed, and the kernel reports the removal separately
		}
	}
	// A new directory is registered before its path is passed on. The scan that follows
	// finds the files that existed at that time, and the kernel reports the files that
	// are created later.
	if e.Has(fsnotify.Create) {
		if info, err := os.Lstat(e.Name); err == nil && info.IsDir() {
			if err := t.add(ctx, e.Name); err != nil {
				return err
			}
		}
	}
	if e.Has(fsnotify.Remove) {
		delete(t.dirs, e.Name)
	}
	path, err := t.path(e.Name)
	if err == nil {
		t.send(ctx, change{path: path})
	}
	return err
}

// send waits until the change has been received. It returns false if ctx is done before that.
func (t *tree) send(ctx context.Context, c change) bool {
	select {
	case t.changes <- c:
		return true
	case <-ctx.Done():
		return false
	}
}
