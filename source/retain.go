package source

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"instep/resourcesync"
)

// offered lists the items of a set by kind, oldest first within each kind. The newest
// Resource List and Resource Dump are current; the newest Change List may be open. A Change
// Dump has the same number as its Change List.
type offered map[ItemKind][]Item

var (
	generationKinds = []ItemKind{ItemResourceList, ItemResourceDump}
	changeKinds     = []ItemKind{ItemChangeList, ItemChangeDump}

	// ListKinds are the kinds of the items that archives list.
	ListKinds = slices.Concat(generationKinds, changeKinds)
)

// retention is the policy of retain. It guarantees that the current and archived Change
// Lists have every change since the oldest Resource List or Resource Dump that is current,
// still readable or archived.
type retention struct {
	now         time.Time
	keep        time.Duration // minimum time that a superseded Resource List stays readable
	generations int           // minimum number of generations of each kind that stay readable
	keepChanges time.Duration
	archive     *Archive
	maxIndex    int // limit of Change Lists in an index; 0 is the limit of the standard
}

// retain decides which items of o are current and which are archived. It removes items from
// o that are neither.
func (r *retention) retain(o offered) error {
	for _, kind := range generationKinds {
		r.supersede(o[kind])
	}
	r.expire(o)
	if err := r.leaveIndex(o); err != nil {
		return err
	}
	for kind, items := range o {
		o[kind] = r.withoutGone(items)
	}
	return nil
}

// supersede makes only the newest generation current. It archives older ones if the
// minimum interval between archived generations has passed.
func (r *retention) supersede(of []Item) {
	for i := range of[:max(len(of)-1, 0)] {
		it := &of[i]
		if !it.Current {
			continue
		}
		it.Current, it.Since = false, r.now
		if r.archive == nil {
			continue
		}
		if last := lastArchived(of); last == nil || !it.At.Before(last.At.Add(r.archive.Every)) {
			it.Archive = nextPlace(of)
		}
	}
}

func lastArchived(of []Item) *Item {
	for i := len(of) - 1; i >= 0; i-- {
		if of[i].Archive > 0 {
			return &of[i]
		}
	}
	return nil
}

func nextPlace(of []Item) int64 {
	if last := lastArchived(of); last != nil {
		return last.Archive + 1
	}
	return 1
}

// expire removes items from the archives that are too old or too many: generations
// first, then the Change Lists and Change Dumps that no generation needs any more.
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
		for len(archived) > 0 && r.tooMany(archived[0].At, len(archived)) {
			r.leave(archived[0])
			archived = archived[1:]
		}
	}
	for _, kind := range changeKinds {
		needed := r.needed(o)
		archived := inArchive(o[kind])
		for len(archived) > 0 && !archived[0].Until.After(needed) && r.tooMany(archived[0].Until, len(archived)) {
			r.leave(archived[0])
			archived = archived[1:]
		}
	}
	r.shrink(o)
}

// tooMany reports whether the oldest of n archived items, with the given time, must leave
// the archive.
func (r *retention) tooMany(at time.Time, n int) bool {
	a := r.archive
	return a.Age > 0 && r.now.Sub(at) > a.Age || a.Count > 0 && n > a.Count
}

func inArchive(of []Item) (archived []*Item) {
	for i := range of {
		if of[i].Archive > 0 {
			archived = append(archived, &of[i])
		}
	}
	return archived
}

// shrink drops the oldest items of all archives until the rest is below the size limit, or
// will be below it when readers no longer need some of the rest.
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
		needed, enough := r.needed(o), bytes-r.leaving(o) <= r.archive.Bytes
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
			return // readers still need the rest
		}
		it := queues[oldest][0]
		r.leave(it)
		queues[oldest] = queues[oldest][1:]
		bytes -= it.Bytes
	}
}

// leaving returns the bytes of archived changes that are kept only for readers of a
// generation that has left the archive.
func (r *retention) leaving(o offered) (bytes int64) {
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

// leave takes an item out of its archive. A generation stays recorded for a while, because
// readers that found it in the archive may still need later changes.
func (r *retention) leave(it *Item) {
	it.Archive = 0
	if !it.At.IsZero() {
		it.Archive, it.Since = -1, r.now
	}
}

// momentOf returns the time of a snapshot, or the end of a Change List's period.
func momentOf(it *Item) time.Time {
	if it.At.IsZero() {
		return it.Until
	}
	return it.At
}

// needed returns the earliest time from which readers may need changes: that of the oldest
// Resource List or Resource Dump that is readable or archived, or has recently left an
// archive.
func (r *retention) needed(o offered) time.Time {
	return r.oldest(o, func(it *Item, readable bool) bool { return readable || it.Archive > 0 || r.leftOnly(it) })
}

// leftOnly reports whether a generation has recently left an archive that still exists.
// Without an archive, the Change Lists that its readers would need no longer exist.
func (r *retention) leftOnly(it *Item) bool {
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

// readable reports whether generation i is current or readers may still be reading it.
func (r *retention) readable(of []Item, i int) bool {
	return of[i].Current || i >= len(of)-r.generations || of[i].Archive >= 0 && r.now.Sub(of[i].Since) < r.keep
}

// leaveIndex removes Change Lists that have been current long enough from the index,
// oldest first, together with their Change Dumps.
func (r *retention) leaveIndex(o offered) error {
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

// withoutGone removes items that are not current, not archived and no longer readable.
func (r *retention) withoutGone(of []Item) []Item {
	var left []Item
	for i := range of {
		it := &of[i]
		if it.Current || it.Archive > 0 || !it.At.IsZero() && (r.readable(of, i) || r.leftOnly(it)) {
			left = append(left, *it)
		}
	}
	return left
}
