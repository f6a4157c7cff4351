package resourcesync

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSeenTellsPlacesAndPresence(t *testing.T) {
	const doc = `<?xml version="1.0"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">
  <url><loc>https://example.org/1</loc></url>
  <url><loc>https://example.org/2</loc><rs:md/></url> <url/>
  <rs:md capability="resourcelist"/>
</urlset>`
	dec := NewDecoder(strings.NewReader(doc))
	if _, err := dec.Header(); err != nil {
		t.Fatal(err)
	}
	got := []Seen{dec.SeenRoot()}
	for range dec.Entries() {
		got = append(got, dec.SeenEntry())
	}
	got = append(got, dec.SeenRoot())
	want := []Seen{{2, 1, false}, {3, 3, false}, {4, 3, true}, {4, 55, false}, {2, 1, true}}
	if d := cmp.Diff(got, want); d != "" {
		t.Errorf("(-got +want):\n%s", d)
	}
}
