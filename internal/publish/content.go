package publish

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"os"
	"path/filepath"
	"time"

	"instep/blob"
	"instep/internal/catalog"
	"instep/internal/scan"
	"instep/resourcesync"
	"instep/source"
)

// Opener is an Input that can open the present bytes of a resource. Open returns
// fs.ErrNotExist if the resource no longer exists.
type Opener interface {
	Open(ctx context.Context, r catalog.Resource) (io.ReadCloser, error)
}

// contentName is the subdirectory of the state with copies of bytes. For each set it has
// the bytes of changes that no Change Dump contains yet, and for all sets together it has
// the bytes of versions.
const (
	contentName = "content"
	defaultName = "default" // the subdirectory for the default set
	setName     = "set"     // the directory with a subdirectory for each named set
)

// openContent opens the store of a set. It leaves set.content nil if the store does not
// exist and is not needed.
func (s *Session) openContent(ctx context.Context, set *setState) error {
	if s.site.DryRun {
		return nil
	}
	dir, err := s.openDir(ctx, setDir(contentName, set.Name), set.Dumps || set.KeepVersions > 0, blob.DirOptions{})
	if dir != nil {
		set.content = newStore(dir)
	}
	return err
}

func setDir(dir, set string) string {
	if set == "" {
		return filepath.Join(dir, defaultName)
	}
	return filepath.Join(dir, setName, set)
}

// openDir opens a directory of the state until the session ends. It returns nil if the
// directory does not exist and create is false. Unless this is a dry run, it removes
// incomplete files that an interrupted run left.
func (s *Session) openDir(ctx context.Context, name string, create bool, o blob.DirOptions) (*blob.Dir, error) {
	name = filepath.Join(s.site.State, name)
	if create {
		if err := os.MkdirAll(name, 0o750); err != nil {
			return nil, fmt.Errorf("making a directory of the state: %w", err)
		}
	}
	dir, err := blob.OpenDir(name, o)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("opening a directory of the state: %w", err)
	}
	s.closers = append(s.closers, dir)
	if s.site.DryRun {
		return dir, nil
	}
	if err := dir.Clean(ctx); err != nil {
		return nil, fmt.Errorf("removing files of an interrupted run: %w", err)
	}
	return dir, nil
}

// copyStore returns the store into which a scan copies changed files, or nil if no copies
// are needed. Change Dumps need copies, because the next dump must contain every change
// since the first one, even if the file changes again before it is packed. Before the first
// Change Dump, files are copied only if packing has failed because a file changed again.
// Versions need copies, except in the first publication, which reads the files.
func (r *run) copyStore() blob.Bucket {
	dumps := r.Dumps && !(r.last.DumpsSince.IsZero() && r.keepsSince.IsZero())
	if dumps || r.KeepVersions > 0 && r.last.ID != 0 {
		return r.content.bucket()
	}
	return nil
}

// removePackedBytes removes the stored bytes of changes that no future Change Dump will
// contain. If a crash prevents this, the next publication removes them.
func (r *run) removePackedBytes(ctx context.Context) error {
	if r.content == nil {
		return nil
	}
	if err := r.content.prune(ctx, r.facts.Changes(ctx, r.id, r.last.ChangesThrough, math.MaxInt64)); err != nil {
		return fmt.Errorf("removing the bytes of published changes: %w", err)
	}
	return nil
}

type contents struct {
	facts facts
	id    catalog.SetID
	kept  blob.Bucket // the store with copies of the bytes of resources; nil if no copies are made
	since time.Time   // the bytes of resources that have changed since this time may be in the field kept
	// The present bytes of resources are read from tree or input. Both are nil if no bytes
	// can be read.
	tree  scan.Tree
	input Opener

	relations *relations // links that are added to the entries of manifests
	patching  *patching  // patches that are added to packages and their manifests
}

func (r *run) contents(ctx context.Context, since time.Time) (*contents, error) {
	c := &contents{facts: r.facts, id: r.id, kept: r.content.bucket(), since: since, relations: &r.relations, patching: &r.patching}
	if tree := r.root(); r.Input == nil && tree != nil {
		c.tree = scan.RootTree(tree)
	}
	if r.Input == nil {
		return c, nil
	}
	in, err := r.input(ctx, nil)
	if err != nil {
		return nil, err
	}
	c.input, _ = in.(Opener)
	return c, nil
}

func (c *contents) state(ctx context.Context) iter.Seq2[source.Bitstream, error] {
	return func(yield func(source.Bitstream, error) bool) {
		for m, err := range c.facts.Members(ctx, c.id) {
			en, damaged := resourceEntry(m)
			b := source.Bitstream{Entry: en, Open: func(ctx context.Context) (io.ReadCloser, error) {
				if !m.Changed.Before(c.since) {
					return c.open(ctx, m)
				}
				return c.openPresent(ctx, m)
			}}
			if !yield(b, cmp.Or(err, damaged, c.relations.addLinks(ctx, &b.Entry, m.Changed))) {
				return
			}
		}
	}
}

// changes yields the changes with after < Seq <= through, together with their bytes.
func (c *contents) changes(ctx context.Context, after, through int64) iter.Seq2[source.Bitstream, error] {
	return func(yield func(source.Bitstream, error) bool) {
		for ch, err := range c.facts.Changes(ctx, c.id, after, through) {
			en, damaged := changeEntry(ch)
			b := source.Bitstream{Entry: en}
			linked := c.relations.addLinks(ctx, &b.Entry, ch.Datetime)
			c.patching.addPatch(ch.Seq, &b)
			if ch.Change != resourcesync.Deleted {
				b.Open = func(ctx context.Context) (io.ReadCloser, error) { return c.open(ctx, ch.Resource) }
			}
			if !yield(b, cmp.Or(err, damaged, linked)) {
				return
			}
		}
	}
}

// open opens the stored copy of a resource's bytes or, if there is no copy, the present
// bytes.
func (c *contents) open(ctx context.Context, m catalog.Resource) (io.ReadCloser, error) {
	if sum := m.Digests.Get(resourcesync.SHA256); c.kept != nil && !sum.IsZero() {
		body, _, err := c.kept.Get(ctx, scan.KeepKey(sum), 0, -1)
		if !errors.Is(err, blob.ErrNotExist) {
			return body, err
		}
	}
	if m.Path == "" { // a resource from the change log has no path, so the path is looked up
		found, err := c.facts.Lookup(ctx, c.id, []string{m.URI})
		if err != nil {
			return nil, err
		}
		if m = found[0]; !m.Member {
			return nil, fmt.Errorf("the resource has been deleted: %w", source.ErrGone)
		}
	}
	return c.openPresent(ctx, m)
}

// openPresent opens the bytes that a resource has now, from its file or its Input.
func (c *contents) openPresent(ctx context.Context, m catalog.Resource) (body io.ReadCloser, err error) {
	switch {
	case c.input != nil:
		body, err = c.input.Open(ctx, m)
	case c.tree != nil:
		body, err = openFile(c.tree, m.Path)
	default:
		err = fs.ErrNotExist
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: %w", source.ErrGone, err)
	}
	return body, err
}

func openFile(tree scan.Tree, path string) (io.ReadCloser, error) {
	f, err := tree.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%w: expected a regular file, found a %s", fs.ErrNotExist, info.Mode().Type())
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
