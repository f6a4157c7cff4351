package publish

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"time"

	"instep/internal/catalog"
	"instep/resourcesync"
	"instep/source"
)

// update builds the update to publish. A Change List ends where the next one begins, or at
// the time of the publication. All changes recorded so far are earlier than that time, and
// all later changes are not, so each change is in exactly one list.
func (r *run) update(ctx context.Context, d decision) (source.Update, error) {
	u := source.Update{Set: r.Name, Policy: r.Policy}
	at, completed := r.moment()
	if d.snapshot {
		u.Snapshot = &source.Snapshot{At: at, Completed: completed, Through: r.seq, Resources: r.resources(ctx)}
	}
	if err := r.beginPatches(ctx); err != nil {
		return u, err
	}
	spans, err := r.spans(ctx, d.rotate, at)
	if err != nil {
		return u, err
	}
	if u.Patches, err = r.patches(ctx); err != nil {
		return u, err
	}
	for _, s := range spans {
		u.Changes = append(u.Changes, source.Window{
			Number: s.number(), From: s.from, Until: s.until, Through: s.through, Changes: r.changes(ctx, s.after, s.through),
		})
	}
	r.kept, r.packaged = 0, 0
	if d.dumps {
		err = r.dumps(ctx, d, &u, spans)
	}
	return u, err
}

// dumps adds the content of the Resource Dump and the Change Dumps to the update. The first
// publication with dumps writes a Resource Dump, and Change Dumps begin at the time of this
// Resource Dump. From then on each scan stores the bytes of changed files for later Change
// Dumps.
func (r *run) dumps(ctx context.Context, d decision, u *source.Update, spans []span) error {
	at, completed := r.moment()
	after, from := r.last.ChangesThrough, r.last.DumpsSince
	begins := from.IsZero()
	if begins {
		at, completed = r.now, r.now
		after, from = r.seq, r.now
	} else if listed, err := r.afterListed(ctx); err != nil {
		return err
	} else if listed.After(from) {
		from = listed
	}
	since := from
	if begins && !r.keepsSince.IsZero() {
		since = r.keepsSince
	}
	c, err := r.contents(ctx, since)
	if err != nil {
		return err
	}
	for i, s := range spans {
		w := &u.Changes[i]
		if begins && !s.until.IsZero() {
			continue // no Change Dump for this list, because it ends before the Change Dumps begin
		}
		w.Fresh, w.FreshFrom = c.changes(ctx, max(s.after, after), s.through), s.from
		if from.After(s.from) {
			w.FreshFrom = from
		}
		if !begins {
			r.kept += s.fresh
		}
	}
	r.packaged = r.kept
	if d.dump {
		u.Dump = &source.Dump{At: at, Completed: completed, Through: r.seq, Bitstreams: c.state(ctx)}
		r.packaged += r.report.Bytes
	}
	return nil
}

// afterListed returns the earliest possible time after the last change in the open Change
// List. It returns the zero time if that list is empty.
func (r *run) afterListed(ctx context.Context) (time.Time, error) {
	for ch, err := range r.facts.Changes(ctx, r.id, max(r.last.ChangesNumber, r.last.ChangesThrough)-1, r.last.ChangesThrough) {
		return ch.Datetime.Add(time.Microsecond), err
	}
	return time.Time{}, nil
}

// moment returns the times "at" and "completed" of a snapshot: the times of the scan if
// it read the whole set, otherwise the present time of the change log. If a mirror is
// published, the time of the scan is that of the last complete run on the mirror. The
// time "at" is never earlier than that of the last snapshot.
func (r *run) moment() (at, completed time.Time) {
	if r.full {
		at = r.scan.At
		for _, before := range []time.Time{r.last.ListAt, r.last.DumpAt} {
			if before.After(at) {
				at = before
			}
		}
		return at, r.scan.Completed
	}
	return r.now, r.now
}

// spans divides the new changes into Change Lists. The first of these is the open list of
// the last publication, continued. A first publication has one empty list, because readers
// of its Resource List need no earlier changes.
func (r *run) spans(ctx context.Context, rotate bool, at time.Time) ([]span, error) {
	if r.last.ID == 0 {
		return []span{{after: r.seq, through: r.seq, from: at}}, nil
	}
	open := span{after: r.last.ChangesNumber - 1, through: r.last.ChangesNumber - 1, from: r.last.ChangesFrom}
	spans, err := divide(open, r.last.ChangesThrough, r.facts.Changes(ctx, r.id, open.after, r.seq),
		limits{entries: int64(r.ChangeListMax), bytes: maxListBytes - r.patchRoom(), age: r.RotateEvery, linkLength: r.mementos.linkLength})
	if err != nil {
		return nil, err
	}
	end := &spans[len(spans)-1]
	if rotate && end.entries > 0 && r.now.Sub(end.from) >= r.RotateEvery {
		end.until = r.now
		spans = append(spans, span{after: end.through, through: end.through, from: r.now})
	}
	return spans, nil
}

func (r *run) resources(ctx context.Context) iter.Seq2[resourcesync.Entry, error] {
	return func(yield func(resourcesync.Entry, error) bool) {
		for m, err := range r.facts.Members(ctx, r.id) {
			en, damaged := resourceEntry(m)
			if !yield(en, cmp.Or(err, damaged, r.addLinks(ctx, &en, m.Changed))) {
				return
			}
		}
	}
}

func resourceEntry(m catalog.Resource) (resourcesync.Entry, error) {
	en := resourcesync.Entry{Loc: m.URI, LastMod: m.LastMod}
	said, err := resourcesync.ParseRemainder(m.Remainder)
	if err != nil {
		return en, fmt.Errorf("%w: %q: %w", catalog.ErrDamaged, m.URI, err)
	}
	said.Encoding, said.ChangeFreq = m.Encoding, m.ChangeFreq
	en.SetRemainder(said)
	en.Digests, en.Length, en.Type = m.Digests, m.Length, m.Type
	return en, nil
}

func (r *run) changes(ctx context.Context, after, through int64) iter.Seq2[resourcesync.Entry, error] {
	return func(yield func(resourcesync.Entry, error) bool) {
		for ch, err := range r.facts.Changes(ctx, r.id, after, through) {
			en, damaged := changeEntry(ch)
			r.patching.addLink(ch.Seq, &en)
			if !yield(en, cmp.Or(err, damaged, r.addLinks(ctx, &en, ch.Datetime))) {
				return
			}
		}
	}
}

func changeEntry(ch catalog.Change) (resourcesync.Entry, error) {
	en, err := resourceEntry(ch.Resource)
	en.Change, en.Datetime = ch.Change, resourcesync.DatetimeOf(ch.Datetime)
	return en, err
}
