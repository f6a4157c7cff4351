package destination

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"instep/harvest"
	"instep/resourcesync"
	"instep/transfer"
)

// Change is a change of a resource at the Source.
type Change struct {
	Set              string              // URI of the set's Capability List
	Change           resourcesync.Change // created, updated or deleted
	harvest.Resource                     // the resource after the change; for a deletion only its URI and time
}

// GapError means that the Change Lists of a set do not contain all changes since a
// moment. Then all resources must be read: call Changes with the zero time.
type GapError struct {
	Set   string
	Since time.Time
	Why   string
}

func (e *GapError) Error() string {
	return fmt.Sprintf("the changes of %s since %s are not all known: %s", e.Set, e.Since.UTC().Format(time.RFC3339Nano), e.Why)
}

// Changes yields the changes at a Source since a moment, for programs with their own
// store. It uses neither d.Source nor d.Mirror. source is any URI of the Source.
// Changes yields only the last change of each resource, and the changes of a set in the
// order of their times (1.1 §12). It may repeat changes at the moment itself. With the
// zero time it yields every resource as created, from the Resource List and the changes
// after it.
//
// Deletions may concern resources that the options leave out, because a deletion has no
// digest for Strict, and no links for Collections, Profiles and WithMetadata.
//
// To continue, keep the latest Changed of each set and ask for the changes since the
// earliest of these: a set that publishes late may still list changes from before the
// changes of another set. A [*GapError] ends the changes of a set whose lists no longer
// reach back. After an error the changes of other sets may follow; the changes are
// complete only if there was no error. Open returns the bytes of a resource.
func (d *Destination) Changes(ctx context.Context, source string, since time.Time) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		own := *d
		own.Source = source
		_, sets, sc, err := own.discover(ctx)
		if err != nil {
			yield(Change{}, err)
			return
		}
		for _, set := range sets {
			f := follower{scope: sc, set: set.URI, yield: yield}
			err := set.Err
			if err == nil {
				err = f.follow(ctx, harvest.NewOffer(own.reader(sc), set), since)
			}
			for why, n := range f.skipped.Skipped {
				d.note(set.URI, harvest.Counted(n, "%d {resource|resources} left alone: %s", n, why))
			}
			if errors.Is(err, errEnough) || err != nil && !yield(Change{}, fmt.Errorf("set %s: %w", set.URI, err)) || ctx.Err() != nil {
				return
			}
		}
	}
}

// Open returns the bytes of a resource. Reading returns an error instead of io.EOF if
// the bytes do not match the length or a digest of the resource. The caller must close
// it.
func (d *Destination) Open(ctx context.Context, w harvest.Resource) (io.ReadCloser, error) {
	resp, err := d.Client.Get(ctx, transfer.Request(&w))
	if err != nil {
		return nil, err
	}
	body, _, err := transfer.Body(&w, resp, false, d.Spool)
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{resourcesync.NewVerifyReader(body, w.Length.Int64(), w.Digests), body}, nil
}

type follower struct {
	scope   *scope
	set     string
	yield   func(Change, error) bool
	skipped Counts
}

// errEnough means that the caller has ended the iteration over the changes.
var errEnough = errors.New("enough")

func (f *follower) follow(ctx context.Context, o *harvest.Offer, since time.Time) error {
	defer o.Close()
	if since.IsZero() {
		return f.everything(ctx, o)
	}
	for {
		o.Position.At = since
		ch, found, err := o.Follow(ctx, harvest.ChangeLists)
		switch {
		case err != nil:
			return err
		case !found.Reaches:
			return &GapError{f.set, since, found.Why}
		}
		for c, err := range ch.All() { // in the order of their times, because no change from a Change List is in a package
			if err == nil && (c.To.IsZero() || !c.To.Before(since)) {
				err = f.tell(c.Change, &c.Resource)
			}
			if err != nil {
				return err
			}
		}
		switch {
		case ch.Rest == nil || ch.Flaw != nil:
			return ch.Flaw
		case !ch.End.After(since):
			return ch.Rest
		}
		since = ch.End
	}
}

func (f *follower) everything(ctx context.Context, o *harvest.Offer) error {
	st, err := o.Present(ctx)
	if err != nil {
		return err
	}
	defer st.Close()
	for w, err := range st.Resources(ctx) {
		if err == nil {
			err = f.tell(resourcesync.Created, &w.Resource)
		}
		if err != nil {
			return err
		}
	}
	if st.Partial == nil && st.Changes != nil {
		return st.Changes.Rest
	}
	return st.Partial
}

func (f *follower) tell(c resourcesync.Change, w *harvest.Resource) error {
	if skip, _ := f.scope.admit(w, c == resourcesync.Deleted); skip != "" {
		f.skipped.skip(skip, 1)
		return nil
	}
	told := *w
	if err := told.Remainder.Load(); err != nil {
		return err
	}
	if !f.yield(Change{f.set, c, told}, nil) {
		return errEnough
	}
	return nil
}
