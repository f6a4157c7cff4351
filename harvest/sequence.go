package harvest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"instep/discover"
	"instep/evidence"
	"instep/resourcesync"
)

// DefaultMaxChanges is the number of changed resources after which a run leaves further
// Change Lists to the next run, so that an interrupted run loses the work for about
// this many changes at most.
const DefaultMaxChanges = 250_000

// relIndex is the relation of the link from a Change List to its index, in which later
// lists are found (1.1 §12.1).
const relIndex = "index"

// sequence has the Change Lists of a set in the order of their times: one, several, or
// those of an index (1.1 §12.2). The manifests of a Change Dump's packages list changes
// in the same way, and are also called lists here. As far as is known, no changes
// between the lists are missing.
type sequence struct {
	reader  *Reader
	set     string
	name    string // name of this kind of list, for messages
	windows []window
	named   map[string]int // index in windows of the list at each URI, while lists are added; -1 for a Change Dump
	page    string         // URI of the next page of the last Change Dump that was read; "" if it has none
	lone    *Document      // document of the only list, if it was read; else nil
	opened  int            // number of members of the packages that stay open (see keepOpen)
	broken  bool           // some offered list cannot be used
	jumbled bool           // the order of the lists in the index is not that of their times (1.1 §12.2), because a clock was wrong
	via     string         // URI of the index, if the Capability List contains only the index
	asked   time.Time      // time of the request for the index, by our clock
	latest  time.Time      // if jumbled is set: the latest start of a list; before this time the order of changes in different lists is unknown
	ordered bool           // an index names the lists
	places  int            // number of lists that were added, counting repeated ones again
	added   string         // URI of the Change List that the Position names, if that list was added although the index does not contain it; else ""
	closes  bool           // some list states its end ("until") itself, so an open list will do so when it is closed
	Why     string         // reason why the sequence has no lists, or lacks earlier lists; "" if none is missing
}

// window is a Change List or the manifest of a package, with the period of its changes.
type window struct {
	uri         string
	from, until resourcesync.Datetime // until is zero while the list is open
	pkg         *Package              // the package of the manifest; nil for a Change List
	dump        bool                  // the document is a Change Dump that lists changes instead of packages
	told        resourcesync.Datetime // for the last package of a Change Dump: the end ("until") of the dump; else zero
	place       int                   // position of the list in its index
	paged       bool                  // the list has further pages
	next        resourcesync.Datetime // if this list is open: the start of the next list; zero if there is none
}

// openChangeLists finds the Change Lists of a set. If the set offers only one list, and
// that list is closed or begins after the given time, it also looks for an index. The
// caller must close the sequence unless there is an error.
func (r *Reader) openChangeLists(ctx context.Context, set discover.Set, since time.Time) (*sequence, error) {
	c := r.newSequence(set.URI, "Change List")
	return c, c.gather(ctx, c.name, set.ChangeLists, nil, func(uri string) error {
		doc, err := r.changeList(ctx, uri, r.Read)
		if err != nil {
			return err
		}
		return c.offered(ctx, doc, since, len(set.ChangeLists) > 1)
	})
}

// gather calls the function add for each URI, to add the lists of the document there,
// and then adds the lists in more. If one of the documents cannot be used, the sequence
// has no lists. kind is the name of the documents in messages.
func (c *sequence) gather(ctx context.Context, kind string, uris []string, more []window, add func(uri string) error) (err error) {
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	for _, uri := range uris {
		err := add(uri)
		switch {
		case meansUnusable(ctx, err):
			c.drop(notUsable(kind, uri, err))
			return nil
		case err != nil:
			return err
		}
	}
	for _, w := range more {
		c.add(w)
	}
	if len(c.windows) > maxDocuments { // checked here, before any list is read
		c.drop(fmt.Errorf("%s: more than %d %ss are offered", c.set, maxDocuments, c.name))
		return nil
	}
	if err := c.findStarts(ctx); err != nil {
		return err
	}
	c.arrange()
	return nil
}

func (r *Reader) newSequence(set, name string) *sequence {
	return &sequence{reader: r, set: set, name: name, named: map[string]int{}}
}

func (c *sequence) Close() {
	if c.lone != nil {
		c.lone.Close()
		c.lone = nil
	}
	for _, w := range c.windows {
		if w.pkg != nil {
			w.pkg.Close()
		}
	}
}

func (c *sequence) drop(why error) {
	c.Close()
	c.windows, c.Why, c.broken = nil, why.Error(), true
	c.reader.Note(c.set, c.Why)
}

