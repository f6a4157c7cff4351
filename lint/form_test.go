package lint_test

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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
		wall = "<html><head><title>Just a moment...</title></head></html>"
		root = "root-element-urlset-or-sitemapindex"
		form = "xml-well-formed"
	)
	type answer struct {
		Form       lint.Form
		Rule, What string // What: the begin of it
	}
	for _, c := range []struct {
		name, head string
		want       answer
	}{
		{"list.xml", list, answer{Form: lint.FormDocument}},
		{"list.xml.gz", gzipped(t, list), answer{Form: lint.FormDocument}},
		{"list.xml.gz", gzipped(t, list+strings.Repeat(" ", 1<<20))[:200], answer{Form: lint.FormDocument}},
		{"list.xml", "\ufeff\n" + list, answer{Form: lint.FormDocument}},
		{"list.xml", "\xff\xfe<\x00", answer{Form: lint.FormDocument}},
		{"list.xml", "<urlset", answer{Form: lint.FormDocument}},
		{"stdin", `<rss version="2.0">`, answer{Form: lint.FormDocument}},
		{"list", `<!DOCTYPE urlset SYSTEM "x"><urlset>`, answer{Form: lint.FormDocument}},
		{"https://example.org/", page, answer{Form: lint.FormHTML}},
		{"page.html", gzipped(t, page), answer{Form: lint.FormHTML}},
		{"page", `<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml">`, answer{Form: lint.FormHTML}},
		{"https://example.org/robots.txt", "# nothing yet\n", answer{Form: lint.FormRobots}},
		{`site\ROBOTS.TXT`, "Sitemap: x", answer{Form: lint.FormRobots}},
		{"stdin", "# hello\n\nuser-agent : *\n", answer{Form: lint.FormRobots}},
		{"robots.txt", page, answer{Form: lint.FormHTML}},
		{"dump.zip", "PK\x03\x04", answer{Form: lint.FormPackage}},
		{"dump.zip", "PK\x05\x06", answer{Form: lint.FormPackage}},

		{"list.xml", page, answer{lint.FormOther, root, `this is an HTML page with the title "Harbour Museum"; expected`}},
		{"https://example.org/.well-known/resourcesync?x=y", wall, answer{lint.FormOther, root, `this is an HTML page with the title "Just a moment...", as it keeps`}},
		{"list.xml", "<body>", answer{lint.FormOther, root, "this is an HTML page; expected"}},
		{"list.xml", "", answer{lint.FormOther, form, "there is nothing in it; expected"}},
		{"list.xml", "\ufeff \n", answer{lint.FormOther, form, "there is nothing in it; expected"}},
		{"list.xml.gz", gzipped(t, ""), answer{lint.FormOther, form, "there is nothing in it; expected"}},
		{"list.xml", `{"error":"not found"}`, answer{lint.FormOther, form, "this is JSON; expected"}},
		{"list.xml", "Not found", answer{lint.FormOther, form, "this is plain text; expected"}},
		{"list.txt", "https://example.org/a\n", answer{lint.FormOther, form, "this is a list of URIs in plain text; expected"}},
		{"a.pdf", "%PDF-1.4", answer{lint.FormOther, form, "this is a file of type application/pdf; expected"}},
		{"robots.txt", "\x00\x01\x02\x03", answer{lint.FormOther, form, "this is binary data; expected"}},
		{"a.tar", "a" + strings.Repeat("\x00", 256) + "ustar\x00", answer{lint.FormOther, form, "this is a tar file; expected"}},
		{"a.tar.xz", "\xfd7zXZ\x00", answer{lint.FormOther, form, "this is data compressed with xz; expected"}},
	} {
		var got answer
		got.Form, got.Rule, got.What = lint.Recognise(c.name, []byte(c.head))
		if strings.HasPrefix(got.What, c.want.What) && c.want.What != "" {
			got.What = c.want.What
		}
		if d := cmp.Diff(got, c.want); d != "" {
			t.Errorf("%s %.60q (-got +want):\n%s", c.name, c.head, d)
		}
	}
}

func FuzzRecognise(f *testing.F) {
	f.Add("list.xml", []byte("<title>\u0130</title><html>"))
	f.Add("robots.txt", []byte("Sitemap: x"))
	f.Fuzz(func(t *testing.T, name string, head []byte) {
		form, rule, what := lint.Recognise(name, head)
		if other := form == lint.FormOther; other != (rule != "") || other != (what != "") {
			t.Errorf("form %d, rule %q, what %q: rule and what belong to FormOther", form, rule, what)
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
