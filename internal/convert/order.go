package convert

import (
	"slices"

	"instep/resourcesync"
)

// compare orders times by the first moment that each includes. If that is equal, a time
// of reduced precision comes before a complete one. Unlike Datetime.Before, compare is a
// total order, and it never contradicts Before.
func compare(a, b resourcesync.Datetime) int {
	if n := a.Time().Compare(b.Time()); n != 0 {
		return n
	}
	switch {
	case b.Complete() && !a.Complete():
		return -1
	case a.Complete() && !b.Complete():
		return 1
	case a.Before(b):
		return -1
	case b.Before(a):
		return 1
	}
	return 0
}

// piece is an entry encoded for the result. It has the position of its bytes, and the
// values that decide whether the entry is written, and in which order.
type piece struct {
	start, size int64
	when        resourcesync.Datetime // the time by which the entries are sorted; may be absent
	path        resourcesync.Key      // the key of the entry's path in a package; "" if the entry has no path
	bitstream   resourcesync.Key      // the key of the entry's digests and length; "" unless it has both
	line        int
	part        string
}

// arrangement records how the order of entries was changed.
type arrangement uint8

const (
	kept arrangement = iota
	reversed
	sorted
)

// arrange sorts encoded entries by time. It reverses a list that has the newest entry
// first, and sorts any other list stably. An entry without a time stays after the entry
// that preceded it.
func arrange(pieces []piece) arrangement {
	if forward(pieces) {
		return kept
	}
	slices.Reverse(pieces)
	if forward(pieces) {
		return reversed
	}
	slices.Reverse(pieces)
	for i := 1; i < len(pieces); i++ {
		if pieces[i].when.IsZero() {
			pieces[i].when = pieces[i-1].when
		}
	}
	slices.SortStableFunc(pieces, func(a, b piece) int { return compare(a.when, b.when) })
	return sorted
}

// forward reports whether the entries are in the order that the standard requires: no
// time is before the previous one.
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

// clashes returns the indexes of entries that must be left out, because a later entry has
// the same path and another bitstream. A package has only one bitstream per path (1.1
// §13.2).
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
