package publish

import (
	"context"
	"errors"
	"io"
	"iter"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"instep/internal/catalog"
	"instep/internal/scan"
	"instep/internal/spool"
	"instep/resourcesync"
	"instep/source"
)

// View reads the recorded resources of a site, and its directory, for packages on demand.
// It may be used while another process publishes the site.
type View struct {
	stores
	tree  *os.Root // the published directory; nil if the set has no files
	names []string // the names of the sets that may be read through this View
}

var _ source.PackageData = (*View)(nil)

// OpenView opens the state of a published site. It uses State, Dir, Now and the names
// of the sets of the Site. It returns fs.ErrNotExist if there is no such state.
func OpenView(ctx context.Context, site Site) (v *View, err error) {
	v = &View{}
	for _, set := range site.Sets {
		v.names = append(v.names, set.Name)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, v.Close())
		}
	}()
	v.stores, err = openStores(ctx, catalog.Options{Path: filepath.Join(site.State, catalogName), Now: site.Now})
	if err != nil || site.Dir == "" {
		return v, err
	}
	v.tree, err = openTree(site.Dir)
	return v, err
}

// Close closes the view.
func (v *View) Close() error {
	var errs []error
	if v.tree != nil {
		errs = append(errs, v.tree.Close())
	}
	if v.catalog != nil {
		errs = append(errs, v.catalog.Close())
	}
	return errors.Join(errs...)
}

// set returns the resources of a set. It returns source.ErrNoSet if the set is not
// published or its name is not in v.names.
func (v *View) set(ctx context.Context, name string) (*contents, error) {
	sets, err := v.facts.Sets(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range sets {
		if s.Name != name || !slices.Contains(v.names, name) {
			continue
		}
		id, _, _, err := v.pubs.LastPublication(ctx, s.ID)
		if err != nil {
			return nil, err
		}
		if id == 0 {
			break
		}
		c := &contents{facts: v.facts, id: s.ID}
		if v.tree != nil {
			c.tree = scan.RootTree(v.tree)
		}
		return c, nil
	}
	return nil, source.ErrNoSet
}

// Resources yields those resources with the given URIs that are in the set and have a known
// length.
func (v *View) Resources(ctx context.Context, set string, uris []string) iter.Seq2[source.Bitstream, error] {
	return func(yield func(source.Bitstream, error) bool) {
		c, err := v.set(ctx, set)
		if err != nil {
			yield(source.Bitstream{}, err)
			return
		}
		for batch := range slices.Chunk(uris, catalog.MaxChanges) {
			found, err := v.facts.Lookup(ctx, c.id, batch)
			if err != nil {
				yield(source.Bitstream{}, err)
				return
			}
			for _, m := range found {
				if !m.Member || !m.Length.Known() {
					continue
				}
				open := func(ctx context.Context) (io.ReadCloser, error) { return c.openPresent(ctx, m) }
				en, err := resourceEntry(m)
				if !yield(source.Bitstream{Entry: en, Open: open}, err) {
					return
				}
			}
		}
	}
}

// Changes yields the changes of a set since the given time, oldest first. It leaves out a
// change if the same resource changed again later, because only the present bytes can be
// read.
func (v *View) Changes(ctx context.Context, set string, start time.Time) iter.Seq2[source.Bitstream, error] {
	return func(yield func(source.Bitstream, error) bool) {
		c, err := v.set(ctx, set)
		if err == nil {
			err = v.checkRecorded(ctx, set, c.id, start)
		}
		var after int64
		if err == nil {
			after, err = c.lastBefore(ctx, start)
		}
		if err != nil {
			yield(source.Bitstream{}, err)
			return
		}
		for batch, err := range spool.Batches(v.facts.Changes(ctx, c.id, after, math.MaxInt64), catalog.MaxChanges) {
			if err != nil {
				yield(source.Bitstream{}, err)
				return
			}
			if !c.yieldLasting(ctx, batch, yield) {
				return
			}
		}
		if err := v.checkLog(ctx, c.id, start); err != nil { // check again, because changes may have been removed from the log while they were read
			yield(source.Bitstream{}, err)
		}
	}
}

// checkLog returns source.ErrForgotten if changes since the given time have been removed
// from the log.
func (v *View) checkLog(ctx context.Context, id catalog.SetID, from time.Time) error {
	forgotten, err := v.facts.Forgotten(ctx, id)
	if err == nil && !from.After(forgotten) {
		err = source.ErrForgotten
	}
	return err
}

// checkRecorded returns source.ErrForgotten if the given time is before the start of the
// first Change List, or if changes after that time have been removed from the log.
func (v *View) checkRecorded(ctx context.Context, set string, id catalog.SetID, from time.Time) error {
	if err := v.checkLog(ctx, id, from); err != nil {
		return err
	}
	for it, err := range (journal{v.facts, v.pubs}).Items(ctx, set, source.ItemChangeList, 0) {
		if err == nil && from.Before(it.From) {
			err = source.ErrForgotten
		}
		return err
	}
	return source.ErrForgotten
}

// lastBefore returns the number of the last change before the given time. It uses binary
// search, since later changes have higher numbers.
func (c *contents) lastBefore(ctx context.Context, from time.Time) (int64, error) {
	last, _, err := c.facts.LastSeq(ctx, c.id)
	if err != nil {
		return 0, err
	}
	low, high := int64(0), last // bounds of the result, for a binary search
	for low < high {
		middle := low + (high-low)/2
		next, err := c.firstChange(ctx, middle, high)
		if err != nil {
			return 0, err
		}
		switch {
		case next.Seq == 0: // there is no change from middle+1 to high
			high = middle
		case next.Datetime.Before(from):
			low = next.Seq
		default:
			high = middle
		}
	}
	return low, nil
}

// firstChange returns the first change with after < Seq <= through. It returns a zero
// Change if there is none.
func (c *contents) firstChange(ctx context.Context, after, through int64) (catalog.Change, error) {
	for ch, err := range c.facts.Changes(ctx, c.id, after, through) {
		return ch, err
	}
	return catalog.Change{}, nil
}

// yieldLasting yields those of the given changes that led to the present state of their
// resources. It returns false if the consumer stopped.
func (c *contents) yieldLasting(ctx context.Context, changes []catalog.Change, yield func(source.Bitstream, error) bool) bool {
	uris := make([]string, len(changes))
	for i := range changes {
		uris[i] = changes[i].URI
	}
	now, err := c.facts.Lookup(ctx, c.id, uris)
	if err != nil {
		yield(source.Bitstream{}, err)
		return false
	}
	for i, ch := range changes {
		m := now[i]
		deleted := ch.Change == resourcesync.Deleted
		if deleted == m.Member || !deleted && (!m.Changed.Equal(ch.Datetime) || !m.Length.Known()) {
			continue // skip this change, because the resource has changed again
		}
		var b source.Bitstream
		if !deleted {
			ch.Resource = m
			b.Open = func(ctx context.Context) (io.ReadCloser, error) { return c.openPresent(ctx, m) }
		}
		en, err := changeEntry(ch)
		b.Entry = en
		if !yield(b, err) {
			return false
		}
	}
	return true
}
