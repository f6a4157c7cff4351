package harvest

import (
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"

	"instep/fetch"
	"instep/resourcesync"
)

// spooled is how many bytes the open temporary files in a directory have.
func spooled(t *testing.T, dir string) (n int64) {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skipf("SKIPPED: the open files of this process cannot be listed: %v", err)
	}
	for _, fd := range fds {
		name := "/proc/self/fd/" + fd.Name()
		if to, err := os.Readlink(name); err != nil || !strings.HasPrefix(to, dir) {
			continue
		}
		if info, err := os.Stat(name); err == nil {
			n += info.Size()
		}
	}
	return n
}

// changesOf reads one Change List with entries.
func changesOf(t *testing.T, r *Reader, entries string) *Changes {
	t.Helper()
	base := &url.URL{Scheme: "https", Host: "example.org", Path: "/changes.xml"}
	text := `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">` +
		`<rs:ln rel="up" href="https://example.org/caps.xml"/><rs:md capability="changelist" from="2026-01-01T00:00:00Z"/>` + entries + `</urlset>`
	doc, err := r.Keep(base.String(), base, strings.NewReader(text), resourcesync.CapabilityChangeList)
	if err != nil {
		t.Fatal(err)
	}
	defer doc.Close()
	l, err := r.listOf(doc, window{uri: base.String()}, "", Position{}, found{})
	if err != nil {
		t.Fatal(err)
	}
	ch := r.newChanges()
	if err := ch.add(r, l, Position{}); err != nil {
		t.Fatal(err)
	}
	return ch
}

func spoolingReader(t *testing.T) *Reader {
	t.Helper()
	client, err := fetch.New(fetch.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := &Reader{Client: client, Spool: t.TempDir(), Origins: map[string]bool{"https://example.org": true}, inMemory: 1, Tell: func(resourcesync.Quirk, string, string) {}}
	t.Cleanup(func() {
		r.Close()
		client.Close()
	})
	return r
}

// What a Source says of a resource once is not written for each further entry of that resource: a
// small list must not fill the disk.
func TestEntriesOfOneResourceTakeTheirOwnRoom(t *testing.T) {
	r := spoolingReader(t)
	links := strings.Repeat(fmt.Sprintf(`<rs:ln rel="describedby" href="https://example.org/%s"/>`, strings.Repeat("a", 1<<10)), 14)
	var b strings.Builder
	b.WriteString(`<url><loc>https://example.org/a</loc><rs:md change="created" datetime="2026-01-03T00:00:00Z" length="7"/>` + links + `</url>`)
	b.WriteString(`<url><loc>https://example.org/b</loc><rs:md change="created" datetime="2026-01-02T00:00:00Z"/></url>`)
	b.WriteString(`<url><loc>https://example.org/b</loc><rs:md change="created" datetime="2026-01-03T00:00:00Z"/></url>`)
	const n = 2000
	b.WriteString(`<url><loc>https://example.org/a</loc><rs:md change="deleted"/></url>`)
	b.WriteString(strings.Repeat(`<url><loc>https://example.org/a</loc><rs:md change="deleted" datetime="2026-01-04T00:00:00Z"/></url>`, n))
	ch := changesOf(t, r, b.String())
	c, err := ch.Of("https://example.org/a")
	if err != nil || !c.Torn || c.Rival == nil || c.Rival.Remainder.IsZero() {
		t.Fatalf("got %+v, %v, want a torn deletion with the resource as it was", c, err)
	}
	if got, most := spooled(t, r.Spool), int64(n*2<<10); got > most {
		t.Errorf("temporary files have %d bytes, want at most %d", got, most)
	}
}

// Nor for each entry of a manifest.
func TestEntriesOfAManifestTakeTheirOwnRoom(t *testing.T) {
	r := spoolingReader(t)
	links := strings.Repeat(fmt.Sprintf(`<rs:ln rel="describedby" href="https://example.org/%s"/>`, strings.Repeat("a", 1<<10)), 14)
	md := `<rs:md change="created" datetime="2026-01-03T00:00:00Z" length="7"/>`
	ch := changesOf(t, r, `<url><loc>https://example.org/b</loc>`+md+`</url><url><loc>https://example.org/a</loc>`+md+links+`</url>`)
	said, err := ch.Of("https://example.org/a")
	if err != nil {
		t.Fatal(err)
	}
	e := &resourcesync.Entry{Loc: said.URI}
	e.Length, e.Change, e.Datetime = said.Length, said.Change, resourcesync.DatetimeOf(said.Changed)
	before, p := spooled(t, r.Spool), &Package{URI: "https://example.org/p.zip"}
	const n = 2000
	for i := range n {
		if ok, err := ch.recordLocation(e, Location{p, fmt.Sprint("resources/", i), 0}); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	if got, most := spooled(t, r.Spool)-before, int64(n*2<<10); got > most {
		t.Errorf("temporary files have %d bytes more, want at most %d", got, most)
	}
}
