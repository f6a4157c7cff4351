package resourcesync

import (
	"fmt"
	"strconv"
	"strings"
)

// Root is the root element of a document (1.1 §7).
type Root uint8

// Values of Root.
const (
	URLSet       Root = iota // <urlset>: entries are resources, capabilities, packages or bitstreams
	SitemapIndex             // <sitemapindex>: entries are other documents of the same capability
)

// Capability is the value of rs:md/@capability of a root element (1.1 §7): the purpose of a
// document.
type Capability string

// The capabilities of 1.1 §5 and of Archives §3.
const (
	CapabilityDescription          Capability = "description"
	CapabilityCapabilityList       Capability = "capabilitylist"
	CapabilityResourceList         Capability = "resourcelist"
	CapabilityResourceDump         Capability = "resourcedump"
	CapabilityResourceDumpManifest Capability = "resourcedump-manifest"
	CapabilityChangeList           Capability = "changelist"
	CapabilityChangeDump           Capability = "changedump"
	CapabilityChangeDumpManifest   Capability = "changedump-manifest"
	CapabilityResourceListArchive  Capability = "resourcelist-archive"
	CapabilityResourceDumpArchive  Capability = "resourcedump-archive"
	CapabilityChangeListArchive    Capability = "changelist-archive"
	CapabilityChangeDumpArchive    Capability = "changedump-archive"
)

// Known reports whether the standard defines the capability. A Decoder also accepts other
// capabilities, because communities may define their own (1.1 §9).
func (c Capability) Known() bool {
	_, known := demands[c]
	return known
}

// Change is the value of rs:md/@change (1.1 §12.1).
type Change string

// Values of Change.
const (
	Created Change = "created"
	Updated Change = "updated"
	Deleted Change = "deleted"
)

// ChangeFreq is the content of the element "changefreq" (1.1 §7): a hint how often a
// resource changes.
type ChangeFreq string

// Values of ChangeFreq in the Sitemap protocol.
const (
	Always  ChangeFreq = "always"
	Hourly  ChangeFreq = "hourly"
	Daily   ChangeFreq = "daily"
	Weekly  ChangeFreq = "weekly"
	Monthly ChangeFreq = "monthly"
	Yearly  ChangeFreq = "yearly"
	Never   ChangeFreq = "never"
)

// Known reports whether the Sitemap protocol defines the value.
func (c ChangeFreq) Known() bool {
	switch c {
	case Always, Hourly, Daily, Weekly, Monthly, Yearly, Never:
		return true
	}
	return false
}

// Priority is the content of the Sitemap element "priority", a number from 0.0 to 1.0, as
// it was written. This package only stores it. The zero value means that there is no such
// element. Values can be compared with ==.
type Priority struct{ text string }

// ParsePriority parses a decimal number from 0.0 to 1.0.
func ParsePriority(s string) (Priority, error) {
	p := Priority{strings.Trim(s, xmlSpace)}
	if !isDecimal(p.text) || p.Float64() > 1 {
		return Priority{}, fmt.Errorf("priority %q: expected a number from 0.0 to 1.0", clip(s))
	}
	return p, nil
}

// IsZero reports whether the priority is absent.
func (p Priority) IsZero() bool { return p.text == "" }

// Float64 returns the number, or 0 if the priority is absent.
func (p Priority) Float64() float64 {
	f, _ := strconv.ParseFloat(p.text, 64) // no error is possible: ParsePriority has checked the text
	return f
}

// String returns the number as written, or "" if the priority is absent.
func (p Priority) String() string { return p.text }

// MarshalText returns the same text as String.
func (p Priority) MarshalText() ([]byte, error) { return []byte(p.text), nil }

// UnmarshalText parses text like [ParsePriority], but accepts the empty text as the zero
// value.
func (p *Priority) UnmarshalText(text []byte) error { return unmarshalText(p, text, ParsePriority) }

// Length is a number of bytes. The zero value means that the number is unknown.
type Length struct {
	n     int64
	known bool
}

// Bytes returns a Length of n bytes. A negative n means that the length is unknown.
func Bytes(n int64) Length {
	if n < 0 {
		return Length{}
	}
	return Length{n, true}
}

// Known reports whether the length is known.
func (l Length) Known() bool { return l.known }

// Int64 returns the length in bytes, or -1 if it is unknown.
func (l Length) Int64() int64 {
	if !l.known {
		return -1
	}
	return l.n
}

