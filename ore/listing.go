package ore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"instep/fetch"
	"instep/resourcesync"
)

// Listing presents the aggregated resources of Resource Maps as a Source with one set,
// so that a program that reads Sources can also read maps. It has three documents: a
// Source Description at the URI of the search, a Capability List and a Resource List. A
// Client that has the Listing as its cache ([fetch.Client.WithCache]) reads them without
// a request.
//
// The "at" attribute of the Resource List is the start of the search. An entry has the
// time of modification and the media type, if the map states them. It has no length,
// because a length in Atom is only a hint (RFC 4287 §4.2.7.6).
type Listing struct {
	URI  string // URI of the Source Description
	Maps []string

	// Skipped is the number of aggregated resources that are not listed because
	// they have no http or https URI.
	Skipped int64

	documents map[string][]byte
}

// maxListed is the largest number of resources in a Listing: enough for two Resource Lists.
const maxListed = 2 * resourcesync.MaxEntries

// IncompleteError means that maps may be missing, because a document could not be read or
// the search reached a limit. A Listing without the resources of these maps would make
// readers delete the resources.
type IncompleteError struct {
	URI string // URI of the document that could not be read; "" if the search reached a limit
	Err error  // why the document could not be read
}

// Error says which document could not be read, or that a limit was reached.
func (e *IncompleteError) Error() string {
	if e.URI == "" {
		return "the search for Resource Maps ended at a limit, so some maps may be missing"
	}
	return fmt.Sprintf("nothing is done, because not all Resource Maps could be read: %v", e.Err)
}

// Unwrap returns the cause.
func (e *IncompleteError) Unwrap() error { return e.Err }

// Listing searches for maps like Find, and lists the resources that the maps aggregate,
// each once. It leaves out an Aggregation that has a map of its own, because an
// Aggregation is not a document. It calls Found, Problem, Note and Failed like Find. The error is an error of Find, an *IncompleteError or, if there is no map, an
// error that wraps ErrNotMap.
func (f Finder) Listing(ctx context.Context, uri string) (*Listing, error) {
	at := resourcesync.DatetimeOf(f.Client.Now().UTC())
	u, err := fetch.Parse(uri)
	if err != nil {
		return nil, err
	}
	l := &Listing{URI: withoutFragment(u.String())}
	c := collector{entries: map[string]int{}, described: map[string]bool{}}
	found, failed := f.Found, f.Failed
	f.Found = func(m *Found) error {
		if err := c.add(m.Map); err != nil {
			return err
		}
		l.Maps = append(l.Maps, m.URI)
		if found != nil {
			return found(m)
		}
		return nil
	}
	var incomplete *IncompleteError
	f.Failed = func(uri string, err error) {
		if incomplete == nil {
			incomplete = &IncompleteError{uri, err}
		}
		if failed != nil {
			failed(uri, err)
		}
	}
	rep, err := f.Find(ctx, l.URI)
	switch {
	case err != nil:
		return nil, err
	case incomplete != nil:
		return nil, incomplete
	case rep.Cut || rep.TooFar > 0:
		return nil, &IncompleteError{}
	case rep.Maps == 0:
		return nil, fmt.Errorf("read %q: %w, and no link leads to one", l.URI, ErrNotMap)
	}
	l.Skipped = c.skipped
	return l, l.write(c.documents(), at)
}

type collector struct {
	list      []resourcesync.Entry
	entries   map[string]int // index of each entry in the field list, by URI
	described map[string]bool
	skipped   int64
}

// add adds the resources of a map. If several maps state a time for a resource, the
// latest time counts.
func (c *collector) add(m *Map) error {
	c.described[withoutFragment(m.Aggregation.URI)] = true
	c.described[m.Aggregation.URI] = true
	for i := range m.Resources {
		r := &m.Resources[i]
		u, err := fetch.Parse(r.URI)
		if err != nil {
			c.skipped++
			continue
		}
		uri := withoutFragment(u.String())
		if at, ok := c.entries[uri]; ok {
			if e := &c.list[at]; e.LastMod.IsZero() || r.Modified.After(e.LastMod) {
				e.LastMod = r.Modified
			}
			continue
		}
		if len(c.list) >= maxListed {
			return fmt.Errorf("%w: the maps aggregate more than %d resources", ErrTooLarge, maxListed)
		}
		c.entries[uri] = len(c.list)
		e := resourcesync.Entry{Loc: uri, LastMod: r.Modified}
		if strings.Count(r.MediaType, "/") == 1 {
			e.Type = r.MediaType
		}
		c.list = append(c.list, e)
	}
	return nil
}

