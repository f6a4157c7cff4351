package publish

import (
	"iter"
	"strings"
	"time"

	"instep/internal/catalog"
)

// maxListBytes bounds the estimated size of a Change List. The standard allows 50 MB.
const maxListBytes = 45_000_000

// span has the changes of one Change List, which are those with after < Seq <= through.
type span struct {
	after, through int64
	from, until    time.Time // the period of the Change List; until is zero while the list is open
	entries        int64
	bytes          int64
	fresh          int64 // the total length in bytes of the resources whose changes the last publication did not list yet
}

func (s span) number() int64 { return s.after + 1 }

// limits are the largest size and age of a Change List.
type limits struct {
	entries int64
	bytes   int64
	age     time.Duration // the largest age; 0 means that there is no limit

	linkLength func(*catalog.Change) int64 // returns the length of the links that will be added to the entry of a change; nil if no links will be added
}

func (l *limits) size(ch *catalog.Change) int64 {
	if l.linkLength == nil {
		return entryBytes(ch)
	}
	return entryBytes(ch) + l.linkLength(ch)
}

// divide distributes changes over the open Change List and as many new lists as necessary.
// The open list already contains the changes with Seq <= listed. Changes that one call of
// Record recorded have the same time, and stay together. One call has so few changes that
// they fit into the limits of the standard even if they are added to a full list.
func divide(open span, listed int64, changes iter.Seq2[catalog.Change, error], l limits) ([]span, error) {
	d := divider{limits: l, spans: []span{open}}
	var call span // the changes of one Record call
	for ch, err := range changes {
		if err != nil {
			return nil, err
		}
		if ch.Seq <= listed {
			d.put(span{through: ch.Seq, entries: 1, bytes: l.size(&ch)})
			continue
		}
		if call.entries > 0 && !ch.Datetime.Equal(call.from) {
			d.add(call)
			call = span{}
		}
		if call.entries == 0 {
			call.from, call.after = ch.Datetime, ch.Seq-1
		}
		call.through = ch.Seq
		call.entries++
		call.bytes += l.size(&ch)
		call.fresh += max(0, ch.Length.Int64())
	}
	if call.entries > 0 {
		d.add(call)
	}
	return d.spans, nil
}

type divider struct {
	limits
	spans []span
}

func (d *divider) open() *span { return &d.spans[len(d.spans)-1] }

func (d *divider) put(s span) {
	o := d.open()
	o.through = s.through
	o.entries += s.entries
	o.bytes += s.bytes
	o.fresh += s.fresh
}

// add adds the changes of one Record call to the open list or, if that is full, to a new
// list.
func (d *divider) add(call span) {
	o := d.open()
	full := o.entries+call.entries > d.entries || o.bytes+call.bytes > d.bytes ||
		d.age > 0 && call.from.Sub(o.from) >= d.age
	if o.entries > 0 && full {
		o.until = call.from
		d.spans = append(d.spans, span{after: call.after, through: call.after, from: call.from})
	}
	d.put(call)
}

// entryBytes returns an upper estimate of the length of the entry of a change in a Change
// List, without the links that a publication adds.
func entryBytes(ch *catalog.Change) int64 {
	const around = 350    // length of the names of elements and attributes, of datetimes and other short texts
	const aroundLink = 32 // a link in a document is about this many bytes longer than in the text of a Remainder
	said := ch.URI + ch.Remainder
	text := len(said) + len(ch.Type) + len(ch.Encoding) + len(ch.Digests.String()) + aroundLink*strings.Count(ch.Remainder, `"rel"`)
	return int64(around + text + 5*strings.Count(said, "&") + 5*strings.Count(said, "'"))
}

// tally counts the changes with after < Seq <= through. Later changes can be added to it.
type tally struct{ after, through, n int64 }
