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
	"path/filepath"
	"time"

	"instep/blob"
	"instep/internal/catalog"
	"instep/internal/scan"
	"instep/resourcesync"
	"instep/source"
)

// Opener is an Input that can open the present bytes of a resource. The error is
// fs.ErrNotExist if the resource no longer exists.
type Opener interface {
	Open(ctx context.Context, r catalog.Resource) (io.ReadCloser, error)
}

// contentName is the subdirectory of the state that keeps two things: per set, the
// bytes of changes that are in no Change Dump yet; and the bytes of versions.
const (
	contentName = "content"
	defaultName = "default" // subdirectory of the default set
	setName     = "set"     // parent directory of the named sets
)

// openContent opens the store of a set, which is nil if it does not exist and is not
// needed.
func (s *Session) openContent(ctx context.Context, set *setState) error {
	if s.site.DryRun {
		return nil
	}
	name := filepath.Join(s.site.State, contentName, defaultName)
	if set.Name != "" {
		name = filepath.Join(s.site.State, contentName, setName, set.Name)
	}
	dir, err := openStore(name, set.Dumps || set.KeepVersions > 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("opening the directory for the bytes of changes: %w", err)
	}
	set.content = newStore(dir)
	s.closers = append(s.closers, dir)
	if err := dir.Clean(ctx); err != nil {
		return fmt.Errorf("removing what an interrupted run left: %w", err)
	}
	return nil
}

// keep returns the store into which a scan copies changed files; nil if they need not
// be kept. Change Dumps need them, since the next one has to contain all changes since
// the first began. The first Change Dump needs them too if files changed again before
// they could be packed. Versions need them, except in the first publication, which
// reads the files.
func (r *run) keep() blob.Bucket {
	dumps := r.Dumps && !(r.last.DumpsSince.IsZero() && r.keepsSince.IsZero())
	if dumps || r.KeepVersions > 0 && r.last.ID != 0 {
		return r.content.bucket()
	}
	return nil
}

// forget removes the bytes of changes that a Change Dump already contains or that none
// will contain. If the process crashes before that, the next publication removes them.
func (r *run) forget(ctx context.Context) error {
	if r.content == nil {
		return nil
	}
	if err := r.content.prune(ctx, r.facts.Changes(ctx, r.id, r.last.ChangesThrough, math.MaxInt64)); err != nil {
		return fmt.Errorf("removing the bytes of published changes: %w", err)
	}
	return nil
}

// contents opens the bytes of the resources of a set.
type contents struct {
	facts facts
	id    catalog.SetID
	kept  blob.Bucket // store of copied bytes; nil if none are kept
	since time.Time   // the store may have the bytes of resources that changed at this time or later
	// Sources of the present bytes; both are nil if there are none.
	tree  scan.Tree
	input Opener

	relations *relations // links to add to the manifests
	patching  *patching  // patches for manifests and their packages
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

// state yields the resources of the set as recorded in the catalog.
func (c *contents) state(ctx context.Context) iter.Seq2[source.Bitstream, error] {
	return func(yield func(source.Bitstream, error) bool) {
		for m, err := range c.facts.Members(ctx, c.id) {
			en, damaged := resourceEntry(m)
			b := source.Bitstream{Entry: en, Open: func(ctx context.Context) (io.ReadCloser, error) {
				if !m.Changed.Before(c.since) {
					return c.open(ctx, m)
				}
				return c.present(ctx, m)
			}}
			if !yield(b, cmp.Or(err, damaged, c.relations.link(ctx, &b.Entry, m.Changed))) {
				return
			}
		}
	}
}

// changes yields the changes with numbers above after and up to through.
func (c *contents) changes(ctx context.Context, after, through int64) iter.Seq2[source.Bitstream, error] {
	return func(yield func(source.Bitstream, error) bool) {
		for ch, err := range c.facts.Changes(ctx, c.id, after, through) {
			en, damaged := changeEntry(ch)
			b := source.Bitstream{Entry: en}
			linked := c.relations.link(ctx, &b.Entry, ch.Datetime)
			c.patching.pack(ch.Seq, &b)
			if ch.Change != resourcesync.Deleted {
				b.Open = func(ctx context.Context) (io.ReadCloser, error) { return c.open(ctx, ch.Resource) }
			}
			if !yield(b, cmp.Or(err, damaged, linked)) {
				return
			}
		}
	}
}

// open opens the kept bytes of a resource, otherwise the present ones, and checks them
// against the digest.
func (c *contents) open(ctx context.Context, m catalog.Resource) (io.ReadCloser, error) {
	if sum := m.Digests.Get(resourcesync.SHA256); c.kept != nil && !sum.IsZero() {
		body, _, err := c.kept.Get(ctx, scan.KeepKey(sum), 0, -1)
		if !errors.Is(err, blob.ErrNotExist) {
			return body, err
		}
	}
	if m.Path == "" { // the log has no path: look it up
		found, err := c.facts.Lookup(ctx, c.id, []string{m.URI})
		if err != nil {
			return nil, err
		}
		if m = found[0]; !m.Member {
			return nil, fmt.Errorf("it was deleted since: %w", source.ErrGone)
		}
	}
	return c.present(ctx, m)
}

// present opens the present bytes of a resource.
func (c *contents) present(ctx context.Context, m catalog.Resource) (body io.ReadCloser, err error) {
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
		err = fmt.Errorf("%w: a %s is in its place", fs.ErrNotExist, info.Mode().Type())
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
