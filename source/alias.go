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
	// Descriptions are the keys of the copies of the Source Description. The "up" link of
	// each Capability List has the URI of the first copy, because readers have stored that
	// URI as the URI of the Source.
	Descriptions []string              `json:"descriptions,omitempty"`
	Sets         map[string]SetAliases `json:"sets,omitempty"` // by name
}

// SetAliases are the additional keys of the documents of one set.
type SetAliases struct {
	// CapabilityList is the key at which the other program wrote the Capability List. The
	// Source Description and the lists of the set link to this key instead of the usual
	// one. It is "" if the other program wrote no Capability List.
	CapabilityList string   `json:"capability_list,omitempty"`
	ResourceLists  []string `json:"resource_lists,omitempty"` // keys of copies of the Resource List or its index
	ChangeLists    []string `json:"change_lists,omitempty"`   // keys of copies of the Change List or of the index of Change Lists
}

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

// descriptionURI returns the URI of the first additional key of the Source Description. If
// there is none, it returns the URI of the usual key.
func (l layout) descriptionURI() string {
	if len(l.aliases.Descriptions) > 0 {
		return l.uri(l.aliases.Descriptions[0])
	}
	return l.uri(descriptionKey)
}

// capabilityListURI returns the URI of the additional key of the set's Capability List. If
// there is none, it returns the URI of the usual key.
func (l layout) capabilityListURI() string {
	if key := l.aliases.Sets[l.set].CapabilityList; key != "" {
		return l.uri(key)
	}
	return l.uri(l.capabilityList())
}

// addCopies adds copies of this publication's documents at their additional keys.
func (m *maker) addCopies() {
	set := m.l.aliases.Sets[m.l.set]
	m.copyTo(descriptionKey, m.l.aliases.Descriptions)
	if set.CapabilityList != "" {
		m.copyTo(m.l.capabilityList(), []string{set.CapabilityList})
	}
	m.copyTo(m.offeredKey(resourcesync.CapabilityResourceList), set.ResourceLists)
	m.copyTo(m.offeredKey(resourcesync.CapabilityChangeList), set.ChangeLists)
}

// offeredKey returns the key of the document to which the Capability List links for the
// capability c.
func (m *maker) offeredKey(c resourcesync.Capability) string {
	return m.pub.Offer(c)[min(len(m.l.base), len(m.pub.Offer(c))):]
}

// copyTo adds copies, at the given keys, of the document whose key is original. It does
// nothing if this publication does not write that document.
func (m *maker) copyTo(original string, keys []string) {
	d, ok := m.st.find(original)
	if !ok {
		return
	}
	for _, key := range keys {
		if _, written := m.st.find(key); !written {
			m.st.copy(original, Document{Key: key, Rank: max(d.Rank, rankFixed)})
		}
	}
}
