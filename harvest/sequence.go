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

// DefaultMaxChanges is how many changed resources a run collects before it reads no further Change
// List: it applies these first, so that a run that breaks off loses no more.
const DefaultMaxChanges = 250_000

// relIndex leads from a Change List to the index that names its successors (1.1 §12.1).
const relIndex = "index"

// sequence is the Change Lists of a set: one, several, or an index of them (1.1 §12.2), or
// the packages of Change Dumps, which have the same content. They are in order of time,
// without a known gap.
type sequence struct {
	reader  *Reader
	set     string
	name    string // name of its documents, for people
	windows []window
	named   map[string]bool // their URIs
	lone    *Document       // the only list, if it was read to find that
	opened  int             // open packages, as keep counts them
	broken  bool            // some offered list cannot be used
	jumbled bool            // the index does not name them in the order of their times (1.1 §12.2): some were dated by a clock that was wrong
	via     string          // URI of the index, if it is all that the Capability List names
	asked   time.Time       // time of that request, by our clock
	latest  time.Time       // if jumbled: the latest from. Earlier times do not order entries of different lists
	ordered bool            // an index names them
	places  int             // given to lists
	added   string          // URI of the position's list, if no document names it; "" if one does
	closes  bool            // a list was seen that says itself where it ends
	Why     string          // why there are none, or why they do not reach further back; "" if they do
}

// window is a Change List, or the manifest of a package, before it is read: its changes are
// those of [from, until).
type window struct {
	uri         string
	from, until resourcesync.Datetime // until is zero while the list is open
	pkg         *Package              // the package, if this is its manifest; nil for a Change List
	dump        bool                  // a Change Dump that lists changes where packages belong
	told        resourcesync.Datetime // stated end of the last package of a Change Dump; zero if there is none
	place       int                   // in the index
	paged       bool                  // it has further pages
	next        resourcesync.Datetime // if this list is open: the start of the list after it; zero if there is none
}

// openChangeLists finds the Change Lists of a set. An index of them is looked for if the only
// one is closed or does not reach back to since. The caller closes the sequence, unless there is an
// error.
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

// gather adds the entries of some documents, then more lists, and sorts all. A lost
// document leaves a sequence without lists; what is the name of such documents, for people.
func (c *sequence) gather(ctx context.Context, what string, uris []string, more []window, add func(uri string) error) (err error) {
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	for _, uri := range uris {
		err := add(uri)
		switch {
		case lost(ctx, err):
			c.drop(notUsable(what, uri, err))
			return nil
		case err != nil:
			return err
		}
	}
	for _, w := range more {
		c.add(w)
	}
	if len(c.windows) > maxDocuments { // before any of them is read
		c.drop(fmt.Errorf("%s: more than %d %ss are offered", c.set, maxDocuments, c.name))
		return nil
	}
	if err := c.place(ctx); err != nil {
		return err
	}
	c.arrange()
	return nil
}

func (r *Reader) newSequence(set, name string) *sequence {
	return &sequence{reader: r, set: set, name: name, named: map[string]bool{}}
}

// Close gives back the documents and packages that are open.
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

// drop leaves a sequence without lists.
func (c *sequence) drop(why error) {
	c.Close()
	c.windows, c.Why, c.broken = nil, why.Error(), true
	c.reader.Note(c.set, c.Why)
}

// offered adds a document of the Capability List, or the documents that it leads to.
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
	return c.enclosing(ctx, doc, ref)
}

// enclosing adds the lists of the index that a list names.
func (c *sequence) enclosing(ctx context.Context, doc *Document, ref string) error {
	uri, err := c.reader.named(ref, doc.Base)
	if err == nil {
		var index *Document
		if index, err = c.reader.Read(ctx, uri, resourcesync.CapabilityChangeList); err == nil { // an index has no pages
			defer index.Close()
			return c.index(index)
		}
	}
	if !lost(ctx, err) {
		return err
	}
	c.reader.Note(c.set, fmt.Sprintf("the index of %s cannot be used: %v", doc.URI, err))
	c.lone = doc
	return nil
}