// offered adds a document of the Capability List: a Change List, or the Change Lists of
// an index.
func (c *sequence) offered(ctx context.Context, doc *Document, since time.Time, several bool) error {
	defer func() {
		if doc != c.lone {
			doc.Close()
		}
	}()
	h := &doc.Header
	if h.Root == resourcesync.SitemapIndex || doc.lists {
		if !several {
			c.via, c.asked = doc.URI, c.reader.Now().UTC().Truncate(time.Second)
		}
		return c.index(doc)
	}
	w := doc.window()
	w.paged = len(doc.after) > 0
	c.add(w)
	ref := h.Link(relIndex)
	switch {
	case several:
		return nil
	case ref == "" || h.Until.IsZero() && !h.From.Time().After(since):
		c.lone = doc
		return nil
	}
	return c.addListsOfIndex(ctx, doc, ref)
}

// addListsOfIndex adds the lists of the index to which a Change List links.
func (c *sequence) addListsOfIndex(ctx context.Context, doc *Document, ref string) error {
	uri, err := c.reader.named(ref, doc.Base)
	if err == nil {
		var index *Document
		if index, err = c.reader.Read(ctx, uri, resourcesync.CapabilityChangeList); err == nil && index.Header.Link(relNext) != "" && index.Header.Link(relPrev) == "" {
			index.Close()
			index, err = c.reader.changeList(ctx, uri, c.reader.Read)
		}
		if err == nil {
			defer index.Close()
			if index.Header.Root == resourcesync.SitemapIndex || index.lists {
				return c.index(index)
			}
			err = &DocumentError{URI: uri, Reason: "names no Change Lists"}
		}
	}
	if !meansUnusable(ctx, err) {
		return err
	}
	c.reader.Note(c.set, fmt.Sprintf("the index of %s cannot be used: %v", doc.URI, err))
	c.lone = doc
	return nil
}

// add moves a list that is already in the sequence to the end, because the order of an
// index is more reliable. It adds no list beyond maxDocuments + 1, because the method
// gather drops a sequence with so many.
func (c *sequence) add(w window) {
	c.places++
	w.place = c.places
	switch i, known := c.named[w.uri]; {
	case known && i >= 0:
		c.windows[i].place = w.place
		c.windows[i].widen(w)
	case len(c.windows) <= maxDocuments:
		c.named[w.uri] = len(c.windows)
		c.windows = append(c.windows, w)
	}
}

// widen extends the period to that of v, because a document that is named twice may be in
// either period.
func (w *window) widen(v window) {
	if v.from.Before(w.from) {
		w.from = v.from
	}
	if w.until.Before(v.until) || v.until.IsZero() {
		w.until = v.until
	}
}

func (c *sequence) names(uri string) bool {
	_, named := c.named[uri]
	return named
}

// justNow is the largest difference between a time in a document and the Date header of
// its response that counts as none, because the Date header is in whole seconds.
const justNow = 2 * time.Second

func (c *sequence) index(index *Document) error {
	nested := index.Header.Root != resourcesync.SitemapIndex
	c.ordered = true
	if nested {
		c.reader.Tell(resourcesync.QuirkNested, c.set, index.URI+": lists Change Lists, as an index does; they are read")
	}
	for e, err := range index.Entries() {
		if err != nil {
			return err
		}
		switch {
		case !nested || e.Capability == index.Header.Capability:
		case e.Change != "":
			return &DocumentError{URI: index.URI, Reason: "lists both Change Lists and changes"}
		default:
			continue
		}
		uri, err := c.reader.named(e.Loc, index.Base)
		if err != nil {
			return err
		}
		w := window{uri: uri, from: e.From, until: e.Until}
		// some Sources (WEKO) give the time of sending as the "until" of an open list; such a
		// time does not close the list
		if !index.Served.IsZero() && w.until.Latest().Add(justNow).After(index.Served) {
			w.until = resourcesync.Datetime{}
		}
		c.add(w)
	}
	return index.flaw()
}

// findStarts reads the lists whose start is not in the index, to get their start.
func (c *sequence) findStarts(ctx context.Context) error {
	if c.lone != nil {
		return nil
	}
	for i := range c.windows {
		w := &c.windows[i]
		if !w.from.IsZero() {
			continue
		}
		doc, err := c.read(ctx, *w)
		switch {
		case err == nil:
			w.from, w.until = doc.Header.From, doc.Header.Until
			doc.Close()
			if !w.from.IsZero() || len(c.windows) == 1 {
				continue
			}
			err = &DocumentError{URI: w.uri, Reason: "has no \"from\" attribute, so it is unknown which changes it covers"}
		case !meansUnusable(ctx, err):
			return err
		}
		c.drop(notUsable(c.name, w.uri, err))
		return nil
	}
	return nil
}