// documents returns the collected resources without Aggregations that have a map,
// because an Aggregation is not a document.
func (c *collector) documents() []resourcesync.Entry {
	var kept []resourcesync.Entry
	for i := range c.list {
		if !c.described[c.list[i].Loc] {
			kept = append(kept, c.list[i])
		}
	}
	return kept
}

// documentURI returns the URI of the search with an additional argument. The URI only
// serves to look up a document of the Listing: no server gets a request for it.
func (l *Listing) documentURI(name string) string {
	if strings.Contains(l.URI, "?") {
		return l.URI + "&instep=" + name
	}
	return l.URI + "?instep=" + name
}

type listedDocument struct {
	uri     string
	header  resourcesync.Header
	entries []resourcesync.Entry
}

func (l *Listing) write(entries []resourcesync.Entry, at resourcesync.Datetime) error {
	capabilities := l.documentURI("capabilitylist")
	lists := l.lists(entries, at, capabilities)
	all := append([]listedDocument{
		{l.URI, headerOf(resourcesync.CapabilityDescription), entryOf(capabilities, resourcesync.CapabilityCapabilityList)},
		{capabilities, headerOf(resourcesync.CapabilityCapabilityList, link(resourcesync.RelUp, l.URI)), entryOf(lists[0].uri, resourcesync.CapabilityResourceList)},
	}, lists...)
	l.documents = map[string][]byte{}
	for _, d := range all {
		text, err := encodeDocument(d.header, d.entries)
		if err != nil {
			return fmt.Errorf("list the resources of Resource Maps: %w", err)
		}
		l.documents[d.uri] = text
	}
	return nil
}

// lists returns one Resource List or, for more than MaxEntries entries, an index and
// several Resource Lists.
func (l *Listing) lists(entries []resourcesync.Entry, at resourcesync.Datetime, capabilities string) []listedDocument {
	uri := l.documentURI("resourcelist")
	head := headerOf(resourcesync.CapabilityResourceList, link(resourcesync.RelUp, capabilities))
	head.At = at
	if len(entries) <= resourcesync.MaxEntries {
		return []listedDocument{{uri, head, entries}}
	}
	index := listedDocument{uri, head, nil}
	index.header.Root = resourcesync.SitemapIndex
	head.Links = append(slices.Clone(head.Links), link(resourcesync.RelIndex, uri))
	var parts []listedDocument
	for some := range slices.Chunk(entries, resourcesync.MaxEntries) {
		part := listedDocument{l.documentURI(fmt.Sprintf("resourcelist-%d", len(parts)+1)), head, some}
		named := entryOf(part.uri, resourcesync.CapabilityResourceList)
		named[0].At = at
		index.entries = append(index.entries, named...)
		parts = append(parts, part)
	}
	return append([]listedDocument{index}, parts...)
}

func headerOf(c resourcesync.Capability, links ...resourcesync.Link) resourcesync.Header {
	return resourcesync.Header{Metadata: resourcesync.Metadata{Capability: c}, Links: links}
}

func link(rel, uri string) resourcesync.Link { return resourcesync.Link{Rel: rel, Href: uri} }

func entryOf(uri string, c resourcesync.Capability) []resourcesync.Entry {
	return []resourcesync.Entry{{Loc: uri, Metadata: resourcesync.Metadata{Capability: c}}}
}

// encodeDocument returns a document as XML. It omits a media type that the Encoder
// refuses, because media types in maps are only hints.
func encodeDocument(h resourcesync.Header, entries []resourcesync.Entry) ([]byte, error) {
	var b bytes.Buffer
	e, err := resourcesync.NewEncoder(&b, h)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		err := e.Encode(entry)
		if errors.As(err, new(*resourcesync.EncodeError)) {
			entry.Type = ""
			err = e.Encode(entry)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := e.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

var _ fetch.Cache = (*Listing)(nil)

// Load implements [fetch.Cache]. It returns an error if uri is not a document of the
// Listing, so that the Client sends no request.
func (l *Listing) Load(_ context.Context, uri string) (*fetch.Cached, error) {
	text, ok := l.documents[uri]
	if !ok {
		return nil, &fetch.Error{Op: "read", URL: uri, Kind: fetch.NotFound, Msg: fmt.Sprintf("not a document of the Source that lists the Resource Maps of %s", l.URI)}
	}
	return &fetch.Cached{URL: uri, Length: int64(len(text)), Final: true, Body: io.NopCloser(bytes.NewReader(text))}, nil
}

// Store implements [fetch.Cache]. It stores nothing.
func (l *Listing) Store(context.Context, string, *fetch.Cached) {}