// add adds a list to the sequence. One that exists moves to the new place, since an index
// has better evidence of the order.
func (c *sequence) add(w window) {
	c.places++
	w.place = c.places
	if !c.named[w.uri] {
		c.named[w.uri] = true
		c.windows = append(c.windows, w)
		return
	}
	for i := range c.windows {
		if c.windows[i].uri == w.uri {
			c.windows[i].place = w.place
		}
	}
}

// justNow is the tolerance between a document's own times and its Date, which is in whole
// seconds.
const justNow = 2 * time.Second

// index adds the lists that an index names.
func (c *sequence) index(index *Document) error {
	nested := index.Header.Root != resourcesync.SitemapIndex
	c.ordered = true
	if nested {
		c.reader.Tell(resourcesync.QuirkNested, c.set, index.URI+": lists Change Lists as an index does; they are read")
	}
	for e, err := range index.Entries() {
		if err != nil {
			return err
		}
		if nested && e.Capability != index.Header.Capability {
			continue
		}
		uri, err := c.reader.named(e.Loc, index.Base)
		if err != nil {
			return err
		}
		w := window{uri: uri, from: e.From, until: e.Until}
		if !index.Served.IsZero() && w.until.Time().Add(justNow).After(index.Served) { // it states the end of its period, not that it is closed: WEKO
			w.until = resourcesync.Datetime{}
		}
		c.add(w)
	}
	return index.flaw()
}

// place reads lists for which an index gives no start.
func (c *sequence) place(ctx context.Context) error {
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
			err = &DocumentError{URI: w.uri, Reason: "does not say where it begins (no from)"}
		case !lost(ctx, err):
			return err
		}
		c.drop(notUsable(c.name, w.uri, err))
		return nil
	}
	return nil
}

// notUsable says which list cannot be used and why, with its URI once.
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

// arrange puts the lists in the order of time and leaves those after the last gap.
func (c *sequence) arrange() {
	if end := c.reader.until; len(c.windows) > 0 && !end.IsZero() {
		c.windows = slices.DeleteFunc(c.windows, func(w window) bool { return w.from.Time().After(end) })
		if len(c.windows) == 0 {
			c.Why = fmt.Sprintf("every %s begins after %s", c.name, stamp(end))
		}
	}
	if len(c.windows) == 0 && c.Why == "" {
		c.Why = "the Source offers no " + c.name
		return
	}
	byTime := func(a, b window) int { return a.from.Time().Compare(b.from.Time()) }
	placed := slices.DeleteFunc(slices.Clone(c.windows), func(w window) bool { return evidence.ToCome(w.from.Time(), c.reader.Now()) })
	slices.SortFunc(placed, func(a, b window) int { return cmp.Compare(a.place, b.place) })
	if c.jumbled = c.ordered && !slices.IsSortedFunc(placed, byTime) && forward(placed); c.jumbled {
		c.latest = slices.MaxFunc(placed, byTime).from.Time()
	}
	slices.SortStableFunc(c.windows, byTime)
	c.succeed()
	for i := len(c.windows) - 1; i > 0; i-- {
		if c.gap(c.windows[i-1], c.windows[i]) {
			c.windows = c.windows[i:]
			return
		}
	}
}

// succeed records which open lists are not the last: they should have been closed.
func (c *sequence) succeed() {
	for i := range c.windows {
		w := &c.windows[i]
		if w.next = (resourcesync.Datetime{}); i+1 < len(c.windows) && w.until.IsZero() && !c.jumbled {
			if next := c.windows[i+1].from; next.Time().After(w.from.Time()) && !evidence.ToCome(next.Time(), c.reader.Now()) {
				w.next = next
			}
		}
	}
}

// forward reports whether an index names the newest list last: that is the open one. Then
// lists are in the order of publication, whatever their times say.
func forward(windows []window) bool {
	open := slices.IndexFunc(windows, func(w window) bool { return w.until.IsZero() })
	return open >= 0 && open == len(windows)-1
}

