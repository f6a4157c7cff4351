package destination

import (
	"context"
	"errors"
	"testing"

	"instep/harvest"
	"instep/resourcesync"
)

// recordsOf answers by the URI of a record: true, false, or an error for those it lacks.
type recordsOf map[string]bool

func (r recordsOf) String() string { return "" }

func (r recordsOf) Selects(_ context.Context, l resourcesync.Link) (bool, error) {
	selects, known := r[l.Href]
	if !known {
		return false, errors.New("not there")
	}
	return selects, nil
}

func TestChosenByRecords(t *testing.T) {
	const yes, no, lost = "https://example.org/yes.xml", "https://example.org/no.xml", "https://example.org/lost.xml"
	link := func(href string) resourcesync.Link { return resourcesync.Link{Rel: "describedby", Href: href} }
	typed := func(l resourcesync.Link, mediaType string) resourcesync.Link { l.Type = mediaType; return l }
	for name, tt := range map[string]struct {
		uri   string
		links []resourcesync.Link
		set   func(*Destination)
		want  Skip
	}{
		"selected":                      {links: []resourcesync.Link{link(yes)}},
		"by one of its records":         {links: []resourcesync.Link{link(no), link(lost), link(yes)}},
		"not selected":                  {links: []resourcesync.Link{link(no)}, want: SkipFiltered},
		"a record that is lost":         {links: []resourcesync.Link{link(no), link(lost)}, want: SkipRecord},
		"no record":                     {want: SkipUndescribed},
		"another relation":              {links: []resourcesync.Link{{Rel: "related", Href: yes}}, want: SkipUndescribed},
		"another origin":                {links: []resourcesync.Link{link("https://elsewhere.example/yes.xml")}, want: SkipUndescribed},
		"a page":                        {links: []resourcesync.Link{typed(link(yes), "text/html")}, want: SkipUndescribed},
		"RDF":                           {links: []resourcesync.Link{typed(link(yes), "application/rdf+xml")}},
		"without proof":                 {links: []resourcesync.Link{link(yes)}, set: func(d *Destination) { d.Strict = true }, want: SkipWeak},
		"metadata":                      {uri: yes, links: []resourcesync.Link{{Rel: "describes", Href: "https://example.org/a"}}, want: SkipUndescribed},
		"metadata of what is chosen":    {uri: yes, links: []resourcesync.Link{{Rel: "describes", Href: "https://example.org/a"}}, set: func(d *Destination) { d.WithMetadata = true }},
		"metadata that does not select": {uri: no, links: []resourcesync.Link{{Rel: "describes", Href: "https://example.org/a"}}, set: func(d *Destination) { d.WithMetadata = true }, want: SkipFiltered},
	} {
		d := &Destination{Where: recordsOf{yes: true, no: false}}
		if tt.set != nil {
			tt.set(d)
		}
		f, err := d.newFilter()
		if err != nil {
			t.Fatal(err)
		}
		text, err := (&resourcesync.Remainder{Links: tt.links}).Text()
		if err != nil {
			t.Fatal(err)
		}
		s := &scope{origins: map[string]bool{"https://example.org": true}, filter: f, selects: d.selector(t.Context())}
		if got := s.skipByRecord(&harvest.Resource{URI: tt.uri, Remainder: harvest.NewRemainder(text)}); got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}
