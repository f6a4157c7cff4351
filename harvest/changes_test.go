package harvest

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"instep/fetch"
	"instep/resourcesync"
)

// changeLists are the documents of some Change Lists that follow each other: in order, with the newest
// change first or mixed up, and some of the changes without a datetime.
func changeLists(t *rapid.T) (docs []string) {
	minute := 0
	at := func(n int) string { return time.Date(2026, 1, 1, 0, n, 0, 0, time.UTC).Format(time.RFC3339) }
	for range rapid.IntRange(1, 3).Draw(t, "lists") {
		from := at(minute)
		var entries []string
		for range rapid.IntRange(1, 12).Draw(t, "changes") {
			minute += rapid.IntRange(0, 2).Draw(t, "minutes")
			md := fmt.Sprintf(`change=%q`, rapid.SampledFrom([]string{"created", "updated", "deleted"}).Draw(t, "change"))
			lastmod := ""
			switch rapid.IntRange(0, 5).Draw(t, "time") {
			case 0:
			case 1:
				lastmod = "<lastmod>" + at(minute) + "</lastmod>"
			default:
				md += fmt.Sprintf(` datetime=%q`, at(minute))
			}
			link := `<rs:ln rel="describedby" href="/about"/>`
			entries = append(entries, fmt.Sprintf(`<url><loc>https://example.org/%d</loc>%s<rs:md %s/>%s</url>`, rapid.IntRange(0, 4).Draw(t, "resource"), lastmod, md, link))
		}
		switch rapid.IntRange(0, 3).Draw(t, "order") {
		case 0:
			for i, j := 0, len(entries)-1; i < j; i, j = i+1, j-1 {
				entries[i], entries[j] = entries[j], entries[i]
			}
		case 1:
			entries = rapid.Permutation(entries).Draw(t, "mixed up")
		}
		docs = append(docs, fmt.Sprintf(`<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">`+
			`<rs:ln rel="up" href="https://example.org/caps.xml"/><rs:md capability="changelist" from=%q until=%q/>%s</urlset>`, from, at(minute), strings.Join(entries, "")))
	}
	return docs
}

// addList lays a document over those that ch has read before.
func addList(t rapid.TB, r *Reader, ch *Changes, text string, w window, c resourcesync.Capability) {
	t.Helper()
	base, err := url.Parse(w.uri)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := r.Keep(w.uri, base, strings.NewReader(text), c)
	if err != nil {
		t.Fatal(err)
	}
	defer doc.Close()
	l, err := r.listOf(doc, w, "", Position{}, ch.known)
	if err == nil {
		err = ch.add(r, l, Position{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// told is what Changes say, in words.
func told(t *rapid.T, docs []string, inMemory int) (all []string) {
	client, err := fetch.New(fetch.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	r := &Reader{Client: client, Origins: map[string]bool{"https://example.org": true}, inMemory: inMemory}
	r.Tell = func(_ resourcesync.Quirk, _, text string) { all = append(all, text) }
	defer r.Close()
	ch := r.newChanges()
	for i, text := range docs {
		addList(t, r, ch, text, window{uri: fmt.Sprintf("https://example.org/changes/%d.xml", i)}, resourcesync.CapabilityChangeList)
	}
	for c, err := range ch.All() {
		if err != nil {
			t.Fatal(err)
		}
		same, err := ch.Of(c.URI)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []*Change{c, same} {
			said, of := c.Word()
			links, err := of.Remainder.Text()
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, fmt.Sprintf("%s %s %v %t %+v %s", c.URI, c.Change, c.Changed, c.News, said, links))
		}
	}
	return append(all, fmt.Sprint(ch.End, ch.oldest, ch.Span()))
}

// Changes say the same whether they are in memory or in temporary files.
func TestChangesSayTheSameWhereverTheyAre(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		docs := changeLists(t)
		want := told(t, docs, 1000)
		for _, few := range []int{1, 5} {
			if got := told(t, docs, few); !cmp.Equal(got, want) {
				t.Fatalf("%d changes in memory (-got +want):\n%s", few, cmp.Diff(got, want))
			}
		}
	})
}
