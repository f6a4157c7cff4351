package publish

import (
	"iter"
	"strings"
	"time"

	"instep/internal/catalog"
)

// maxListBytes bounds the estimated size of a Change List. The standard allows 50 MB.
const maxListBytes = 45_000_000

// span is the range of changes of one Change List: those with after < Seq <= through.
type span struct {
	after, through int64
	from, until    time.Time // until is zero while the list is open
	entries        int64
	bytes          int64
	fresh          int64 // total length of the resources whose changes are in no earlier list
}

// number returns the number of the list, which is part of its name.
func (s span) number() int64 { return s.after + 1 }

// limits are the largest size and age of a Change List.
type limits struct {
	entries int64
	bytes   int64
	age     time.Duration // 0 is no limit

	links func(*catalog.Change) int64 // returns the length of the links that are added to the entry of a change; nil if none are added
}

// size returns an upper estimate of the length of a change in a Change List.
func (l *limits) size(ch *catalog.Change) int64 {
	if l.links == nil {
		return entryBytes(ch)
	}
	return entryBytes(ch) + l.links(ch)
}

// divide distributes changes over the open list and as many new lists as necessary. Changes
// up to number listed are in the open list already. Changes of one Record call have the
// same time and stay together. Such a call is so small that a full list with one more call
// is within the limits of the standard.
func divide(open span, listed int64, changes iter.Seq2[catalog.Change, error], l limits) ([]span, error) {
	d := divider{limits: l, spans: []span{open}}
	var call span // the changes of one Record call, which have the same time
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

// put puts changes into the open list.
func (d *divider) put(s span) {
	o := d.open()
	o.through = s.through
	o.entries += s.entries
	o.bytes += s.bytes
	o.fresh += s.fresh
}

// add puts the changes of one call into the open list, or into a new one.
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

// entryBytes returns an upper estimate of the length of a change in a Change List, without
// links that are added.
func entryBytes(ch *catalog.Change) int64 {
	const around = 350    // length of the names of elements and attributes, of datetimes and other short texts
	const aroundLink = 32 // approximate length by which a link element is longer than its form in a Remainder
	said := ch.URI + ch.Remainder
	text := len(said) + len(ch.Type) + len(ch.Encoding) + len(ch.Digests.String()) + aroundLink*strings.Count(ch.Remainder, `"rel"`)
	return int64(around + text + 5*strings.Count(said, "&") + 5*strings.Count(said, "'"))
}

// tally is the number n of changes with after < Seq <= through. A later count continues it.
type tally struct{ after, through, n int64 }