// MarshalText returns the decimal number, or "" if the length is unknown.
func (l Length) MarshalText() ([]byte, error) {
	if !l.known {
		return nil, nil
	}
	return strconv.AppendInt(nil, l.n, 10), nil
}

// UnmarshalText parses the form that MarshalText returns.
func (l *Length) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*l = Length{}
		return nil
	}
	n, err := parseNumber(text)
	if err != nil {
		return fmt.Errorf("length %q: expected a number of bytes", clip(string(text)))
	}
	*l = Bytes(n)
	return nil
}

// MarshalJSON returns the number, or null if the length is unknown.
func (l Length) MarshalJSON() ([]byte, error) {
	if !l.known {
		return []byte("null"), nil
	}
	return l.MarshalText()
}

// UnmarshalJSON parses the form that MarshalJSON returns.
func (l *Length) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		b = nil
	}
	return l.UnmarshalText(b)
}

// Attr is an attribute that the standard does not define. It is kept so that a document can
// be read and written without loss. Space is a namespace URI, never a prefix; it is empty
// for an attribute without a prefix.
type Attr struct {
	Space string `json:"namespace,omitempty"`
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Link is an rs:ln element (1.1 §7, §14): a related resource or document.
type Link struct {
	Rel      string   `json:"rel"`
	Href     string   `json:"href"`
	Modified Datetime `json:"modified,omitzero"`
	Digests  Digests  `json:"hash,omitempty"`
	Length   Length   `json:"length,omitzero"`
	Type     string   `json:"type,omitempty"`
	Encoding string   `json:"encoding,omitempty"`
	Path     string   `json:"path,omitempty"`
	Pri      int      `json:"pri,omitempty"` // the priority among links with the same relation, from 1 (first choice) to 999999; 0 means absent
	Attrs    []Attr   `json:"attributes,omitempty"`
}

// Header has the root element of a document, and the rs:md and rs:ln of the root. A header
// without capability and links is the header of a plain sitemap.
type Header struct {
	Dialect Dialect // dialect of the document that was read; an Encoder always writes 1.1
	Root    Root
	Metadata
	Links []Link

	RootAttrs []Attr // attributes of the root element itself, such as xsi:schemaLocation
	Foreign   string // child elements of the root from other vocabularies, in the form of Entry.Foreign
}

// Link returns the href of the first link with relation rel, or "".
func (h *Header) Link(rel string) string { return firstHref(h.Links, rel) }

// Kind returns the kind of the document, as in ids of rules: the capability, followed by
// "-index" for a sitemapindex. It returns "" if the capability is absent or unknown; then
// only the rules for all kinds apply to the document.
func (h *Header) Kind() string {
	switch {
	case !h.Capability.Known():
		return ""
	case h.Root == SitemapIndex:
		return string(h.Capability) + "-index"
	}
	return string(h.Capability)
}

// Entry is a url element of a urlset or a sitemap element of a sitemapindex.
type Entry struct {
	Loc        string
	LastMod    Datetime
	ChangeFreq ChangeFreq
	Priority   Priority
	Metadata
	Links []Link

	// Foreign contains the child elements of the entry from other vocabularies, as XML. Each
	// element declares the prefixes that it uses. The elements are kept, so that nothing is
	// lost, but not interpreted.
	Foreign string

	Line int // line of the start tag, from 1; 0 if the entry was not read from a document
}

// Link returns the href of the first link with relation rel, or "".
func (e *Entry) Link(rel string) string { return firstHref(e.Links, rel) }

func firstHref(links []Link, rel string) string {
	for i := range links {
		if links[i].Rel == rel {
			return links[i].Href
		}
	}
	return ""
}

// Key is a form of a URI for sorting. Sorted by their bytes, the keys of the resources in
// one directory are neighbours, and a directory comes before its subdirectories. The
// directory of a URI is the URI up to its last slash.
type Key string

// KeyOf returns the key of uri, which must not contain NUL.
func KeyOf(uri string) Key {
	i := strings.LastIndexByte(uri, '/') + 1
	return Key(uri[:i] + "\x00" + uri[i:])
}

// Split returns the directory of the URI and the rest of the URI. The directory ends
// with a slash or is empty.
func (k Key) Split() (dir, rest string) {
	dir, rest, _ = strings.Cut(string(k), "\x00")
	return dir, rest
}

// URI returns the URI of the key.
func (k Key) URI() string {
	dir, rest := k.Split()
	return dir + rest
}
