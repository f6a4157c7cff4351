package source

import (
	"context"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"
)

// Maps are the Resource Maps of a set, which describe Aggregations of resources, and the
// documents that list these maps. The caller provides functions that encode them. A
// Publisher publishes a map only if it has changed, and retires a map that All no longer
// yields.
type Maps struct {
	All iter.Seq2[Map, error] // this sequence is read once; each Map is used only until the next one is yielded
	// Lists are the documents that list the maps. They are written again when a map was
	// added, changed or removed. After the last map was removed they are written once
	// more, without maps, and the next publication retires them. The first one is the
	// Sitemap of the maps.
	Lists []MapList
	// Links returns link elements for the HTML pages; if nil, there are none.
	Links func(all []MapState) []PageLink
}

// Map is a Resource Map, in one or more formats.
type Map struct {
	Name  string // the name of the map, which no other map of the set has
	Sum   Sum    // a digest of the content; as long as it is the same, the map is not written again
	Files []MapFile
}

// MapFile is a Resource Map in one format. Name is one path segment in lower case. The
// function Write encodes the map, with the given modification time.
type MapFile struct {
	Name  string
	Write func(w io.Writer, changed time.Time) error
}

// MapList is a document that lists the maps of a set. The function Write encodes the
// document. It is called with the maps, in the order of Maps.All, and with the time at which
// a map was last added, changed or removed.
type MapList struct {
	Name  string
	Write func(w io.Writer, maps []MapState, changed time.Time) error
}

// MapState is a published map.
type MapState struct {
	Name    string
	Files   []string // URIs
	Changed time.Time
}

// PageLink is a link element in an HTML page for people.
type PageLink struct{ Rel, Href, Type, Title string }

// MapURI returns the URI of a Resource Map file of a set.
func MapURI(base, set, name string) string {
	l := layout{base: base, set: set}
	return l.uri(l.mapFile(name))
}

// mapsSitemapName is the name of the Sitemap of the maps. The Sitemap is in the directory
// of the maps, since a Sitemap may list only URIs of its own directory (ORE alpha §2.2).
const mapsSitemapName = "sitemap.xml"

// maps writes those Resource Maps that have changed, and the documents that list the
// maps.
func (m *maker) maps(ctx context.Context, u Update) error {
	if u.Maps == nil {
		return nil
	}
	before, err := m.mapItems(ctx)
	if err != nil {
		return err
	}
	// The new time must be later than the last one even in RSS, which has only whole seconds.
	changed := m.pub.Made.Truncate(time.Second)
	if !changed.After(m.last.MapsChanged) {
		changed = m.last.MapsChanged.Add(time.Second)
	}
	var all []MapState
	anew := false
	for one, err := range u.Maps.All {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("making the Resource Maps: %w", err)
		}
		it, fresh, err := m.oneMap(ctx, &one, before[one.Name], changed)
		if err != nil {
			return err
		}
		anew = anew || fresh
		delete(before, one.Name)
		all = append(all, MapState{Name: one.Name, Files: m.uris(it.Keys), Changed: it.At})
	}
	for _, it := range before {
		m.shelf.drop(it)
		m.retire(it.Keys...)
		anew = true
	}
	return m.mapLists(ctx, u.Maps, all, anew, changed)
}

func (m *maker) mapItems(ctx context.Context) (map[string]Item, error) {
	items := map[string]Item{}
	for it, err := range m.p.Journal.Items(ctx, m.l.set, ItemMap, 0) {
		if err != nil {
			return nil, fmt.Errorf("reading the published Resource Maps: %w", err)
		}
		items[it.Key] = it
	}
	return items, nil
}

// oneMap writes the files of a map if the map has changed or a file is missing. It returns
// written=true if it has done so.
func (m *maker) oneMap(ctx context.Context, one *Map, was Item, changed time.Time) (it Item, written bool, err error) {
	keys := make([]string, len(one.Files))
	for i, f := range one.Files {
		keys[i] = m.l.mapFile(f.Name)
	}
	if was.SHA256 == one.Sum && slices.Equal(was.Keys, keys) {
		gone, err := m.anyAbsent(ctx, keys...)
		if err != nil || !gone {
			return was, false, err
		}
	}
	it = Item{Kind: ItemMap, Number: was.Number, Key: one.Name, Keys: keys, SHA256: one.Sum, At: changed}
	if it.Number == 0 {
		m.newMaps++
		it.Number = PackageNumber(m.pub.ID, m.newMaps)
	}
	for i, f := range one.Files {
		write := func(w io.Writer) error { return f.Write(w, changed) }
		if err := m.st.add(ctx, Document{Key: keys[i], Rank: rankMaps}, write); err != nil {
			return it, true, err
		}
	}
	m.shelf.put(it)
	m.retire(subtract(was.Keys, keys)...)
	return it, true, nil
}

// mapLists writes the documents that list the maps, and records the links for the HTML
// pages.
func (m *maker) mapLists(ctx context.Context, maps *Maps, all []MapState, anew bool, changed time.Time) error {
	var keys []string
	if len(all) > 0 || anew {
		for _, l := range maps.Lists {
			keys = append(keys, m.l.mapFile(l.Name))
		}
	}
	gone, err := m.anyAbsent(ctx, keys...)
	if err != nil || !anew && !gone && slices.Equal(keys, m.last.MapListKeys) {
		return err
	}
	m.pub.MapsChanged = changed
	for i, key := range keys {
		write := func(w io.Writer) error { return maps.Lists[i].Write(w, all, changed) }
		if err := m.st.add(ctx, Document{Key: key, Rank: rankMapLists}, write); err != nil {
			return err
		}
	}
	m.retire(subtract(m.last.MapListKeys, keys)...)
	m.pub.MapListKeys, m.pub.PageLinks = keys, nil
	if len(all) > 0 && maps.Links != nil {
		m.pub.PageLinks = maps.Links(all)
	}
	return nil
}

func (m *maker) uris(keys []string) []string {
	uris := make([]string, len(keys))
	for i, key := range keys {
		uris[i] = m.l.uri(key)
	}
	return uris
}

func subtract(keys, others []string) (left []string) {
	for _, key := range keys {
		if !slices.Contains(others, key) {
			left = append(left, key)
		}
	}
	return left
}
