package publish

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

	"instep/blob"
	"instep/internal/catalog"
	"instep/internal/flock"
	"instep/internal/scan"
	"instep/source"
)

// Names inside the state directory.
const (
	lockName    = "lock"
	catalogName = catalog.FileName
	stagingName = "staging"
)

// tempKey is the directory in the output in which documents are written before they are
// renamed. The directory is empty after a run.
const tempKey = ".instep-publish"

// places are the directories that a run uses: the published directory, the state, the
// output and the staging area. A dry run uses a copy of the state and only reads the other
// directories.
type places struct {
	dir       string // the real path of Site.Dir; "" if there is none
	own       string // the slash-separated path of the output below the published directory; "" if the output is elsewhere or is the published directory itself
	isOut     bool   // whether the published directory itself is the output (the directory with the documents)
	reopening sync.RWMutex
	tree      *os.Root // the open published directory; nil if there is none
	isState   bool     // whether the published directory itself is a state directory, as the directory of a mirror is
	lock      *flock.Lock
	stores
	bucket   blob.Bucket
	staging  blob.Bucket
	outDir   *blob.Dir // the output; nil if it does not exist
	stageDir *blob.Dir // the staging area; nil in a dry run
	outPath  string    // the real path of the output
	scratch  string    // temporary directory of a dry run
}

func openPlaces(ctx context.Context, o checkedSite) (p *places, err error) {
	p = &places{bucket: blob.NewMem(), staging: blob.NewMem()}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	if err = p.find(o); err != nil {
		return p, err
	}
	if err = p.checkStateDir(o); err != nil {
		return p, err
	}
	p.findOwn()
	if o.DryRun {
		err = p.openForDryRun(ctx, o)
	} else {
		err = p.open(ctx, o)
	}
	return p, err
}

func (p *places) find(o checkedSite) (err error) {
	if o.Dir != "" {
		if p.dir, err = realPath(o.Dir); err != nil {
			return fmt.Errorf("%w: %w", scan.ErrRoot, err)
		}
		if err = p.reopenDir(); err != nil {
			return err
		}
	}
	p.outPath = p.dir
	if o.Out != "" {
		if p.outPath, err = resolve(o.Out); err != nil {
			return fmt.Errorf("output directory: %w", err)
		}
	}
	return nil
}

// reopenDir opens the directory that is at the path p.dir at present. Every scan calls it,
// because while a session is open a disk can be mounted at that path, or the directory can
// be replaced.
func (p *places) reopenDir() error {
	tree, err := openTree(p.dir)
	if err != nil {
		return err
	}
	isState, err := catalog.IsState(".", tree.Lstat, tree.Open)
	if err != nil {
		return errors.Join(fmt.Errorf("%w: %w", scan.ErrRoot, err), tree.Close())
	}
	p.reopening.Lock()
	defer p.reopening.Unlock()
	p.isState = isState
	if p.tree != nil {
		_ = p.tree.Close() // the error is ignored, since the directory was opened only for reading
	}
	p.tree = tree
	return nil
}

// root returns the published directory that reopenDir opened, or nil if there is none.
func (p *places) root() *os.Root {
	p.reopening.RLock()
	defer p.reopening.RUnlock()
	return p.tree
}

// parentInfo returns the FileInfo of the parent directory of root, or nil if it cannot be
// read.
func parentInfo(root *os.Root) fs.FileInfo {
	info, err := os.Stat(root.Name() + string(filepath.Separator) + "..") // filepath.Join would remove the "..", but if the root is a symbolic link, ".." is the parent of its target
	if err != nil {
		return nil
	}
	return info
}

// realPath returns the absolute path without symbolic links. A state records this form of
// the path of its directory.
func realPath(name string) (string, error) {
	abs, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(abs)
}

// checkStateDir returns an error if the state directory is inside the published directory
// or the output, because its files would be published or served. This is no error if an
// element of the relative path begins with a dot.
func (p *places) checkStateDir(o checkedSite) error {
	state, err := resolve(o.State)
	if err != nil {
		return fmt.Errorf("state directory: %w", err)
	}
	for _, open := range []string{p.dir, p.outPath} {
		if open == "" {
			continue
		}
		rel, err := filepath.Rel(open, state)
		if err == nil && filepath.IsLocal(rel) && !isHidden(rel) {
			return &OptionError{"state", o.State, fmt.Errorf("everybody could read a state directory in %q: expected a directory elsewhere, or a name that begins with a dot", open)}
		}
	}
	return nil
}

func isHidden(rel string) bool {
	return rel != "." && slices.ContainsFunc(strings.Split(filepath.ToSlash(rel), "/"), func(name string) bool {
		return strings.HasPrefix(name, ".")
	})
}

// resolve is like realPath, but also works for paths that do not exist yet.
func resolve(name string) (string, error) {
	name, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(name)
	if dir := filepath.Dir(name); errors.Is(err, fs.ErrNotExist) && dir != name {
		real, err = resolve(dir)
		real = filepath.Join(real, filepath.Base(name))
	}
	return real, err
}

