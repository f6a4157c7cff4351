package harvest

import (
	"context"
	"crypto/sha256"
	"net/url"
	"time"

	"instep/discover"
)

// openCurrent opens, without requesting the index, the Change List at which an earlier
// run stopped. It returns nil unless that list was the last one in the index, is still
// open and still begins with the entries that were read. It also returns nil if the
// index was not requested for a day, because a Source may leave that list open and
// continue in another. If the list is no longer open or has lost entries, it is
// returned as stands, because an index that does not contain it is an outdated copy.
func (r *Reader) openCurrent(ctx context.Context, set discover.Set, cur Position) (_ *sequence, stands *window, err error) {
	if cur.Index == "" || len(set.ChangeLists) != 1 || set.ChangeLists[0] != cur.Index || !Recent(cur.Asked, r.Now()) {
		return nil, nil, nil
	}
	base, err := url.Parse(cur.Index)
	if err == nil {
		_, err = r.named(cur.List, base)
	}
	if err != nil { // documents may no longer be read from the origin of the list
		return nil, nil, nil
	}
	c := r.newSequence(set.URI, "Change List")
	c.via, c.asked, c.closes = cur.Index, cur.Asked, true
	doc, err := c.read(ctx, window{uri: cur.List})
	switch {
	case err != nil && meansUnusable(ctx, err):
		return nil, nil, nil
	case err != nil:
		return nil, nil, err
	case !doc.isOpen() || doc.Header.From.String() != cur.From || !doc.begins(cur):
		defer doc.Close()
		if !doc.Header.From.IsZero() {
			w := doc.window()
			stands = &w
		}
		return nil, stands, nil
	}
	c.add(doc.window())
	c.lone = doc
	return c, nil, nil
}

// maxUnasked is the time after which an index of Change Lists is requested again,
// although its last list can be read without it.
const maxUnasked = 24 * time.Hour

// Recent reports whether an index was requested less than a day ago.
func Recent(asked, now time.Time) bool {
	age := now.Sub(asked)
	return age >= 0 && age < maxUnasked
}

func (doc *Document) window() window {
	return window{uri: doc.URI, from: doc.Header.From, until: doc.Header.Until}
}

// isOpen reports whether a Change List has one page and no end ("until"), so that later
// changes will be added to it (1.1 §12.1).
func (doc *Document) isOpen() bool {
	h := &doc.Header
	return h.Until.IsZero() && !h.From.IsZero() && h.Link(relNext) == "" && h.Link(relPrev) == ""
}

// begins reports whether a Change List begins with the entries that an earlier run
// read.
func (doc *Document) begins(cur Position) bool {
	sum, n := sha256.New(), 0
	var text []byte
	for e, err := range doc.Entries() {
		if err != nil {
			return false
		}
		if n == cur.Applied {
			break
		}
		text = appendEntry(text[:0], &e)
		_, _ = sum.Write(text)
		n++
	}
	return n == cur.Applied && hexSum(sum) == cur.Prefix
}

// indexToSkip returns the URI of the index if it need not be requested again while the
// last list is open, otherwise "". The last list of the index must be open, all earlier
// lists must be closed, and the Source must state the end of a list ("until") in the
// list itself.
func (c *sequence) indexToSkip(ctx context.Context, ch *Changes, cur Position) (string, error) {
	n := len(c.windows) - 1
	if c.via == "" || ch.Rest != nil || ch.stand != nil || !c.closedBefore(n) {
		return "", nil
	}
	if last := &c.windows[n]; last.uri != ch.newest.URI || !last.until.IsZero() || !ch.newest.until.IsZero() {
		return "", nil
	}
	switch {
	case c.closes:
	case cur.List == ch.newest.URI: // the Position has the URI of the index only if the lists state their own end
		c.closes = cur.Index == c.via
	case n > 0:
		doc, err := c.read(ctx, c.windows[n-1])
		if err != nil {
			return "", unlessUnusable(ctx, err)
		}
		c.closes = !doc.Header.Until.IsZero()
		doc.Close()
	}
	if !c.closes {
		return "", nil
	}
	return c.via, nil
}
