package convert

import (
	"slices"

	"instep/resourcesync"
)

// compare orders times by their first moment; a time of reduced precision comes
// before the complete one that begins with it. Unlike Datetime.Before, for which
// times may be neither before nor after each other, it orders any times at all, and
// times in this order are never out of order by that.
func compare(a, b resourcesync.Datetime) int {
	if n := a.Time().Compare(b.Time()); n != 0 {
		return n
	}
	switch {
	case a.Complete() != b.Complete():
		if b.Complete() {
			return -1
		}
		return 1
	case a.Before(b):
		return -1
	case b.Before(a):
		return 1
	}
	return 0
}

// piece is an entry of the result: where its bytes are, and what decides whether
// and where it is written.
type piece struct {
	start, size int64
	when        resourcesync.Datetime // the key of the order; may be absent
	path        resourcesync.Key      // of its path in a package, or ""
	bitstream   resourcesync.Key      // of its digests and length, "" unless both are stated
	line        int
	part        string
}

// arrangement is what was done to the order of entries.
type arrangement uint8

const (
	kept arrangement = iota
	reversed
	sorted
)

// arrange puts pieces into forward order of time. Those that were newest first are
// reversed, so that among equal times the order is reversed too; others are sorted,
// and equal times stay as they were. A piece without a time stays behind the one it
// followed.
func arrange(pieces []piece) arrangement {
	if forward(pieces) {
		return kept
	}
	slices.Reverse(pieces)
	if forward(pieces) {
		return reversed
	}
	slices.Reverse(pieces)
	old := slices.Clone(pieces)
	keys, order := make([]resourcesync.Datetime, len(old)), make([]int, len(old))
	var last resourcesync.Datetime
	for i := range old {
		if !old[i].when.IsZero() {
			last = old[i].when
		}
		keys[i], order[i] = last, i
	}
	slices.SortStableFunc(order, func(i, j int) int { return compare(keys[i], keys[j]) })
	for to, from := range order {
		pieces[to] = old[from]
	}
	return sorted
}

// forward reports whether no time is before the one that precedes it, as the
// standard means it: what it does not find out of order stays as it is.
func forward(pieces []piece) bool {
	var last resourcesync.Datetime
	for i := range pieces {
		if pieces[i].when.IsZero() {
			continue
		}
		if pieces[i].when.Before(last) {
			return false
		}
		last = pieces[i].when
	}
	return true
}

// clashes returns the pieces, in order, whose path a later one gives to another
// bitstream: a package has only one at each (1.1 §13.2).
func clashes(pieces []piece) []int {
	var out []int
	holders := map[resourcesync.Key][]int{}
	for i := range pieces {
		p := &pieces[i]
		if p.path == "" {
			continue
		}
		before := holders[p.path]
		if len(before) > 0 && (p.bitstream == "" || p.bitstream != pieces[before[0]].bitstream) {
			out = append(out, before...)
			before = nil
		}
		holders[p.path] = append(before, i)
	}
	slices.Sort(out)
	return out
}
