package source

import (
	"maps"
	"slices"

	"instep/resourcesync"
)

// Aliases are the keys that the documents of a publication had when another program
// wrote them, before this program took the publication over. Each publication also
// writes copies of its documents to these keys, since readers know them. All fields may
// be empty.
type Aliases struct {
	// Descriptions are the keys at which copies of the Source Description are written.
	// Capability Lists link to the first copy with rel="up", since readers know the
	// Source by the URI of that copy.
	Descriptions []string              `json:"descriptions,omitempty"`
	Sets         map[string]SetAliases `json:"sets,omitempty"` // by name
}

// SetAliases are the additional keys of the documents of one set.
type SetAliases struct {
	// CapabilityList is the key by which readers know the set. The Source Description
	// and the lists of the set link to it instead of the usual key. It is "" if there is
	// no such key.
	CapabilityList string   `json:"capability_list,omitempty"`
	ResourceLists  []string `json:"resource_lists,omitempty"` // keys of copies of the Resource List or its index
	ChangeLists    []string `json:"change_lists,omitempty"`   // keys of copies of the Change List or of the index of Change Lists
}

// keys returns all additional keys of the set.
func (a SetAliases) keys() []string {
	keys := slices.Concat(a.ResourceLists, a.ChangeLists)
	if a.CapabilityList != "" {
		keys = append(keys, a.CapabilityList)
	}
	return keys
}

// AllKeys returns the additional keys of all sets and of the Source Description.
func (a Aliases) AllKeys() []string {
	keys := slices.Clone(a.Descriptions)
	for _, name := range slices.Sorted(maps.Keys(a.Sets)) {
		keys = append(keys, a.Sets[name].keys()...)
	}
	return keys
}

// IsZero reports whether there are no additional keys.
func (a Aliases) IsZero() bool { return len(a.AllKeys()) == 0 }

// setOf returns the name of the set whose Capability List has the given additional key.
func (a Aliases) setOf(key string) (name string, ok bool) {
	for name, set := range a.Sets {
		if key != "" && set.CapabilityList == key {
			return name, true
		}
	}
	return "", false
}

// Keys returns the additional keys of one set and of the Source Description.
func (a Aliases) Keys(set string) []string {
	return slices.Concat(a.Descriptions, a.Sets[set].keys())
}

// descriptionURI returns the URI by which readers know the Source: that of the first
// additional key of the Source Description, or of its usual key if there is none.
func (l layout) descriptionURI() string {
	if len(l.aliases.Descriptions) > 0 {
		return l.uri(l.aliases.Descriptions[0])
	}
	return l.uri(descriptionKey)
}

// capabilityListURI returns the URI by which readers know the set: that of the
// additional key of its Capability List, or of the usual key if there is none.
func (l layout) capabilityListURI() string {
	if key := l.aliases.Sets[l.set].CapabilityList; key != "" {
		return l.uri(key)
	}
	return l.uri(l.capabilityList())
}

// copies adds copies of this publication's documents at the additional keys that readers
// know.
func (m *maker) copies() {
	set := m.l.aliases.Sets[m.l.set]
	m.copyTo(descriptionKey, m.l.aliases.Descriptions)
	if set.CapabilityList != "" {
		m.copyTo(m.l.capabilityList(), []string{set.CapabilityList})
	}
	m.copyTo(m.key(resourcesync.CapabilityResourceList), set.ResourceLists)
	m.copyTo(m.key(resourcesync.CapabilityChangeList), set.ChangeLists)
}

// key returns the key of the document to which the Capability List links for the
// capability c.
func (m *maker) key(c resourcesync.Capability) string {
	return m.pub.Offer(c)[min(len(m.l.base), len(m.pub.Offer(c))):]
}

// copyTo adds copies, at the given keys, of the document whose key is of. It does
// nothing if this publication does not write that document.
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
