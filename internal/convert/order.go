package convert

import (
	"slices"

	"instep/resourcesync"
)

// compare orders times by the first moment that each includes. If these moments are equal,
// a time of reduced precision comes before a complete one. Unlike Datetime.Before, compare
// is a total order, and it never contradicts Before.
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

// encodedEntry is the position of an encoded entry in a temporary file, with the values that
// decide whether and in which order the entry is copied to the result.
type encodedEntry struct {
	start, size int64
	when        resourcesync.Datetime // the time by which the entries are sorted; may be absent
	path        resourcesync.Key      // the key of the entry's path in a package; "" if the entry has no path
	bitstream   resourcesync.Key      // the key of the entry's digests and length; "" if the entry lacks one of the two
	line        int
	part        string
}

type arrangement uint8

const (
	kept arrangement = iota
	reversed
	sorted
)

// sortByTime reverses a list that has the newest entry first, and sorts any other list stably.
// An entry without a time stays after the entry that preceded it.
func sortByTime(entries []encodedEntry) arrangement {
	if oldestFirst(entries) {
		return kept
	}
	slices.Reverse(entries)
	if oldestFirst(entries) {
		return reversed
	}
	slices.Reverse(entries)
	for i := 1; i < len(entries); i++ {
		if entries[i].when.IsZero() {
			entries[i].when = entries[i-1].when
		}
	}
	slices.SortStableFunc(entries, func(a, b encodedEntry) int { return compare(a.when, b.when) })
	return sorted
}

// oldestFirst reports whether the entries are in the order that the standard requires.
func oldestFirst(entries []encodedEntry) bool {
	var last resourcesync.Datetime
	for i := range entries {
		if entries[i].when.IsZero() {
			continue
		}
		if entries[i].when.Before(last) {
			return false
		}
		last = entries[i].when
	}
	return true
}

// replacedEntries returns the indexes of entries that must be left out, because a later entry
// has the same path and another bitstream. A package has only one bitstream per path (1.1
// §13.2).
func replacedEntries(entries []encodedEntry) []int {
	var out []int
	holders := map[resourcesync.Key][]int{}
	for i := range entries {
		p := &entries[i]
		if p.path == "" {
			continue
		}
		before := holders[p.path]
		if len(before) > 0 && (p.bitstream == "" || p.bitstream != entries[before[0]].bitstream) {
			out = append(out, before...)
			before = nil
		}
		holders[p.path] = append(before, i)
	}
	slices.Sort(out)
	return out
}
