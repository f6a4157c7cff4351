package source

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"

	"instep/resourcesync"
)

// maxFixedBytes is the largest estimated size of the Change List at a fixed name. The
// estimate is the total size of the Change Lists that it combines. Entries may become
// longer if the profile has changed, so maxFixedBytes is below the limit of the standard.
const maxFixedBytes = 45_000_000

// fixedChanges writes the Change List at a fixed name. It has the changes of the newest
// current Change Lists, as many as fit into one document. It is written after all other
// documents, so that its "up" link leads to documents that include its changes.
func (m *maker) fixedChanges(ctx context.Context, u Update) error {
	key := m.l.fixedChangeList()
	var lists []Item
	if m.policy.FixedChanges {
		var err error
		if lists, err = m.newestLists(ctx, u); err != nil {
			return err
		}
	}
	if m.pub.FixedChanges = 0; len(lists) == 0 {
		if m.last.FixedChanges != 0 {
			m.retire(key)
		}
		return nil
	}
	h := m.header(resourcesync.CapabilityChangeList)
	h.From = resourcesync.DatetimeOf(lists[0].From)
	m.pub.FixedChanges = lists[0].Number
	_, err := m.st.write(ctx, Document{Key: key, Rank: rankFixedChanges}, h, m.changesOf(ctx, lists, u))
	return err
}

// newestLists returns the Change Lists that the list at a fixed name combines, oldest
// first: the newest one, and earlier ones as long as they fit and their files are
// unchanged.
func (m *maker) newestLists(ctx context.Context, u Update) ([]Item, error) {
	current, err := m.currentLists(ctx)
	if err != nil || len(current) == 0 {
		return nil, err
	}
	first := len(current) - 1
	entries, bytes := current[first].Entries, current[first].Bytes
	for ; first > 0; first-- {
		it := &current[first-1]
		entries, bytes = entries+it.Entries, bytes+it.Bytes
		if entries > cmp.Or(m.p.fixedMax, resourcesync.MaxEntries) || bytes > maxFixedBytes {
			break
		}
		if windowOf(u, it) != nil {
			continue
		}
		unchanged, err := m.p.Wrote(ctx, it.Key)
		if err != nil {
			return nil, err
		}
		if !unchanged {
			break
		}
	}
	return current[first:], nil
}

// currentLists returns the current Change Lists. It may leave out those that had no room in
// the Change List at a fixed name when that list was last written.
func (m *maker) currentLists(ctx context.Context) ([]Item, error) {
	lists := slices.Clone(m.shelf.items[ItemChangeList])
	if !m.shelf.all {
		lists = nil
		for it, err := range m.p.Journal.Items(ctx, m.l.set, ItemChangeList, m.last.FixedChanges) {
			if err != nil {
				return nil, fmt.Errorf("reading the Change Lists: %w", err)
			}
			if now, ok := m.shelf.touched[it.id()]; ok {
				it = now
			}
			lists = append(lists, it)
		}
	}
	return slices.DeleteFunc(lists, func(it Item) bool { return !it.Current }), nil
}

func windowOf(u Update, it *Item) *Window {
	for i := range u.Changes {
		if u.Changes[i].Number == it.Number {
			return &u.Changes[i]
		}
	}
	return nil
}

// changesOf yields the changes in the given Change Lists, in the profile that the Policy
// now selects.
func (m *maker) changesOf(ctx context.Context, lists []Item, u Update) iter.Seq2[resourcesync.Entry, error] {
	return func(yield func(resourcesync.Entry, error) bool) {
		for i := range lists {
			changes := m.readChanges(ctx, lists[i].Key)
			if w := windowOf(u, &lists[i]); w != nil {
				changes = w.Changes
			}
			for en, err := range m.allInProfile(changes) {
				if !yield(en, err) {
					return
				}
			}
		}
	}
}

// readChanges reads the changes in one of our Change Lists. It converts them back from
// the profile in which the list was written.
func (m *maker) readChanges(ctx context.Context, key string) iter.Seq2[resourcesync.Entry, error] {
	return func(yield func(resourcesync.Entry, error) bool) {
		r, _, err := m.p.Bucket.Get(ctx, key, 0, -1)
		if err != nil {
			yield(resourcesync.Entry{}, fmt.Errorf("reading %q: %w", key, err))
			return
		}
		defer r.Close()
		for en, err := range resourcesync.NewDecoder(r).Entries() {
			if err != nil {
				err = fmt.Errorf("reading %q: %w", key, err)
			}
			if !yield(outOfProfile(en), err) {
				return
			}
		}
	}
}

// outOfProfile reverses the conversion of inProfile, as far as possible.
func outOfProfile(en resourcesync.Entry) resourcesync.Entry {
	switch {
	case en.Datetime.IsZero():
		en.LastMod, en.Datetime = resourcesync.Datetime{}, en.LastMod
	case en.LastMod == RoundedUp(en.Datetime):
		en.LastMod = resourcesync.Datetime{}
	}
	return en
}
