package scan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"instep/internal/catalog"
	"instep/internal/glob"
	"instep/internal/spool"
	"instep/resourcesync"
)

// Plan reads the listing and compares it with the catalog. It records nothing. It
// returns ErrListing if no part of the listing could be read.
func (l *List) Plan(ctx context.Context) (*Plan, error) {
	d := Dir{Deps: l.Deps, Choice: Choice{Include: l.Include, Exclude: l.Exclude}, Rules: l.Rules}
	if err := d.validate(); err != nil {
		return nil, err
	}
	since, err := l.lastListing(ctx)
	if err != nil {
		return nil, err
	}
	at, err := l.Facts.Moment(ctx)
	if err != nil {
		return nil, err
	}
	p := &Plan{At: at, Excluded: map[Reason]int64{}, Follows: l.Changes, work: spool.NewLog[item](l.Spool),
		vanished: spool.NewLog[resourcesync.Key](l.Spool), listed: spool.NewLog[listWork](l.Spool), latest: spool.NewIndex(l.Spool, 0), followed: spool.NewIndex(l.Spool, 0)}
	b := listPlanner{ctx: ctx, l: l, p: p, seen: spool.NewKeys(l.Spool, keysMemory),
		omitted: spool.NewTable(l.Spool, batchSize, func(o omission) string { return o.URI })}
	err = b.run(since)
	if err = errors.Join(err, b.seen.Close(), b.omitted.Close()); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

type listPlanner struct {
	ctx   context.Context
	l     *List
	p     *Plan
	seen  *spool.Keys
	uris  []string
	batch []Listed
	lost  error // the error of the first part of the listing that could not be read

	omitted   *spool.Table[omission] // in a listing of changes: the resources whose last listed state must not be published
	mentioned int64                  // number of members that a listing of changes mentions
}

type omission struct {
	URI, Place string
	Why        Reason
}

func (b *listPlanner) run(since time.Time) error {
	for e, err := range b.l.Listing(b.ctx, since) {
		if ended := b.ctx.Err(); ended != nil {
			return ended
		}
		if b.l.Changes { // forget earlier entries for the resource, because only its last listed state counts
			if err := b.omitted.Delete(e.URI); err != nil {
				return err
			}
		}
		if err != nil {
			err = b.addFailure(&e, err)
		} else {
			err = b.addEntry(&e)
		}
		if err != nil {
			return err
		}
	}
	if err := b.ctx.Err(); err != nil {
		return err
	}
	if b.lost != nil && b.seen.Len() == 0 {
		return fmt.Errorf("%w: %w", ErrListing, b.lost)
	}
	if err := b.flush(); err != nil {
		return err
	}
	if b.l.Changes {
		if err := b.countOmitted(); err != nil {
			return err
		}
		return b.guard()
	}
	p := planner{ctx: b.ctx, d: b.l.dir(), p: b.p, seen: b.seen}
	return p.findVanished()
}

func (b *listPlanner) guard() error {
	n, _, err := b.l.Facts.Count(b.ctx, b.l.Set)
	if err != nil {
		return err
	}
	b.p.Set, b.p.Unchanged = n, n-b.mentioned
	b.p.guard(b.l.MaxDelete)
	return nil
}

// addFailure notes in the plan that an entry or a part of the listing could not be used.
// An error without a valid URI may concern any resource, so then nothing will be deleted.
func (b *listPlanner) addFailure(e *Listed, err error) error {
	b.l.Fail(b.p, &FileError{e.URI, e.catalogPath(), err})
	if isURL(e.URI) {
		return b.seen.Add(resourcesync.KeyOf(e.URI))
	}
	if b.lost == nil {
		b.lost = err
	}
	b.p.Doubt = true
	return nil
}

func (b *listPlanner) addEntry(e *Listed) error {
	b.p.moment = earliest(b.p.moment, e.At)
	if e.Gone {
		return b.add(e)
	}
	if err := e.Check(); err != nil {
		return b.addFailure(e, err)
	}
	name := b.l.name(e)
	if len(b.l.Include) > 0 && !glob.MatchAny(b.l.Include, name, false) || glob.MatchAny(b.l.Exclude, name, false) {
		return b.omit(e, Pattern)
	}
	rule := RuleFor(b.l.Rules, name)
	e.Type, e.Encoding = cmp.Or(rule.Type, e.Type), cmp.Or(rule.Encoding, e.Encoding)
	e.ChangeFreq = cmp.Or(rule.ChangeFreq, e.ChangeFreq)
	said, err := linksText(e.Remainder, rule.Links, func(l *Link) (resourcesync.Link, bool, error) {
		return l.linkToURI(b.l.BaseURL, name), !l.OfSet(), nil
	})
	if err != nil {
		return b.addFailure(e, err)
	}
	e.Remainder = said
	if e.Out != "" {
		if err := b.omit(e, e.Out); err != nil {
			return err
		}
	} else if !b.l.Changes {
		if err := b.seen.Add(resourcesync.KeyOf(e.URI)); err != nil {
			return err
		}
	}
	return b.add(e)
}

// omit counts a listed resource that must not be published. In a listing of changes only
// the last state of a resource counts, so countOmitted counts it at the end.
func (b *listPlanner) omit(e *Listed, why Reason) error {
	o := omission{e.URI, e.catalogPath(), why}
	if b.l.Changes {
		return b.omitted.Put(o)
	}
	b.count(o)
	return nil
}

func (b *listPlanner) countOmitted() error {
	byURI := func(buf []byte, o omission) []byte { return append(append(buf, o.URI...), 0) }
	for o, err := range b.omitted.Sorted(byURI) {
		if err != nil {
			return err
		}
		b.count(o)
	}
	return nil
}

func (b *listPlanner) count(o omission) {
	b.p.Excluded[o.Why]++
	if b.l.LeftOut != nil && o.Why != Pattern {
		b.l.LeftOut(o.Place, o.Why)
	}
}

func (b *listPlanner) add(e *Listed) error {
	b.uris, b.batch = append(b.uris, e.URI), append(b.batch, *e)
	if len(b.batch) == batchSize {
		return b.flush()
	}
	return nil
}

func (b *listPlanner) flush() error {
	known, err := b.l.Facts.Lookup(b.ctx, b.l.Set, b.uris)
	if err != nil {
		return err
	}
	for i := range b.batch {
		was := known[i].Member
		if b.l.Changes {
			if was, err = b.plannedState(&known[i], b.uris[i]); err != nil {
				return err
			}
		}
		if err := b.compare(&known[i], &b.batch[i], was); err != nil {
			return err
		}
	}
	b.uris, b.batch = b.uris[:0], b.batch[:0]
	return nil
}

// plannedState replaces known by the state of the resource after its planned changes. It
// returns whether the resource was a member before the first of them. It also records
// that another change of the resource follows the planned ones.
func (b *listPlanner) plannedState(known *catalog.Resource, uri string) (was bool, err error) {
	at, ok, err := b.p.latest.Get(uri)
	if err != nil || !ok {
		return known.Member, err
	}
	w, err := b.p.listed.At(at)
	*known = w.stateAfter()
	return w.Was, errors.Join(err, b.p.followed.Set(uri, spool.Place{Offset: w.Number}))
}

func (b *listPlanner) addWork(known *catalog.Resource, w listWork) error {
	w.Number = b.p.listed.Len() + 1
	at, err := b.p.listed.AppendAt(w)
	if err != nil || !b.l.Changes {
		return err
	}
	_, again, err := b.p.latest.Get(w.URI)
	switch {
	case err != nil || !w.Was:
	case w.Gone:
		b.p.Vanished++
	case again && !known.Member: // an earlier change of the listing deletes the resource, and this one creates it again
		b.p.Vanished--
	}
	if w.Was && !again {
		b.mentioned++
	}
	return errors.Join(err, b.p.latest.Set(w.URI, at))
}

func (b *listPlanner) addDeletion(known *catalog.Resource, e *Listed, was bool) error {
	if !known.Member {
		return nil
	}
	e.Gone = true
	return b.addWork(known, listWork{Listed: *e, Was: was})
}

func (b *listPlanner) compare(known *catalog.Resource, e *Listed, was bool) error {
	switch {
	case e.Gone:
		return b.addDeletion(known, e, was)
	case e.Out != "":
		return b.leaveOut(known, e, was)
	}
	b.p.Files++
	unchanged, err := b.unchanged(known, e)
	if err != nil {
		b.l.Fail(b.p, &FileError{e.URI, e.catalogPath(), err})
		return nil
	}
	if unchanged {
		b.p.Unchanged++
		b.p.Bytes += known.Length.Int64()
		if e.statementsChanged(known) {
			b.p.Unchanged--
			b.p.Modified++
			return b.addWork(known, listWork{Listed: *e, Also: string(b.l.dir().extraAlgorithm(*known)), Was: was})
		}
		if now := e.withLabels(known); !sameLabels(&now, known) {
			b.p.Relabel++
			return b.addWork(known, listWork{Listed: *e, Label: true, Was: was})
		}
		return nil
	}
	w := listWork{Listed: *e, New: !known.Member, Also: string(b.l.dir().extraAlgorithm(*known)), Was: was}
	b.p.Bytes += e.Length.Int64()
	if b.l.needsBytes(e) {
		b.p.ToHash += e.Length.Int64()
	}
	if w.New {
		b.p.New++
	} else {
		b.p.Modified++
	}
	if known.Member && known.Stored && known.Due == "" && known.Path == e.catalogPath() && w.Also == "" && b.l.complete(known.Digests) {
		stat := parseListStat(known.Stat)
		w.ETag, w.LastServed = stat.ETag, stat.LastServed
	}
	return b.addWork(known, w)
}

// leaveOut plans the deletion of a listed resource that must not be published, unless the
// resource is already published with the listed bytes.
func (b *listPlanner) leaveOut(known *catalog.Resource, e *Listed, was bool) error {
	stays, err := b.staysPublished(known, e)
	switch {
	case err != nil:
		b.l.Fail(b.p, &FileError{e.URI, e.catalogPath(), err})
		return b.seen.Add(resourcesync.KeyOf(e.URI))
	case !stays && b.l.Changes:
		return b.addDeletion(known, e, was)
	case !stays:
		return nil
	}
	b.p.Files++
	b.p.Unchanged++
	b.p.Bytes += known.Length.Int64()
	return b.seen.Add(resourcesync.KeyOf(e.URI))
}

func (b *listPlanner) unchanged(known *catalog.Resource, e *Listed) (bool, error) {
	if (e.Intact || e.Past) && (!known.Member || e.hasCommonAlgorithm(known)) {
		return known.Member && known.Stored && known.Due == "" && e.describesRecorded(known) && b.l.complete(known.Digests), nil
	}
	if e.Path != "" {
		same, err := b.hasRecordedStamp(known, e)
		if err != nil && b.l.Changes && b.l.Tree != nil {
			return false, nil // the error is left to Apply, which knows whether a later state of the resource makes it harmless
		}
		return same, err
	}
	if !known.Member || !known.Stored || known.Due != "" || known.Path != e.catalogPath() {
		return false, nil
	}
	return parseListStat(known.Stat).Listed == e.signature() && (e.URL == "" || b.l.complete(known.Digests)), nil
}

func (b *listPlanner) hasRecordedStamp(known *catalog.Resource, e *Listed) (bool, error) {
	f, err := b.l.locate(e.Path)
	if err != nil {
		return false, err
	}
	return b.l.dir().unchanged(*known, e.Path, stampOf(f.info)), nil
}

func (l *List) locate(name string) (found, error) {
	if l.Tree == nil {
		return found{}, fmt.Errorf("file %q: no directory with the files was given", name)
	}
	f, reason, err := l.dir().locate(name)
	if err == nil && reason != "" {
		err = fmt.Errorf("file %q is not published: %s", name, reason)
	}
	return f, err
}

func (b *listPlanner) staysPublished(known *catalog.Resource, e *Listed) (bool, error) {
	switch {
	case e.Out == Loop || !known.Member:
		return false, nil
	case e.hasCommonAlgorithm(known) || e.Path == "":
		return e.describesRecorded(known), nil
	}
	is, err := b.hasRecordedStamp(known, e)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return is, err
}

func (l *List) needsBytes(e *Listed) bool {
	return !e.Past && (e.Path != "" || e.URL != "") && (l.Keep != nil || e.Path != "" && !e.Intact || !l.complete(e.Digests))
}
