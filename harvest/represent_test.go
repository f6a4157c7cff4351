package harvest

import (
	"testing"

	"instep/resourcesync"
)

// Of a resource and its alternates the one of the type that comes first is taken.
func TestRepresent(t *testing.T) {
	const (
		pdf  = `alternate https://example.org/a.pdf application/pdf`
		html = `alternate https://example.org/a.html text/html`
		away = `alternate https://elsewhere.example.org/a.pdf application/pdf`
	)
	link := func(rel, href, mediaType string) resourcesync.Link {
		return resourcesync.Link{Rel: rel, Href: href, Type: mediaType, Length: resourcesync.Bytes(7)}
	}
	links := map[string]resourcesync.Link{
		pdf: link("alternate", "https://example.org/a.pdf", "application/pdf"), html: link("alternate", "https://example.org/a.html", "text/html; charset=utf-8"),
		away:         link("alternate", "https://elsewhere.example.org/a.pdf", "application/pdf"),
		"untyped":    link("alternate", "https://example.org/a.bin", ""),
		"other html": {Rel: "alternate", Href: "https://example.org/fr.html", Type: "text/html"},
		"generic":    link("canonical", "https://example.org/generic", ""), "self": link("canonical", "https://example.org/a", ""),
	}
	for name, c := range map[string]struct {
		own    string
		links  []string
		accept []string
		at     string
		out    bool
	}{
		"no alternate":                       {"text/html", nil, []string{"application/pdf"}, "", false},
		"the accepted one":                   {"", []string{html, pdf}, []string{"application/pdf"}, "https://example.org/a.pdf", false},
		"the first choice":                   {"", []string{html, pdf}, []string{"text/*", "application/pdf"}, "https://example.org/a.html", false},
		"its own type is as good":            {"application/pdf", []string{pdf}, []string{"application/pdf"}, "", false},
		"its own type is better":             {"text/html", []string{pdf}, []string{"text/*", "application/pdf"}, "", false},
		"none is accepted":                   {"text/html", []string{pdf}, []string{"image/*"}, "", false},
		"a link without a type":              {"", []string{"untyped"}, []string{"*/*"}, "", false},
		"another origin without a digest":    {"", []string{away}, []string{"application/pdf"}, "", false},
		"another one has its own entry":      {"text/html", []string{"generic", pdf}, []string{"application/pdf"}, "", true},
		"this one is the accepted":           {"application/pdf", []string{"generic", html}, []string{"application/pdf", "text/html"}, "", false},
		"its own URI is the canonical one":   {"text/html", []string{pdf, "self"}, []string{"text/*", "application/pdf"}, "", false},
		"canonical, and its type is as good": {"text/html", []string{"other html", "self"}, []string{"text/html"}, "", false},
		"canonical, and not accepted":        {"text/html", []string{pdf, "self"}, []string{"application/pdf"}, "https://example.org/a.pdf", false},
		"as a mirror has kept it":            {"application/pdf", []string{pdf, html, "self"}, []string{"application/pdf"}, "https://example.org/a.pdf", false},
		"kept, and something else is wanted": {"application/pdf", []string{pdf, html, "self"}, []string{"text/html"}, "https://example.org/a.html", false},
	} {
		t.Run(name, func(t *testing.T) {
			e := resourcesync.Entry{Loc: "https://example.org/a", Metadata: resourcesync.Metadata{Type: c.own, Length: resourcesync.Bytes(7)}}
			for _, l := range c.links {
				e.Links = append(e.Links, links[l])
			}
			w := wanted(&e, e.LastMod.Time())
			ok, err := w.Represent(c.accept, map[string]bool{"https://example.org": true})
			if err != nil || ok == c.out || w.BytesAt != c.at {
				t.Fatalf("got %t, %v, bytes at %q; want %t, at %q", ok, err, w.BytesAt, !c.out, c.at)
			}
			if c.at == "" {
				return
			}
			if w.URI != e.Loc || w.Length.Int64() != 7 || !w.Remainder.Represented(e.Loc) || w.Remainder.Represented(c.at) {
				t.Errorf("got %+v", w)
			}
			before := w
			if ok, err := w.Represent(c.accept, nil); !ok || err != nil || w.BytesAt != before.BytesAt || !w.Remainder.Equal(before.Remainder) {
				t.Errorf("a second time: %+v, %v", w, err)
			}
		})
	}
}
