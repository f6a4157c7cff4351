package convert

import (
	"slices"

	"instep/resourcesync"
)

// compare orders times by their first moment. A time of reduced precision comes before
// the complete time with the same first moment. Unlike Datetime.Before this is a total
// order; the two agree.
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

// piece is an entry of the result: where its bytes are, and the data that determine
// whether and where it is written.
type piece struct {
	start, size int64
	when        resourcesync.Datetime // time by which pieces are sorted; may be absent
	path        resourcesync.Key      // key of its path in a package; "" if it has none
	bitstream   resourcesync.Key      // key of its digests and length; "" unless both are stated
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

// arrange sorts pieces by time. A list with the newest entry first is reversed,
// including entries with equal times; others are sorted stably. A piece without a time
// stays behind its predecessor.
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

// forward reports whether the pieces are in the order that the standard requires: none
// is before its predecessor.
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

// clashes returns the indexes of pieces whose path a later piece uses for another
// bitstream: a package has only one bitstream per path (1.1 §13.2).
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
