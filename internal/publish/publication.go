package publish

import (
	"context"
	"iter"
	"time"

	"instep/internal/catalog"
	"instep/resourcesync"
	"instep/source"
)

// update says what is published.
//
// A list ends at the moment of the next change, or at that of the publication: all
// that was recorded is before it, all that will be is not. So until of one list is
// from of the next, and each change is in exactly one of them.
func (r *run) update(ctx context.Context, d decision, dumps bool) (source.Update, error) {
	u := source.Update{Set: r.Name, Policy: r.Policy}
	at, completed := r.moment()
	if d.snapshot {
		u.Snapshot = &source.Snapshot{At: at, Completed: completed, Through: r.seq, Resources: r.resources(ctx)}
	}
	if r.last.ID == 0 {
		// Who begins with the first list needs none of what came before it.
		u.Changes = []source.Window{r.window(ctx, span{after: r.seq, through: r.seq, from: at})}
		return u, nil
	}
	spans, err := r.spans(ctx, d.rotate)
	if err != nil {
		return u, err
	}
	for _, s := range spans {
		u.Changes = append(u.Changes, r.window(ctx, s))
	}
	return u, nil
}

// moment is at and completed of a snapshot: of the scan that saw the whole set, or
// of the change log.
func (r *run) moment() (at, completed time.Time) {
	if r.full {
		return r.scan.At, r.scan.Completed
	}
	return r.now, r.now
}

// spans divides what is new into Change Lists, the first of which is the open one.
func (r *run) spans(ctx context.Context, rotate bool) ([]span, error) {
	open := span{after: r.last.ChangesNumber - 1, through: r.last.ChangesNumber - 1, from: r.last.ChangesFrom}
	spans, err := divide(open, r.last.ChangesThrough, r.catalog.Changes(ctx, r.id, open.after, r.seq),
		limits{entries: int64(r.ChangeListMax), bytes: maxListBytes, age: r.RotateEvery})
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

func (r *run) window(ctx context.Context, s span) source.Window {
	return source.Window{
		Number: s.number(), From: s.from, Until: s.until, Through: s.through, Changes: r.changes(ctx, s.after, s.through),
	}
}

func (r *run) resources(ctx context.Context) iter.Seq2[resourcesync.Entry, error] {
	return func(yield func(resourcesync.Entry, error) bool) {
		for m, err := range r.catalog.Members(ctx, r.id) {
			if !yield(resourceEntry(m), err) {
				return
			}
		}
	}
}

func resourceEntry(m catalog.Resource) resourcesync.Entry {
	en := resourcesync.Entry{Loc: m.URI, LastMod: m.LastMod, ChangeFreq: m.ChangeFreq}
	en.Digests, en.Length, en.Type, en.Encoding = m.Digests, m.Length, m.Type, m.Encoding
	return en
}

func (r *run) changes(ctx context.Context, after, through int64) iter.Seq2[resourcesync.Entry, error] {
	return func(yield func(resourcesync.Entry, error) bool) {
		for ch, err := range r.catalog.Changes(ctx, r.id, after, through) {
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
