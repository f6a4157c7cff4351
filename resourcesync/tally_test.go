package resourcesync_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"instep/resourcesync"
)

func TestNotesAreTalliedByKind(t *testing.T) {
	text := `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">
<rs:md capability="ResourceList" at="2026-01-01T00:00:00Z"/>
<url><loc>http://example.org/1</loc><lastmod>2026-01-01T00:00:00</lastmod></url>
<url><loc>http://example.org/2</loc><lastmod>2026-01-01T00:00:00</lastmod></url>
<url><loc>http://example.org/3</loc><lastmod>2026-01-01T00:00:00</lastmod></url>
</urlset>`
	var tally resourcesync.NoteTally
	for _, err := range resourcesync.NewDecoder(strings.NewReader(text), resourcesync.WithNotes(tally.Take)).Entries() {
		if err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for n, times := range tally.All() {
		if n.Quirk != 0 {
			got = append(got, fmt.Sprintf("quirk %d, line %d, %d times", n.Quirk, n.Line, times))
		}
	}
	want := []string{"quirk 17, line 2, 1 times", "quirk 31, line 3, 3 times"}
	if d := cmp.Diff(got, want); d != "" {
		t.Errorf("kinds (-got +want):\n%s", d)
	}
}
