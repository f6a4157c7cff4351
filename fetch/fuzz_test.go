package fetch_test

import (
	"strings"
	"testing"

	"instep/fetch"
)

// Whatever is accepted can be asked for safely, and its origin is a fixed point.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"http://example.org/", "https://Example.ORG:443/a%2Fb?q#f", "http://[::1]:80/x", "http://bücher.example/ä", "http://u:p@example.org/",
		"file:///x", "http://example.org/%zz", "//x", "http://127.1:1/", "http://[fe80::1%25lo]/", "http://example.org:/", "http://a\r\nb/", "http://0? ", "http://0\xa3",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := fetch.Parse(raw)
		if err != nil {
			return
		}
		if (u.Scheme != "http" && u.Scheme != "https") || u.User != nil || u.Fragment != "" || u.Hostname() == "" {
			t.Fatalf("Parse(%q) accepted %+v", raw, u)
		}
		if strings.ContainsAny(u.RequestURI()+u.Host, "\r\n\x00 ") {
			t.Fatalf("Parse(%q) leaves control characters or blanks in %q, %q", raw, u.Host, u.RequestURI())
		}
		o := fetch.Origin(u)
		again, err := fetch.Parse(o)
		if err != nil {
			t.Fatalf("Parse(%q): its origin %q: %v", raw, o, err)
		}
		if got := fetch.Origin(again); got != o {
			t.Fatalf("Parse(%q): origin %q, of that %q", raw, o, got)
		}
	})
}
