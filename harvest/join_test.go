package harvest

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"instep/fetch"
	"instep/resourcesync"
)

// minute is a moment of the documents of these tests.
func minute(n int) string { return time.Date(2026, 1, 1, 0, n, 0, 0, time.UTC).Format(time.RFC3339) }

// someChanges is a document with changes, separated by semicolons: each has a resource, the kind of
// change, the content ("-" for a deletion) and the minute, if that is known.
func someChanges(capability resourcesync.Capability, from, until int, changes string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">`+
		`<rs:ln rel="up" href="https://example.org/caps.xml"/><rs:md capability=%q from=%q`, capability, minute(from))
	if until > 0 {
		fmt.Fprintf(&b, ` until=%q`, minute(until))
	}
	b.WriteString("/>")
	for text := range strings.SplitSeq(changes, ";") {
		var resource, change, content string
		at := -1
		_, _ = fmt.Sscan(text, &resource, &change, &content, &at) // the minute may be missing
		fmt.Fprintf(&b, `<url><loc>https://example.org/%s</loc><rs:md change=%q`, resource, change)
		if content != "-" {
			fmt.Fprintf(&b, ` hash="sha-256:%x"`, sha256.Sum256([]byte(content)))
		}
		if at >= 0 {
			fmt.Fprintf(&b, ` datetime=%q`, minute(at))
		}
		b.WriteString("/></url>")
	}
	return b.String() + "</urlset>"
}

// said is the last change of the resource r in words, with the contents "one" and "two".
func said(t *testing.T, ch *Changes) string {
	t.Helper()
	c, err := ch.Of("https://example.org/r")
	if err != nil || c == nil {
		t.Fatalf("got %v, %v", c, err)
	}
	content := func(w *Resource) string {
		for _, text := range []string{"one", "two"} {
			if w.Digests.Get(resourcesync.SHA256) == digests(t, text).Get(resourcesync.SHA256) {
				return " " + text
			}
		}
		return ""
	}
	s, w := c.Word()
	text := s.Kind.String() + content(w)
	if or := c.Or(); or != nil {
		text += ", or" + content(or)
	}
	switch {
	case s.Denied:
		text += ", or gone"
	case s.Torn:
		text += ": open"
	}
	return text
}

func aReader(t *testing.T) *Reader {
	t.Helper()
	client, err := fetch.New(fetch.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := &Reader{Client: client, Origins: map[string]bool{"https://example.org": true}, inMemory: 100}
	r.Tell = func(resourcesync.Quirk, string, string) {}
	t.Cleanup(func() { r.Close(); client.Close() })
	return r
}

// A Change Dump reaches back further than the Change Lists, which begin at minute 5. The later of
// two changes counts. If one has no time and may be the later one, both are kept.
func TestJoin(t *testing.T) {
	for name, c := range map[string]struct {
		dump, lists string
		until       int // of the dump; 0: 10
		want, gap   string
	}{
		"the lists are later":                    {dump: "r created one 2", lists: "r updated two 7", want: "updated two"},
		"the lists are later, and deny it":       {dump: "r created one 2", lists: "r deleted - 7", want: "deleted"},
		"the dump is later":                      {dump: "r deleted - 9", lists: "r created one 7", want: "deleted"},
		"a deletion, or later a creation":        {dump: "a updated one 1; r deleted - 7", lists: "r created one", want: "updated one, or gone"},
		"a creation, or later a deletion":        {dump: "a updated one 1; r created one 7", lists: "r deleted -", want: "created one, or gone"},
		"a creation before a deletion":           {dump: "r deleted - 7", lists: "a updated one 5; r created one; b updated one 6", want: "deleted"},
		"a version, or later another":            {dump: "r updated one 7", lists: "r updated two", want: "updated one, or two: open"},
		"a version before another":               {dump: "r updated one 7", lists: "a updated one 5; r updated two; b updated one 6", want: "updated one"},
		"the same version twice":                 {dump: "r updated one 7", lists: "r updated one", want: "updated one"},
		"a deletion twice":                       {dump: "r deleted - 7", lists: "r deleted -", want: "deleted"},
		"of unknown time in the dump":            {dump: "a updated one 2; r deleted -; b updated one 4", lists: "r created two 6", want: "created two"},
		"nothing in the lists":                   {dump: "r created one 2", lists: "a updated one 7", want: "created one"},
		"nothing in the dump":                    {dump: "a updated one 2", lists: "r deleted - 7", want: "deleted"},
		"the dump ends before the lists begin":   {dump: "r created one 2", until: 4, lists: "r updated two 7", gap: "dump-manifest.xml ends at 2026-01-01T00:04:00Z, and https://example.org/changes.xml begins at 2026-01-01T00:05:00Z"},
		"the dump ends where the lists begin":    {dump: "r created one 2", until: 5, lists: "r updated two 7", want: "updated two"},
		"the dump says more than its end allows": {dump: "r created one 6", until: 4, lists: "r updated two 7", gap: "dump-manifest.xml ends at"},
	} {
		t.Run(name, func(t *testing.T) {
			r := aReader(t)
			dump, lists := r.newChanges(), r.newChanges()
			if c.until == 0 {
				c.until = 10
			}
			addList(t, r, dump, someChanges(resourcesync.CapabilityChangeDumpManifest, 0, c.until, c.dump),
				window{uri: "https://example.org/dump-manifest.xml", pkg: &Package{URI: "https://example.org/dump.zip"}}, resourcesync.CapabilityChangeDumpManifest)
			addList(t, r, lists, someChanges(resourcesync.CapabilityChangeList, 5, 0, c.lists), window{uri: "https://example.org/changes.xml"}, resourcesync.CapabilityChangeList)
			gap, err := dump.join(lists, Position{})
			if err != nil || !strings.Contains(gap, c.gap) || (gap == "") != (c.gap == "") {
				t.Fatalf("got gap %q, %v; want %q", gap, err, c.gap)
			}
			if gap != "" {
				return
			}
			if got := said(t, dump); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if got, want := dump.Last(), "https://example.org/changes.xml"; got != want {
				t.Errorf("the position is in %s, want %s", got, want)
			}
		})
	}
}

// In a list that is not in the order of its times nothing shows whether a change without a time
// happened before another of the resource, unless bounds do.
func TestVersionsInAListWithoutOrder(t *testing.T) {
	const mixed = "a updated one 9; b updated one 3; "
	for name, c := range map[string]struct{ changes, want string }{
		"the other first":        {mixed + "r updated one 5; r updated two", "updated one, or two: open"},
		"the other last":         {mixed + "r updated two; r updated one 5", "updated one, or two: open"},
		"a third that is older":  {mixed + "r created one 2; r updated two; r updated one 5", "updated one, or two: open"},
		"the same bytes":         {mixed + "r updated one 5; r updated one", "updated one"},
		"both times are known":   {mixed + "r updated two 6; r updated one 5", "updated two"},
		"only one":               {mixed + "r updated one", "updated one"},
		"a deletion beside them": {mixed + "r created one 5; r deleted -", "updated one, or gone"},
		"forward":                {"a updated one 3; r updated one 5; r updated two; b updated one 9", "updated two"},
		"backward":               {"a updated one 9; b updated one 8; r updated two; r updated one 5", "updated two"},
	} {
		t.Run(name, func(t *testing.T) {
			r := aReader(t)
			ch := r.newChanges()
			addList(t, r, ch, someChanges(resourcesync.CapabilityChangeList, 0, 10, c.changes), window{uri: "https://example.org/changes.xml"}, resourcesync.CapabilityChangeList)
			if got := said(t, ch); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
