package resourcesync

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
)

// Metadata has the attributes of an rs:md element (1.1 §7). The zero value of a field means
// that the attribute is absent. At, Completed, From and Until describe a document: in the
// root, the document itself, and in an entry, the document that is listed. Change and all
// fields after it occur only in entries.
type Metadata struct {
	Capability Capability
	At         Datetime // snapshots: all resources are listed as they were at this moment or later (1.1 §7)
	Completed  Datetime // snapshots: the moment at which the snapshot was complete
	From       Datetime // lists of changes: the start of the period whose changes are listed
	Until      Datetime // lists of changes: the end of this period; absent while changes may be added

	Change   Change
	Datetime Datetime // the time of the change
	Digests  Digests  // digests of the representation; documents have them in hexadecimal (1.1 §7)
	Length   Length   // of the representation
	Type     string   // media type
	Encoding string   // content coding
	Path     string   // path of the member in its package, with a leading slash

	Attrs []Attr
}

func (m *Metadata) isZero() bool {
	return m.Capability == "" && m.At.IsZero() && m.Completed.IsZero() && m.From.IsZero() && m.Until.IsZero() &&
		m.Change == "" && m.Datetime.IsZero() && len(m.Digests) == 0 && !m.Length.Known() &&
		m.Type == "" && m.Encoding == "" && m.Path == "" && len(m.Attrs) == 0
}

// EntryAttributes returns the names of the attributes in m that only entries may have (1.1
// Table 3).
func (m *Metadata) EntryAttributes() (names []string) {
	for _, a := range []struct {
		name string
		set  bool
	}{
		{"change", m.Change != ""}, {"datetime", !m.Datetime.IsZero()}, {"hash", len(m.Digests) > 0},
		{"length", m.Length.Known()}, {"type", m.Type != ""}, {"encoding", m.Encoding != ""}, {"path", m.Path != ""},
	} {
		if a.set {
			names = append(names, a.name)
		}
	}
	return names
}

// merge adds the attributes of other to m. If both have different values of an
// attribute, merge returns the name of the attribute, and m must not be used any more.
// Otherwise it returns "".
func (m *Metadata) merge(other *Metadata) (differs string) {
	mergeValue(&differs, "capability", &m.Capability, other.Capability)
	mergeValue(&differs, "at", &m.At, other.At)
	mergeValue(&differs, "completed", &m.Completed, other.Completed)
	mergeValue(&differs, "from", &m.From, other.From)
	mergeValue(&differs, "until", &m.Until, other.Until)
	mergeValue(&differs, "change", &m.Change, other.Change)
	mergeValue(&differs, "datetime", &m.Datetime, other.Datetime)
	mergeValue(&differs, "length", &m.Length, other.Length)
	mergeValue(&differs, "type", &m.Type, other.Type)
	mergeValue(&differs, "encoding", &m.Encoding, other.Encoding)
	mergeValue(&differs, "path", &m.Path, other.Path)
	switch {
	case len(m.Digests) == 0:
		m.Digests = other.Digests
	case len(other.Digests) > 0 && !slices.Equal(m.Digests, other.Digests):
		differs = "hash"
	}
	for _, a := range other.Attrs {
		i := slices.IndexFunc(m.Attrs, func(b Attr) bool { return b.Space == a.Space && b.Name == a.Name })
		switch {
		case i < 0:
			m.Attrs = append(m.Attrs, a)
		case m.Attrs[i] != a:
			differs = a.Name
		}
	}
	return differs
}

func mergeValue[T comparable](differs *string, name string, mine *T, other T) {
	var nothing T
	switch {
	case other == nothing:
	case *mine == nothing:
		*mine = other
	case *mine != other:
		*differs = name
	}
}

// MaxRemainder is the largest length in bytes of the text of a Remainder that programs
// store.
const MaxRemainder = 16 << 10

// Remainder has the fields of an Entry that a program does not need to copy a resource, but
// passes on to the readers of the copy (1.1 §7, §14): all fields except the URI, the times,
// and the fields that describe the bytes, such as the length.
//
// [Remainder.Text] is JSON with the names in the struct tags. A new attribute of rs:md
// becomes a field of Remainder, and a new attribute of rs:ln a field of Link.
type Remainder struct {
	Encoding   string     `json:"encoding,omitempty"`
	ChangeFreq ChangeFreq `json:"changefreq,omitempty"`
	Priority   Priority   `json:"priority,omitzero"`
	Links      []Link     `json:"links,omitempty"`
	Attrs      []Attr     `json:"attributes,omitempty"` // of rs:md
	Foreign    string     `json:"foreign,omitempty"`
}

// Remainder returns the fields of the entry that belong to a Remainder. It sorts attributes
// by name, because their order has no meaning in XML. The Remainder shares memory with the
// entry.
func (e *Entry) Remainder() Remainder {
	r := Remainder{e.Encoding, e.ChangeFreq, e.Priority, e.Links, byName(e.Attrs), e.Foreign}
	if slices.ContainsFunc(r.Links, func(l Link) bool { return !slices.IsSortedFunc(l.Attrs, compareAttrs) }) {
		r.Links = slices.Clone(r.Links)
		for i := range r.Links {
			r.Links[i].Attrs = byName(r.Links[i].Attrs)
		}
	}
	return r
}

func byName(attrs []Attr) []Attr {
	if slices.IsSortedFunc(attrs, compareAttrs) {
		return attrs
	}
	return slices.SortedFunc(slices.Values(attrs), compareAttrs)
}

func compareAttrs(a, b Attr) int {
	return cmp.Or(cmp.Compare(a.Space, b.Space), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Value, b.Value))
}

// SetRemainder sets the fields of the entry that belong to a Remainder. It clears those
// that are empty in r.
func (e *Entry) SetRemainder(r Remainder) {
	e.Encoding, e.ChangeFreq, e.Priority, e.Links, e.Attrs, e.Foreign = r.Encoding, r.ChangeFreq, r.Priority, r.Links, r.Attrs, r.Foreign
}

// IsZero reports whether r is empty.
func (r *Remainder) IsZero() bool {
	return r.Encoding == "" && r.ChangeFreq == "" && r.Priority.IsZero() && len(r.Links) == 0 && len(r.Attrs) == 0 && r.Foreign == ""
}

// Text returns the Remainder as JSON; "" if it is empty. Equal remainders have the same
// text.
func (r *Remainder) Text() (string, error) {
	if r.IsZero() {
		return "", nil
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(r); err != nil {
		return "", fmt.Errorf("encode links and other attributes: %w", err)
	}
	return string(bytes.TrimSuffix(b.Bytes(), []byte("\n"))), nil
}

// ParseRemainder parses a text that [Remainder.Text] returned. It skips unknown members
// of the JSON object, because later versions may add members.
func ParseRemainder(text string) (r Remainder, err error) {
	if text == "" {
		return r, nil
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return Remainder{}, fmt.Errorf("decode stored links and other attributes: %w", err)
	}
	return r, nil
}
