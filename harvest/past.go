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
	Why string // one clause for each attempt
}

func (e *UncoveredError) Error() string {
	return fmt.Sprintf("%s: what it held at %s is not known: %s", e.Set, stamp(e.At), e.Why)
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// base is a list or dump from which the state at a moment is computed.
type base struct {
	by   SnapshotKind
	uris []string
	at   time.Time // zero if the document must be read first
}

// AsOf opens the state that the set had at a moment. It reads the newest earlier
// Resource List or Resource Dump, archived or not (Archives §3, §4), and the changes
// from there up to the moment (Archives §5, §6). With dumps it prefers packages, which
// contain the bytes of that time. The Offer must not have been used for other reading.
// AsOf returns an UncoveredError if the documents do not cover the moment; Resources
// may also end with one.
func (o *Offer) AsOf(ctx context.Context, moment time.Time, dumps bool) (*Snapshot, error) {
	o.reader.until = moment
	families := [][]SnapshotKind{{ResourceList, resourceListArchive}, {ResourceDump, ResourceDumpArchive}}
	if dumps {
		slices.Reverse(families)
	}
	why := ""
	for _, kinds := range families {
		bases, err := o.bases(ctx, kinds, moment)
		switch {
		case err == nil:
		case OfSource(err) && ctx.Err() == nil:
			why = also(why, err.Error())
			continue
		default:
			return nil, err
		}
		for _, b := range bases {
			st, lacks, err := o.asOf(ctx, b, moment, dumps)
			if st != nil || err != nil {
				return st, err
			}
			why = also(why, lacks)
		}
	}
	return nil, &UncoveredError{o.set.URI, moment, cmp.Or(why, "no earlier list or dump is offered")}
}

// also appends a reason to the others, unless they already contain it.
func also(why, more string) string {
	if why == "" || strings.Contains(why, more) {
		return cmp.Or(why, more)
	}
	return why + "; " + more
}

// bases returns the present list or dump, and the newest archived one before the
// moment.
func (o *Offer) bases(ctx context.Context, kinds []SnapshotKind, moment time.Time) (all []base, err error) {
	for _, s := range kinds {
		switch uris := o.set.Documents(snapshotDocuments[s]); {
		case len(uris) == 0:
		case s == ResourceList || s == ResourceDump:
			all = append(all, base{by: s, uris: uris})
		default:
			e, err := o.newest(ctx, s, moment)
			if err != nil {
				return nil, err
			}
			if e.Loc != "" {
				all = append(all, base{s, []string{e.Loc}, e.At.Time()})
			}
		}
	}
	return all, nil
}

// asOf opens the state at a moment, starting from b. lacks gives the reason if that is
// impossible.
func (o *Offer) asOf(ctx context.Context, b base, moment time.Time, dumps bool) (_ *Snapshot, lacks string, err error) {
	st := &Snapshot{Reader: o.reader, set: o.set.URI, By: b.by, lists: b.uris, fresh: o.Empty}
	defer func() {
		if lacks != "" || err != nil {
			st.Close()
		}
	}()
	var at time.Time
	if st.dumped() {
		err = st.readDumps(ctx)
		at = st.At
	} else {
		at, err = st.moment(ctx)
	}
	switch {
	case err != nil && OfSource(err) && ctx.Err() == nil:
		return nil, err.Error(), nil
	case err != nil:
		return nil, "", err
	case at.IsZero() || st.Partial != nil || st.Unsure:
		return nil, b.uris[0] + " has no single known time", nil
	case at.After(moment):
		return nil, fmt.Sprintf("%s is of %s", b.uris[0], stamp(at)), nil
	case at.Before(moment):
		if st.then, lacks, err = o.upTo(ctx, at, moment, dumps); lacks != "" || err != nil {
			return nil, lacks, err
		}
	}
	st.past = moment
	return st, "", nil
}

// asOf yields the resources of a Snapshot that AsOf returned. It yields each resource
// as if listed at the moment, even if a change described it. If the documents leave the
// state open, it ends with an UncoveredError.
func (st *Snapshot) asOf(ctx context.Context) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		open := func(why string) { yield(Item{}, &UncoveredError{st.set, st.past, why}) }
		for w, err := range st.resources(ctx) {
			if err == nil && w.By != nil && w.By.Torn {
				open("its documents contradict each other about " + w.URI)
				return
			}
			w.Changed, w.Told, w.Until, w.By, w.Listed = st.past, false, time.Time{}, nil, nil
			if !yield(w, err) || err != nil {
				return
			}
		}
		if st.At = st.past; st.Unsure {
			open(st.lists[0] + " has no single known time")
		}
	}
}