// open locks the state, and opens the state, the staging area and the output. It creates
// missing directories.
func (p *places) open(ctx context.Context, o checkedSite) (err error) {
	if err := os.MkdirAll(o.State, 0o750); err != nil {
		return fmt.Errorf("making the state directory: %w", err)
	}
	if p.lock, err = flock.Acquire(filepath.Join(o.State, lockName)); err != nil {
		return err
	}
	p.stores, err = openStores(ctx, catalog.Options{Path: filepath.Join(o.State, catalogName), Create: true, Now: o.Now})
	if err != nil {
		return err
	}
	staging := filepath.Join(o.State, stagingName)
	if err := os.MkdirAll(staging, 0o750); err != nil {
		return fmt.Errorf("making the staging directory: %w", err)
	}
	if p.stageDir, err = blob.OpenDir(staging, blob.DirOptions{}); err != nil {
		return err
	}
	p.staging = p.stageDir
	// A web server must be able to read the published files.
	if err := os.MkdirAll(p.outPath, 0o755); err != nil {
		return fmt.Errorf("making the output directory: %w", err)
	}
	return p.openOut()
}

func (p *places) openOut() (err error) {
	p.outDir, err = blob.OpenDir(p.outPath, blob.DirOptions{Temp: tempKey, FileMode: 0o644, DirMode: 0o755})
	if err == nil {
		p.bucket = p.outDir
	}
	return err
}

// clean removes incomplete files that an interrupted run left. It must be called only after
// the output was found to belong to this state.
func (p *places) clean(ctx context.Context) error {
	for _, d := range []*blob.Dir{p.outDir, p.stageDir} {
		if d == nil {
			continue
		}
		if err := d.Clean(ctx); err != nil {
			return fmt.Errorf("removing files of an interrupted run: %w", err)
		}
	}
	return nil
}

// openForDryRun prepares a dry run, which works on a copy of the state. It writes nothing
// into the real state, not even the auxiliary files of SQLite.
func (p *places) openForDryRun(ctx context.Context, o checkedSite) (err error) {
	p.lock, err = flock.Share(filepath.Join(o.State, lockName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if p.scratch, err = os.MkdirTemp("", "instep-publish-"); err != nil {
		return fmt.Errorf("making a temporary directory for the dry run: %w", err)
	}
	for _, suffix := range []string{"", "-wal"} {
		if err := copyFile(filepath.Join(p.scratch, catalogName+suffix), filepath.Join(o.State, catalogName+suffix)); err != nil {
			return fmt.Errorf("copying the state for the dry run: %w", err)
		}
	}
	p.stores, err = openStores(ctx, catalog.Options{Path: filepath.Join(p.scratch, catalogName), Create: true, Now: o.Now})
	if err != nil {
		return err
	}
	if err := p.openOut(); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	p.outDir = nil // a missing output directory counts as empty
	return nil
}

func copyFile(to, from string) (err error) {
	r, err := os.Open(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer r.Close()
	w, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, r)
	return errors.Join(err, w.Close())
}

// findOwn sets the fields own and isOut, which say where the output is within the published
// directory.
func (p *places) findOwn() {
	rel, err := filepath.Rel(p.dir, p.outPath)
	switch {
	case p.dir == "" || err != nil || !filepath.IsLocal(rel):
	case rel == ".":
		p.isOut = true
	default:
		p.own = filepath.ToSlash(rel)
	}
}

// isOwnPath reports whether a path is in the output (a subdirectory of the published
// directory), or belongs to the state if the published directory is itself a state
// directory. The scan recognises state directories in subdirectories.
func (p *places) isOwnPath(path string) bool {
	p.reopening.RLock()
	isState := p.isState
	p.reopening.RUnlock()
	if top, _, _ := strings.Cut(path, "/"); isState && catalog.IsStateName(top) {
		return true
	}
	return p.own != "" && (path == p.own || strings.HasPrefix(path, p.own+"/"))
}

func publishedInfo(dir string) (source.PublicationInfo, error) {
	return source.ReadPublicationInfo(os.DirFS(dir))
}

func openTree(dir string) (*os.Root, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", scan.ErrRoot, err)
	}
	return root, nil
}

func (p *places) close() error {
	var errs []error
	if p.catalog != nil {
		errs = append(errs, p.catalog.Close())
	}
	for _, d := range []*blob.Dir{p.outDir, p.stageDir} {
		if d != nil {
			errs = append(errs, d.Close())
		}
	}
	if p.stageDir != nil && p.outDir != nil {
		// Remove fails if the directory is not empty. In that case another program has put
		// a file there, and the directory stays.
		_ = os.Remove(filepath.Join(p.outPath, tempKey))
	}
	if p.tree != nil {
		errs = append(errs, p.tree.Close())
	}
	if p.scratch != "" {
		errs = append(errs, os.RemoveAll(p.scratch))
	}
	if p.lock != nil {
		errs = append(errs, p.lock.Release())
	}
	return errors.Join(errs...)
}
