package source

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
)

func TestSetIsFoundByTheNameThatItWasAdoptedUnder(t *testing.T) {
	const base = "https://example.org/"
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	dir := fstest.MapFS{
		"resourcesync/publication.json": file(`{"format_version": 1, "state": "s", "base_url": "` + base + `", "aliases": {"sets": {"": {"capability_list": "old.xml"}}}}`),
		"resourcesync/description.xml": file(`<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">` +
			`<rs:md capability="description"/><url><loc>` + base + `old.xml</loc><rs:md capability="capabilitylist"/></url></urlset>`),
		"resourcesync/capabilitylist.xml": file(""),
	}
	p, err := ReadPublished([]fs.FS{dir})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := p.HTML(), base+"old.xml"; len(p.Sets) != 1 || !strings.Contains(got, want) {
		t.Errorf("got %d sets and %q, want one that %s leads to", len(p.Sets), got, want)
	}
}
