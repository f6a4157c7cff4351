package publish

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"instep/internal/catalog"
	"instep/resourcesync"
	"instep/source"
)

// maxScans bounds how often a directory is scanned in one run. A second time is
// needed when one scan found more changes than a Change List takes.
const maxScans = 3

// situation gathers what the publication is decided on.
func (r *run) situation(ctx context.Context) (situation, error) {
	s := situation{published: r.last.ID != 0, rebase: r.Rebase, max: int64(r.ChangeListMax), hard: r.hard}
	var err error
	if s.resources, r.report.Bytes, err = r.catalog.Count(ctx, r.set); err != nil {
		return s, err
	}
	r.report.Resources = s.resources
	if !s.published {
		return s, nil
	}
	after, err := r.listAfter()
	if err != nil {
		return s, err
	}
	for _, c := range []struct {
		n     *int64
		after int64
	}{
		{&s.sinceList, r.last.ListThrough}, {&s.fresh, r.last.ChangesThrough}, {&s.listed, after}, {&s.divided, r.before},
	} {
		if *c.n, err = r.catalog.CountChanges(ctx, r.set, c.after, r.seq); err != nil {
			return s, err
		}
	}
	hashes, _, err := r.catalog.Setting(ctx, hashSetting+r.Set)
	if err != nil {
		return s, err
	}
	s.rebase = s.rebase || hashes != r.hashes()
	missing, err := r.pub.Missing(ctx, r.last)
	if err == nil && len(missing) > 0 {
		s.rebase = true
		r.report.Notes = append(r.report.Notes, fmt.Sprintf("%d published documents were gone, %q among them: all are written anew", len(missing), missing[0]))
	}
	return s, err
}

// hashes names the digests asked for: other ones make the Resource List anew,
// though no resource has changed.
func (r *run) hashes() string {
	algorithms := r.Algorithms
	if len(algorithms) == 0 {
		algorithms = []resourcesync.Algorithm{resourcesync.SHA256}
	}
	return fmt.Sprint(algorithms)
}

// listAfter is the number of the last change before those of the open Change
// List: the list is named by the number that its first change may have.
func (r *run) listAfter() (int64, error) {
	return r.last.ChangesNumber - 1, nil
}

// publish takes the step, or a later one if what it would say does not fit.
func (r *run) publish(ctx context.Context, next step, snapshot bool) (source.Publication, error) {
	for scans := 1; ; {
		if next == scanAgain {
			if scans++; scans > maxScans {
				return source.Publication{}, fmt.Errorf("%q changes faster than it can be listed: more than %d changes in each of %d scans",
					r.Dir, r.hard, maxScans)
			}
			if err := r.scan(ctx); err != nil {
				return source.Publication{}, err
			}
			n, err := r.catalog.CountChanges(ctx, r.set, r.before, r.seq)
			if err != nil {
				return source.Publication{}, err
			}
			if n > r.hard {
				continue
			}
		}
		u, err := r.update(ctx, next, snapshot)
		if err != nil {
			return source.Publication{}, err
		}
		pub, err := r.write(ctx, u)
		if !errors.Is(err, source.ErrChangesFull) {
			r.report.Rebased = err == nil && u.Snapshot != nil
			return pub, err
		}
		// Too many bytes, which only writing tells.
		next, snapshot = min(next+1, scanAgain), true
	}
}

func (r *run) write(ctx context.Context, u source.Update) (source.Publication, error) {
	if r.DryRun {
		return r.pub.Preview(ctx, u)
	}
	return r.pub.Publish(ctx, u)
}

// update says what is published by a step.
//
// A list is divided at the moment at which a scan began. Moments of the catalog
// never go back, so every change recorded before the scan is before that moment,
// and every change that the scan recorded is not: until of the old list, from of
// the new one and at of the new Resource List are this one moment, each change is
// in one list, and who begins with the Resource List misses none.
//
// When a scan is repeated, the changes that the last publication did not list yet
// are in no list, because they fit into none: the old list ends before them, the
// new one begins after, and a Destination that finds this gap begins anew with the
// Resource List, which has them all.
func (r *run) update(ctx context.Context, next step, snapshot bool) (source.Update, error) {
	u := source.Update{Set: r.Set}
	if snapshot {
		u.Snapshot = r.snapshot(ctx)
	}
	if r.last.ID == 0 {
		u.Changes = []source.Window{r.window(ctx, r.seq, r.seq, r.result.At)}
		return u, nil
	}
	after, err := r.listAfter()
	if err != nil {
		return u, err
	}
	if next == extend {
		u.Changes = []source.Window{r.window(ctx, after, r.seq, r.last.ChangesFrom)}
		return u, nil
	}
	end, until := r.before, r.result.At
	if next == scanAgain {
		end = r.last.ChangesThrough
		if until, err = r.momentAfter(ctx, end); err != nil {
			return u, err
		}
	}
	closing := r.window(ctx, after, end, r.last.ChangesFrom)
	closing.Until = until
	u.Changes = []source.Window{closing, r.window(ctx, r.before, r.seq, r.result.At)}
	return u, nil
}

// momentAfter divides the changes of earlier scans from those after: it is the
// moment of the first change after number seq, or of this scan if there is none.
func (r *run) momentAfter(ctx context.Context, seq int64) (time.Time, error) {
	for ch, err := range r.catalog.Changes(ctx, r.set, seq, r.seq) {
		return ch.Datetime, err
	}
	return r.result.At, nil
}

func (r *run) snapshot(ctx context.Context) *source.Snapshot {
	return &source.Snapshot{
		At: r.result.At, Completed: r.result.Completed, Through: r.seq,
		Resources: func(yield func(resourcesync.Entry, error) bool) {
			for m, err := range r.catalog.Members(ctx, r.set) {
				if !yield(resourceEntry(m), err) {
					return
				}
			}
		},
	}
}

func resourceEntry(m catalog.Resource) resourcesync.Entry {
	en := resourcesync.Entry{Loc: m.URI, LastMod: m.LastMod, ChangeFreq: m.ChangeFreq}
	en.Digests, en.Length, en.Type, en.Encoding = m.Digests, m.Length, m.Type, m.Encoding
	return en
}

// window is the Change List of the changes after one number up to another.
func (r *run) window(ctx context.Context, after, through int64, from time.Time) source.Window {
	return source.Window{
		Number: after + 1, From: from, Through: through,
		Changes: r.changes(ctx, after, through),
	}
}

func (r *run) changes(ctx context.Context, after, through int64) iter.Seq2[resourcesync.Entry, error] {
	return func(yield func(resourcesync.Entry, error) bool) {
		for ch, err := range r.catalog.Changes(ctx, r.set, after, through) {
			if !yield(changeEntry(ch), err) {
				return
			}
		}
	}
}

func changeEntry(ch catalog.Change) resourcesync.Entry {
	en := resourceEntry(ch.Resource)
	en.Change, en.Datetime = ch.Change, resourcesync.DatetimeOf(ch.Datetime)
	return en
}
