package lint_test

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"

	"instep/lint"
)

func gzipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestRecognise(t *testing.T) {
	const (
		list = `<?xml version="1.0"?><!-- ours --><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"/>`
		page = "<!DOCTYPE html>\n<html><head><title>Harbour\n Museum</title></head></html>"
	)
	for _, c := range []struct {
		name, head string
		want       lint.Form
	}{
		{"list.xml", list, lint.FormDocument},
		{"list.xml.gz", gzipped(t, list), lint.FormDocument},
		{"list.xml.gz", gzipped(t, list+strings.Repeat(" ", 1<<20))[:200], lint.FormDocument},
		{"list", "\ufeff\n" + list, lint.FormDocument},
		{"list", "\xff\xfe<\x00", lint.FormDocument},
		{"list", "<urlset", lint.FormDocument},
		{"list", `<!DOCTYPE urlset SYSTEM "x"><urlset>`, lint.FormDocument},
		{"stdin", `<rss version="2.0">`, lint.FormDocument},
		{"stdin", "", lint.FormDocument},
		{"list.xml", `{"error":"not found"}`, lint.FormDocument},
		{"list.xml", "Not found: no such list", lint.FormDocument},

		{"https://example.org/", page, lint.FormHTML},
		{"page.html", gzipped(t, page), lint.FormHTML},
		{"page", `<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml">`, lint.FormHTML},
		{"page", "<p>Welcome to the museum", lint.FormHTML},
		{"robots.txt", page, lint.FormHTML},
		{"list.xml", page, lint.FormDocument},
		{"list.xml.gz", gzipped(t, page), lint.FormDocument},
		{"https://example.org/.well-known/resourcesync?x=y", page, lint.FormDocument},

		{"https://example.org/robots.txt", "# nothing yet\n", lint.FormRobots},
		{`site\ROBOTS.TXT`, "Sitemap: x", lint.FormRobots},
		{"stdin", "# hello\n\nuser-agent : *\n", lint.FormRobots},
		{"robots.txt", "\x00\x01\x02\x03", lint.FormDocument},

		{"dump.zip", "PK\x03\x04", lint.FormPackage},
		{"dump", "PK\x05\x06", lint.FormPackage},
	} {
		if got := lint.Recognise(c.name, []byte(c.head)); got != c.want {
			t.Errorf("%s %.60q: got %d, want %d", c.name, c.head, got, c.want)
		}
	}
}

func TestIsPlainSitemap(t *testing.T) {
	const rs = `<urlset xmlns:rs="http://www.openarchives.org/rs/terms/">`
	for _, c := range []struct {
		name, head string
		want       bool
	}{
		{"a/sitemap.xml", "<urlset>", true},
		{"https://example.org/Sitemap-2.xml.gz?a=b", gzipped(t, "<urlset>"), true},
		{"a/sitemap.xml", rs, false},
		{"a/sitemap.xml.gz", gzipped(t, rs), false},
		{"a/resourcelist.xml", "<urlset>", false},
		{"sitemap/list.xml", "<urlset>", false},
	} {
		if got := lint.IsPlainSitemap(c.name, []byte(c.head)); got != c.want {
			t.Errorf("%s %.40q: got %v, want %v", c.name, c.head, got, c.want)
		}
	}
}

func FuzzRecognise(f *testing.F) {
	f.Add("list.xml", []byte("<?xml version='1.0'?><html>"))
	f.Add("robots.txt", []byte("Sitemap: x"))
	f.Add("list.xml.gz", []byte("\x1f\x8b\x08"))
	f.Fuzz(func(t *testing.T, name string, head []byte) {
		if form := lint.Recognise(name, head); form == lint.FormPackage && lint.Claims(name, head) {
			t.Error("of a package nothing is claimed")
		}
	})
}

func TestClaims(t *testing.T) {
	const svg = `<svg xmlns="http://www.w3.org/2000/svg"/>`
	for _, c := range []struct {
		name, head string
		want       bool
	}{
		{"a/resourcelist.xml", svg, true},
		{"a/SiteMap-3.xml.gz", "cut", true},
		{"a/.well-known/resourcesync", "", true},
		{"a/ResourceList_0001.xml", `{"error":1}`, true},
		{"a/x.xml", `<sm:urlset xmlns:sm="x">`, true},
		{"a/x.xml", `<?xml version="1.0"?><feed xmlns="http://www.w3.org/2005/Atom" xmlns:rs="http://www.openarchives.org/rs/">`, true},
		{"a/x.xml.gz", gzipped(t, "<sitemapindex>"), true},
		{"a/index.html", `<!doctype html><link rel="ResourceSync" href="x">`, true},
		{"a/robots.txt", "User-agent: *", true},

		{"a/x.xml", svg, false},
		{"a/x.xml", "{}", false},
		{"a/x.xml.gz", gzipped(t, svg), false},
		{"a/index.html", "<!doctype html><title>Museum</title>", false},
	} {
		if got := lint.Candidate(c.name) && lint.Claims(c.name, []byte(c.head)); got != c.want {
			t.Errorf("%s %.40q: got %v, want %v", c.name, c.head, got, c.want)
		}
	}
	for _, name := range []string{"a/resourcelist.txt", "a/sitemap", "xml", "robots.txt.bak", "resourcesync"} {
		if lint.Candidate(name) {
			t.Errorf("%s: got true, want false: it has none of the names", name)
		}
	}
}
