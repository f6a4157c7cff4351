package harvest

import (
	"slices"
	"testing"

	"instep/resourcesync"
)

func TestDuplicatesThatMayBeAsked(t *testing.T) {
	const strong = "sha-256:2c8b08da5ce60398e1f19af0e5dccc744df274b826abe585eaba68c525434806"
	const weak = "md5:00000000000000000000000000000000"
	own := map[string]bool{"https://example.org": true, "http://example.org": true}
	for name, tt := range map[string]struct {
		uri, hash string
		links     []resourcesync.Link
		want      []string
		preferred int
	}{
		"own origins": {"https://example.org/a", weak, []resourcesync.Link{{Href: "https://example.org/b"}, {Href: "http://example.org/c"}},
			[]string{"https://example.org/b", "http://example.org/c"}, 0},
		"elsewhere, proved": {"https://example.org/a", strong, []resourcesync.Link{{Href: "https://mirror.example.net/a", Pri: 2}},
			[]string{"https://mirror.example.net/a"}, 1},
		"elsewhere, by md5": {"https://example.org/a", weak, []resourcesync.Link{{Href: "https://mirror.example.net/a", Pri: 2}}, nil, 0},
		"no digest":         {"https://example.org/a", "", []resourcesync.Link{{Href: "https://example.org/b", Pri: 2}}, nil, 0},
		"the resource itself, other schemes, credentials": {"https://example.org/a", strong, []resourcesync.Link{
			{Href: "https://example.org/a"}, {Href: "gsiftp://grid.example.net/a"}, {Href: "urn:x:a"}, {Href: "https://me:secret@mirror.example.net/a"}}, nil, 0},
		"from https to http": {"https://example.org/a", strong, []resourcesync.Link{{Href: "http://mirror.example.net/a"}}, nil, 0},
		"from http to http":  {"http://example.org/a", strong, []resourcesync.Link{{Href: "http://mirror.example.net/a"}}, []string{"http://mirror.example.net/a"}, 0},
		"in the order of pri, none last, what is unsupported passed over": {"https://example.org/a", strong, []resourcesync.Link{
			{Href: "https://d.example.net/"}, {Href: "https://c.example.net/", Pri: 999_999}, {Href: "ftp://x.example.net/", Pri: 1}, {Href: "https://b.example.net/", Pri: 7}},
			[]string{"https://b.example.net/", "https://c.example.net/", "https://d.example.net/"}, 2},
		"three at most": {"https://example.org/a", strong, []resourcesync.Link{
			{Href: "https://1.example.net/", Pri: 1}, {Href: "https://2.example.net/", Pri: 2}, {Href: "https://3.example.net/", Pri: 3}, {Href: "https://4.example.net/", Pri: 4}},
			[]string{"https://1.example.net/", "https://2.example.net/", "https://3.example.net/"}, 3},
	} {
		e := resourcesync.Entry{Loc: tt.uri, Links: tt.links}
		for i := range e.Links {
			e.Links[i].Rel = resourcesync.RelDuplicate
		}
		if tt.hash != "" {
			d, err := resourcesync.ParseDigest(tt.hash)
			if err != nil {
				t.Fatal(err)
			}
			e.Digests = resourcesync.Digests{d}
		}
		w := wanted(&e, e.LastMod.Time())
		w.Choose(own)
		w.Choose(own)
		if !slices.Equal(w.Duplicates, tt.want) || w.Preferred != tt.preferred {
			t.Errorf("%s: got %q, %d preferred; want %q, %d", name, w.Duplicates, w.Preferred, tt.want, tt.preferred)
		}
	}
}
