package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"instep/blob"
	"instep/resourcesync"
)

type maker struct {
	p      *Publisher
	l      layout
	policy Policy
	st     *stage
	last   Publication
	pub    Publication // the new publication, whose fields the steps of make set
	shelf  shelf

	marked   bool // whether the mark for the packages was written; see markName
	packages int  // the number of packages of Change Dumps so far
	newMaps  int  // the number of new Resource Maps
}

// preview reports whether the maker works for Preview, which stores no documents.
func (m *maker) preview() bool { return m.st.batch == nil }

// make returns the publication that follows from the Update u. It writes the new and changed
// documents into the stage st. All other documents stay unchanged.
func (p *Publisher) make(ctx context.Context, st *stage, last Publication, id int64, u Update) (Publication, error) {
	m := &maker{p: p, l: p.layout(u.Set), policy: u.Policy, st: st, last: last, pub: last}
	m.pub.ID, m.pub.Set, m.pub.Made = id, u.Set, p.Now().UTC().Truncate(time.Microsecond)
	m.pub.Retired, m.pub.Items, m.pub.Dropped, m.pub.Notes, m.pub.Written = nil, nil, nil, nil, nil
	m.pub.Offers, m.pub.About = slices.Clone(last.Offers), u.Policy.About
	steps := []func(context.Context, Update) error{
		m.info, m.history, m.patches, m.changes, m.snapshot, m.dump, m.maps, m.applyRetention, m.capabilityList, m.aboutSet, m.description, m.fixedChanges,
	}
	for _, step := range steps {
		if err := step(ctx, u); err != nil {
			return Publication{}, err
		}
	}
	m.addCopies()
	slices.SortStableFunc(st.docs, func(a, b Document) int { return a.Rank - b.Rank })
	m.pub.Documents = st.docs
	m.pub.Items, m.pub.Dropped = m.shelf.changes()
	return m.pub, nil
}

// header returns the header of a document with the given capability. It has the "up" link
// and, if an archive of such documents exists, a link to that archive (Archives §2.2).
func (m *maker) header(c resourcesync.Capability) resourcesync.Header {
	h := m.l.header(c)
	if uri := m.last.Offer(c + archiveSuffix); uri != "" {
		h.Links = append(h.Links, resourcesync.Link{Rel: resourcesync.RelArchives, Href: uri})
	}
	return h
}

// header returns the header of a document with the given capability. It has an "up" link to
// the Capability List of the set.
func (l layout) header(c resourcesync.Capability) resourcesync.Header {
	h := resourcesync.Header{Links: []resourcesync.Link{{Rel: resourcesync.RelUp, Href: l.capabilityListURI()}}}
	h.Capability = c
	return h
}

// offer makes the Capability List link to the document at key for the capability c.
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

func (m *maker) withdraw(c resourcesync.Capability) {
	m.pub.Offers = slices.DeleteFunc(m.pub.Offers, func(o Offer) bool { return o.Capability == c })
}

// retire records that no document links any more to the documents at the given keys.
// Sweep may later remove them.
func (m *maker) retire(keys ...string) { m.pub.Retired = append(m.pub.Retired, keys...) }

func (m *maker) anyAbsent(ctx context.Context, keys ...string) (bool, error) {
	missing, err := Absent(ctx, m.p.Bucket, keys...)
	return len(missing) > 0, err
}

// Absent returns those of the given keys at which a bucket has nothing, not even a file
// that another program has written.
func Absent(ctx context.Context, b blob.Bucket, keys ...string) (missing []string, err error) {
	for _, key := range keys {
		_, err := b.Stat(ctx, key)
		switch {
		case errors.Is(err, blob.ErrNotExist):
			missing = append(missing, key)
		case err != nil && !errors.Is(err, blob.ErrForeign):
			return nil, fmt.Errorf("looking at %q: %w", key, err)
		}
	}
	return missing, nil
}

// capabilityList writes the Capability List of the set (1.1 §9).
func (m *maker) capabilityList(ctx context.Context, _ Update) error {
	h := resourcesync.Header{Links: []resourcesync.Link{
		{Rel: resourcesync.RelUp, Href: m.l.descriptionURI()},
		{Rel: resourcesync.RelDescribedBy, Href: m.l.uri(m.l.page())},
	}}
	if m.policy.OnDemand != "" {
		h.Links = append(h.Links, resourcesync.Link{Rel: RelOnDemand, Href: m.policy.OnDemand})
	}
	h.Capability = resourcesync.CapabilityCapabilityList
	var entries []resourcesync.Entry
	for _, o := range m.pub.Offers {
		entries = append(entries, resourcesync.Entry{Loc: o.URI, Metadata: resourcesync.Metadata{Capability: o.Capability}})
	}
	return m.writeShort(ctx, Document{Key: m.l.capabilityList(), Rank: rankCapability}, h, entries)
}

func (m *maker) writeShort(ctx context.Context, doc Document, h resourcesync.Header, entries []resourcesync.Entry) error {
	_, err := m.st.write(ctx, doc, h, listed(entries))
	return err
}

func (m *maker) info(ctx context.Context, _ Update) error {
	return m.st.add(ctx, Document{Key: infoKey, Rank: rankInfo}, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(PublicationInfo{Format: infoFormat, State: m.p.UUID, BaseURL: m.p.BaseURL, Aliases: m.p.Aliases})
	})
}