// gap reports whether something may have happened after one list and before the next,
// and records where in Why.
func (c *sequence) gap(a, b window) bool {
	if a.until.IsZero() || !evidence.Later(a.until.Time(), a.told.Time()).Before(b.from.Time()) {
		return false
	}
	c.Why = fmt.Sprintf("gap: the %s %s ends at %s, the next, %s, begins at %s", c.name, a.uri, a.until, b.uri, b.from)
	return true
}

// read fetches a list of the sequence.
func (c *sequence) read(ctx context.Context, w window) (*Document, error) {
	switch {
	case c.lone != nil:
		return c.lone, nil
	case w.pkg != nil:
		doc, err := c.reader.Packages.Manifest(ctx, c.reader, w.pkg, resourcesync.CapabilityChangeDumpManifest)
		w.pkg.keep(&c.opened)
		return doc, err
	}
	doc, err := c.request(ctx, w, c.reader.Read)
	if err == nil && (doc.Header.Root == resourcesync.SitemapIndex || doc.lists) {
		doc.Close()
		err = indexInIndex(w.uri)
	}
	return doc, err
}

// request asks for a list in one of the ways of Reader. Lists that an index names may
// refer to each other, and are no pages.
func (c *sequence) request(ctx context.Context, w window, read reading) (*Document, error) {
	switch {
	case w.dump:
		return read(ctx, w.uri, resourcesync.CapabilityChangeDump)
	case w.paged:
		return c.reader.changeList(ctx, w.uri, read)
	}
	return read(ctx, w.uri, resourcesync.CapabilityChangeList)
}

