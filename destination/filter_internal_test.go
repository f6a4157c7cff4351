package destination

import (
	"testing"

	"instep/harvest"
	"instep/resourcesync"
)

func TestFilterByLinks(t *testing.T) {
	link := func(rel, href string) resourcesync.Link { return resourcesync.Link{Rel: rel, Href: href} }
	describes := resourcesync.Link{Rel: "describes", Href: "https://example.org/a.pdf", Type: "application/pdf"}
	pdf := func(d *Destination) { d.Include, d.WithMetadata = []string{"*.pdf"}, true }
	for name, tt := range map[string]struct {
		set   func(*Destination)
		path  string
		media string
		links []resourcesync.Link
		want  bool
	}{
		"no filter":                            {func(*Destination) {}, "/a.pdf", "", nil, true},
		"in the collection":                    {func(d *Destination) { d.Collections = []string{"urn:x:c", "urn:x:d"} }, "/a.pdf", "", []resourcesync.Link{link("collection", "urn:x:d")}, true},
		"in another collection":                {func(d *Destination) { d.Collections = []string{"urn:x:c"} }, "/a.pdf", "", []resourcesync.Link{link("collection", "urn:x:d")}, false},
		"a link of another relation":           {func(d *Destination) { d.Collections = []string{"urn:x:c"} }, "/a.pdf", "", []resourcesync.Link{link("related", "urn:x:c")}, false},
		"no links":                             {func(d *Destination) { d.Profiles = []string{"urn:x:p"} }, "/a.xml", "", nil, false},
		"of the profile":                       {func(d *Destination) { d.Profiles = []string{"urn:x:p"} }, "/a.xml", "", []resourcesync.Link{link("profile", "urn:x:p")}, true},
		"a resource with its metadata":         {pdf, "/a.pdf", "", nil, true},
		"metadata of what is chosen":           {pdf, "/a.xml", "application/xml", []resourcesync.Link{describes}, true},
		"metadata of what is not":              {pdf, "/a.xml", "application/xml", []resourcesync.Link{link("describes", "https://example.org/a.tiff")}, false},
		"no metadata":                          {pdf, "/a.xml", "application/xml", []resourcesync.Link{link("related", "https://example.org/a.pdf")}, false},
		"metadata of nothing":                  {pdf, "/a.xml", "application/xml", []resourcesync.Link{link("describes", "https://[/a.pdf")}, false},
		"by the type of the link":              {func(d *Destination) { d.Types, d.WithMetadata = []string{"application/pdf"}, true }, "/a.xml", "application/xml", []resourcesync.Link{describes}, true},
		"of another type":                      {func(d *Destination) { d.Types, d.WithMetadata = []string{"image/*"}, true }, "/a.xml", "application/xml", []resourcesync.Link{describes}, false},
		"excluded itself":                      {func(d *Destination) { d.Exclude, d.WithMetadata = []string{"*.xml"}, true }, "/a.xml", "", []resourcesync.Link{describes}, false},
		"what it describes is excluded":        {func(d *Destination) { pdf(d); d.Exclude = []string{"/a.*"} }, "/b.xml", "", []resourcesync.Link{describes}, false},
		"metadata of another profile":          {func(d *Destination) { pdf(d); d.Profiles = []string{"urn:x:p"} }, "/a.xml", "", []resourcesync.Link{describes}, false},
		"metadata of the profile":              {func(d *Destination) { pdf(d); d.Profiles = []string{"urn:x:p"} }, "/a.xml", "", []resourcesync.Link{describes, link("profile", "urn:x:p")}, true},
		"a profile is not asked of a resource": {func(d *Destination) { pdf(d); d.Profiles = []string{"urn:x:p"} }, "/a.pdf", "", nil, true},
		"metadata of another collection":       {func(d *Destination) { pdf(d); d.Collections = []string{"urn:x:c"} }, "/a.xml", "", []resourcesync.Link{describes}, false},
	} {
		d := &Destination{}
		tt.set(d)
		f, err := d.newFilter()
		if err != nil {
			t.Fatal(err)
		}
		r := resourcesync.Remainder{Links: tt.links}
		text, err := r.Text()
		if err != nil {
			t.Fatal(err)
		}
		if got := f.admits(&harvest.Resource{Type: tt.media, Remainder: harvest.NewRemainder(text)}, tt.path, false); got != tt.want {
			t.Errorf("%s: got %v, want %v", name, got, tt.want)
		}
	}
}
