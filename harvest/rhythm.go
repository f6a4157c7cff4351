package harvest

import (
	"slices"
	"time"
)

// rhythm measures how often a Change List grows, from the datetimes of its entries.
type rhythm struct {
	last time.Time
	gaps []time.Duration // times between the last consecutive changes, at most maxGaps of them
}

// publishedTogether is the time between two changes below which they count as published
// together.
const publishedTogether = 10 * time.Second

// maxGaps is the maximum number of times between two changes from which a rhythm is
// computed.
const maxGaps = 32

// add adds the time of an entry, unless the entry was published together with the
// previous one.
func (b *rhythm) add(t time.Time) {
	gap := t.Sub(b.last).Abs()
	if gap < publishedTogether {
		return
	}
	if !b.last.IsZero() {
		if len(b.gaps) == maxGaps {
			b.gaps = slices.Delete(b.gaps, 0, 1)
		}
		b.gaps = append(b.gaps, gap)
	}
	b.last = t
}

// gap returns the median time between two changes; 0 if it is unknown.
func (b *rhythm) gap() time.Duration {
	if len(b.gaps) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(b.gaps))[len(b.gaps)/2]
}

// Rhythm returns the usual time between two changes of the Change List that was read
// last, and how long its response may be cached. 0 means unknown.
func (ch *Changes) Rhythm() (gap, maxAge time.Duration) {
	if ch == nil || ch.newest == nil {
		return 0, 0
	}
	return ch.newest.rhythm.gap(), ch.newest.maxAge
}