// notUsable returns an error whose text contains the URI once, even if err contains it
// already.
func notUsable(what, uri string, err error) error {
	var bad *DocumentError
	switch {
	case errors.As(err, &bad) && bad.URI == uri:
		return fmt.Errorf("the %s %w", what, err)
	case strings.Contains(err.Error(), uri):
		return fmt.Errorf("the %s cannot be used: %w", what, err)
	}
	return fmt.Errorf("the %s %s cannot be used: %w", what, uri, err)
}

// arrange sorts the lists by time. If changes between two lists are missing, it keeps
// only the later lists. One list may cover the periods of several others.
func (c *sequence) arrange() {
	if end := c.reader.until; len(c.windows) > 0 && !end.IsZero() {
		c.windows = slices.DeleteFunc(c.windows, func(w window) bool { return w.from.Time().After(end) })
		if len(c.windows) == 0 {
			c.Why = fmt.Sprintf("every %s begins after %s", c.name, stamp(end))
		}
	}
	if len(c.windows) == 0 {
		c.Why = cmp.Or(c.Why, "the Source offers no "+c.name)
		return
	}
	byTime := func(a, b window) int { return a.from.Time().Compare(b.from.Time()) }
	placed := slices.DeleteFunc(slices.Clone(c.windows), func(w window) bool { return evidence.ToCome(w.from.Time(), c.reader.Now()) })
	slices.SortFunc(placed, func(a, b window) int { return cmp.Compare(a.place, b.place) })
	// the open list is the newest: if the index names it last, the index has the order of
	// publication, even if the times of the lists do not ascend
	open := slices.IndexFunc(placed, func(w window) bool { return w.until.IsZero() })
	if c.jumbled = c.ordered && !slices.IsSortedFunc(placed, byTime) && open >= 0 && open == len(placed)-1; c.jumbled {
		c.latest = slices.MaxFunc(placed, byTime).from.Time()
	}
	slices.SortStableFunc(c.windows, byTime)
	c.setNext()
	first, last := 0, c.windows[0] // last is the list that reaches furthest
	for i, w := range c.windows[1:] {
		if c.hasGap(last, w) {
			first, last = i+1, w
		}
		last = c.further(last, w)
	}
	c.windows = c.windows[first:]
}

// further returns the one of two neighbouring lists, a before b, whose period ends later.
// It returns b if the end of a cannot be trusted: an open list may have ended when b
// began, and an end in the future may come from a wrong clock.
func (c *sequence) further(a, b window) window {
	if a.until.IsZero() || b.until.IsZero() || !a.reach().After(b.reach()) || evidence.ToCome(a.reach(), c.reader.Now()) {
		return b
	}
	return a
}

// reach returns the time up to which a closed list has all changes. The last package of a
// Change Dump counts up to the end of the dump, because it shows that there were no changes
// until then.
func (w window) reach() time.Time { return evidence.Later(w.until.Latest(), w.told.Latest()) }

// setNext sets window.next of each list that is open although another list begins after
// it. Such a list should have been closed.
func (c *sequence) setNext() {
	for i := range c.windows {
		w := &c.windows[i]
		if w.next = (resourcesync.Datetime{}); i+1 < len(c.windows) && w.until.IsZero() && !c.jumbled {
			if next := c.windows[i+1].from; next.Time().After(w.from.Time()) && !evidence.ToCome(next.Time(), c.reader.Now()) {
				w.next = next
			}
		}
	}
}

// hasGap reports whether changes may be missing between two lists. If so, it sets Why.
func (c *sequence) hasGap(a, b window) bool {
	if a.until.IsZero() || !a.reach().Before(b.from.Time()) {
		return false
	}
	c.Why = fmt.Sprintf("gap: the %s %s ends at %s, and the next one, %s, begins at %s", c.name, a.uri, a.until, b.uri, b.from)
	return true
}

func (c *sequence) read(ctx context.Context, w window) (*Document, error) {
	switch {
	case c.lone != nil:
		return c.lone, nil
	case w.pkg != nil:
		doc, err := c.reader.Packages.Manifest(ctx, c.reader, w.pkg, resourcesync.CapabilityChangeDumpManifest)
		w.pkg.keepOpen(&c.opened)
		return doc, err
	}
	doc, err := c.request(ctx, w, c.reader.Read)
	if err == nil && (doc.Header.Root == resourcesync.SitemapIndex || doc.lists) {
		doc.Close()
		err = indexInIndex(w.uri)
	}
	return doc, err
}

