package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"

	"instep/blob"
	"instep/resourcesync"
)

// maker makes the documents of one publication.
type maker struct {
	p    *Publisher
	l    layout
	st   *stage
	last Publication
	pub  Publication // what is made so far

	placer *placer // nil in a preview
}

// preview reports whether nothing is kept of what is made.
func (m *maker) preview() bool { return m.placer == nil }

// make writes the documents that u changes into st and returns the publication
// that they are: what u does not speak of is carried over from last.
func (p *Publisher) make(ctx context.Context, st *stage, last Publication, id int64, u Update) (Publication, error) {
	m := &maker{p: p, l: p.layout(u.Set), st: st, last: last, pub: last}
	if st.batch != nil {
		m.placer = &placer{p: p, l: m.l, id: id}
	}
	m.pub.ID, m.pub.Set, m.pub.Made = id, u.Set, p.Now().UTC().Truncate(time.Microsecond)
	m.pub.Retired, m.pub.Items, m.pub.Dropped, m.pub.Notes, m.pub.Written = nil, nil, nil, nil, nil
	m.pub.Offers = slices.Clone(last.Offers)
	steps := []func() error{
		func() error { return m.info(ctx) },
		func() error { return m.about(ctx) },
		func() error { return m.changes(ctx, u) },
		func() error { return m.snapshot(ctx, u.Snapshot) },
		func() error { return m.capabilityList(ctx) },
		func() error { return m.description(ctx) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return Publication{}, err
		}
	}
	slices.SortStableFunc(st.docs, func(a, b Document) int { return a.Rank - b.Rank })
	m.pub.Documents = st.docs
	return m.pub, nil
}

func (m *maker) up() resourcesync.Link {
	return resourcesync.Link{Rel: "up", Href: m.l.uri(m.l.capabilityList())}
}

func (m *maker) describedBy() resourcesync.Link {
	return resourcesync.Link{Rel: "describedby", Href: m.l.uri(aboutKey)}
}

// changes makes the Change Lists of u.
func (m *maker) changes(ctx context.Context, u Update) error {
	for i := range u.Changes {
		w := &u.Changes[i]
		doc := Document{Key: m.l.changeList(w.Number), Rank: rankChanges, Immutable: !w.Until.IsZero()}
		n, err := m.changeList(ctx, doc, w)
		if err != nil {
			return err
		}
		m.pub.Items = append(m.pub.Items, Item{
			Kind: ItemChangeList, Number: w.Number, Key: doc.Key, From: w.From.UTC(), Until: w.Until.UTC(),
			Through: w.Through, Entries: n, Current: true,
		})
		m.offer(resourcesync.CapabilityChangeList, doc.Key)
		m.pub.Changes = n
		m.pub.ChangesNumber, m.pub.ChangesFrom, m.pub.ChangesThrough = w.Number, w.From.UTC(), w.Through
	}
	return nil
}

// offer makes the document at key the one of a capability.
func (m *maker) offer(c resourcesync.Capability, key string) {
	uri := m.l.uri(key)
	for i := range m.pub.Offers {
		if m.pub.Offers[i].Capability == c {
			m.pub.Offers[i].URI = uri
			return
		}
	}
	m.pub.Offers = append(m.pub.Offers, Offer{c, uri})
}

// changeList makes one Change List (1.1 §12.1).
func (m *maker) changeList(ctx context.Context, doc Document, w *Window) (int64, error) {
	h := resourcesync.Header{Links: []resourcesync.Link{m.up()}}
	h.Capability, h.From = resourcesync.CapabilityChangeList, resourcesync.DatetimeOf(w.From)
	if !w.Until.IsZero() {
		h.Until = resourcesync.DatetimeOf(w.Until)
	}
	n, err := m.st.write(ctx, doc, h, w.Changes)
	if errors.Is(err, resourcesync.ErrFull) {
		err = fmt.Errorf("%w: %w", ErrChangesFull, err)
	}
	return n, err
}

