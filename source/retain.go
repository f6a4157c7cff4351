package source

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"instep/resourcesync"
)

// offered has the lists and dumps of a set, by kind. Within each kind the oldest is first.
// The newest Resource List and Resource Dump are current; the newest Change List may still
// be open. A Change Dump has the same number as the Change List with the same changes.
type offered map[ItemKind][]Item

var (
	generationKinds = []ItemKind{ItemResourceList, ItemResourceDump}
	changeKinds     = []ItemKind{ItemChangeList, ItemChangeDump}

	// ListKinds are the kinds of lists and dumps that have archives.
	ListKinds = slices.Concat(generationKinds, changeKinds)
)

// retention decides how long lists and dumps are offered. Someone may read a Resource List
// or Resource Dump as long as it is current, readable or archived. All Change Lists with later
// changes are kept for that time.
type retention struct {
	now         time.Time
	keep        time.Duration // the minimum time for which a Resource List stays readable after a newer one has replaced it
	generations int           // the minimum number of Resource Lists, and of Resource Dumps, that stay readable
	keepChanges time.Duration
	archive     *Archive
	maxIndex    int // the largest number of Change Lists in an index; 0 means the limit of the standard
}

// retain decides which of the offered lists and dumps are current, and which ones are
// archived. It drops those that are no longer needed.
func (r *retention) retain(o offered) error {
	for _, kind := range generationKinds {
		r.supersede(o[kind])
	}
	r.expire(o)
	if err := r.trimIndex(o); err != nil {
		return err
	}
	for kind, items := range o {
		o[kind] = r.keptItems(items)
	}
	return nil
}

// supersede makes only the newest of several Resource Lists or Resource Dumps current. It
// archives those that were current before, unless the last archived one is less than
// Archive.Every older.
func (r *retention) supersede(items []Item) {
	for i := range items[:max(len(items)-1, 0)] {
		it := &items[i]
		if !it.Current {
			continue
		}
		it.Current, it.Since = false, r.now
		if r.archive == nil {
			continue
		}
		if last := lastArchived(items); last == nil || !it.At.Before(last.At.Add(r.archive.Every)) {
			it.Archive = nextPlace(items)
		}
	}
}

func lastArchived(items []Item) *Item {
	for i := len(items) - 1; i >= 0; i-- {
		if items[i].Archive > 0 {
			return &items[i]
		}
	}
	return nil
}

func nextPlace(items []Item) int64 {
	if last := lastArchived(items); last != nil {
		return last.Archive + 1
	}
	return 1
}

// expire removes lists and dumps from their archives if they are too old or too many. It
// begins with Resource Lists and Resource Dumps. A Change List or Change Dump is removed
// only if no reader of the remaining Resource Lists and Resource Dumps needs it.
func (r *retention) expire(o offered) {
	if r.archive == nil {
		for _, items := range o {
			for _, it := range inArchive(items) {
				it.Archive = 0
			}
		}
		return
	}
	for _, kind := range generationKinds {
		archived := inArchive(o[kind])
		for len(archived) > 0 && r.exceedsLimit(archived[0].At, len(archived)) {
			r.removeFromArchive(archived[0])
			archived = archived[1:]
		}
	}
	for _, kind := range changeKinds {
		needed := r.needed(o)
		archived := inArchive(o[kind])
		for len(archived) > 0 && !archived[0].Until.After(needed) && r.exceedsLimit(archived[0].Until, len(archived)) {
			r.removeFromArchive(archived[0])
			archived = archived[1:]
		}
	}
	r.shrink(o)
}

// exceedsLimit reports whether an archive with n lists or dumps exceeds a limit of age or
// count. oldest is the time of its first list or dump.
func (r *retention) exceedsLimit(oldest time.Time, n int) bool {
	a := r.archive
	return a.Age > 0 && r.now.Sub(oldest) > a.Age || a.Count > 0 && n > a.Count
}

func inArchive(items []Item) (archived []*Item) {
	for i := range items {
		if items[i].Archive > 0 {
			archived = append(archived, &items[i])
		}
	}
	return archived
}

// shrink removes the oldest lists and dumps from all archives until the rest is within
// the size limit. Change Lists and Change Dumps stay as long as readers need them.
// Resource Lists and Resource Dumps stay, too, if the archives will be small enough once
// readers no longer need those Change Lists and Change Dumps.
func (r *retention) shrink(o offered) {
	var queues [][]*Item
	var bytes int64
	for _, kind := range ListKinds {
		archived := inArchive(o[kind])
		for _, it := range archived {
			bytes += it.Bytes
		}
		queues = append(queues, archived)
	}
	for r.archive.Bytes > 0 && bytes > r.archive.Bytes {
		needed, enough := r.needed(o), bytes-r.bytesLeaving(o) <= r.archive.Bytes
		oldest := -1
		for i, q := range queues {
			if len(q) == 0 || q[0].At.IsZero() && q[0].Until.After(needed) || !q[0].At.IsZero() && enough {
				continue
			}
			if oldest < 0 || momentOf(q[0]).Before(momentOf(queues[oldest][0])) {
				oldest = i
			}
		}
		if oldest < 0 {
			return // the archives stay too large, because readers still need the rest
		}
		it := queues[oldest][0]
		r.removeFromArchive(it)
		queues[oldest] = queues[oldest][1:]
		bytes -= it.Bytes
	}
}

