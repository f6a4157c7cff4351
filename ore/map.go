package ore

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"instep/fetch"
	"instep/resourcesync"
)

// Format is the serialisation of a Resource Map.
type Format string

// Values of Format.
const (
	FormatAtom   Format = "atom"
	FormatRDFXML Format = "rdf-xml"
	FormatJSONLD Format = "json-ld"
)

// MediaType returns the media type with which maps of the format are served.
func (f Format) MediaType() string {
	switch f {
	case FormatAtom:
		return "application/atom+xml"
	case FormatRDFXML:
		return "application/rdf+xml"
	case FormatJSONLD:
		return "application/ld+json"
	}
	return ""
}

// Map is a Resource Map (ORE model §4): a document that describes one Aggregation.
// Fields without a statement are zero.
type Map struct {
	URI    string // URI-R: Self, or else the URL of the map
	Self   string // the URI that the map states for itself: its self link, or the subject of ore:describes; "" if there is none
	ID     string // atom:id of the feed or entry; "" in other formats
	Format Format

	// Feed means that the map is an Atom feed, as in the alpha of 2007. Since version
	// 1.0 it is an Atom entry.
	Feed bool
	// Wrapped means that the map was the metadata of an OAI-PMH record.
	Wrapped bool

	Creators          []string // names, or URIs of creators without a name
	Created, Modified resourcesync.Datetime
	Rights            string

	Aggregation Aggregation
	Resources   []Resource // the aggregated resources, each URI once, in document order

	// Notices describe oddities that were ignored, for people.
	Notices []string
}

// Aggregation is the aggregation that a map describes.
type Aggregation struct {
	URI               string // URI-A
	Title             string
	Types             []string // URIs
	Creators          []string
	Created, Modified resourcesync.Datetime
	Maps              []string // other Resource Maps that describe it
}

// Resource is an aggregated resource.
type Resource struct {
	URI       string // URI-AR
	Title     string
	MediaType string
	Types     []string // URIs
	Creators  []string
	Modified  resourcesync.Datetime
	Length    int64    // length in bytes; 0 if the map does not state it
	Maps      []string // Resource Maps that describe it, if it is an Aggregation itself
}

// Limits bound the reading of a map. Zero values mean the defaults.
type Limits struct {
	Bytes     int64 // largest document in bytes: 64 MiB; for JSON-LD at most 4 MiB
	Resources int   // largest number of aggregated resources: 100,000
}

const (
	maxBytes      = 64 << 20
	maxJSON       = 4 << 20
	maxResources  = 100_000
	maxStatements = 1_000_000 // RDF statements of one map
	maxDepth      = 100       // depth of nested elements or objects
	maxNotices    = 20
)

func (l Limits) bytes() int64   { return cmp.Or(max(l.Bytes, 0), maxBytes) }
func (l Limits) resources() int { return cmp.Or(max(l.Resources, 0), maxResources) }

// ErrNotMap means that a document is not a Resource Map.
var ErrNotMap = errors.New("not a Resource Map")

// ErrTooLarge means that a map exceeds the Limits.
var ErrTooLarge = errors.New("more than is read of a Resource Map")

func notMap(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrNotMap, fmt.Sprintf(format, args...))
}

func (m *Map) notice(format string, args ...any) {
	if len(m.Notices) < maxNotices {
		m.Notices = append(m.Notices, clip(fmt.Sprintf(format, args...)))
	}
}

// clip truncates a message, since texts in documents may have any length.
func clip(s string) string {
	const most = 1_000
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// brief returns the part of a map that is needed to check later leads to it. Its size
// is bounded; whole reports whether it includes all aggregated resources.
func (m *Map) brief() (b *Map, whole bool) {
	const mostResources, mostBytes = 100, 16 << 10
	b = &Map{URI: m.URI, Self: m.Self, ID: m.ID, Format: m.Format, Modified: m.Modified, Aggregation: Aggregation{URI: m.Aggregation.URI}}
	n := 0
	for i := range m.Resources {
		uri := m.Resources[i].URI
		if n += len(uri); i == mostResources || n > mostBytes {
			b.Resources = nil
			return b, false
		}
		b.Resources = append(b.Resources, Resource{URI: strings.Clone(uri)})
	}
	return b, true
}

// keep checks the aggregated resources: no duplicates, neither the Aggregation nor the
// map itself, and not too many.
func (m *Map) keep(l Limits) error {
	for _, uri := range []string{m.URI, m.Self, m.ID, m.Aggregation.URI} {
		if len(uri) > fetch.MaxURL {
			return fmt.Errorf("%w: it has a URI of %d bytes", ErrTooLarge, len(uri))
		}
	}
	seen := make(map[string]bool, len(m.Resources))
	kept := m.Resources[:0]
	for i := range m.Resources {
		switch r := &m.Resources[i]; {
		case r.URI == m.Aggregation.URI:
			m.notice("the Aggregation %q aggregates itself", r.URI)
		case r.URI == m.URI:
			m.notice("the map %q aggregates itself", r.URI)
		case len(r.URI) > fetch.MaxURL:
			m.notice("an aggregated resource has a URI of %d bytes", len(r.URI))
		case !seen[r.URI]:
			seen[r.URI] = true
			kept = append(kept, *r)
		}
	}
	if m.Resources = kept; len(kept) > l.resources() {
		return fmt.Errorf("%w: it aggregates more than %d resources", ErrTooLarge, l.resources())
	}
	if m.Aggregation.URI == "" {
		return notMap("it describes no Aggregation")
	}
	return nil
}

// Aggregates reports whether uri is an aggregated resource of the map.
func (m *Map) Aggregates(uri string) bool {
	return slices.ContainsFunc(m.Resources, func(r Resource) bool { return r.URI == uri })
}