// snapshot makes the Resource List and the plain sitemap: two views of one state.
func (m *maker) snapshot(ctx context.Context, s *Snapshot) error {
	if s == nil {
		return nil
	}
	keys, n, err := m.resourceList(s).write(ctx, s.Resources)
	if err != nil {
		return err
	}
	list := m.l.resourceList(m.pub.ID)
	m.st.copy(list, Document{Key: m.l.fixedResourceList(), Rank: rankFixed})
	m.offer(resourcesync.CapabilityResourceList, list)
	m.pub.Resources = n
	m.pub.ListAt, m.pub.ListThrough = s.At.UTC(), s.Through
	m.pub.Generations = append(slices.Clone(m.last.Generations), m.pub.ID)
	if extra := len(m.pub.Generations) - m.p.generations(); extra > 0 {
		m.pub.Generations = m.pub.Generations[extra:]
	}
	m.retire(m.last.ListKeys, keys)
	m.pub.ListKeys = keys
	return m.sitemap(ctx, s)
}

func (m *maker) retire(old, now []string) {
	for _, key := range old {
		if !slices.Contains(now, key) {
			m.pub.Retired = append(m.pub.Retired, key)
		}
	}
}

// resourceList is the Resource List of s, or its index and parts (1.1 §10). The
// parts are of one moment, so the at of the index, the oldest of theirs, is that.
func (m *maker) resourceList(s *Snapshot) *series {
	h := resourcesync.Header{Links: []resourcesync.Link{m.up()}}
	h.Capability, h.At = resourcesync.CapabilityResourceList, resourcesync.DatetimeOf(s.At)
	if !s.Completed.IsZero() {
		h.Completed = resourcesync.DatetimeOf(s.Completed)
	}
	return &series{
		stage: m.st, max: m.p.MaxEntries, header: h, uri: m.l.uri,
		whole: Document{Key: m.l.resourceList(m.pub.ID), Rank: rankList, Immutable: true},
		part: func(n int) Document {
			return Document{Key: m.l.resourceListPart(m.pub.ID, n), Rank: rankParts, Immutable: true}
		},
	}
}

// sitemap makes the plain sitemap of s: URLs and lastmod alone, as search engines
// reject elements that they do not know.
func (m *maker) sitemap(ctx context.Context, s *Snapshot) error {
	foreign, err := m.foreignSitemap(ctx)
	if err != nil {
		return err
	}
	key := m.l.sitemap(foreign)
	if foreign {
		m.pub.Notes = append(m.pub.Notes, fmt.Sprintf("%q was not written by us and stays as it is: the sitemap goes to %q", sitemapName, key))
	}
	plain := series{
		stage: m.st, max: m.p.MaxEntries, uri: m.l.uri,
		whole: Document{Key: key, Rank: rankFixed},
		part: func(n int) Document {
			return Document{Key: sitemapPart(key, m.pub.ID, n), Rank: rankParts, Immutable: true}
		},
	}
	keys, _, err := plain.write(ctx, plainEntries(s.Resources))
	if err != nil {
		return err
	}
	m.retire(m.last.SitemapKeys, keys)
	m.pub.SitemapKeys = keys
	return nil
}

func plainEntries(all iter.Seq2[resourcesync.Entry, error]) iter.Seq2[resourcesync.Entry, error] {
	return func(yield func(resourcesync.Entry, error) bool) {
		for en, err := range all {
			if !yield(resourcesync.Entry{Loc: en.Loc, LastMod: en.LastMod}, err) {
				return
			}
		}
	}
}

// foreignSitemap reports whether a sitemap that we did not write is in our way.
func (m *maker) foreignSitemap(ctx context.Context) (bool, error) {
	key := m.l.sitemap(false)
	last, ours, err := m.p.Journal.Document(ctx, key)
	if err != nil {
		return false, fmt.Errorf("looking up %q: %w", key, err)
	}
	if !ours {
		_, err := m.p.Bucket.Stat(ctx, key)
		if errors.Is(err, blob.ErrNotExist) {
			return false, nil
		}
		if err != nil && !errors.Is(err, blob.ErrForeign) {
			return false, fmt.Errorf("looking at %q: %w", key, err)
		}
		return true, nil
	}
	_, err = m.p.standing(ctx, last)
	var foreign *NotOursError
	if errors.As(err, &foreign) {
		return true, nil
	}
	return false, err
}

