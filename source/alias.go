package source

import (
	"maps"
	"slices"

	"instep/resourcesync"
)

// Aliases are additional keys under which other programs already know the documents of
// an adopted publication. Each publication writes byte copies of its documents there.
// All fields may be empty.
type Aliases struct {
	// Descriptions are the keys of copies of the Source Description. The up link of
	// Capability Lists leads to the first, since readers know the Source by that URI.
	Descriptions []string              `json:"descriptions,omitempty"`
	Sets         map[string]SetAliases `json:"sets,omitempty"` // by name
}

// SetAliases are the aliases of one set.
type SetAliases struct {
	// CapabilityList is the key by which readers know the set. The Source Description
	// and the lists of the set link to it. Empty if there is none.
	CapabilityList string   `json:"capability_list,omitempty"`
	ResourceLists  []string `json:"resource_lists,omitempty"` // keys of copies of the Resource List or its index
	ChangeLists    []string `json:"change_lists,omitempty"`   // keys of copies of the Change List or of the index of Change Lists
}

// keys returns all aliases of the set.
func (a SetAliases) keys() []string {
	keys := slices.Concat(a.ResourceLists, a.ChangeLists)
	if a.CapabilityList != "" {
		keys = append(keys, a.CapabilityList)
	}
	return keys
}

// AllKeys returns the aliases of all sets and of the Source Description.
func (a Aliases) AllKeys() []string {
	keys := slices.Clone(a.Descriptions)
	for _, name := range slices.Sorted(maps.Keys(a.Sets)) {
		keys = append(keys, a.Sets[name].keys()...)
	}
	return keys
}

// IsZero reports whether there are no aliases.
func (a Aliases) IsZero() bool { return len(a.AllKeys()) == 0 }

// setOf returns the name of the set whose Capability List has the given key as its alias.
func (a Aliases) setOf(key string) (name string, ok bool) {
	for name, set := range a.Sets {
		if key != "" && set.CapabilityList == key {
			return name, true
		}
	}
	return "", false
}

// Keys returns the aliases of a set and of the Source Description.
func (a Aliases) Keys(set string) []string {
	return slices.Concat(a.Descriptions, a.Sets[set].keys())
}

// descriptionURI returns the URI of the Source Description, or its alias by which readers
// know the Source.
func (l layout) descriptionURI() string {
	if len(l.aliases.Descriptions) > 0 {
		return l.uri(l.aliases.Descriptions[0])
	}
	return l.uri(descriptionKey)
}

// capabilityListURI returns the URI of the Capability List, or its alias by which readers
// know the set.
func (l layout) capabilityListURI() string {
	if key := l.aliases.Sets[l.set].CapabilityList; key != "" {
		return l.uri(key)
	}
	return l.uri(l.capabilityList())
}

// copies writes copies of this publication's documents to their aliases.
func (m *maker) copies() {
	set := m.l.aliases.Sets[m.l.set]
	m.copyTo(descriptionKey, m.l.aliases.Descriptions)
	if set.CapabilityList != "" {
		m.copyTo(m.l.capabilityList(), []string{set.CapabilityList})
	}
	m.copyTo(m.key(resourcesync.CapabilityResourceList), set.ResourceLists)
	m.copyTo(m.key(resourcesync.CapabilityChangeList), set.ChangeLists)
}

// key returns the key of the document that the Capability List links for a capability.
func (m *maker) key(c resourcesync.Capability) string {
	return m.pub.Offer(c)[min(len(m.l.base), len(m.pub.Offer(c))):]
}

// copyTo adds copies of a document at keys, if this publication writes that document.
func (m *maker) copyTo(of string, keys []string) {
	d, ok := m.st.find(of)
	if !ok {
		return
	}
	for _, key := range keys {
		if _, written := m.st.find(key); !written {
			m.st.copy(of, Document{Key: key, Rank: max(d.Rank, rankFixed)})
		}
	}
}
