package harvest

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"instep/evidence"
	"instep/resourcesync"
)

// UncoveredError reports that the documents of a set do not give its state at a moment.
type UncoveredError struct {
	Set string
	At  time.Time
	Why string // reasons, one for each attempt to find the state
}

func (e *UncoveredError) Error() string {
	return fmt.Sprintf("%s: the state of the set at %s is not known: %s", e.Set, stamp(e.At), e.Why)
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// AsOf returns the state that the set had at a past moment. It reads the newest earlier
// Resource List or Resource Dump, archived or not (Archives §3, §4), and the changes up
// to the moment (Archives §5, §6). If dumps is set, it prefers dumps, since their
// packages contain the bytes of that time. AsOf must be the first method called on the
// Offer. If the documents do not give the state, AsOf or the method Resources of the
// Snapshot returns an UncoveredError.
func (o *Offer) AsOf(ctx context.Context, moment time.Time, dumps bool) (*Snapshot, error) {
	o.reader.until, o.DumpsFirst = moment, dumps
	families := [][]SnapshotKind{{ResourceList, resourceListArchive}, {ResourceDump, ResourceDumpArchive}}
	if dumps {
		slices.Reverse(families)
	}
	var why reasons
	for _, kinds := range families {
		bases, err := o.bases(ctx, kinds)
		if err := why.add(ctx, err); err != nil {
			return nil, err
		}
		for _, st := range bases {
			err := o.asOf(ctx, st)
			if err == nil {
				return st, nil
			}
			if err := why.add(ctx, err); err != nil {
				return nil, err
			}
		}
	}
	return nil, &UncoveredError{o.set.URI, moment, cmp.Or(string(why), "no earlier list or dump is offered")}
}

// reasons has the texts of errors about documents of the Source, separated by
// semicolons.
type reasons string

// add stores an error about documents of the Source and returns nil. It returns any
// other error unchanged.
func (r *reasons) add(ctx context.Context, err error) error {
	if err == nil || !OfSource(err) || ctx.Err() != nil {
		return err
	}
	if text := err.Error(); *r == "" {
		*r = reasons(text)
	} else if !strings.Contains(string(*r), text) {
		*r += reasons("; " + text)
	}
	return nil
}

// bases returns the snapshots from which the state at the moment Reader.until may be
// computed: the present list or dump, and the newest archived one before that moment.
func (o *Offer) bases(ctx context.Context, kinds []SnapshotKind) (all []*Snapshot, err error) {
	for _, s := range kinds {
		switch uris := o.set.Documents(snapshotDocuments[s]); {
		case len(uris) == 0:
		case s == ResourceList || s == ResourceDump:
			all = append(all, o.newSnapshot(s, uris...))
		default:
			e, err := o.newestArchived(ctx, s)
			if err != nil {
				return nil, err
			}
			if e.Loc != "" {
				all = append(all, o.newSnapshot(s, e.Loc))
			}
		}
	}
	return all, nil
}

func sourceErrorf(format string, args ...any) error {
	return &SourceError{fmt.Errorf(format, args...)}
}

func (o *Offer) asOf(ctx context.Context, st *Snapshot) (err error) {
	moment := o.reader.until
	defer func() {
		if err != nil {
			st.Close()
		}
	}()
	at, err := st.oldestTime(ctx)
	switch {
	case err != nil:
		return err
	case at.IsZero() || st.Partial != nil || st.Unsure:
		return sourceErrorf("the times of the parts of %s differ or are unknown", st.lists[0])
	case at.After(moment):
		return sourceErrorf("%s describes the set at %s", st.lists[0], stamp(at))
	case at.Before(moment):
		st.then, err = o.upTo(ctx, at)
	}
	return err
}

// asOf yields each resource as if a list of that moment described it, even if the
// description comes from a change. It ends with an UncoveredError if the state of some
// resource is unknown.
func (st *Snapshot) asOf(ctx context.Context) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		moment := st.Reader.until
		open := func(why string) { yield(Item{}, &UncoveredError{st.set, moment, why}) }
		for w, err := range st.resources(ctx) {
			if err == nil && w.By != nil && w.By.Torn {
				open("its documents contradict each other about " + w.URI)
				return
			}
			w.Changed, w.Told, w.Until, w.By, w.Listed = moment, false, time.Time{}, nil, nil
			if !yield(w, err) || err != nil {
				return
			}
		}
		if st.At = moment; st.Unsure {
			open("the times of the parts of " + st.lists[0] + " differ or are unknown")
		}
	}
}

