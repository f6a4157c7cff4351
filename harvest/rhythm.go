package harvest

import (
	"slices"
	"time"
)

// rhythm measures how often a Change List grows, by the datetimes of its entries.
type rhythm struct {
	last time.Time
	gaps []time.Duration // the latest
}

// together is how close changes are that were published together.
const together = 10 * time.Second

// maxGaps is how many gaps a rhythm is made of.
const maxGaps = 32

// add takes the time of an entry. Those close to each other were published together.
func (b *rhythm) add(t time.Time) {
	gap := t.Sub(b.last).Abs()
	if gap < together {
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

// gap is the median; 0 if there is none.
func (b *rhythm) gap() time.Duration {
	if len(b.gaps) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(b.gaps))[len(b.gaps)/2]
}

// Rhythm is how long the Change List last read was the same between two changes, as a rule,
// and for how long its server says that it does not change; 0: unknown.
func (ch *Changes) Rhythm() (gap, maxAge time.Duration) {
	if ch == nil || ch.newest == nil {
		return 0, 0
	}
	return ch.newest.rhythm.gap(), ch.newest.maxAge
}