// readList keeps only the new entries of a list that an earlier run has begun to read.
// The argument known is the field changeList.known of the previous list.
func (c *sequence) readList(ctx context.Context, w window, cur Position, known found) (*changeList, error) {
	if w.sealed(cur) { // nothing is read: an earlier run has read all of this package, which never changes
		return &changeList{URI: w.uri, from: w.from, until: w.until, total: cur.Applied, prefix: cur.Prefix, resumed: cur.List == w.uri, in: w.pkg, ended: w.until.Latest()}, nil
	}
	doc, err := c.read(ctx, w)
	if err != nil {
		return nil, err
	}
	open := c.leftOpen(doc, w)
	if open {
		if doc, err = c.requestFresh(ctx, doc, w); err != nil {
			return nil, err
		}
		open = c.leftOpen(doc, w)
	}
	if doc != c.lone {
		defer doc.Close()
	}
	c.closes = c.closes || !doc.Header.Until.IsZero()
	l, err := c.reader.listOf(doc, w, c.set, cur, known)
	if err == nil && open {
		l.open = !c.countsAsClosed(l, w, cur)
	}
	return l, err
}

// endTime returns the end of a list according to its index, or the start of the next
// list if that is later.
func (w window) endTime() time.Time { return evidence.Later(w.until.Latest(), w.next.Time()) }

// leftOpen reports whether a list is open although its index calls it closed, or
// another list begins after it. Then the document may be an outdated copy, or the list
// never states its end (1.1 §12.2 requires "until" only in the index).
func (c *sequence) leftOpen(doc *Document, w window) bool {
	return w.pkg == nil && !w.dump && !w.endTime().IsZero() && doc.Header.Until.IsZero() && !doc.Modified.After(w.endTime())
}

// requestFresh requests a list again, without caches. If the Source does not send it,
// requestFresh returns doc, the document that was already read.
func (c *sequence) requestFresh(ctx context.Context, doc *Document, w window) (*Document, error) {
	fresh, err := c.request(ctx, w, c.reader.readFresh)
	switch {
	case err == nil:
		if doc == c.lone {
			c.lone = fresh
		}
		doc.Close()
		return fresh, nil
	case OfSource(err) && ctx.Err() == nil:
		return doc, nil
	}
	if doc != c.lone {
		doc.Close()
	}
	return nil, err
}

// maxLeft is the time without new entries after which an open list is treated as closed
// if its index calls it closed. Until then, the list is treated as an outdated copy.
const maxLeft = 24 * time.Hour

// countsAsClosed reports whether an open list that its index calls closed was unchanged
// for so long that it is treated as closed.
func (c *sequence) countsAsClosed(l *changeList, w window, cur Position) bool {
	stood := l.resumed && l.newEntries() == 0 && !cur.Left.IsZero() && c.reader.Now().Sub(cur.Left) >= maxLeft
	so := "it may be an outdated copy, so it is read again in the next run"
	if stood {
		so = "nothing was added to it for a day, so it is treated as closed"
	}
	c.reader.Note(c.set, fmt.Sprintf("%s is open although its index says that it ended at %s; %s", l.URI, w.endTime().Format(time.RFC3339Nano), so))
	return stood
}

// changesAfter returns the changes after the entries that an earlier run read, if the
// list of the Position still begins with them. Otherwise it returns the changes from
// the first list on that has changes after the time of the Position.
func (c *sequence) changesAfter(ctx context.Context, cur Position) (*Changes, error) {
	windows := c.windows[c.start(cur.At):]
	own := slices.IndexFunc(c.windows, func(w window) bool { return w.uri == cur.List })
	if own < 0 || !c.closedBefore(own) || c.windows[own].sealed(cur) {
		return c.load(ctx, windows, cur, nil, time.Time{})
	}
	l, err := c.readList(ctx, c.windows[own], cur, found{})
	switch {
	case err == nil && l.resumed:
		windows = c.windows[own:]
		if c.jumbled {
			windows = c.windowsFrom(own, cur.At)
		}
	case err != nil && !meansUnusable(ctx, err):
		return nil, err
	}
	return c.load(ctx, windows, cur, l, time.Time{})
}

// windowsFrom returns list n of the sequence, and the lists that come after it in the
// index, or begin after the time t.
func (c *sequence) windowsFrom(n int, t time.Time) []window {
	some := []window{c.windows[n]}
	for i, w := range c.windows {
		if begins := w.from.Time(); w.place > some[0].place || i != n && begins.After(t) && !evidence.ToCome(begins, c.reader.Now()) {
			some = append(some, w)
		}
	}
	slices.SortStableFunc(some[1:], func(a, b window) int { return cmp.Compare(a.place, b.place) })
	return some
}

