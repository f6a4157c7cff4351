package source

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"instep/resourcesync"
)

// snapshot writes the Resource List and the plain sitemap, if the Update has a Snapshot.
func (m *maker) snapshot(ctx context.Context, u Update) error {
	s := u.Snapshot
	if s == nil {
		return nil
	}
	all := members{all: s.Resources}
	list := m.l.resourceList(m.pub.ID)
	h := m.header(resourcesync.CapabilityResourceList)
	h.At, h.Completed = resourcesync.DatetimeOf(s.At), resourcesync.DatetimeOf(s.Completed)
	keys, n, err := m.series(ctx, h, Document{Key: list, Rank: rankList, Immutable: true}, Document{Key: list, Rank: rankParts, Immutable: true}, all.listEntries)
	if err != nil {
		return err
	}
	m.st.copy(list, Document{Key: m.l.fixedResourceList(), Rank: rankFixed})
	m.offer(resourcesync.CapabilityResourceList, list)
	m.pub.Resources, m.pub.Bytes, m.pub.ListKeys = n, all.bytes, keys
	m.pub.ListAt, m.pub.ListThrough = s.At.UTC(), s.Through
	m.pub.Generations = append(slices.Clone(m.last.Generations), m.pub.ID)
	if extra := len(m.pub.Generations) - m.p.generations(); extra > 0 {
		m.pub.Generations = m.pub.Generations[extra:]
	}
	m.shelf.put(Item{
		Kind: ItemResourceList, Number: m.pub.ID, Key: list, Keys: keys, At: s.At.UTC(), Completed: s.Completed.UTC(),
		Through: s.Through, Entries: n, Bytes: m.st.length(keys), Current: true, Since: m.pub.Made,
	})
	return m.sitemap(ctx, all.sitemapEntries)
}

// members reads the resources of a snapshot. It keeps their sitemap entries in memory if
// these fit into one sitemap, so that most sets are read once and not twice.
type members struct {
	all   iter.Seq2[resourcesync.Entry, error]
	bytes int64 // the total length of the resources that listEntries has yielded
	n     int
	kept  []plainMember // the entries for the plain sitemap; nil if there are more than resourcesync.MaxEntries
}

type plainMember struct {
	loc     string
	lastMod resourcesync.Datetime
}

// listEntries yields the entries for the Resource List. Each call begins again at the
// first entry.
func (s *members) listEntries(yield func(resourcesync.Entry, error) bool) {
	s.bytes, s.n, s.kept = 0, 0, s.kept[:0]
	for en, err := range s.all {
		s.bytes += max(en.Length.Int64(), 0)
		if s.n++; s.n <= resourcesync.MaxEntries {
			s.kept = append(s.kept, plainMember{en.Loc, en.LastMod})
		} else {
			s.kept = nil
		}
		if !yield(en, err) {
			return
		}
	}
}

// sitemapEntries yields the entries for the plain sitemap. It must be called after
// listEntries.
func (s *members) sitemapEntries(yield func(resourcesync.Entry, error) bool) {
	if s.n > len(s.kept) {
		converted(s.all, func(en resourcesync.Entry) resourcesync.Entry {
			return resourcesync.Entry{Loc: en.Loc, LastMod: en.LastMod}
		})(yield)
		return
	}
	for _, p := range s.kept {
		if !yield(resourcesync.Entry{Loc: p.loc, LastMod: p.lastMod}, nil) {
			return
		}
	}
}

// sitemap writes the plain sitemap. Its entries have only a URL and lastmod, because
// search engines reject elements that they do not know.
func (m *maker) sitemap(ctx context.Context, entries iter.Seq2[resourcesync.Entry, error]) error {
	foreign, err := m.isForeign(ctx, m.l.sitemap(false))
	if err != nil {
		return err
	}
	key := m.l.sitemap(foreign)
	if foreign {
		m.pub.Notes = append(m.pub.Notes, fmt.Sprintf("%q was not written by us and stays unchanged: the sitemap is written to %q", sitemapName, key))
	}
	// Parts are in the directory of the sitemap, since a sitemap may list only URIs below its
	// own directory.
	part := Document{Key: fmt.Sprintf("%s-%d.xml", strings.TrimSuffix(key, ".xml"), m.pub.ID), Rank: rankParts, Immutable: true}
	keys, _, err := m.series(ctx, resourcesync.Header{}, Document{Key: key, Rank: rankFixed}, part, entries)
	if err != nil {
		return err
	}
	m.retire(subtract(m.last.SitemapKeys, keys)...)
	m.pub.SitemapKeys = keys
	return nil
}

func (m *maker) isForeign(ctx context.Context, key string) (bool, error) {
	_, err := m.p.compareStored(ctx, Document{Key: key, Length: -1}) // no file has the length -1, so none counts as equal
	if errors.As(err, new(*NotOursError)) {
		return true, nil
	}
	return false, err
}