// upTo reads the changes between two moments from the first track that has all of them.
func (o *Offer) upTo(ctx context.Context, at, moment time.Time, dumps bool) (_ *Changes, lacks string, err error) {
	for _, tr := range TrackOrder(dumps) {
		if !o.Tells[tr] {
			continue
		}
		ch, why, err := o.between(ctx, tr, at, moment)
		switch {
		case err == nil && why == "":
			return ch, "", nil
		case err == nil:
			lacks = also(lacks, why)
		case OfSource(err) && ctx.Err() == nil:
			lacks = also(lacks, err.Error())
		default:
			return nil, "", err
		}
	}
	return nil, cmp.Or(lacks, fmt.Sprintf("no changes after %s are offered", stamp(at))), nil
}

// between reads the changes of one track between two moments. lacks describes missing
// changes.
func (o *Offer) between(ctx context.Context, tr Track, at, moment time.Time) (ch *Changes, lacks string, err error) {
	c, err := o.chain(ctx, tr, at)
	if err != nil {
		return nil, "", err
	}
	if ch, err = c.load(ctx, c.windows[c.start(at):], Position{}, nil, moment); err != nil {
		return nil, "", err
	}
	switch {
	case ch == nil:
		return nil, c.Why, nil
	case ch.Flaw != nil:
		lacks = ch.Flaw.Error()
	case !ch.Span().Since(at) && c.Why != "":
		lacks = c.Why
	case !ch.Span().Since(at):
		lacks = fmt.Sprintf("the %s %s begins at %s, after %s", c.name, ch.First, ch.Since, stamp(at))
	case ch.complete().Before(moment) && !c.claims(ch.newest, moment):
		lacks = fmt.Sprintf("the %s %s lists changes up to %s", c.name, ch.Last(), stamp(ch.complete()))
	}
	return ch, lacks, nil
}

// claims reports whether l is the last package of a Change Dump that claims to have all
// changes up to a past moment. The package itself may end earlier (1.1 §13.1).
func (c *sequence) claims(l *changeList, moment time.Time) bool {
	last := c.windows[len(c.windows)-1]
	return last.uri == l.URI && !last.told.Time().Before(moment) && !evidence.ToCome(last.told.Time(), c.reader.Now())
}

// complete returns the time up to which no change is missing: the end of the last list,
// or, if that list is open, the time at which the Source sent it.
func (ch *Changes) complete() time.Time {
	at := evidence.Later(ch.End, ch.newest.ended)
	if ch.newest.until.IsZero() && !ch.newest.packed {
		at = evidence.Later(at, ch.newest.served)
	}
	return at
}

// later reports whether a change happened after the requested moment. If that is
// unknown, it returns an error of the list.
func (r *Reader) later(c *ChangeEntry, list string) (bool, error) {
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

// past returns an error if a list or manifest is newer than the requested moment.
func (r *Reader) past(doc *Document, at resourcesync.Datetime) error {
	for _, t := range []time.Time{at.Time(), doc.Header.Completed.Time()} {
		if !r.until.IsZero() && t.After(r.until) {
			return &UncoveredError{doc.URI, r.until, "it lists resources as of " + stamp(t)}
		}
	}
	return nil
}
