package source

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// shelf has the items of a set (lists, dumps, packages, maps and patches): those of this
// publication and, if they were loaded, those of earlier publications.
type shelf struct {
	all     bool                 // whether the lists and dumps of earlier publications were loaded
	places  map[ItemKind][]int64 // by kind, the numbers (Item.Archive) that the archived items had when they were loaded
	items   map[ItemKind][]Item
	touched map[ItemID]Item
	dropped []ItemID
}

func (it *Item) id() ItemID { return ItemID{it.Kind, it.Number} }

func (s *shelf) put(it Item) {
	if s.items == nil {
		s.items, s.touched = map[ItemKind][]Item{}, map[ItemID]Item{}
	}
	s.touched[it.id()] = it
	if it.Kind == ItemPackage || it.Kind == ItemPatch {
		return
	}
	of := s.items[it.Kind]
	at, found := slices.BinarySearchFunc(of, it.Number, func(a Item, n int64) int { return cmp.Compare(a.Number, n) })
	if found {
		of[at] = it
		return
	}
	s.items[it.Kind] = slices.Insert(of, at, it)
}

func (s *shelf) drop(it Item) {
	s.items[it.Kind] = slices.DeleteFunc(s.items[it.Kind], func(a Item) bool { return a.Number == it.Number })
	delete(s.touched, it.id())
	s.dropped = append(s.dropped, it.id())
}

// changes returns the items that were added or changed, sorted, and the ids of those
// that were removed.
func (s *shelf) changes() (items []Item, dropped []ItemID) {
	for _, it := range s.touched {
		items = append(items, it)
	}
	slices.SortFunc(items, func(a, b Item) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Number, b.Number))
	})
	return items, s.dropped
}

// history loads the lists and dumps of a set if the Update u may move one of them to an
// archive. An update that only adds to the last Change List needs none of them.
func (m *maker) history(ctx context.Context, u Update) error {
	goesOn := len(u.Changes) == 0 || len(u.Changes) == 1 && m.continuesLast(&u.Changes[0]) && u.Changes[0].Until.IsZero()
	if goesOn && u.Snapshot == nil && u.Dump == nil && !m.endsDumps(u) {
		return nil
	}
	m.shelf = shelf{all: true, places: map[ItemKind][]int64{}, items: map[ItemKind][]Item{}, touched: map[ItemID]Item{}}
	for _, kind := range ListKinds {
		for it, err := range m.p.Journal.Items(ctx, m.l.set, kind, 0) {
			if err != nil {
				return fmt.Errorf("reading the lists and dumps of the set: %w", err)
			}
			m.shelf.items[kind] = append(m.shelf.items[kind], it)
			if it.Archive > 0 {
				m.shelf.places[kind] = append(m.shelf.places[kind], it.Archive)
			}
		}
	}
	return nil
}

// continuesLast reports whether the Window w continues the last Change List, which the
// last publication left open.
func (m *maker) continuesLast(w *Window) bool {
	return w.Number == m.last.ChangesNumber && m.last.ChangesUntil.IsZero()
}

// PackagesOf returns the packages of a Change Dump. It returns none if dump is an item
// of another kind.
func PackagesOf(ctx context.Context, j Journal, set string, dump *Item) (packages []Item, err error) {
	if dump.Kind != ItemChangeDump || dump.Of == 0 {
		return nil, nil
	}
	for it, err := range j.Items(ctx, set, ItemPackage, dump.Of) {
		if err != nil {
			return nil, fmt.Errorf("reading the packages of Change Dump %d: %w", dump.Number, err)
		}
		if it.Of != dump.Number {
			break
		}
		packages = append(packages, it)
	}
	return packages, nil
}
