package destination

import (
	"context"
	"fmt"
	"mime"
	"slices"
	"strings"

	"instep/fetch"
	"instep/harvest"
	"instep/resourcesync"
)

// Selector chooses resources by the records that describe them (1.1 §14.5).
type Selector interface {
	// Selects reads the metadata record at the target of the link, and reports whether it
	// selects the described resource. An error means that this is unknown.
	Selects(ctx context.Context, record resourcesync.Link) (bool, error)

	// String identifies the choice: Selectors with equal texts choose the same resources.
	String() string
}

// These are the reasons why Where does not select a resource.
const (
	SkipUndescribed Skip = "not described by an XML record"
	SkipRecord      Skip = "described by a record that cannot be read"
)

// maxRecords is the maximum number of metadata records that are read for one resource.
const maxRecords = 16

// selector returns a function that calls Where.Selects. It reports the records that
// cannot be read, at most maxNamed of them.
func (d *Destination) selector(ctx context.Context) func(resourcesync.Link) (bool, error) {
	if d.Where == nil {
		return nil
	}
	told := map[string]bool{}
	return func(record resourcesync.Link) (bool, error) {
		ok, err := d.Where.Selects(ctx, record)
		if err != nil && !told[record.Href] && len(told) < maxNamed {
			told[record.Href] = true
			d.note("", fmt.Sprintf("a metadata record cannot be read, so the resource that it describes is left alone: %v", err))
		}
		return ok, err
	}
}

// skipByRecord returns "" if Where selects the resource. A resource whose links were
// too long to store is selected, because leaving it out would be a guess.
func (s *scope) skipByRecord(w *harvest.Resource) Skip {
	if s.selects == nil {
		return ""
	}
	said, err := w.Remainder.Parse()
	if err != nil || w.Remainder.Dropped() {
		return ""
	}
	found := map[Skip]bool{}
	for i, record := range s.records(w, said.Links) {
		switch {
		case i == maxRecords:
			return SkipRecord
		case s.filter.d.Strict && !record.Digests.Strong():
			found[SkipWeak] = true
			continue
		}
		ok, err := s.selects(record)
		if ok {
			return ""
		}
		found[SkipFiltered] = true
		found[SkipRecord] = found[SkipRecord] || err != nil
	}
	for _, skip := range [...]Skip{SkipRecord, SkipWeak, SkipFiltered} {
		if found[skip] {
			return skip
		}
	}
	return SkipUndescribed
}

// records returns the links to XML records that describe the resource, if their origin
// is allowed. If the resource is itself metadata that is fetched with the resources it
// describes (WithMetadata), the only record is the resource itself.
func (s *scope) records(w *harvest.Resource, links []resourcesync.Link) []resourcesync.Link {
	if s.filter.d.WithMetadata && slices.ContainsFunc(links, func(l resourcesync.Link) bool { return l.Rel == resourcesync.RelDescribes }) {
		return []resourcesync.Link{{Href: w.URI, Length: w.Length, Digests: w.Digests, Type: w.Type, Encoding: w.Encoding}}
	}
	return slices.DeleteFunc(slices.Clone(links), func(l resourcesync.Link) bool {
		u, err := fetch.Parse(l.Href)
		return l.Rel != resourcesync.RelDescribedBy || err != nil || !s.origins[fetch.Origin(u)] || !maybeXML(l.Type)
	})
}

// maybeXML reports whether the media type is unknown or that of XML.
func maybeXML(mediaType string) bool {
	t, _, err := mime.ParseMediaType(mediaType)
	return mediaType == "" || err == nil && (t == "application/xml" || t == "text/xml" || strings.HasSuffix(t, "+xml"))
}