// capabilityList names what the set offers (1.1 §9).
func (m *maker) capabilityList(ctx context.Context) error {
	h := resourcesync.Header{Links: []resourcesync.Link{{Rel: "up", Href: m.l.uri(descriptionKey)}, m.describedBy()}}
	h.Capability = resourcesync.CapabilityCapabilityList
	var entries []resourcesync.Entry
	for _, o := range m.pub.Offers {
		entries = append(entries, resourcesync.Entry{Loc: o.URI, Metadata: resourcesync.Metadata{Capability: o.Capability}})
	}
	return m.short(ctx, Document{Key: m.l.capabilityList(), Rank: rankCapability}, h, entries)
}

// description names the Capability List of each set (1.1 §8); a copy lies where
// readers look first (1.1 §6.3), if the base URL has a say there.
func (m *maker) description(ctx context.Context) error {
	h := resourcesync.Header{Links: []resourcesync.Link{m.describedBy()}}
	h.Capability = resourcesync.CapabilityDescription
	sets, err := m.sets(ctx)
	if err != nil {
		return err
	}
	var entries []resourcesync.Entry
	for _, set := range sets {
		l := m.p.layout(set)
		entries = append(entries, resourcesync.Entry{
			Loc:      l.uri(l.capabilityList()),
			Metadata: resourcesync.Metadata{Capability: resourcesync.CapabilityCapabilityList},
			Links:    []resourcesync.Link{m.describedBy()},
		})
	}
	if err := m.short(ctx, Document{Key: descriptionKey, Rank: rankDescription}, h, entries); err != nil {
		return err
	}
	if m.l.atRoot() {
		m.st.copy(descriptionKey, Document{Key: wellKnownKey, Rank: rankDescription})
	}
	return nil
}

func (m *maker) short(ctx context.Context, doc Document, h resourcesync.Header, entries []resourcesync.Entry) error {
	_, err := m.st.write(ctx, doc, h, func(yield func(resourcesync.Entry, error) bool) {
		for _, en := range entries {
			if !yield(en, nil) {
				return
			}
		}
	})
	return err
}

// sets returns the names of the sets that are published, this one among them, in order.
func (m *maker) sets(ctx context.Context) ([]string, error) {
	names := []string{m.l.set}
	for _, set := range m.p.Sets {
		if slices.Contains(names, set) {
			continue
		}
		last, done, err := m.p.Journal.Last(ctx, set)
		if err != nil {
			return nil, fmt.Errorf("reading the last publication of set %q: %w", set, err)
		}
		if last.ID != 0 && done {
			names = append(names, set)
		}
	}
	slices.Sort(names)
	return names, nil
}

func (m *maker) info(ctx context.Context) error {
	return m.st.add(ctx, Document{Key: infoKey, Rank: rankInfo}, func(w io.Writer) error {
		return PublicationInfo{Format: infoFormat, State: m.p.UUID, BaseURL: m.p.BaseURL}.write(w)
	})
}

// about makes the page for people that the documents link as describedby.
func (m *maker) about(ctx context.Context) error {
	sets, err := m.sets(ctx)
	if err != nil {
		return err
	}
	page := aboutPage{BaseURL: m.p.BaseURL, Generator: m.p.Generator, Description: m.l.uri(descriptionKey)}
	for _, set := range sets {
		l := m.p.layout(set)
		page.Sets = append(page.Sets, aboutSet{Name: set, CapabilityList: l.uri(l.capabilityList())})
	}
	return m.st.add(ctx, Document{Key: aboutKey, Rank: rankPages}, page.write)
}
