package harvest

import (
	"context"
	"crypto/sha256"
	"net/url"
	"time"

	"instep/discover"
)

// openCurrent is openChangeLists where the index of the Change Lists has nothing to add: the
// list in which the position is was the last one, is still open and begins with
// exactly what was applied. It returns nil if that is not so or not known, or if the index
// was not asked for long: a Source may have left that list standing for open, and go on
// in another. stands is the list if it is another than it was: an index that does not name it
// is a copy from before.
func (r *Reader) openCurrent(ctx context.Context, set discover.Set, cur Position) (_ *sequence, stands *window, err error) {
	if cur.Index == "" || len(set.ChangeLists) != 1 || set.ChangeLists[0] != cur.Index {
		return nil, nil, nil
	}
	if !Recent(cur.Asked, r.Now()) {
		return nil, nil, nil
	}
	if base, err := url.Parse(cur.Index); err != nil {
		return nil, nil, nil // recorded by an earlier version of this program
	} else if _, err := r.named(cur.List, base); err != nil {
		return nil, nil, nil // the index has to be requested now
	}
	c := r.newSequence(set.URI, "Change List")
	c.via, c.asked, c.closes = cur.Index, cur.Asked, true
	doc, err := c.read(ctx, window{uri: cur.List})
	switch {
	case err != nil && lost(ctx, err):
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

// maxUnasked is how long a list is followed without a look into the index that named it.
const maxUnasked = 24 * time.Hour

// Recent reports whether an index was asked for so lately that it need not be again.
func Recent(asked, now time.Time) bool {
	age := now.Sub(asked)
	return age >= 0 && age < maxUnasked
}

// window is the period in the header of a Change List.
func (doc *Document) window() window {
	return window{uri: doc.URI, from: doc.Header.From, until: doc.Header.Until}
}

// isOpen reports whether a Change List is the whole of what is said so far, and more
// will be added to it (1.1 §12.1).
func (doc *Document) isOpen() bool {
	h := &doc.Header
	return h.Until.IsZero() && !h.From.IsZero() && h.Link(relNext) == "" && h.Link(relPrev) == ""
}

// begins reports whether a Change List begins with exactly what was read before.
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
		_, _ = sum.Write(text) // it never fails
		n++
	}
	return n == cur.Applied && hexSum(sum) == cur.Prefix
}

// current returns the path to the last list read, if it need not be requested again while
// that list is open: it named the list as the last of several and as open, nothing can be
// added to those before it, and the Source states in lists where they end.
func (c *sequence) current(ctx context.Context, ch *Changes, cur Position) (string, error) {
	n := len(c.windows) - 1
	if c.via == "" || ch.Rest != nil || ch.stand != nil || !c.settled(n) {
		return "", nil
	}
	if last := &c.windows[n]; last.uri != ch.newest.URI || !last.until.IsZero() || !ch.newest.until.IsZero() {
		return "", nil
	}
	switch {
	case c.closes:
	case cur.List == ch.newest.URI: // looked into once for each list
		c.closes = cur.Index == c.via
	case n > 0:
		doc, err := c.read(ctx, c.windows[n-1])
		if err != nil {
			return "", unlessLost(ctx, err)
		}
		c.closes = !doc.Header.Until.IsZero()
		doc.Close()
	}
	if !c.closes {
		return "", nil
	}
	return c.via, nil
}
