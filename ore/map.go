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

// Format is the format of a Resource Map.
type Format string

// Values of Format.
const (
	FormatAtom   Format = "atom"
	FormatRDFXML Format = "rdf-xml"
	FormatJSONLD Format = "json-ld"
)

// MediaType returns the media type of maps in this format.
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

// Map is a Resource Map (ORE model §4): a document that describes one Aggregation. A
// field is zero if the document does not state it.
type Map struct {
	URI    string // the URI of the map (URI-R): Self or, if Self is empty, the URL from which the map was read
	Self   string // the URI that the map states for itself, in its "self" link or as subject of ore:describes; may be ""
	ID     string // atom:id of the feed or entry; "" in other formats
	Format Format

	// Feed is true if the map is an Atom feed, as in the alpha of 2007, and not an Atom
	// entry.
	Feed bool
	// Wrapped is true if the map was read from the metadata of an OAI-PMH record.
	Wrapped bool

	Creators          []string // names of the creators of the map, or URIs of creators without a name
	Created, Modified resourcesync.Datetime
	Rights            string

	Aggregation Aggregation
	Resources   []Resource // aggregated resources in the order of the document, each URI once

	// Notices describe invalid parts of the map that were ignored.
	Notices []string
}

// Aggregation is the aggregation that a map describes.
type Aggregation struct {
	URI               string // URI of the Aggregation (URI-A)
	Title             string
	Types             []string // the URIs of the Aggregation's types
	Creators          []string
	Created, Modified resourcesync.Datetime
	Maps              []string // URIs of other Resource Maps that describe the Aggregation
}

// Resource is an aggregated resource.
type Resource struct {
	URI       string // URI of the resource (URI-AR)
	Title     string
	MediaType string
	Types     []string // the URIs of the resource's types
	Creators  []string
	Modified  resourcesync.Datetime
	Length    int64    // length of the resource in bytes; 0 if the map does not state it
	Maps      []string // if the resource is an Aggregation, URIs of the Resource Maps that describe it
}

// Limits bound the size of a map that is read. Zero means the default.
type Limits struct {
	Bytes     int64 // largest size of a map in bytes; the default is 64 MiB, but a map in JSON-LD may never exceed 4 MiB
	Resources int   // largest number of aggregated resources; the default is 100,000
}

const (
	maxBytes      = 64 << 20
	maxJSON       = 4 << 20
	maxResources  = 100_000
	maxStatements = 1_000_000 // largest number of RDF statements in one map
	maxDepth      = 100       // largest depth of nested XML elements or JSON values
	maxNotices    = 20
)

func (l Limits) bytes() int64   { return cmp.Or(max(l.Bytes, 0), maxBytes) }
func (l Limits) resources() int { return cmp.Or(max(l.Resources, 0), maxResources) }

// ErrNotMap means that a document is not a Resource Map.
var ErrNotMap = errors.New("not a Resource Map")

// ErrTooLarge means that a map exceeds the Limits, or that a list of maps is too large.
var ErrTooLarge = errors.New("the Resource Map or list exceeds a limit")

func notMap(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrNotMap, fmt.Sprintf(format, args...))
}

func (m *Map) notice(format string, args ...any) {
	if len(m.Notices) < maxNotices {
		m.Notices = append(m.Notices, clip(fmt.Sprintf(format, args...)))
	}
}

// clip shortens a message, because it may quote a long text of the map.
func clip(s string) string {
	const limit = 1_000
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}

// summary returns a small copy of the map, for checks of further links to the map. The
// copy has the URIs of all aggregated resources or, if these are too many, none.
func (m *Map) summary() (b *Map, whole bool) {
	const maxResources, maxBytes = 100, 16 << 10
	b = &Map{URI: m.URI, Self: m.Self, ID: m.ID, Format: m.Format, Modified: m.Modified, Aggregation: Aggregation{URI: m.Aggregation.URI}}
	n := 0
	for i := range m.Resources {
		uri := m.Resources[i].URI
		if n += len(uri); i == maxResources || n > maxBytes {
			b.Resources = nil
			return b, false
		}
		b.Resources = append(b.Resources, Resource{URI: strings.Clone(uri)})
	}
	return b, true
}

// checkResources removes aggregated resources that are repeated, have a URI that is too
// long, or are the map or the Aggregation itself. It returns an error if too many
// resources remain, or if the URI of the map or of the Aggregation is too long.
func (m *Map) checkResources(l Limits) error {
	for _, uri := range []string{m.URI, m.Self, m.ID, m.Aggregation.URI} {
		if len(uri) > fetch.MaxURL {
			return fmt.Errorf("%w: the map has a URI of %d bytes", ErrTooLarge, len(uri))
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
		return fmt.Errorf("%w: the map aggregates more than %d resources", ErrTooLarge, l.resources())
	}
	return nil
}

// Aggregates reports whether uri is an aggregated resource of the map.
func (m *Map) Aggregates(uri string) bool {
	return slices.ContainsFunc(m.Resources, func(r Resource) bool { return r.URI == uri })
}