// closedBefore reports whether all lists before list n are closed, so that nothing can
// be added to them.
func (c *sequence) closedBefore(n int) bool {
	if c.jumbled {
		return !slices.ContainsFunc(c.windows, func(w window) bool { return w.place < c.windows[n].place && w.until.IsZero() })
	}
	return !slices.ContainsFunc(c.windows[:n], func(w window) bool { return w.until.IsZero() || w.until.Time().After(c.windows[n].from.Time()) })
}

// sealed reports whether an earlier run has read all of the package that contains the
// list. Unlike a Change List, such a package is not rewritten once it is closed.
func (w window) sealed(cur Position) bool {
	switch {
	case w.pkg == nil:
		return false
	case w.uri == cur.List:
		return !cur.Ended.IsZero() && w.endsBy(cur.At)
	}
	return w.closedBy(cur.At)
}

// closedBy reports whether the period of a list ended before t. A list that ends at t may
// have changes of the moment t (1.1 §7), which are later than a Resource List of t.
func (w window) closedBy(t time.Time) bool { return !w.until.IsZero() && !w.until.End().After(t) }

// endsBy reports whether the period of a list ended at or before t.
func (w window) endsBy(t time.Time) bool { return !w.until.IsZero() && !w.until.Latest().After(t) }

// start returns the index of the first list whose period does not end before t, or of the
// last list if there is none.
func (c *sequence) start(t time.Time) int {
	i := slices.IndexFunc(c.windows, func(w window) bool { return !w.closedBy(t) || w.told.Latest().After(t) })
	if i < 0 {
		return max(0, len(c.windows)-1)
	}
	return i
}

// load returns the changes of the lists. ready is a list that was already read; it may
// be nil. If a list is unusable, load returns only the changes after that list. If no
// list can be used, load returns nil and sets Why. load stops after MaxChanges changes,
// but not before it has read the changes up to the time least.
func (c *sequence) load(ctx context.Context, windows []window, cur Position, ready *changeList, least time.Time) (_ *Changes, err error) {
	ch := c.reader.newChanges()
	var before window
	var lost time.Time // up to this time, unusable lists may have had changes, and changes that were read before them were discarded
	unusable := 0
	for i, w := range windows {
		if !cur.Left.IsZero() { // if Position.Left is set, earlier runs have also applied later lists, so the entries of these lists are not certainly new
			ch.known = found{}
		}
		if i > 0 && ch.latest.Len() >= int64(c.reader.MaxChanges) && !ch.End.Before(least) {
			ch.Rest = fmt.Errorf("%s: %s %w", c.set, Counted(len(windows)-i, "%d more %s{ is|s are}", len(windows)-i, c.name), ErrLeft)
			break
		}
		l, err := ready, error(nil)
		if ready == nil || ready.URI != w.uri {
			l, err = c.readList(ctx, w, cur, ch.known)
		}
		switch {
		case err == nil:
		case meansUnusable(ctx, err):
			c.Why, c.broken = "gap: "+notUsable(c.name, w.uri, err).Error(), true
			if unusable++; unusable <= maxNamed {
				c.reader.Note(c.set, c.Why)
			}
			ch, before = c.reader.newChanges(), window{}
			for _, w := range windows[:i+1] {
				end := w.endTime()
				if end.IsZero() {
					end = c.reader.Now()
				}
				lost = evidence.Later(lost, end)
			}
			continue
		default:
			return nil, err
		}
		w = window{uri: l.URI, from: l.from, until: l.until, told: w.told}
		if !c.jumbled && c.hasGap(before, w) {
			ch = c.reader.newChanges()
		}
		ch.Jumbled, ch.clear = c.jumbled, c.latest
		if err := ch.add(c.reader, l, cur); err != nil {
			return nil, err
		}
		if lost.After(ch.Since.Time()) { // the period of a later list may begin before that of an unusable one ends
			ch.Since, ch.resumed = resourcesync.DatetimeOf(lost), false
		}
		before = c.further(before, w)
	}
	if more := unusable - maxNamed; more > 0 {
		c.reader.Note(c.set, Counted(more, "%d more %s{ cannot|s cannot} be used", more, c.name))
	}
	if ch.lists == 0 {
		return nil, nil
	}
	if ch.index, err = c.indexToSkip(ctx, ch, cur); ch.index != "" {
		ch.asked = c.asked
	}
	return ch, err
}