// bytesLeaving returns the total size of the archived Change Lists and Change Dumps that
// will soon be removed. Until then they are kept for readers of a Resource List or Resource
// Dump that has already left its archive.
func (r *retention) bytesLeaving(o offered) (bytes int64) {
	stay := r.oldest(o, func(it *Item, readable bool) bool { return readable || it.Archive > 0 })
	for _, kind := range changeKinds {
		for _, it := range inArchive(o[kind]) {
			if !it.Until.After(stay) {
				bytes += it.Bytes
			}
		}
	}
	return bytes
}

// removeFromArchive removes a list or dump from its archive. A Resource List or Resource
// Dump stays recorded for a while, because readers that have found it in the archive may
// still need the changes after it.
func (r *retention) removeFromArchive(it *Item) {
	it.Archive = 0
	if !it.At.IsZero() {
		it.Archive, it.Since = -1, r.now
	}
}

// momentOf returns the time of a Resource List or Resource Dump, or the end of the
// period of a Change List or Change Dump.
func momentOf(it *Item) time.Time {
	if it.At.IsZero() {
		return it.Until
	}
	return it.At
}

// needed returns the earliest time from which readers may need changes. It is the time
// of the oldest Resource List or Resource Dump that is readable, archived, or was
// removed from its archive recently.
func (r *retention) needed(o offered) time.Time {
	return r.oldest(o, func(it *Item, readable bool) bool { return readable || it.Archive > 0 || r.leftRecently(it) })
}

// leftRecently reports whether a Resource List or Resource Dump was removed from its
// archive so recently that readers may still need the changes after it. Nothing is kept for
// them if archives were switched off.
func (r *retention) leftRecently(it *Item) bool {
	return r.archive != nil && it.Archive < 0 && r.now.Sub(it.Since) < r.keep
}

func (r *retention) oldest(o offered, counts func(it *Item, readable bool) bool) time.Time {
	oldest := r.now
	for _, kind := range generationKinds {
		items := o[kind]
		for i := range items {
			if counts(&items[i], r.readable(items, i)) && items[i].At.Before(oldest) {
				oldest = items[i].At
			}
		}
	}
	return oldest
}

// readable reports whether the ith Resource List or Resource Dump is current, or is so
// recent that readers may still be downloading it.
func (r *retention) readable(items []Item, i int) bool {
	return items[i].Current || i >= len(items)-r.generations || items[i].Archive >= 0 && r.now.Sub(items[i].Since) < r.keep
}

// trimIndex removes the oldest Change Lists from the index of current Change Lists, if they
// have been in the index long enough. With them it removes the Change Dumps of the same
// changes.
func (r *retention) trimIndex(o offered) error {
	readable := r.oldest(o, func(_ *Item, readable bool) bool { return readable })
	needed := r.needed(o)
	changes := o[ItemChangeList]
	current := slices.IndexFunc(changes, func(it Item) bool { return it.Current })
	if current < 0 {
		return nil
	}
	limit := cmp.Or(r.maxIndex, resourcesync.MaxEntries)
	for ; current < len(changes)-1; current++ {
		it := &changes[current]
		old := r.now.Sub(it.Since) >= r.keepChanges || len(changes)-current > limit
		free := !it.Until.After(readable) && (it.Archive > 0 || !it.Until.After(needed))
		if !old || !free {
			break
		}
		it.Current = false
	}
	if n := len(changes) - current; n > limit {
		return fmt.Errorf("%w: there are %d since the oldest Resource List or Resource Dump with which readers may begin, expected at most %d (publish a new Resource List)", ErrIndexFull, n, limit)
	}
	for i := range o[ItemChangeDump] {
		if it := &o[ItemChangeDump][i]; it.Number < changes[current].Number {
			it.Current = false
		}
	}
	return nil
}

func (r *retention) keptItems(items []Item) []Item {
	var left []Item
	for i := range items {
		it := &items[i]
		if it.Current || it.Archive > 0 || !it.At.IsZero() && (r.readable(items, i) || r.leftRecently(it)) {
			left = append(left, *it)
		}
	}
	return left
}