// upTo reads the changes up to the moment Reader.until from the first kind of document
// that contains all of them.
func (o *Offer) upTo(ctx context.Context, at time.Time) (*Changes, error) {
	var lacks reasons
	for _, tr := range o.Order(o.DumpsFirst) {
		ch, err := o.changesUntil(ctx, tr, at)
		if err == nil {
			return ch, nil
		}
		if err := lacks.add(ctx, err); err != nil {
			return nil, err
		}
	}
	return nil, sourceErrorf("%s", cmp.Or(string(lacks), fmt.Sprintf("no changes after %s are offered", stamp(at))))
}

// changesUntil reads the changes up to the moment Reader.until. It returns a SourceError
// if changes are missing.
func (o *Offer) changesUntil(ctx context.Context, tr Track, at time.Time) (*Changes, error) {
	c, err := o.chain(ctx, tr, at)
	if err != nil {
		return nil, err
	}
	ch, err := c.load(ctx, c.windows[c.start(at):], Position{}, nil, o.reader.until)
	switch {
	case err != nil:
		return nil, err
	case ch != nil && ch.Flaw != nil:
		return nil, ch.Flaw
	case ch == nil || !ch.Span().Since(at) && c.Why != "":
		return nil, sourceErrorf("%s", c.Why)
	case !ch.Span().Since(at):
		return nil, sourceErrorf("the %s %s begins at %s, after %s", c.name, ch.First, ch.Since, stamp(at))
	case ch.completeUntil().Before(o.reader.until) && !c.dumpReachesUntil(ch.newest):
		return nil, sourceErrorf("the %s %s lists changes up to %s", c.name, ch.Last(), stamp(ch.completeUntil()))
	}
	return ch, nil
}

// dumpReachesUntil reports whether the list is in the last package of a Change Dump
// whose own "until" attribute is not before Reader.until. Such a dump has all changes
// up to that moment, although the period of the package may end earlier (1.1 §13.1).
func (c *sequence) dumpReachesUntil(l *changeList) bool {
	last := c.windows[len(c.windows)-1]
	return last.uri == l.URI && !last.told.Latest().Before(c.reader.until) && !evidence.ToCome(last.told.Latest(), c.reader.Now())
}

// completeUntil returns the time up to which no change is missing: the end of the last
// list, or, for an open list, the time at which the Source sent it.
func (ch *Changes) completeUntil() time.Time {
	at := evidence.Later(ch.End, ch.newest.ended)
	if ch.newest.until.IsZero() && ch.newest.in == nil {
		at = evidence.Later(at, ch.newest.served)
	}
	return at
}

// isAfterUntil reports whether a change happened after the moment given to AsOf. If
// that is unknown, isAfterUntil returns an error.
func (r *Reader) isAfterUntil(c *ChangeEntry, list string) (bool, error) {
	switch {
	case r.until.IsZero() || c.Timed() && !c.From.After(r.until):
		return false, nil
	case c.From.After(r.until):
		return true, nil
	case !c.To.IsZero() && !c.To.After(r.until):
		return false, nil
	}
	return true, &DocumentError{URI: list, Reason: fmt.Sprintf("has a change of %s without a datetime, so it may have happened before or after %s", c.URI, stamp(r.until))}
}

// notAfter returns an error if a list or manifest is newer than the moment given to
// AsOf.
func (r *Reader) notAfter(doc *Document, at resourcesync.Datetime) error {
	for _, t := range []time.Time{at.Latest(), doc.Header.Completed.Latest()} {
		if !r.until.IsZero() && t.After(r.until) {
			return &UncoveredError{doc.URI, r.until, "it lists resources as of " + stamp(t)}
		}
	}
	return nil
}
