package source

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"

	"instep/resourcesync"
)

// RelOnDemand is the relation of a link from a Capability List to the URI of a handler
// that makes packages on demand. It is an extension of Instep: standard readers skip
// unknown relations (1.1 §7).
const RelOnDemand = "urn:x-instep:packages-on-demand"

// description writes the Source Description if its content has changed, and the page about
// the Source if its content may have changed. If that page shows how many resources each
// set has, every publication rewrites it.
func (m *maker) description(ctx context.Context, _ Update) error {
	var err error
	if m.pub.SourceSum, err = m.sourceSum(); err != nil {
		return err
	}
	keys := append([]string{descriptionKey, aboutKey, wellKnownKey}, m.l.aliases.Descriptions...)
	gone, err := m.anyAbsent(ctx, keys...)
	if err != nil {
		return err
	}
	anew := gone || m.last.ID == 0 || m.pub.SourceSum != m.last.SourceSum
	if !anew && len(m.p.Sets) > maxCountedSets {
		return nil
	}
	sets, err := m.sets(ctx)
	if err != nil {
		return err
	}
	if anew {
		if err := m.describe(ctx, sets); err != nil {
			return err
		}
	}
	return m.aboutSource(ctx, sets)
}

// sourceSum returns a digest of the settings on which the Source Description and the page
// about the Source depend.
func (m *maker) sourceSum() (Sum, error) {
	sets := slices.Sorted(slices.Values(m.p.Sets))
	text, err := json.Marshal([]any{m.p.BaseURL, m.p.Generator, m.p.About, m.p.MaxEntries, sets})
	return Sum(sha256.Sum256(text)), err
}

// describe writes the Source Description, which links to the Capability List of each set
// (1.1 §8), and a copy for the well-known URI (1.1 §6.3). If the base URL is not the root
// of its host, the copy has the well-known path below the base URL, where many readers look
// as well.
func (m *maker) describe(ctx context.Context, sets []string) error {
	h := resourcesync.Header{Links: []resourcesync.Link{{Rel: resourcesync.RelDescribedBy, Href: m.l.uri(aboutKey)}}}
	h.Capability = resourcesync.CapabilityDescription
	keys, _, err := m.series(ctx, h, Document{Key: descriptionKey, Rank: rankDescription}, Document{Key: descriptionKey, Rank: rankDescriptionParts}, listed(m.capabilityLists(sets)))
	if err != nil {
		return err
	}
	if err := m.wellKnown(ctx); err != nil {
		return err
	}
	for n := len(keys); ; n++ { // retire the parts of an earlier Source Description that had more sets
		key := partKey(descriptionKey, int64(n))
		_, ours, err := m.p.Journal.Document(ctx, key)
		if err != nil || !ours {
			return err
		}
		m.retire(key)
	}
}

// wellKnown writes the copy of the Source Description at its well-known path. If the base
// URL has a path, this copy is optional. In that case a file that another program wrote at
// the well-known path stays.
func (m *maker) wellKnown(ctx context.Context) error {
	if !m.l.atRoot() {
		foreign, err := m.isForeign(ctx, wellKnownKey)
		if err != nil {
			return err
		}
		if foreign {
			m.pub.Notes = append(m.pub.Notes, fmt.Sprintf("%q was not written by us and stays unchanged: readers find the Source Description at %s", wellKnownKey, m.l.descriptionURI()))
			return nil
		}
	}
	m.st.copy(descriptionKey, Document{Key: wellKnownKey, Rank: rankDescription})
	return nil
}

func (m *maker) capabilityLists(sets []string) (entries []resourcesync.Entry) {
	for _, set := range sets {
		l := m.p.layout(set)
		entries = append(entries, resourcesync.Entry{
			Loc:      l.capabilityListURI(),
			Metadata: resourcesync.Metadata{Capability: resourcesync.CapabilityCapabilityList},
			Links:    []resourcesync.Link{{Rel: resourcesync.RelDescribedBy, Href: l.uri(l.page())}},
		})
	}
	return entries
}

// sets returns the sorted names of the sets for the Source Description: the set of this
// publication, and the configured sets that were published before.
func (m *maker) sets(ctx context.Context) ([]string, error) {
	published, err := m.p.Journal.Sets(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the names of the sets: %w", err)
	}
	ours := map[string]bool{m.l.set: true}
	for _, set := range m.p.Sets {
		ours[set] = true
	}
	names := []string{m.l.set}
	for _, set := range published {
		if ours[set] {
			names = append(names, set)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}