// list reads one list, from the position on if that is in it. Later entries happened after
// known.
func (c *sequence) list(ctx context.Context, w window, cur Position, known found) (*changeList, error) {
	if w.sealed(cur.At) { // it has no entries after that
		return &changeList{URI: w.uri, from: w.from, until: w.until, total: cur.Applied, prefix: cur.Prefix, resumed: cur.List == w.uri, packed: true, ended: w.until.Time()}, nil
	}
	doc, err := c.read(ctx, w)
	if err != nil {
		return nil, err
	}
	open := c.leftOpen(doc, w)
	if open {
		if doc, err = c.again(ctx, doc, w); err != nil {
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
		l.open = !c.believed(l, w, cur)
	}
	return l, err
}

// ends is where its index says that a list ended, or else where the next begins.
func (w window) ends() time.Time { return evidence.Later(w.until.Time(), w.next.Time()) }

// leftOpen reports whether a list is open of which its index says that it was closed, or
// after which another begins: it is a copy from before, or the list never says so (1.1 §12.2
// asks for until in the index only).
func (c *sequence) leftOpen(doc *Document, w window) bool {
	return w.pkg == nil && !w.dump && !w.ends().IsZero() && doc.Header.Until.IsZero() && !doc.Modified.After(w.ends())
}

// again reads a list bypassing caches; if that fails it returns doc.
func (c *sequence) again(ctx context.Context, doc *Document, w window) (*Document, error) {
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

// maxLeft is how long a list that its index calls closed is taken for a copy from before
// while it stays open and nothing is added to it.
const maxLeft = 24 * time.Hour

// believed reports whether an open list has its final state: it was unchanged for long
// enough.
func (c *sequence) believed(l *changeList, w window, cur Position) bool {
	stood := l.resumed && l.fresh() == 0 && !cur.Left.IsZero() && c.reader.Now().Sub(cur.Left) >= maxLeft
	so := "it may be a copy from before, so it is read again in the next run"
	if stood {
		so = "nothing was added to it for a day, so that is believed"
	}
	c.reader.Note(c.set, fmt.Sprintf("%s is open although it ended at %s by what names it; %s", l.URI, w.ends().Format(time.RFC3339Nano), so))
	return stood
}

// after reads the changes after a position: from there if its list still begins with the
// applied entries, else from its moment.
func (c *sequence) after(ctx context.Context, cur Position) (*Changes, error) {
	windows := c.windows[c.start(cur.At):]
	own := slices.IndexFunc(c.windows, func(w window) bool { return w.uri == cur.List })
	if own < 0 || !c.settled(own) || c.windows[own].sealed(cur.At) {
		return c.load(ctx, windows, cur, nil, time.Time{})
	}
	l, err := c.list(ctx, c.windows[own], cur, found{})
	switch {
	case err == nil && l.resumed:
		windows = c.windows[own:]
		if c.jumbled {
			windows = c.following(own)
		}
	case err != nil && !lost(ctx, err):
		return nil, err
	}
	return c.load(ctx, windows, cur, l, time.Time{})
}

// following returns the nth list and those after it in the index.
func (c *sequence) following(n int) []window {
	some := []window{c.windows[n]}
	for _, w := range c.windows {
		if w.place > some[0].place {
			some = append(some, w)
		}
	}
	slices.SortStableFunc(some[1:], func(a, b window) int { return cmp.Compare(a.place, b.place) })
	return some
}

// settled reports whether nothing can be added any more to the lists before the nth.
func (c *sequence) settled(n int) bool {
	if c.jumbled {
		return !slices.ContainsFunc(c.windows, func(w window) bool { return w.place < c.windows[n].place && w.until.IsZero() })
	}
	return !slices.ContainsFunc(c.windows[:n], func(w window) bool { return !w.closedBy(c.windows[n].from.Time()) })
}

// sealed reports whether w is a package to which nothing is added any more: unlike a
// Change List it never is rewritten.
func (w window) sealed(t time.Time) bool { return w.pkg != nil && w.closedBy(t) }

// closedBy reports whether all of a list happened before t.
func (w window) closedBy(t time.Time) bool { return !w.until.IsZero() && !w.until.Time().After(t) }

// start is the first list that says what happened at or after t; the last if there is none. The
// last package of a Change Dump also says that nothing did until the end of the dump.
func (c *sequence) start(t time.Time) int {
	i := slices.IndexFunc(c.windows, func(w window) bool { return !w.closedBy(t) || w.told.Time().After(t) })
	if i < 0 {
		return max(0, len(c.windows)-1)
	}
	return i
}

// load reads lists; ready, if not nil, is one of them that was read already. It returns nil
// if they cannot be followed; c.Why says why. A lost list is a gap: only later entries
// count. Lists up to least are all read, however many.
func (c *sequence) load(ctx context.Context, windows []window, cur Position, ready *changeList, least time.Time) (_ *Changes, err error) {
	ch := c.reader.newChanges()
	var before window
	for i, w := range windows {
		if !cur.Left.IsZero() { // everything up to the position's list is applied
			ch.known = found{}
		}
		if i > 0 && ch.latest.Len() >= int64(c.reader.MaxChanges) && !ch.End.Before(least) {
			ch.Rest = fmt.Errorf("%s: %s %w", c.set, Counted(len(windows)-i, "%d more %s{ is|s are}", len(windows)-i, c.name), ErrLeft)
			break
		}
		l, err := ready, error(nil)
		if ready == nil || ready.URI != w.uri {
			l, err = c.list(ctx, w, cur, ch.known)
		}
		switch {
		case err == nil:
		case lost(ctx, err):
			c.Why, c.broken = "gap: "+notUsable(c.name, w.uri, err).Error(), true
			c.reader.Note(c.set, c.Why)
			ch, before = c.reader.newChanges(), window{}
			continue
		default:
			return nil, err
		}
		w = window{uri: l.URI, from: l.from, until: l.until, told: w.told}
		if !c.jumbled && c.gap(before, w) {
			ch = c.reader.newChanges()
		}
		ch.Jumbled, ch.clear = c.jumbled, c.latest
		if err := ch.add(c.reader, l, cur); err != nil {
			return nil, err
		}
		before = w
	}
	if ch.lists == 0 {
		return nil, nil
	}
	if ch.index, err = c.current(ctx, ch, cur); ch.index != "" {
		ch.asked = c.asked
	}
	return ch, err
}
